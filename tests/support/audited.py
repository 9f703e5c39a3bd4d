"""A small shard to audit, how to break it, and a judge in Python where Spark is not needed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from strata.audit.run import Check, Scope, ValidationReport, validate_shard
from strata.audit.soft import Evaluated
from strata.decide.descent import load_manifest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.layout import Description
from strata.format.manifest import PartRef, encode_manifest, part_refs
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.settings import StoreSettings
from strata.model.spec import RolloutSpec, StatsSpec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.read.scan import read_updates
from strata.state.state import Batch, State
from strata.state.transitions import replace_manifests
from strata.store import keys
from strata.store.open import Clock, Stores, open_stores
from tests.support.shards import LAYOUTS, NAME, event, slices, spec, updates_table

ID = 1  # column id of `id`; its values are 0..99, 100..199, 200..299 by batch
WHERE = Filter(
    Call("greater_than", (Column(ID, "id", "long"), Literal(250, "long")), "boolean"),
    "id > 250",
    0,
    0,
)


def another(number: int) -> Filter:
    """Return a filter that is not `WHERE`, for each number of another shape, and accepts the same.

    The number stands there in bits: `+ 0` for 0, `abs` for 1.
    """
    shaped, sql = WHERE.expr.args[0], "id"  # type: ignore[union-attr]
    for bit in f"{number:b}":
        if bit == "1":
            shaped, sql = Call("abs", (shaped,), "long"), f"abs({sql})"
        else:
            shaped, sql = Call("add", (shaped, Literal(0, "long")), "long"), f"({sql} + 0)"
    above = Call("greater_than", (shaped, Literal(-1, "long")), "boolean")
    both = Call("and", (WHERE.expr, above), "boolean")
    return Filter(both, f"id > 250 and {sql} > -1", 0, 0)


@dataclass(frozen=True)
class World:
    """A shard, and how to break it."""

    stores: Stores

    @property
    def state(self) -> State:
        return Machine(self.stores).load(NAME)

    def batch(self, number: int) -> Batch:
        return [b for b in self.state.batches if b.manifest][number]

    def judge(self, filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        found = []
        for ref in refs:
            ids = read_updates(self.stores, self.state, ref)[str(ID)].to_pylist()
            found.append(Evaluated(ref.key, len(ids), sum(i > 250 for i in ids)))
        return found

    def validate(
        self, judge: Callable[..., list[Evaluated]] | None = None, **scope: Any
    ) -> ValidationReport:
        return validate_shard(
            self.stores,
            NAME,
            [Check("big", WHERE)],
            judge or self.judge,
            serial,
            Scope("run 1", **scope),
        )

    def run(
        self,
        scope: Scope,
        judge: Callable[..., list[Evaluated]] | None = None,
        where: Filter = WHERE,
    ) -> ValidationReport:
        return validate_shard(
            self.stores, NAME, [Check("big", where)], judge or self.judge, serial, scope
        )

    def tamper(self, number: int, change: Callable[[pa.Table], pa.Table]) -> None:
        """Put another manifest in the place of a batch's."""
        batch = self.batch(number)
        data = encode_manifest(change(load_manifest(self.stores, self.state, batch)))
        key = keys.manifest_key(NAME, keys.content_hash(data))
        self.stores.blob.set(key, data)
        old = batch.manifest
        assert old is not None
        new = replace(batch, manifest=key)
        Machine(self.stores).apply(NAME, lambda s, now: replace_manifests(s, now, {old: new}))

    def accepted(self) -> tuple[int, PartRef]:
        """Return the manifest row and the reference of a part of the last batch that matters."""
        manifest = load_manifest(self.stores, self.state, self.batch(2))
        for row, ref in enumerate(part_refs(manifest)):
            if self.judge(WHERE, [ref])[0].accepted:
                return row, ref
        raise AssertionError("no part of the last batch matters")

    def parts(self, number: int) -> list[PartRef]:
        return part_refs(load_manifest(self.stores, self.state, self.batch(number)))

    def first_part(self, number: int) -> PartRef:
        return part_refs(load_manifest(self.stores, self.state, self.batch(number)))[0]


def world_in(store: StoreSettings, clock: Clock | None = None, rows_of_part: int = 25) -> World:
    """Return three batches of four parts, one in each layout, in mode soft."""
    stores = open_stores(store, clock)
    machine = Machine(stores)
    state = machine.create(replace(spec(), rollout=RolloutSpec("soft"), order=("id",)))
    draw = random.Random(7)
    for number, layout in enumerate(LAYOUTS):
        lower = 1000 * number
        rows = [
            (event(100 * number + i, draw), lower + draw.randrange(1000), 1) for i in range(100)
        ]
        parts = [
            part
            for piece in slices(updates_table(state, rows), rows_of_part)
            for part in write_parts(
                stores.blob,
                keys.part_prefix(NAME),
                [piece],
                state.relation,
                layout=layout,
                description=Description(lower, lower + 1000, MIN_TIME),
                part_bytes=1 << 20,
                row_group_bytes=1 << 20,
                stats_spec=StatsSpec(budget_bytes=100_000),
            )
        ]
        first = MIN_TIME if lower == 0 else lower
        batch = write_batch(stores.blob, NAME, parts, first, lower + 1000, MIN_TIME)
        machine.append(NAME, token=f"t{lower}", lower=lower, upper=lower + 1000, batch=batch)
    return World(stores)


def lie(row: int = 0, **fields: Any) -> Callable[[pa.Table], pa.Table]:
    """Return the change of some fields of the statistics of `id` in one row of a manifest."""

    def change(table: pa.Table) -> pa.Table:
        name = f"s.{ID}"
        rows = table[name].to_pylist()
        rows[row] = {**rows[row], **fields}
        index = table.column_names.index(name)
        return table.set_column(index, name, pa.array(rows, table.schema.field(index).type))

    return change
