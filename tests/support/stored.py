"""Shards with real parts in memory stores, for tests of reading and compaction."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import pyarrow as pa
from hypothesis import strategies as st

from strata.decide.plan import plan_read
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.settings import CompactSettings, Settings, StoreSettings
from strata.model.spec import ColumnSpec, ShardSpec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.read.scan import scan
from strata.state.state import State
from strata.store.keys import part_prefix
from strata.store.memory import memory_blob, memory_consensus
from strata.store.open import Stores, open_stores
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates
from tests.support.updates import plain_rows, relations, split, updates

_numbers = count()


def memory_stores() -> Stores:
    """Return new, empty stores with a clock that stands still."""
    name = f"memory://test-{next(_numbers)}"
    return open_stores(StoreSettings(blob=name, consensus=name), clock=lambda: 1_000_000)


def copied_stores(stores: Stores) -> Stores:
    """Return new memory stores that hold what others hold."""
    new = memory_stores()
    old_name, new_name = (one.settings.blob.removeprefix("memory://") for one in (stores, new))
    memory_blob(new_name).live.update(memory_blob(old_name).live)
    log = memory_consensus(old_name).log
    memory_consensus(new_name).log.update({key: [*versions] for key, versions in log.items()})
    return new


def killed(stores: Stores) -> Stores:
    """Return the same stores as a process opens them whose settings throw the kill switch."""
    return replace(stores, settings=replace(stores.settings, kill=True))


def settings(**compact: object) -> Settings:
    return Settings(compact=CompactSettings(**compact))  # type: ignore[arg-type]


def spec_of(relation: Relation, name: str = "shard", **changes: object) -> ShardSpec:
    """Return a declaration whose relation is `relation`; parts and row groups are tiny."""
    names = {c.id: c.name for c in relation.columns}
    spec = ShardSpec(
        name,
        tuple(ColumnSpec(c.name, c.type, c.nullable) for c in relation.columns),
        tuple(names[i] for i in relation.key),
        tuple(names[i] for i in relation.order),
        part_bytes=4096,
        row_group_bytes=1024,
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def create(stores: Stores, relation: Relation, **changes: object) -> State:
    return Machine(stores).create(spec_of(relation, **changes))


def append(  # noqa: PLR0917 -- tests give them in this order
    stores: Stores,
    name: str,
    lower: int,
    upper: int,
    runs: Sequence[pa.Table],
    layout: str = "",
    relation: Relation | None = None,
) -> State:
    """Append one batch; each table of updates becomes a run of it, in the newest relation."""
    machine = Machine(stores)
    state = machine.load(name)
    spec, columns = state.spec, relation or state.relation
    parts = [
        part
        for number, run in enumerate(runs)
        for part in write_parts(
            stores.blob,
            part_prefix(name, state.generation),
            [consolidate(sort_updates(run, columns), columns)],
            columns,
            layout=layout or spec.write_format,
            description=Description(lower, upper, MIN_TIME),
            part_bytes=spec.part_bytes,
            row_group_bytes=spec.group_bytes,
            stats_spec=spec.stats,
            run=number,
        )
    ]
    batch = write_batch(stores.blob, name, parts, lower, upper, MIN_TIME)
    machine.append(name, token=f"{lower}-{upper}", lower=lower, upper=upper, batch=batch)
    return machine.load(name)


def snapshot(stores: Stores, name: str, as_of: int | None = None) -> list[tuple[object, ...]]:
    """Return the consolidated rows at `as_of` as (sort columns..., t, d), in order."""
    state = Machine(stores).load(name)
    plan = plan_read(stores, state, as_of=as_of)
    ids = [str(c.id) for c in state.relation.columns]
    batches = scan(stores, state, plan, consolidate=True, stored=True)
    return [
        row
        for batch in batches
        for row in plain_rows(batch.rename_columns([*ids, "t", "d"]), state.relation)
    ]


@st.composite
def histories(
    draw: st.DrawFn, relation: Relation | None = None, max_batches: int = 5
) -> tuple[Relation, list[tuple[int, int, list[pa.Table]]]]:
    """Draw a relation and batches (lower, upper, runs) that follow one another in time."""
    relation = relation or draw(relations(max_columns=3))
    batches, lower = [], 0
    for _ in range(draw(st.integers(1, max_batches))):
        upper = lower + draw(st.integers(1, 3))
        rows = draw(updates(relation, max_rows=25))
        times = [lower + t % (upper - lower) for t in rows["t"].to_pylist()]
        index = rows.schema.get_field_index("t")
        rows = rows.set_column(index, rows.schema.field("t"), pa.array(times, pa.int64()))
        pieces = split(rows, draw(st.lists(st.integers(0, 25), max_size=2)))
        batches.append((lower, upper, [pa.Table.from_batches([p]) for p in pieces]))
        lower = upper
    return relation, batches
