"""One validation finds each kind of fault, names it, and sets the shard back; else it is clean.

The judge is a Python function here; Spark's is tested in tests/spark/test_validate.py.
"""

import random
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.audit.run import Check, Scope, ValidationReport, validate_shard
from strata.audit.soft import Evaluated, replay_command
from strata.audit.verdict import SCHEMA
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.layout import Description
from strata.format.manifest import PartRef, encode_manifest, part_refs
from strata.machine import Machine
from strata.model.runner import serial
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import RolloutSpec, StatsSpec
from strata.model.time import MIN_TIME
from strata.plan import load_manifest
from strata.read import read_updates
from strata.state.state import Batch, State
from strata.state.transitions import replace_manifests
from strata.store import keys
from strata.store.open import open_stores
from strata.write import write_batch, write_parts
from tests.shards import LAYOUTS, NAME, Events, event, slices, spec, updates_table

ID = 1  # column id of `id`; its values are 0..99, 100..199, 200..299 by batch
WHERE = Filter(
    Call("greater_than", (Column(ID, "id", "long"), Literal(250, "long")), "boolean"),
    "id > 250",
    0,
    0,
)


@dataclass(frozen=True)
class World:
    """A shard, and how to break it."""

    events: Events

    @property
    def state(self) -> State:
        return self.events.state

    def batch(self, number: int) -> Batch:
        return [b for b in self.state.batches if b.manifest][number]

    def judge(self, filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        found = []
        for ref in refs:
            ids = read_updates(self.events.stores, self.state, ref)[str(ID)].to_pylist()
            found.append(Evaluated(ref.key, len(ids), sum(i > 250 for i in ids)))
        return found

    def validate(
        self, judge: Callable[..., list[Evaluated]] | None = None, **scope: Any
    ) -> ValidationReport:
        return validate_shard(
            self.events.stores, NAME, [Check("big", WHERE)], judge or self.judge, serial,
            Scope("run 1", **scope),
        )  # fmt: skip

    def tamper(self, number: int, change: Callable[[pa.Table], pa.Table]) -> None:
        """Put another manifest in the place of a batch's."""
        batch = self.batch(number)
        data = encode_manifest(change(load_manifest(self.events.stores, self.state, batch)))
        key = keys.manifest_key(NAME, keys.content_hash(data))
        self.events.stores.blob.set(key, data)
        old = batch.manifest
        assert old is not None
        new = replace(batch, manifest=key)
        Machine(self.events.stores).apply(
            NAME, lambda s, now: replace_manifests(s, now, {old: new})
        )

    def accepted(self) -> tuple[int, PartRef]:
        """Return the manifest row and the reference of a part of the last batch that matters."""
        manifest = load_manifest(self.events.stores, self.state, self.batch(2))
        for row, ref in enumerate(part_refs(manifest)):
            if self.judge(WHERE, [ref])[0].accepted:
                return row, ref
        raise AssertionError("no part of the last batch matters")

    def first_part(self, number: int) -> PartRef:
        return part_refs(load_manifest(self.events.stores, self.state, self.batch(number)))[0]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return three batches of four parts, one in each layout, in mode soft."""
    settings = Settings(
        StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    )
    stores = open_stores(settings.store)
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
            for piece in slices(updates_table(state, rows), 25)
            for part in write_parts(
                stores.blob, keys.part_prefix(NAME), [piece], state.relation, layout=layout,
                description=Description(lower, lower + 1000, MIN_TIME), part_bytes=1 << 20,
                row_group_bytes=1 << 20, stats_spec=StatsSpec(budget_bytes=100_000),
            )
        ]  # fmt: skip
        first = MIN_TIME if lower == 0 else lower
        batch = write_batch(stores.blob, NAME, parts, first, lower + 1000, MIN_TIME)
        machine.append(NAME, token=f"t{lower}", lower=lower, upper=lower + 1000, batch=batch)
    return World(Events(settings, ()))


def lie(row: int = 0, **fields: Any) -> Callable[[pa.Table], pa.Table]:
    """Return the change of some fields of the statistics of `id` in one row of a manifest."""

    def change(table: pa.Table) -> pa.Table:
        name = f"s.{ID}"
        rows = table[name].to_pylist()
        rows[row] = {**rows[row], **fields}
        index = table.column_names.index(name)
        return table.set_column(index, name, pa.array(rows, table.schema.field(index).type))

    return change


def test_honest_statistics_are_clean_and_every_skipped_part_is_audited(world: World) -> None:
    report = world.validate()

    soft = report.summaries[0]
    assert report.mismatches == ()
    assert soft.parts_skipped > 0
    assert soft.audited_parts == soft.checked_parts == soft.parts_skipped
    assert soft.parts_without_stats > 0
    assert report.summaries[1].audited_parts == soft.parts_total
    assert (report.mode_before, report.mode_after) == ("soft", "soft")


def test_a_bound_that_lies_is_named_and_trips_the_shard(world: World) -> None:
    row, part = world.accepted()
    world.tamper(2, lie(row, high=250))

    report = world.validate(check_format=False)

    [verdict] = report.mismatches
    assert (verdict.part, verdict.column) == (part.key, "id")
    assert "id.high recorded 250" in verdict.bound
    assert f"--part {part.key}" in verdict.replay
    assert (report.mode_before, report.mode_after) == ("soft", "off")
    assert world.state.rollout.quarantine == (str(ID),)
    assert part.key in world.state.rollout.reason


def test_verdicts_and_trip_are_one_commit(world: World) -> None:
    row, _ = world.accepted()
    world.tamper(2, lie(row, high=250))
    before = world.state.seqno

    report = world.validate(check_format=False)

    assert world.state.seqno == before + 1
    assert report.verdict_key is not None
    assert world.state.verdicts == (report.verdict_key,)
    data = world.events.stores.blob.get(report.verdict_key)
    assert data is not None
    table = pq.read_table(pa.BufferReader(data))
    assert table.schema.equals(SCHEMA)
    assert "mismatch" in table["outcome"].to_pylist()


def test_a_wrong_rule_is_named_when_every_statistic_holds(world: World) -> None:
    """A judge that accepts what the interpreter excludes stands for a wrong transfer rule."""

    def judge(filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        return [Evaluated(ref.key, ref.rows, 1) for ref in refs]

    report = world.validate(judge, check_format=False)

    assert report.mismatches
    assert all("greater_than" in verdict.bound for verdict in report.mismatches)


def test_an_error_on_a_skipped_row_is_a_mismatch(world: World) -> None:
    def judge(filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        return [Evaluated(ref.key, ref.rows, 0, error="[DIVIDE_BY_ZERO]") for ref in refs]

    report = world.validate(judge, check_format=False)

    assert len(report.mismatches) == report.summaries[0].parts_skipped
    assert report.mode_after == "off"


@pytest.mark.parametrize(
    ("answer", "counted"),
    [
        (lambda ref: [], "missing"),
        (lambda ref: [Evaluated(ref.key, ref.rows - 1, 0)], "missing"),
        (lambda ref: [Evaluated(ref.key, 0, 0, failed="timeout")], "errors"),
        (lambda ref: [Evaluated(ref.key, 0, 0, failed="gone", corrupt=True)], "mismatches"),
    ],
)
def test_what_did_not_come_back_is_not_a_pass(
    world: World, answer: Callable[[PartRef], list[Evaluated]], counted: str
) -> None:
    def judge(filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        return [one for ref in refs for one in answer(ref)]

    totals = world.validate(judge, check_format=False).totals()

    assert totals[counted] == totals["checked_parts"] > 0
    assert totals["audited_parts"] == totals["mismatches"]


def test_the_sample_is_the_same_for_the_same_run(world: World) -> None:
    chosen: list[list[str]] = []

    def judge(filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        chosen.append([ref.key for ref in refs])
        return world.judge(filter, refs)

    for _ in range(2):
        world.validate(judge, percent=40, check_format=False)

    assert chosen[0] == chosen[1]
    assert 0 < len(chosen[0]) < world.validate(check_format=False).summaries[0].parts_skipped


def test_only_the_named_part_is_checked_again(world: World) -> None:
    part = world.first_part(1)

    report = world.validate(parts=frozenset({part.key}))

    assert {verdict.part for verdict in report.verdicts} == {part.key}
    with pytest.raises(InvalidRequest, match="no such part"):
        world.validate(parts=frozenset({"shards/events/parts/none.parquet"}))


@pytest.mark.parametrize("sql", ["a = 'x'", 'b = "q"', r"c like '\_%' and d <> '$HOME`'"])
def test_the_replay_command_gives_a_shell_the_same_filter(sql: str) -> None:
    command = replay_command("s", replace(WHERE, sql=sql), "p")
    shell = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True, check=True
    )
    words = shell.stdout.split("\0")

    assert words[words.index("--filter") + 1] == sql


def _set(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[0] = value
        index = table.column_names.index(name)
        return table.set_column(
            index, table.schema.field(index), pa.array(values, table.schema.field(index).type)
        )

    return change


@pytest.mark.parametrize(
    ("change", "column"),
    [
        (lie(low=300, high=400), "id"),
        (lie(nulls=3), "id"),
        (_set("t_low", 2999), "t_low"),
        (_set("t_high", 2000), "t_high"),
        (_set("diffs_sum", 7), "diffs_sum"),
        (_set("digest", 7), "digest"),
        (_set("rows", 1), "rows"),
        (_set("key_low", b"\xff"), "key_low"),
        (_set("key_high", b"\x00"), "key_high"),
        (_set("size_bytes", 1), "size_bytes"),
    ],
)  # fmt: skip
def test_the_format_check_names_what_is_recorded_wrongly(
    world: World, change: Callable[[pa.Table], pa.Table], column: str
) -> None:
    part = world.first_part(2)
    world.tamper(2, change)

    report = validate_shard(world.events.stores, NAME, [], world.judge, serial, Scope("run 1"))

    assert (part.key, column) in [(v.part, v.column) for v in report.mismatches]
    assert report.mode_after == "off"


def test_a_damaged_and_a_lost_part_are_found(world: World, tmp_path: Path) -> None:
    damaged, lost = world.first_part(0), world.first_part(1)
    file = tmp_path / "blob" / damaged.key
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.chmod(0o644)
    file.write_bytes(data)
    world.events.stores.blob.delete(lost.key)

    report = validate_shard(world.events.stores, NAME, [], world.judge, serial, Scope("run 1"))

    assert {v.part for v in report.mismatches} == {damaged.key, lost.key}
    assert all(verdict.error for verdict in report.mismatches)
