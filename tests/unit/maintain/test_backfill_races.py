"""Whoever comes between two steps of a backfill or a trim, nothing is lost and nothing comes back.

A backfill of a small shard is interrupted before every ninth of its calls to the stores, by an
ingest, a full compaction, the end of the old parts, a trim, or another backfill. Then the shard
must hold what it would without the backfill, and backfilling again must find what is left.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import pytest

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import Corrupt
from strata.format.manifest import part_refs
from strata.machine.machine import Machine
from strata.maintain.backfill import BackfillReport, backfill_shard
from strata.maintain.trim import trim_shard
from strata.model.settings import Settings, StoreSettings
from strata.read.scan import scan
from strata.store import keys
from strata.store.memory import memory_blob, memory_consensus
from strata.store.open import Stores, open_stores
from tests.unit.maintain.test_backfill import SHARD, SPEC, batches_of, manifest, put

pytestmark = pytest.mark.slow

NUMBERS = count()
STRIDE = 7  # of some forty steps
COMMIT_BYTES = 4000  # two commits a batch
Event = Callable[[Stores], object]


class Interrupted:
    """A store whose n-th call, over all that share the count, is preceded by an event."""

    def __init__(self, inner: Any, steps: "Steps") -> None:
        self.inner, self.steps = inner, steps

    def __getattr__(self, name: str) -> Any:
        work = getattr(self.inner, name)

        def call(*args: Any, **named: Any) -> Any:
            self.steps.next()
            return work(*args, **named)

        return call


class Steps:
    def __init__(self, at: int, event: Callable[[], object]) -> None:
        self.at, self.event, self.done = at, event, 0

    def next(self) -> None:
        self.done += 1
        if self.done == self.at:
            self.event()


def shard() -> Stores:
    """Two batches of several parts without statistics."""
    return _copy(_begun())


def collected() -> Stores:
    """The same after a backfill."""
    return _copy(_backfilled())


def _opened(name: str) -> Stores:
    return open_stores(StoreSettings(blob=f"memory://{name}", consensus=f"memory://{name}"))


@cache
def _begun() -> str:
    opened = _opened("races begin")
    Machine(opened).create(SPEC)
    put(opened, 0, 100, "row")
    put(opened, 100, 200, "both", forget=True)
    return "races begin"


@cache
def _backfilled() -> str:
    backfill_shard(_copy(_begun(), "races backfilled"), SHARD)
    return "races backfilled"


def _copy(name: str, new: str = "") -> Stores:
    new = new or f"races {next(NUMBERS)}"
    memory_blob(new).live.update(memory_blob(name).live)
    log = memory_consensus(name).log
    memory_consensus(new).log.update({key: [*versions] for key, versions in log.items()})
    return _opened(new)


def ingest(stores: Stores) -> None:
    put(stores, 200, 300, "row")


def compaction(stores: Stores) -> None:
    compact_shard(stores, SHARD, Settings(stores.settings), full=True)


def compaction_and_collection(stores: Stores) -> None:
    """The old manifests and parts are gone for good as soon as the state has let go of them."""
    compaction(stores)
    live = {b.manifest for b in batches_of(stores)}
    live |= {r.key for b in batches_of(stores) for r in part_refs(manifest(stores, b))}
    for kind in ("parts", "manifests"):
        for info in list(stores.blob.list(f"{keys.shard_prefix(SHARD)}{kind}/")):
            if info.key not in live:
                stores.blob.delete(info.key)


def trim(stores: Stores) -> None:
    trim_shard(stores, SHARD, budget_bytes=30)


def another(stores: Stores) -> None:
    backfill_shard(stores, SHARD)


EVENTS: list[Event] = [ingest, compaction, compaction_and_collection, trim, another]
MERGES: list[Event] = [compaction, compaction_and_collection]


def contents(stores: Stores) -> Counter[tuple[Any, ...]]:
    state = Machine(stores).load(SHARD)
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in scan(stores, state, plan_read(stores, state), consolidate=True):
        for row in batch.to_pylist():
            *values, d = row.values()
            found[tuple(values)] += d
    return found


def referenced(stores: Stores) -> set[str]:
    return {r.key for b in batches_of(stores) for r in part_refs(manifest(stores, b))}


def interrupted(event: Event, at: int, work: Callable[[Stores], Any]) -> tuple[Stores, Any, bool]:
    """Return the shard after an event before step `at`, the report, and whether it came to that."""
    stores = shard()
    steps = Steps(at, lambda: event(stores))
    shaky = replace(
        stores, blob=Interrupted(stores.blob, steps), consensus=Interrupted(stores.consensus, steps)
    )
    report = work(shaky)
    return stores, report, steps.done >= at


def alone(event: Event) -> Stores:
    stores = shard()
    event(stores)
    return stores


@pytest.mark.slow
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_an_event_between_any_two_steps_costs_at_most_another_run(event: Event) -> None:
    expected = alone(event)
    rows, keys_of_parts = contents(expected), referenced(expected)
    reports: list[BackfillReport] = []
    for at in count(1, STRIDE):
        stores, report, reached = interrupted(
            event, at, lambda shaky: backfill_shard(shaky, SHARD, commit_bytes=COMMIT_BYTES)
        )
        if not reached:
            break
        reports.append(report)
        # A merge keeps parts that have statistics and writes others anew, so its parts may differ.
        assert event in MERGES or referenced(stores) == keys_of_parts
        assert contents(stores) == rows
        assert report.parts_changed + report.parts_dropped == report.parts_selected

        backfill_shard(stores, SHARD)

        assert backfill_shard(stores, SHARD).parts_selected == 0
        assert all(b.stats_parts == b.parts for b in batches_of(stores))
        assert contents(stores) == rows
    assert len(reports) > 4
    if event in MERGES:
        assert {0} < {report.parts_dropped for report in reports}
        assert any(report.batches_gone for report in reports)
    else:
        assert {report.batches_gone for report in reports} == {0}


@pytest.mark.slow
@pytest.mark.parametrize("event", EVENTS[:3] + EVENTS[4:], ids=lambda event: event.__name__)
def test_a_trim_may_be_interrupted_likewise(event: Event) -> None:
    def work(shaky: Stores) -> Any:
        return trim_shard(shaky, SHARD, budget_bytes=30)

    expected = collected()
    event(expected)
    rows, keys_of_parts = contents(expected), referenced(expected)
    for at in count(1, 2):
        stores = collected()
        steps = Steps(at, lambda stores=stores: event(stores))  # type: ignore[misc]
        shaky = replace(
            stores,
            blob=Interrupted(stores.blob, steps),
            consensus=Interrupted(stores.consensus, steps),
        )
        report = work(shaky)
        if steps.done < at:
            break
        assert report.parts_changed + report.parts_dropped <= report.parts_selected
        assert referenced(stores) == keys_of_parts
        assert contents(stores) == rows
        work(stores)
        assert work(stores).parts_changed == 0
    assert at > 8


def test_a_part_that_is_really_damaged_is_named_when_all_others_are_done() -> None:
    stores = shard()
    first, *others = part_refs(manifest(stores, batches_of(stores)[0]))
    stores.blob.delete(first.key)

    with pytest.raises(Corrupt, match="a part is missing") as caught:
        backfill_shard(stores, SHARD)

    assert first.key in str(caught.value)
    table = manifest(stores, batches_of(stores)[0])
    assert table["stats_version"].to_pylist() == [None] + [1] * len(others)
    assert batches_of(stores)[1].stats_parts == batches_of(stores)[1].parts


def test_newer_statistics_are_not_trimmed_by_older_knowledge() -> None:
    """Between looking and committing, somebody gave the parts other statistics: theirs stay."""
    stores = shard()
    backfill_shard(stores, SHARD)
    seen: list[int] = []

    def overtaken(function: Callable[[Any], Any], items: Any) -> Any:
        results = [function(item) for item in items]
        if seen:
            trim_shard(stores, SHARD, budget_bytes=60)
        seen.append(len(results))
        yield from results

    report = trim_shard(stores, SHARD, budget_bytes=30, runner=overtaken)  # type: ignore[arg-type]

    assert (report.parts_changed, report.parts_dropped) == (0, report.parts_selected)
    sizes = [r.stats_bytes for b in batches_of(stores) for r in part_refs(manifest(stores, b))]
    assert all(30 < size <= 60 for size in sizes)
