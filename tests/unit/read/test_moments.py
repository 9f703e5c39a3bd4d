"""A label or a moment by the clock leads to the time that was meant, however old it is."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import numpy
import pytest

from strata.errors import InvalidRequest
from strata.machine.ledger import spill_old_commits
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.read.moments import resolve_moment
from strata.shard import Shard
from strata.state import transitions
from strata.state.state import State
from strata.state.transitions import append, create
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import Stores
from tests.support.batches import spec

COMMITS = 64 * 17 * 2  # enough for nodes in the ledger


class Setting:
    """A store whose clock is set."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.stores = Stores(
            MemoryBlob(), MemoryConsensus(), lambda: self.now_ms, StoreSettings("memory://", "x")
        )
        self.machine = Machine(self.stores, sleep=lambda _: None)
        self.machine.create(spec())

    def append(self, now_ms: int, upper: int) -> None:
        self.now_ms = now_ms
        lower = max(self.state.upper, 0)
        self.machine.append("events", token=f"t{upper}", lower=lower, upper=upper)

    @property
    def state(self) -> State:
        return self.machine.load("events")

    def at(self, moment: int | str | None) -> int | None:
        return resolve_moment(self.stores, self.state, moment)


@pytest.fixture
def world() -> Setting:
    world = Setting()
    for number in range(1, 4):
        world.append(10_000 * number, 100 * number)
    return world


def test_a_time_is_a_time(world: Setting) -> None:
    assert [world.at(m) for m in (None, 7, "7", " -7 ", "1970-01-01T00:00:01Z")] == [
        None,
        7,
        7,
        -7,
        1000,
    ]


def test_a_label_is_the_time_that_it_names(world: Setting) -> None:
    shard = Shard(world.stores, "events")
    assert shard.tag("release-1", at=150).time == 150
    assert shard.tag("now").time == 299
    assert shard.tag("copy", at="release-1", dry_run=True).time == 150

    assert [world.at(m) for m in ("release-1", "now")] == [150, 299]
    assert [label.name for label in shard.tags()] == ["now", "release-1"]
    with pytest.raises(InvalidRequest, match="neither a time nor a label") as wrong:
        world.at("relase-1")
    assert "did you mean 'release-1'" in str(wrong.value)
    assert (shard.untag("now"), shard.untag("now")) == (True, False)


def test_the_clock_leads_to_what_was_readable_then(world: Setting) -> None:
    times = [10_000, 19_999, 20_000, 29_999, 30_000, 10**9]
    assert [world.at(f"clock:{t}") for t in times] == [99, 99, 199, 199, 299, 299]
    assert world.at("clock:1970-01-01T00:00:20") == 199
    for before in ("clock:9999", "clock:0"):
        with pytest.raises(InvalidRequest, match="nothing was committed"):
            world.at(before)


def grown(blob: MemoryBlob) -> State:
    state = create(spec(), 1)
    for number in range(1, COMMITS + 1):
        bounds = {"lower": 10 * number - 10, "upper": 10 * number}
        state, _ = append(state, 1000 * number, token=f"t{number}", **bounds)
        state = spill_old_commits(blob, state)
    return state


class Counted(MemoryBlob):
    reads = 0

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        self.reads += 1
        return super().get(key, start, length)


def test_old_commits_are_found_by_their_clock_with_few_reads() -> None:
    blob = Counted()
    state = grown(blob)
    stores = Stores(blob, MemoryConsensus(), lambda: 0, StoreSettings("memory://", "x"))
    assert any("/ledger/" in key for key in state.ledger)
    for number in (1, 2, 63, 64, 65, 1024, 1025, 1500, COMMITS - 1, COMMITS):
        for shift, expected in ((-1, number - 1), (0, number), (999, number)):
            moment = f"clock:{1000 * number + shift}"
            blob.reads = 0
            if expected:
                assert resolve_moment(stores, state, moment) == 10 * expected - 1
            else:
                with pytest.raises(InvalidRequest, match="nothing was committed"):
                    resolve_moment(stores, state, moment)
            assert blob.reads <= 40, moment


def test_commits_of_before_walltimes_were_kept_are_found_by_their_states(
    world: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = transitions.Commit
    monkeypatch.setattr(transitions, "Commit", lambda *fields: kept(*fields[:9]))
    old = Setting()
    for number in range(1, 4):
        old.append(10_000 * number, 100 * number)
    monkeypatch.undo()
    old.append(50_000, 500)
    assert [commit.at_ms for commit in old.state.commits] == [0, 0, 0, 50_000]

    assert [old.at(f"clock:{t}") for t in (10_000, 29_999, 49_999, 50_000)] == [99, 199, 299, 499]
    old.machine.forget("events", keep=1, keep_ms=0)
    state = replace(old.state, ledger=())
    oldest = next(iter(old.machine.states("events"))).walltime_ms
    if oldest > 10_000:  # the states of then are gone
        with pytest.raises(InvalidRequest, match="nothing was committed"):
            resolve_moment(old.stores, state, "clock:10000")
    with pytest.raises(InvalidRequest, match="nothing was committed"):
        old.at("clock:9999")


def test_the_clock_does_not_look_into_an_earlier_life(world: Setting) -> None:
    world.now_ms = 40_000
    world.machine.drop("events", by="ann", reason="anew")
    world.now_ms = 50_000
    world.machine.create(spec(), revive=True)
    world.append(60_000, 700)

    assert world.at("clock:60000") == 699
    with pytest.raises(InvalidRequest, match="nothing was committed"):
        world.at("clock:35000")


@pytest.mark.parametrize(
    "moment", [datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 1), 7.0, True, b"7", [7]]
)
def test_what_is_neither_whole_nor_text_is_no_time(moment: Any, world: Setting) -> None:
    with pytest.raises(InvalidRequest, match=r"gives a time as an int.*cure: milliseconds"):
        world.at(moment)


def test_a_whole_number_of_numpy_is_a_time(world: Setting) -> None:
    found = world.at(numpy.int64(7))  # type: ignore[arg-type]
    assert (found, type(found)) == (7, int)
