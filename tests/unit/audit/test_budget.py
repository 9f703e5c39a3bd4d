"""A budget is kept, and spent where evidence is thinnest; what it leaves out is not a pass."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.audit import budget as budgets
from strata.audit.budget import Budget
from strata.audit.run import Check, Scope, ValidationReport, validate_shard
from strata.audit.soft import Evaluated
from strata.audit.softly import audited_share
from strata.audit.used import LEAST_SAVED, budget_of
from strata.expr.filter import Filter
from strata.format.manifest import PartRef
from strata.history import usage
from strata.model.runner import serial
from strata.model.settings import Settings, StoreSettings, ValidateSettings
from tests.support.audited import WHERE, World, another, lie, world_in
from tests.support.shards import NAME


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_in(StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db"))


class Judge:
    """Judges as Spark does, and remembers which parts it was asked about."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked: list[tuple[str, str]] = []

    def __call__(
        self, filter: Filter, refs: Sequence[PartRef], groups: object = None, /
    ) -> list[Evaluated]:
        self.asked += [(filter.sql, ref.key) for ref in refs]
        return self.world.judge(filter, refs)


def run(
    world: World, judge: Judge, budget: Budget, number: int, *filters: Filter, **scope: Any
) -> ValidationReport:
    checks = [Check(one.sql, one) for one in filters or (WHERE,)]
    how = {"check_format": False, **scope}
    return validate_shard(
        world.stores, NAME, checks, judge, serial, Scope(f"run {number}", budget=budget, **how)
    )


def size_of(world: World, parts: int) -> int:
    """Return a budget that is enough for so many of the parts that would be skipped."""
    found = run(world, Judge(world), Budget(), 0, another(99)).verdicts
    return parts * max(verdict.size_bytes for verdict in found)


def uppers(world: World) -> dict[str, int]:
    return {
        ref.key: batch.upper
        for number, batch in enumerate(b for b in world.state.batches if b.manifest)
        for ref in world.parts(number)
    }


def test_without_a_budget_all_is_audited(world: World) -> None:
    report = run(world, Judge(world), Budget(), 1)
    assert report.totals()["left_out_parts"] == report.totals()["left_out_bytes"] == 0
    assert report.totals()["audited_parts"] == 6


def test_the_newest_parts_come_first_and_the_rest_is_left_out(world: World) -> None:
    most, judge = size_of(world, 2), Judge(world)

    report = run(world, judge, Budget(most), 1)

    [summary] = report.summaries
    assert summary.audited_bytes <= most
    assert summary.audited_parts == len(judge.asked) == 2
    assert summary.left_out_parts == 4
    assert summary.left_out_bytes == summary.bytes_skipped - summary.audited_bytes
    newest = max(uppers(world).values())
    assert {uppers(world)[key] for _, key in judge.asked} == {newest}
    assert summary.missing == summary.errors == 0


def test_what_is_left_out_is_no_evidence_and_comes_the_next_night(world: World) -> None:
    most, judge = size_of(world, 2), Judge(world)
    parts = []
    for number in range(1, 4):
        run(world, judge, Budget(most), number)
        parts.append(world.state.rollout.evidence.parts)

    assert len({key for _, key in judge.asked}) == 6, "no part twice before all were judged once"
    before = parts[0] - 2  # those of `size_of`, with another filter
    assert [n - before for n in parts] == [2, 4, 6]
    run(world, judge, Budget(most), 4)
    assert world.state.rollout.evidence.repeats == 2


def test_the_check_with_the_least_evidence_gets_the_budget(world: World) -> None:
    most, judge = size_of(world, 3), Judge(world)
    run(world, Judge(world), Budget(), 1)

    run(world, judge, Budget(most), 2, WHERE, another(1))

    assert {sql for sql, _ in judge.asked} == {another(1).sql}


def test_a_part_that_is_left_out_cannot_trip_and_is_found_later(world: World) -> None:
    row, part = world.accepted()
    world.tamper(2, lie(row, high=250))
    judge, most = Judge(world), 1  # always one part
    found = []
    for number in range(8):
        report = run(world, judge, Budget(most), number)
        found.append([verdict.part for verdict in report.mismatches])
        if found[-1]:
            break
        assert report.mode_after == "soft"
    assert found[-1] == [part.key]


def test_seconds_end_a_run_between_two_chunks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(budgets, "CHUNK_BYTES", 1)
    monkeypatch.setattr(budgets.time, "monotonic", lambda: now[0])

    class Slow(Judge):
        def __call__(self, filter: Filter, refs: Sequence[PartRef], *groups: Any) -> Any:
            now[0] += 4
            return super().__call__(filter, refs)

    judge = Slow(world)
    report = run(world, judge, Budget(seconds=10), 1)

    assert len(judge.asked) == 3, "the last one began before the end"
    assert report.totals()["left_out_parts"] == 3


def test_the_format_check_has_its_share_and_says_what_it_left_out(world: World) -> None:
    most = 2 * size_of(world, 4)
    nights = []
    for number in range(1, 9):
        report = run(world, Judge(world), Budget(most), number, check_format=True)
        soft, form = report.summaries
        assert soft.audited_bytes + form.audited_bytes <= most
        assert form.audited_bytes >= most // 8
        assert form.left_out_parts == form.parts_total - form.checked_parts > 0
        nights.append({v.part for v in report.verdicts if v.check == "format"} - manifests(world))
    assert len(set.union(*nights)) > max(map(len, nights)), "each night draws others"
    newest = max(uppers(world).values())
    assert all(newest in {uppers(world)[key] for key in night} for night in nights)


def manifests(world: World) -> set[str]:
    return {batch.manifest for batch in world.state.batches if batch.manifest}


def test_a_replay_of_single_parts_has_no_budget(world: World) -> None:
    verdicts = run(world, Judge(world), Budget(), 1).verdicts
    parts = frozenset(verdict.part for verdict in verdicts)
    report = run(world, Judge(world), Budget(1), 2, parts=parts)
    assert report.totals()["audited_parts"] == len(parts)


def test_a_day_counts_for_a_step_only_by_the_share_that_was_audited(world: World) -> None:
    whole = run(world, Judge(world), Budget(), 1).summaries
    half = run(world, Judge(world), Budget(size_of(world, 3)), 2).summaries
    assert audited_share(100, whole) == 100
    assert audited_share(100, half) == 50
    assert audited_share(10, [*whole, *half]) == 5


def test_the_smallest_limit_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def limits(**said: int) -> Budget:
        settings = Settings(validate=replace(ValidateSettings(), **said))
        return budget_of(world.stores, NAME, settings)

    saved = 100 * LEAST_SAVED * 30
    one = replace(usage.unread(WHERE), decided=1, bytes_total=saved + 5, bytes_kept=5)
    monkeypatch.setattr(usage, "recent", lambda *_: [one, usage.unread(WHERE)])
    assert limits(budget_bytes=0) == Budget()
    assert limits(budget_bytes=7, budget_seconds=3) == Budget(7, 3.0)
    assert limits(budget_bytes=0, budget_saved_percent=10) == Budget(10 * LEAST_SAVED)
    assert limits(budget_bytes=0, budget_saved_percent=0) == Budget()
    assert limits(budget_bytes=5 * LEAST_SAVED, budget_saved_percent=10).size_bytes == (
        5 * LEAST_SAVED
    )
    monkeypatch.setattr(usage, "recent", lambda *_: [])
    assert limits(budget_bytes=0, budget_saved_percent=10) == Budget(LEAST_SAVED)
    asked = budget_of(world.stores, NAME, Settings(), size_bytes=5, seconds=2)
    assert asked == Budget(5, 2)
