"""The log of filters is bounded, folds without losing, and never fails a read."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from strata.decide.plan import plan_read
from strata.errors import Unavailable
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.nodes import Column as Field
from strata.history import usage, usage_blobs
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import MetricsSettings, StoreSettings, UsageSettings
from strata.model.types import parse_type
from strata.state.state import State
from strata.store import keys
from strata.store.interface import Blob
from strata.store.open import Stores, open_stores
from tests.support.failing_stores import Faults, FaultyBlob, Outcome
from tests.support.stored import append, create
from tests.support.updates import table

RELATION = Relation(
    0, (Column(1, "n", parse_type("int64")), Column(2, "s", parse_type("string"))), (1,), ()
)
HOUR = 3_600_000
DAY = 24 * HOUR
LOG = UsageSettings()
NUMBERS = count()


class Clock:
    def __init__(self) -> None:
        self.now = 1000 * DAY + 5

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stores(clock: Callable[[], int]) -> Stores:
    """Two batches of two parts each, n from 0 to 9 and from 10 to 19."""
    name = f"memory://usage {next(NUMBERS)}"
    stores = open_stores(StoreSettings(name, name), clock)
    create(stores, RELATION)
    for day in range(2):
        runs = [
            table(RELATION, [(n, "x", day, 1) for n in range(start, start + 5)])
            for start in (10 * day, 10 * day + 5)
        ]
        append(stores, "shard", day, day + 1, runs, "both")
    return stores


def greater(than: int, now: int = 7) -> Filter:
    expr: Expr = Call("greater_than", (Field(1, "n", "long"), Literal(than, "long")), "boolean")
    return Filter(expr, f"n > {than}", now, now)


def read(stores: Stores, filter: Filter, mode: str = "on", settings: UsageSettings = LOG) -> str:
    state: State = Machine(stores).load("shard")
    plan = plan_read(stores, state, filter=filter, mode=mode)
    return usage.record(stores, state, plan, filter, settings, Metrics())


def logged(stores: Stores) -> list[str]:
    return [info.key for info in stores.blob.list(keys.usage_prefix("shard"))]


def test_a_read_leaves_what_skipped_its_parts(stores: Stores) -> None:
    assert read(stores, greater(6)) == "written"

    (used,) = usage.recent(stores, "shard", LOG)
    assert used.filter.expr == greater(6).expr
    assert used.filter.sql == "n > 6"
    assert (used.reads, used.decided, used.parts_total, used.parts_kept) == (1, 1, 4, 3)
    assert 0 < used.bytes_kept < used.bytes_total
    assert used.skipped_by == {"s.1": 1}


def test_a_read_that_asked_no_statistics_is_logged_as_such(stores: Stores) -> None:
    read(stores, greater(6), mode="off")

    (used,) = usage.recent(stores, "shard", LOG)
    assert (used.reads, used.decided, used.parts_total, used.skipped_by) == (1, 0, 0, {})
    assert (used.parts_kept, used.bytes_total, used.bytes_kept) == (0, 0, 0)


def test_the_clock_of_a_logged_filter_is_its_whole_day(stores: Stores) -> None:
    day = 1000 * DAY  # in microseconds: some day
    read(stores, replace(greater(6), now_low=day, now_high=day + usage._DAY_US))

    (used,) = usage.recent(stores, "shard", LOG)
    low = day // usage._DAY_US * usage._DAY_US
    assert (used.filter.now_low, used.filter.now_high) == (low, low + 2 * usage._DAY_US - 1)


def test_repetitions_within_the_hour_are_one(stores: Stores, clock: Clock) -> None:
    assert [read(stores, greater(6, now)) for now in (7, 8)] == ["written", "known"]
    usage._known.clear()  # another process
    assert read(stores, greater(6)) == "written"  # the same bytes, without effect
    assert len(logged(stores)) == 1
    clock.now += HOUR
    assert read(stores, greater(6)) == "written"

    (used,) = usage.recent(stores, "shard", LOG)
    assert (used.reads, used.parts_total, used.skipped_by) == (2, 8, {"s.1": 2})


def test_a_day_never_holds_more_than_its_slots(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "SLOTS", 8)

    found = [read(stores, greater(n)) for n in range(100)]

    assert 4 < found.count("written") == len(logged(stores)) <= 8
    assert set(found) == {"written", "known"}


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.REPLY_LOST])
def test_a_store_that_fails_fails_no_read(stores: Stores, outcome: Outcome) -> None:
    state = Machine(stores).load("shard")
    plan = plan_read(stores, state, filter=greater(6), mode="on")
    shaky = replace(stores, blob=FaultyBlob(stores.blob, Faults([outcome])))

    assert usage.record(shaky, state, plan, greater(6), LOG, Metrics()) == "failed"


def test_a_filter_too_long_for_the_log_fails_no_read(stores: Stores) -> None:
    long = greater(6)
    assert read(stores, replace(long, sql="x" * usage.ENTRY_BYTES_MAX)) == "failed"
    assert logged(stores) == []


def test_an_entry_that_just_fits_the_log_is_written(
    stores: Stores, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(stores, greater(6))
    [size] = [info.size_bytes for info in stores.blob.list(keys.usage_prefix("shard"))]
    for most, outcome in ((size, "written"), (size - 1, "failed")):
        clock.now += HOUR
        monkeypatch.setattr(usage, "ENTRY_BYTES_MAX", most)
        assert read(stores, greater(6)) == outcome


def test_the_time_of_a_read_ends_with_its_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds: list[float] = []
    now = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal now
        for rows in (0, 3, 4):
            now += 1
            yield pa.record_batch({"n": [7] * rows})

    monkeypatch.setattr(usage.time, "monotonic", lambda: now)
    monkeypatch.setattr(Metrics, "time", lambda _, name, value, __: seconds.append(value))
    told = Metrics(MetricsSettings("127.0.0.1:9"))
    assert sum(one.num_rows for one in usage.emitted(batches(), told, "s")) == 7
    assert seconds == [2], "from the call on, past batches without rows"


def test_the_switch_leaves_no_trace(stores: Stores) -> None:
    assert read(stores, greater(6), settings=UsageSettings(log=False)) == "off"
    assert logged(stores) == []


def test_folding_changes_nothing_that_is_known(stores: Stores, clock: Clock) -> None:
    for n in (6, 6, 11):
        read(stores, greater(n))
        clock.now += HOUR
    before = usage.recent(stores, "shard", LOG)
    clock.now += DAY
    read(stores, greater(2))

    assert usage.fold(stores, "shard", LOG) == 3
    assert usage.fold(stores, "shard", LOG) == 0

    assert [k.rpartition("/")[2] for k in logged(stores)].count("summary.json") == 1
    after = usage.recent(stores, "shard", LOG)
    assert [u for u in after if u.filter.sql != "n > 2"] == before
    assert [u.reads for u in after] == [2, 1, 1]


def test_an_interrupted_fold_counts_nothing_twice(stores: Stores, clock: Clock) -> None:
    for n in range(3):
        read(stores, greater(n))
    before = usage.recent(stores, "shard", LOG)
    clock.now += DAY
    # The summary is written, then the third delete fails.
    faults = Faults([Outcome.WORKS] * 7 + [Outcome.REFUSED])
    with pytest.raises(Unavailable):
        usage.fold(replace(stores, blob=FaultyBlob(stores.blob, faults)), "shard", LOG)

    assert 2 <= len(logged(stores)) <= 3
    assert usage.recent(stores, "shard", LOG) == before
    assert usage.fold(stores, "shard", LOG) > 0
    assert usage.recent(stores, "shard", LOG) == before


def test_what_is_old_is_forgotten(stores: Stores, clock: Clock) -> None:
    read(stores, greater(6))
    clock.now += 31 * DAY

    assert usage.recent(stores, "shard", LOG) == []
    usage.fold(stores, "shard", LOG)
    assert logged(stores) == []


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b'[{"version": 9}]', b'[{"version": 1, "filter": {}}]', b'{"a":1}']
)
def test_entries_that_nobody_understands_are_left_out(
    stores: Stores, clock: Clock, data: bytes
) -> None:
    stores.blob.set(keys.usage_key("shard", usage._day(clock.now), "000"), data)
    read(stores, greater(6))

    assert len(usage.recent(stores, "shard", LOG)) == 1


def test_a_filter_that_nobody_understands_hides_no_others_of_its_day(
    stores: Stores, clock: Clock
) -> None:
    for n in range(3):
        read(stores, greater(n))
    found = [one.to_json() for one in usage.recent(stores, "shard", LOG)]
    key = keys.usage_key("shard", usage._day(clock.now - DAY), usage.SUMMARY)
    damaged = {**found[0], "filter": {**found[0]["filter"], "expr": ["of tomorrow"]}}
    stores.blob.set(key, json.dumps([{}, 7, damaged, *found]).encode())

    assert [one.reads for one in usage.recent(stores, "shard", LOG)] == [2, 2, 2]


def test_a_blob_that_is_nested_without_end_is_left_out(stores: Stores, clock: Clock) -> None:
    key = keys.usage_key("shard", usage._day(clock.now), "000")
    stores.blob.set(key, b"[" * 20_000 + b"]" * 20_000)
    read(stores, greater(6))

    assert len(usage.recent(stores, "shard", LOG)) == 1


def test_usefulness_is_the_share_of_parts_skipped_by_reads(stores: Stores, clock: Clock) -> None:
    """n > 6 skips 1 of 4 and is read three times; n > 100 skips all 4 and is read once."""
    for n in (6, 6, 6, 100):
        read(stores, greater(n))
        clock.now += HOUR
    used = usage.recent(stores, "shard", LOG)

    assert usage.usefulness(used, {}) == {"s.1": pytest.approx((3 * 0.25 + 1) / 4 + usage.MENTION)}
    now = {used[0].identity: {"s.1": 1.0, "s.2": 0.0}}
    assert usage.usefulness(used, now) == {
        "s.1": pytest.approx(1 + usage.MENTION),
        "s.2": pytest.approx(usage.MENTION * 3 / 4),
    }
    assert usage.usefulness([], {}) == {}


def blobs_of(stores: Stores) -> list[str]:
    return sorted(
        info.key.rpartition("/")[2] for info in stores.blob.list(keys.usage_prefix("shard"))
    )


class Counting:
    """A store of blobs that counts what is read."""

    def __init__(self, blob: Blob) -> None:
        self.blob, self.reads = blob, 0

    def get(self, key: str) -> bytes | None:
        self.reads += 1
        found: bytes | None = self.blob.get(key)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.blob, name)


def test_a_job_reads_the_entries_of_a_day_together(stores: Stores, clock: Clock) -> None:
    for n in range(40):
        read(stores, greater(n))
    before = usage.recent(stores, "shard", LOG)
    counting = Counting(stores.blob)
    seen = replace(stores, blob=counting)  # type: ignore[arg-type]
    entries = len(blobs_of(stores))

    assert usage.recent(seen, "shard", LOG, roll=True) == before
    assert counting.reads == entries
    counting.reads = 0
    assert usage.recent(seen, "shard", LOG, roll=True) == before
    assert counting.reads == 1

    for n in range(100, 160):  # those that came since are read one by one, once
        read(stores, greater(n))
    more = usage.recent(stores, "shard", LOG)
    assert len(more) > len(before)
    assert usage.recent(seen, "shard", LOG, roll=True) == more
    (name,) = (name for name in blobs_of(stores) if name.startswith("rolled"))
    counting.reads = 0
    assert usage.recent(seen, "shard", LOG) == more
    assert counting.reads == 1

    key = keys.usage_key("shard", usage._day(clock.now), name.removesuffix(".json"))
    stores.blob.delete(key)
    stores.blob.set(key, b"damaged")
    assert usage.recent(stores, "shard", LOG) == more
    clock.now += DAY
    usage.fold(stores, "shard", LOG)
    assert blobs_of(stores) == ["summary.json"]
    assert {one.identity for one in usage.recent(stores, "shard", LOG)} == {
        one.identity for one in more
    }


def test_a_later_roll_takes_the_place_of_an_earlier_one(
    stores: Stores, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_blobs, "ROLLED_AT", 2)
    for n in (1, 100):  # filters whose slots differ
        for than in range(n, n + 3):
            read(stores, greater(than))
        before = blobs_of(stores)
        found = usage.recent(stores, "shard", LOG)
        assert found == usage.by_day(stores, "shard", 1)[usage._day(clock.now)]
        assert blobs_of(stores) == before, "who only looks writes nothing"
        assert usage.recent(stores, "shard", LOG, roll=True) == found
        entries = [name for name in before if not name.startswith("rolled")]
        assert blobs_of(stores) == sorted([*entries, f"rolled-{len(entries):03}.json"])
    [rolled] = [name for name in blobs_of(stores) if name.startswith("rolled")]
    gone = keys.usage_key("shard", usage._day(clock.now), rolled.removesuffix(".json"))
    get = stores.blob.get
    monkeypatch.setattr(stores.blob, "get", lambda key: None if key == gone else get(key))
    assert usage.recent(stores, "shard", LOG) == found


def test_those_who_only_look_write_nothing(stores: Stores) -> None:
    for n in range(40):
        read(stores, greater(n))
    before = blobs_of(stores)
    usage.recent(stores, "shard", LOG)
    usage.by_day(stores, "shard", 2)

    assert blobs_of(stores) == before
