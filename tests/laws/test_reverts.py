"""Law: after a revert a read equals that of a shard without the interval, and twice is once."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.compact import compact_shard
from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest, Unavailable
from strata.machine.machine import Machine
from strata.maintain import revert as reverts
from strata.maintain.revert import revert_interval
from strata.model.types import parse_type
from strata.shard import Shard
from strata.state.schema import AddColumn
from strata.state.transitions import advance_since
from strata.store.open import Stores
from tests.laws.test_changes import History
from tests.laws.test_difference import PLAIN, counted
from tests.support.failing_stores import CrashError, Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.support.stored import append, create, histories, memory_stores, settings
from tests.support.updates import table


def contents(shard: Shard, as_of: int | None = None) -> Counter[str]:
    return counted(shard.scan(as_of=as_of), len(shard.state().relation.columns))


def without(tables: list[pa.Table], lower: int, upper: int) -> list[pa.Table]:
    """Return runs without the updates of an interval."""
    return [
        one.filter(pa.array([not lower <= t < upper for t in one["t"].to_pylist()], pa.bool_()))
        for one in tables
    ]


@given(histories(), st.data())
def test_a_read_equals_that_of_a_shard_without_the_interval(
    history: History, data: st.DataObject
) -> None:
    relation, batches = history
    stores, others = memory_stores(), memory_stores()
    for where in (stores, others):
        create(where, relation)
    end = batches[-1][1]
    lower, upper = sorted(data.draw(st.tuples(st.integers(1, end), st.integers(1, end))))
    for begin, until, runs in batches:
        append(stores, "shard", begin, until, runs)
        append(others, "shard", begin, until, without(runs, lower, upper))
    shard, other = Shard(stores, "shard"), Shard(others, "shard")
    if data.draw(st.booleans()):
        for one in (shard, other):
            one.evolve(AddColumn("new", parse_type("int64"), default=7))
    if data.draw(st.booleans()):
        move = partial(advance_since, since=data.draw(st.integers(0, lower - 1)))
        Machine(stores).apply("shard", move)
        compact_shard(stores, "shard", settings(history_ms=None), full=data.draw(st.booleans()))
    before = contents(shard)
    if lower == upper:
        with pytest.raises(InvalidRequest, match="no interval"):
            shard.revert(lower, upper)
        return

    would = shard.revert(lower, upper, dry_run=True)
    done = shard.revert(lower, upper)

    assert contents(shard) == contents(other)
    assert contents(shard, end - 1) == before
    assert would == replace(done, dry_run=True, parts=0)
    difference = counted(shard.changed_rows(end - 1), len(shard.state().relation.columns))
    assert len(difference) == done.rows
    if done.rows:
        again = shard.revert(lower, upper)
        assert again == replace(done, already_reverted=True)
        compact_shard(stores, "shard", settings(history_ms=0), full=True)
        assert shard.revert(lower, upper).already_reverted  # also when its updates are not apart
        assert contents(shard) == contents(other)


def filled() -> Stores:
    stores = memory_stores()
    create(stores, PLAIN)
    for day in range(1, 5):
        rows: list[tuple[object, ...]] = [(day, "x", 10 * day, 1), (day + 1, "y", 10 * day + 1, 2)]
        append(stores, "shard", 10 * day, 10 * day + 10, [table(PLAIN, rows)])
    return stores


def test_a_filter_takes_back_some_rows() -> None:
    shard = Shard(filled(), "shard")
    done = shard.revert(20, 40, where="c2 = 'y'")
    assert (done.rows, done.at) == (2, 50)
    assert contents(shard) == Counter(
        {"(1, 'x')": 1, "(2, 'y')": 2, "(2, 'x')": 1, "(3, 'x')": 1, "(4, 'x')": 1, "(5, 'y')": 2}
    )
    assert counted(shard.changed_rows(49), 2) == Counter({"(3, 'y')": -2, "(4, 'y')": -2})


def test_no_row_is_retracted_twice_and_a_revert_can_be_reverted() -> None:
    shard = Shard(filled(), "shard")
    whole = contents(shard)
    first = shard.revert(20, 30)
    less = contents(shard)
    for overlapping in ((20, 40), (25, 30), (10, 21)):
        with pytest.raises(InvalidRequest, match="reverted already") as wrong:
            shard.revert(*overlapping)
        assert "strata revert shard 50 51" in str(wrong.value)
    with pytest.raises(InvalidRequest, match="reverted already"):
        shard.revert(20, 30, where="c2 = 'y'")
    assert shard.revert(30, 40).rows == 2  # beside it
    assert shard.revert(51, 52).rows == 2
    assert contents(shard) == less

    assert shard.revert(50, 51).rows == 2
    assert contents(shard) == whole
    again = shard.revert(20, 30)
    assert not again.already_reverted
    assert again.token != first.token
    assert contents(shard) == less
    assert shard.revert(20, 30) == replace(again, already_reverted=True)
    # All of it at once, its reverts included
    assert shard.revert(20, shard.state().upper).rows
    assert contents(shard) == Counter({"(1, 'x')": 1, "(2, 'y')": 2})


def test_what_cannot_be_reverted_is_refused() -> None:
    stores = filled()
    shard = Shard(stores, "shard")
    for lower, upper, said in (
        (30, 30, "no interval"),
        (30, 51, "no interval"),
        (9, 8, "no inter"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            shard.revert(lower, upper)
    Machine(stores).apply("shard", partial(advance_since, since=30))
    with pytest.raises(InvalidRequest, match="not apart any more"):
        shard.revert(30, 40)
    assert shard.revert(31, 40).rows == 1
    assert shard.revert(42, 43).rows == 0  # nothing there, and nothing is appended
    assert shard.state().upper == 51


def test_a_count_without_an_opposite_is_taken_back_in_two_batches() -> None:
    stores = memory_stores()
    create(stores, PLAIN)
    append(stores, "shard", 0, 10, [table(PLAIN, [(1, "x", 1, -(2**63))])])
    shard = Shard(stores, "shard")
    with pytest.raises(InvalidRequest, match="two batches, 9223372036854775807 times and once"):
        shard.revert(0, 10)
    for upper, count in ((20, 2**63 - 1), (30, 1)):
        append(stores, "shard", upper - 10, upper, [table(PLAIN, [(1, "x", upper - 1, count)])])
    assert contents(shard) == Counter()


def test_later_changes_of_keys_rest_on_earlier_ones() -> None:
    stores = memory_stores()
    source = replace(create(stores, PLAIN, name="plain").spec.source, envelope="upsert")
    create(stores, PLAIN, source=source)
    for day in (1, 2):
        append(stores, "shard", 10 * day, 10 * day + 10, [table(PLAIN, [(day, "x", 10 * day, 1)])])
    shard = Shard(stores, "shard")
    with pytest.raises(InvalidRequest, match="rest on this interval"):
        shard.revert(10, 20)
    assert shard.revert(20, 30).rows == 1
    assert contents(shard) == Counter({"(1, 'x')": 1})


@given(st.lists(st.sampled_from([*Outcome, *[Outcome.WORKS] * 4]), max_size=14))
def test_a_revert_that_is_killed_and_run_again_happens_once(outcomes: list[Outcome]) -> None:
    inner = filled()
    faults = Faults(sleep=lambda _: None)
    stores = replace(
        inner,
        blob=FaultyBlob(inner.blob, faults),
        consensus=FaultyConsensus(inner.consensus, faults),
    )
    faults.plan(outcomes)
    with suppress(CrashError, Unavailable, Corrupt, Fenced):
        revert_interval(stores, "shard", 20, 30)
    faults.plan([])

    revert_interval(stores, "shard", 20, 30)

    shard = Shard(inner, "shard")
    assert (shard.state().upper, contents(shard)["(2, 'x')"]) == (51, 0)
    assert contents(shard)["(3, 'y')"] == 0


def test_a_revert_that_lost_a_race_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = filled()
    write, races = reverts.write_batch, []

    def raced(*args: Any, **options: Any) -> Any:
        batch = write(*args, **options)
        if len(races) < 2:
            upper = Machine(stores).load("shard").upper
            append(stores, "shard", upper, upper + 1, [table(PLAIN, [(9, "z", upper, 1)])])
            races.append(upper)
        return batch

    monkeypatch.setattr(reverts, "write_batch", raced)
    done = revert_interval(stores, "shard", 20, 30)
    assert (done.rows, done.at, races) == (2, 52, [50, 51])
    monkeypatch.setattr(reverts, "ATTEMPTS", 1)
    races.clear()
    with pytest.raises(Conflict, match="went on"):
        revert_interval(stores, "shard", 30, 40)


@pytest.mark.parametrize("place", ["write_batch", "reading"])
def test_two_at_once_revert_once(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    stores = filled()
    step, others = getattr(reverts, place), []

    def overtaken(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(reverts, place, step)
        others.append(revert_interval(stores, "shard", 20, 30))
        return step(*args, **options)

    monkeypatch.setattr(reverts, place, overtaken)
    done = revert_interval(stores, "shard", 20, 30)
    assert not others[0].already_reverted
    assert done == replace(others[0], already_reverted=True)
    assert contents(Shard(stores, "shard"))["(3, 'y')"] == 0
