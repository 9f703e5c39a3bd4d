"""A merge under way is remembered, continued where it is, and forgotten when it is pointless."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pytest

from strata.compact import compact_shard, merge_history, preview
from strata.machine.machine import Machine
from strata.model.types import parse_type
from strata.state.merging import keep_progress
from strata.state.schema import AddColumn
from strata.state.spine import Applied, NotApplied
from strata.store.open import Stores
from tests.support.stored import append, settings, snapshot
from tests.unit.compact.test_run import day, filled, load

OPTIONS = settings(memory_bytes=70_000, chunk_bytes=1, history_ms=1)


class Stopped(Exception):
    """The run was killed."""


def dying(after: int) -> Callable[..., Iterator[object]]:
    """Return a runner that dies after so many tasks."""

    def run(function: Callable[..., object], items: Sequence[object]) -> Iterator[object]:
        for number, item in enumerate(items):
            if number == after:
                raise Stopped
            yield function(item)

    return run


def counting(count: list[int]) -> Callable[..., Iterator[object]]:
    def run(function: Callable[..., object], items: Sequence[object]) -> Iterator[object]:
        for item in items:
            count.append(1)
            yield function(item)

    return run


def killed(after: int = 3, days: int = 3) -> Stores:
    stores = filled(days, part_bytes=256, row_group_bytes=256)
    with pytest.raises(Stopped):
        compact_shard(stores, "shard", OPTIONS, dying(after), full=True)
    return stores


def test_what_a_killed_run_has_done_is_not_done_again() -> None:
    stores, count = killed(3), []
    (under_way,) = merge_history(load(stores))["under_way"]
    assert under_way["done"] == 3
    assert under_way["tasks"] > 3
    before = snapshot(stores, "shard")

    shown = preview(stores, "shard", OPTIONS, full=True)
    report = compact_shard(stores, "shard", OPTIONS, counting(count), full=True)

    assert "3 of" in shown.requests[0].reason
    (request,) = report.requests
    assert (request.resumed, len(count)) == (3, request.tasks - 3)
    assert snapshot(stores, "shard") == before
    undisturbed = filled(3, part_bytes=256, row_group_bytes=256)
    compact_shard(undisturbed, "shard", OPTIONS, full=True)
    assert load(stores).batches == load(undisturbed).batches
    assert load(stores).merging == ()


def test_appends_meanwhile_do_not_disturb_it() -> None:
    stores, count = killed(3), []
    append(stores, "shard", 3, 4, [day(3)])

    report = compact_shard(stores, "shard", OPTIONS, counting(count))

    assert [r.resumed for r in report.requests] == [3]
    again = compact_shard(stores, "shard", OPTIONS, full=True)
    assert again.requests[0].updates_out == 20


def test_other_slices_or_another_relation_begin_anew() -> None:
    stores = killed(3)
    other = replace(OPTIONS, compact=replace(OPTIONS.compact, memory_bytes=90_000))
    assert compact_shard(stores, "shard", other, full=True).requests[0].resumed == 0

    stores = killed(3)
    Machine(stores).evolve("shard", AddColumn("new", parse_type("int64"), True, 5))
    report = compact_shard(stores, "shard", OPTIONS, full=True)
    assert [(r.resumed, r.outcome) for r in report.requests] == [(0, "applied")]
    assert snapshot(stores, "shard")[0][-3] == 5


def test_a_late_run_is_told_and_its_progress_is_not_kept() -> None:
    stores = killed(3)
    late, (progress,) = load(stores), load(stores).merging
    compact_shard(stores, "shard", settings(history_ms=1), full=True)
    after = load(stores)
    assert after.merging == ()

    outcome = Machine(stores).apply("shard", partial(keep_progress, progress=progress))

    assert isinstance(outcome, NotApplied)
    assert load(stores) == after
    assert late.merging == (progress,)


def test_less_progress_than_is_known_changes_nothing() -> None:
    stores = killed(3)
    state = load(stores)
    less = replace(state.merging[0], done=2)

    assert keep_progress(state, 0, less) == (state, Applied(already=True))
    more = keep_progress(state, 0, replace(less, done=4))[0]
    assert [p.done for p in more.merging] == [4]


def test_history_tells_what_merges_did() -> None:
    stores = filled(8)
    report = compact_shard(stores, "shard", settings(history_ms=2))
    told = merge_history(load(stores))

    assert [m["reason"] for m in told["merges"]] == [r.reason for r in reversed(report.requests)]
    newest = told["merges"][0]
    assert newest["seqno"] == load(stores).seqno
    assert (newest["updates_in"], newest["updates_out"], newest["runs_in"], newest["tasks"]) == (
        report.requests[-1].updates_in,
        report.requests[-1].updates_out,
        report.requests[-1].runs_in,
        1,
    )
    assert told["updates_in"] == sum(r.updates_in for r in report.requests)
    assert len(merge_history(load(stores), 0)["merges"]) == 0


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.state.merging.MERGES_MAX", 3)
    stores = filled(1)
    for number in range(1, 9):
        append(stores, "shard", number, number + 1, [day(number)])
        compact_shard(stores, "shard", settings())

    seqnos = [merge.seqno for merge in load(stores).merges]
    assert len(seqnos) == 3
    assert seqnos == sorted(seqnos)
