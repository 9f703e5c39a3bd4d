"""One validation finds each kind of fault, names it, and sets the shard back; else it is clean.

The judge is a Python function here; Spark's is tested in tests/spark/test_validate.py.
"""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.audit.run import Scope, validate_shard
from strata.audit.soft import Evaluated, replay_command
from strata.audit.verdict import SCHEMA
from strata.errors import Fenced, InvalidRequest
from strata.expr.filter import Filter
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.settings import StoreSettings
from strata.state.state import Evidence
from tests.support.audited import ID, WHERE, World, lie, world_in
from tests.support.shards import NAME


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_in(StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db"))


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
    data = world.stores.blob.get(report.verdict_key)
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


def test_a_mismatch_that_does_not_come_again_trips_nothing(world: World) -> None:
    seen: set[str] = set()

    def judge(filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        found = [Evaluated(ref.key, ref.rows, int(ref.key not in seen)) for ref in refs]
        seen.update(ref.key for ref in refs)
        return found

    report = world.validate(judge, check_format=False)

    assert report.mismatches == ()
    assert report.totals()["errors"] == report.summaries[0].parts_skipped > 0
    assert "a second time: 1 accepted rows" in report.verdicts[0].error
    assert report.mode_after == report.mode_before


def test_another_life_of_the_shard_gets_no_evidence(world: World) -> None:
    """It counted parts towards its next step that it never had."""
    machine, before = Machine(world.stores), world.state

    def judge(filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        if world.state.seqno == before.seqno:
            machine.drop(NAME, by="ann", reason="due", force=True)
            machine.create(before.spec, revive=True)
        return world.judge(filter, refs)

    with pytest.raises(Fenced, match="while it was validated"):
        world.validate(judge)

    state = world.state
    assert (state.rollout.mode, state.rollout.evidence, state.verdicts) == ("soft", Evidence(), ())


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


def test_the_command_of_a_finding_names_the_settings_file(world: World) -> None:
    row, _ = world.accepted()
    world.tamper(2, lie(row, high=250))
    [verdict] = world.validate(check_format=False, config="/etc/my strata.toml").mismatches
    assert verdict.replay.endswith(" --config '/etc/my strata.toml'")


@pytest.mark.parametrize("sql", ["a = 'x'", 'b = "q"', r"c like '\_%' and d <> '$HOME`'"])
def test_the_replay_command_gives_a_shell_the_same_filter(sql: str) -> None:
    command = replay_command("s", replace(WHERE, sql=sql), "p")
    shell = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True, check=True
    )
    words = shell.stdout.split("\0")

    assert words[words.index("--filter") + 1] == sql


@pytest.mark.parametrize("sql", ["name = '!rm' or x", 'name = "!!"', "name = '!rm:p' and a != 'b'"])
def test_the_replay_command_repeats_nothing_that_was_typed_before(sql: str) -> None:
    """A shell that somebody types into puts the last command that began with rm for !rm."""
    command = replay_command("s", replace(WHERE, sql=sql), "p")
    typed = f"set -o history -H\nrm() {{ printf ran; }}\nrm x\nprintf '%s\\0' {command}\n"
    shell = subprocess.run(
        ["bash", "--norc"], input=typed, capture_output=True, text=True, check=True
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
)
def test_the_format_check_names_what_is_recorded_wrongly(
    world: World, change: Callable[[pa.Table], pa.Table], column: str
) -> None:
    part = world.first_part(2)
    world.tamper(2, change)

    report = validate_shard(world.stores, NAME, [], world.judge, serial, Scope("run 1"))

    assert (part.key, column) in [(v.part, v.column) for v in report.mismatches]
    assert report.mode_after == "off"


def test_a_damaged_and_a_lost_part_are_found(world: World, tmp_path: Path) -> None:
    damaged, lost = world.first_part(0), world.first_part(1)
    file = tmp_path / "blob" / damaged.key
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.chmod(0o644)
    file.write_bytes(data)
    world.stores.blob.delete(lost.key)

    report = validate_shard(world.stores, NAME, [], world.judge, serial, Scope("run 1"))

    found = {v.part: v.error for v in report.mismatches if v.layout != "manifest"}
    assert found.keys() == {damaged.key, lost.key}
    assert all(found.values())


def test_the_cost_of_other_shares_is_that_of_their_own_sample(world: World) -> None:
    """What a run at 1, 10 or 100 % says of each share is what a run at that share fetches."""
    full = world.validate(check_format=False)
    assert [cost.percent for cost in full.costs] == [1, 10, 100]
    assert full.costs[2].parts == full.summaries[0].audited_parts > 0
    for told, share in zip(full.costs, (1, 10, 100), strict=True):
        # an explicit share has no least number of parts; neither has the prediction of such a run
        run = world.validate(check_format=False, percent=share)
        mine = next(c for c in run.costs if c.percent == share)
        assert mine.parts == run.summaries[0].checked_parts
        assert mine.size_bytes == 2 * run.summaries[0].audited_bytes  # counted, judged once
        assert mine.requests == 2 * mine.parts
        assert told.parts >= mine.parts


def test_nothing_audited_tells_nothing_of_seconds(world: World) -> None:
    none = validate_shard(
        world.stores, NAME, [], world.judge, serial, Scope("run", check_format=False)
    )
    assert none.costs == ()
