"""What is planned is done; what cannot be done says why and changes nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from strata.compact import compact_shard, plan, preview
from strata.compact.tasks import merge_slice, merge_tasks, merged_rows
from strata.decide.plan import plan_read
from strata.errors import Corrupt, Fenced
from strata.format.layout import Description
from strata.format.values.coded import is_coded
from strata.machine.machine import Machine
from strata.model.runner import on_cores, serial
from strata.model.schema import Column, Relation
from strata.model.settings import CompactSettings
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.parts.fetch import source_of
from strata.parts.write import write_batch, write_parts
from strata.state.holds import hold
from strata.state.schema import RenameColumn
from strata.state.spine import full_request
from strata.store.keys import part_prefix
from strata.store.memory import MemoryBlob
from strata.store.open import Stores
from strata.updates.stream import ahead
from tests.support.stored import append, create, memory_stores, settings, snapshot
from tests.support.updates import plain_rows, table

COLUMNS = (Column(1, "id", parse_type("string")), Column(2, "n", parse_type("int64")))
RELATION = Relation(0, COLUMNS, (1,), ())


def day(number: int, rows: int = 20) -> pa.Table:
    """Return updates at time `number`: new rows, and the day before's taken back."""
    new = [(f"row {i}", number, number, 1) for i in range(rows)]
    old = [(f"row {i}", number - 1, number, -1) for i in range(rows) if number]
    return table(RELATION, [*new, *old])


def filled(days: int = 8, **changes: object) -> Stores:
    stores = memory_stores()
    create(stores, RELATION, **changes)
    for number in range(days):
        append(stores, "shard", number, number + 1, [day(number)])
    return stores


def load(stores: Stores):
    return Machine(stores).load("shard")


def whole(stores: Stores, since: int):
    """Return the state, the request to merge everything, and the parts of its manifests."""
    state = load(stores)
    request = full_request(state.spine, since)
    assert request is not None
    refs = {run.upper: list(run.parts) for run in plan_read(stores, state).runs}
    return state, request, {b.manifest: refs[b.upper] for b in request.batches if b.manifest}


def test_the_preview_is_what_a_run_then_does() -> None:
    stores = filled()
    options = settings(history_ms=2)
    before = load(stores)

    shown = preview(stores, "shard", options)
    assert load(stores) == before
    done = compact_shard(stores, "shard", options)

    assert shown.requests
    assert shown.since == done.since == 6
    assert [(r.lower, r.upper, r.since, r.reason, r.updates_in) for r in shown.requests] == [
        (r.lower, r.upper, r.since, r.reason, r.updates_in) for r in done.requests
    ]
    assert {r.outcome for r in shown.requests} == {"planned"}
    assert {r.outcome for r in done.requests} == {"applied"}


def test_a_batch_of_two_relations_waits_for_its_migration() -> None:
    """Tasks of one batch that were written before and after a change of the schema."""
    stores = filled(days=0)
    machine, old = Machine(stores), load(stores)
    machine.evolve("shard", RenameColumn("n", "count"))
    new = load(stores).relation
    parts = [
        part
        for relation, rows in [(old.relation, [("a", 1, 0, 1)]), (new, [("b", 2, 0, 1)])]
        for part in write_parts(
            stores.blob,
            part_prefix("shard", 0),
            [table(relation, rows)],
            relation,
            layout=old.spec.write_format,
            description=Description(MIN_TIME, 1, MIN_TIME),
            part_bytes=4096,
            row_group_bytes=1024,
            stats_spec=old.spec.stats,
        )
    ]
    batch = write_batch(stores.blob, "shard", parts, MIN_TIME, 1, MIN_TIME)
    machine.append("shard", token="both", lower=MIN_TIME, upper=1, batch=batch)
    state = load(stores)
    assert [b.versions for b in state.batches if b.manifest] == [(0, 1)]

    waiting = plan(state, settings().compact).idle_reason or ""
    done = compact_shard(stores, "shard", settings(), migrate=True)

    assert "2 parts are of an older relation and wait for `--migrate`" in waiting
    assert [r.outcome for r in done.requests] == ["applied"]
    assert [b.versions for b in load(stores).batches if b.manifest] == [(1,)]
    assert snapshot(stores, "shard") == [("a", 1, 0, 1), ("b", 2, 0, 1)]


def test_history_is_kept_when_no_length_is_set() -> None:
    stores = filled()

    report = compact_shard(stores, "shard", settings(), full=True)

    assert load(stores).since == load(filled(0)).since
    assert report.to_json()["updates_out"] == report.to_json()["updates_in"]


def test_advancing_lets_rows_cancel() -> None:
    stores = filled()

    report = compact_shard(stores, "shard", settings(history_ms=1), full=True)

    (request,) = report.requests
    assert (request.updates_in, request.updates_out) == (8 * 20 + 7 * 20, 20)
    assert (report.runs_before, report.runs_after) == (8, 1)
    assert [row[:2] for row in snapshot(stores, "shard")] == [
        (name, 7) for name in sorted(f"row {i}" for i in range(20))
    ]


def test_a_live_hold_keeps_since_where_it_is() -> None:
    stores = filled()
    machine = Machine(stores)
    machine.apply("shard", lambda s, now: hold(s, now, name="reader", since=3, lease_ms=60_000))

    report = compact_shard(stores, "shard", settings(history_ms=1), full=True)

    assert report.since == load(stores).since == 3
    assert snapshot(stores, "shard", 3)


@pytest.mark.parametrize("full", [True, False])
def test_doing_nothing_has_a_reason(full: bool) -> None:
    stores = memory_stores()
    create(stores, RELATION)

    assert "no updates" in (compact_shard(stores, "shard", settings(), full=full).idle_reason or "")
    append(stores, "shard", 0, 1, [day(0)])
    report = compact_shard(stores, "shard", settings(), full=full)
    if not full:
        assert "levels" in (report.idle_reason or "")
        assert report.requests == ()
        assert "nothing to do" in report.lines()[0]


def test_merges_of_too_few_runs_wait() -> None:
    stores = filled(2)

    made = plan(load(stores), CompactSettings(min_inputs=3))

    assert made.requests == ()
    assert "fewer runs than 3" in (made.idle_reason or "")
    assert plan(load(stores), CompactSettings()).requests


def test_a_single_run_that_needs_no_change_is_kept_by_reference() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    append(stores, "shard", 0, 5, [])
    append(stores, "shard", 5, 6, [day(5)])
    append(stores, "shard", 6, 9, [])
    blobs = set(stores.blob.live)  # type: ignore[attr-defined]

    report = compact_shard(stores, "shard", settings(history_ms=4), full=True)

    (request,) = report.requests
    assert request.by_reference
    assert request.applied
    assert set(stores.blob.live) == blobs  # type: ignore[attr-defined]
    (batch,) = load(stores).batches
    assert (batch.upper, batch.since) == (9, 5)
    assert len(snapshot(stores, "shard", 8)) == 40


def test_one_run_whose_times_must_move_is_rewritten() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    append(stores, "shard", 0, 9, [day(1)])

    report = compact_shard(stores, "shard", settings(history_ms=4), full=True)

    assert not report.requests[0].by_reference
    (ref,) = plan_read(stores, load(stores)).fetched
    assert (ref.t_low, ref.t_high) == (5, 5)


@pytest.mark.parametrize("layout", ["row", "both", "structured"])
def test_full_brings_every_layout_to_the_declared_one(layout: str) -> None:
    stores = memory_stores()
    create(stores, RELATION, write_format=layout)
    for number, written in enumerate(["row", "both", "structured"]):
        append(stores, "shard", number, number + 1, [day(number)], written)
    before = snapshot(stores, "shard")

    compact_shard(stores, "shard", settings(), full=True)

    assert {ref.layout for ref in plan_read(stores, load(stores)).fetched} == {layout}
    assert snapshot(stores, "shard") == before


def test_one_run_in_an_old_layout_is_rewritten() -> None:
    stores = memory_stores()
    create(stores, RELATION, write_format="structured")
    append(stores, "shard", 0, 1, [day(0)], "row")

    report = compact_shard(stores, "shard", settings(), full=True)

    assert not report.requests[0].by_reference
    [ref] = plan_read(stores, load(stores)).fetched
    assert ref.layout == "structured"
    told = report.to_json()
    assert (told["stats_bytes"], report.requests[0].stats_seconds > 0) == (ref.stats_bytes, True)


@pytest.mark.parametrize("memory_bytes", [8_000, 2**30])
def test_slices_and_spills_give_the_same_run(memory_bytes: int) -> None:
    """However little memory there is, more tasks and files make no difference to readers."""
    stores = memory_stores()
    create(stores, RELATION)
    for number in range(6):
        append(stores, "shard", number, number + 1, [day(number, rows=60)])
    state, request, manifests = whole(stores, load(stores).since)
    before = snapshot(stores, "shard")

    made = merge_tasks(state, request, manifests, stores.settings, memory_bytes)
    compact_shard(stores, "shard", settings(memory_bytes=memory_bytes), full=True)

    assert (len(made) > 3) == (memory_bytes < 2**30)
    assert snapshot(stores, "shard") == before
    assert [len(batch.runs) for batch in load(stores).batches] == [1]


def test_slices_that_end_inside_of_row_groups_share_no_row() -> None:
    """Of a part's row groups some lie in a slice and some at its border."""
    stores = memory_stores()
    create(stores, RELATION, row_group_bytes=400, part_bytes=100_000)
    for number in range(6):
        append(stores, "shard", number, number + 1, [day(number, rows=60)])
    state, request, manifests = whole(stores, load(stores).since)
    assert max(len(ref.splits) for parts in manifests.values() for ref in parts) > 5

    memory = sum(ref.size_bytes for parts in manifests.values() for ref in parts) // 2

    made = merge_tasks(state, request, manifests, stores.settings, memory)
    report = compact_shard(stores, "shard", settings(memory_bytes=memory), full=True)

    assert len(made) > 3
    assert [request.outcome for request in report.requests] == ["applied"]
    assert sum(r.updates_out for r in report.requests) == sum(b.updates for b in request.batches)


STATES = Relation(0, (*COLUMNS, Column(3, "state", parse_type("string"))), (1, 3), (3, 1))


def states(number: int, of: int) -> pa.Table:
    """Return updates of which the last column has `of` different texts, and nulls."""
    rows = [(f"row {i}", i % 7, f"state {i % of}" if i % 5 else None) for i in range(number, 200)]
    return table(STATES, [(*row, number, 1) for row in rows])


@pytest.mark.parametrize("of", [3, 150])
@pytest.mark.parametrize("memory_bytes", [200_000, 2**30])
def test_texts_that_repeat_are_merged_as_codes(
    monkeypatch: pytest.MonkeyPatch, of: int, memory_bytes: int
) -> None:
    """And as texts where a run has too many of them, or the rows are put aside in between."""
    monkeypatch.setattr("strata.format.part.CODED_ROWS", 1)
    stores = memory_stores()
    big = {"part_bytes": 2**20, "row_group_bytes": 2**20}
    create(stores, STATES, write_format="structured", **big)
    for number in range(4):
        append(stores, "shard", number, number + 1, [states(number, 3 if number else of)])
    state, request, manifests = whole(stores, load(stores).since)
    before = snapshot(stores, "shard")
    (task,) = merge_tasks(state, request, manifests, stores.settings, 2**30)

    source = source_of(stores.blob, state)
    found = list(merged_rows(source, replace(task, memory_bytes=memory_bytes)))
    compact_shard(stores, "shard", settings(memory_bytes=memory_bytes), full=True)

    coded = {is_coded(chunk.schema.field("3").type) for chunk in found}
    assert not any(is_coded(chunk.schema.field("1").type) for chunk in found)
    assert coded == {memory_bytes == 2**30 and of == 3}
    assert snapshot(stores, "shard") == before
    assert [len(batch.runs) for batch in load(stores).batches] == [1]


def test_tasks_are_as_many_as_a_few_cores_can_share_evenly() -> None:
    stores = filled()
    state, request, manifests = whole(stores, 7)
    total = sum(ref.size_bytes for parts in manifests.values() for ref in parts)

    def count(least: float) -> int:  # as memory asks for: half of it is a task's
        return len(
            merge_tasks(state, request, manifests, stores.settings, int(2 * total / least) + 1)
        )

    assert [count(n) for n in (1, 2, 3, 4)] == [1, 2, 4, 4]


def test_a_task_done_twice_writes_the_same_blobs() -> None:
    stores = filled()
    state, request, manifests = whole(stores, 7)
    (task,) = merge_tasks(state, replace(request, since=7), manifests, stores.settings, 2**30)

    first, second = merge_slice(task), merge_slice(task)

    assert [p.ref for p in first.parts] == [p.ref for p in second.parts]


@pytest.mark.parametrize(("cores", "threads"), [(1, []), (2, [1])])
def test_a_task_merges_ahead_only_where_it_has_a_second_core(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: list[int]
) -> None:
    stores = filled()
    state, request, manifests = whole(stores, 7)
    (task,) = merge_tasks(state, replace(request, since=7), manifests, stores.settings, 2**30)
    wanted, begun = merge_slice(task), []

    def noted(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
        begun.append(1)
        return ahead(rows)

    monkeypatch.setattr("strata.compact.tasks.ahead", noted)

    assert on_cores(cores, merge_slice, task).parts == wanted.parts
    assert begun == threads


def test_tasks_tell_how_many_rows_they_merge() -> None:
    stores = filled()
    state, request, manifests = whole(stores, 7)
    refs = [ref for parts in manifests.values() for ref in parts]
    total = sum(ref.size_bytes for ref in refs)
    (alone,) = merge_tasks(state, request, manifests, stores.settings, 2**30)
    made = merge_tasks(state, request, manifests, stores.settings, int(total / 2))

    assert alone.weight == sum(ref.rows for ref in refs)
    assert len(made) > 1
    for task in made:
        merged_rows = sum(part.ref.rows for part in merge_slice(task).parts)
        assert merged_rows <= task.weight <= alone.weight


def test_a_lost_race_applies_nothing_and_deletes_nothing() -> None:
    stores = filled()

    def overtaken(function, items):
        results = list(serial(function, items))
        compact_shard(stores, "shard", settings(history_ms=1), full=True)
        yield from results

    before = set(stores.blob.live)  # type: ignore[attr-defined]
    report = compact_shard(stores, "shard", settings(history_ms=3), overtaken)

    after = load(stores)
    assert report.applied == 0
    assert "no longer in the spine" in report.not_applied[0]
    assert before <= set(stores.blob.live)  # type: ignore[attr-defined]
    assert sum(len(b.runs) for b in after.batches) == 1
    assert len(snapshot(stores, "shard")) == 20


def test_the_same_merge_by_two_workers_counts_once() -> None:
    stores = filled()

    def doubled(function, items):
        results = list(serial(function, items))
        compact_shard(stores, "shard", settings(history_ms=1))
        yield from results

    report = compact_shard(stores, "shard", settings(history_ms=1), doubled)

    assert all(r.applied for r in report.requests)
    assert len(snapshot(stores, "shard")) == 20


@pytest.mark.parametrize("damage", ["missing", "foreign"])
def test_a_damaged_input_applies_nothing(damage: str) -> None:
    stores = filled()
    blob = stores.blob
    assert isinstance(blob, MemoryBlob)
    refs = plan_read(stores, load(stores)).fetched
    if damage == "missing":
        del blob.live[refs[2].key]
    else:
        blob.live[refs[2].key] = blob.live[refs[3].key]
    before = load(stores)

    with pytest.raises(Corrupt) as caught:
        compact_shard(stores, "shard", settings(), full=True)

    assert caught.value.cure
    assert load(stores) == before


def test_a_merge_that_loses_rows_is_corrupt_and_applies_nothing() -> None:
    stores = filled(write_format="structured")
    before = load(stores)

    def careless(function, items):
        for result in serial(function, items):
            yield replace(result, parts=result.parts[1:])

    with pytest.raises(Corrupt, match="does not hold what its inputs hold") as caught:
        compact_shard(stores, "shard", settings(), careless, full=True)

    assert caught.value.details["shard"] == "shard"
    assert load(stores) == before


def test_parts_sorted_otherwise_are_brought_to_the_new_order() -> None:
    stores = filled()
    state = load(stores)
    turned = replace(state, relations=(*state.relations, Relation(1, COLUMNS, (1,), (2,))), since=7)
    request = full_request(turned.spine, 7)
    assert request is not None
    refs = {run.upper: list(run.parts) for run in plan_read(stores, state).runs}
    manifests = {b.manifest: refs[b.upper] for b in request.batches if b.manifest}
    (task,) = merge_tasks(turned, request, manifests, stores.settings, 2**30)

    source = source_of(stores.blob, turned)
    found = [row for t in merged_rows(source, task) for row in plain_rows(t, turned.relation)]

    assert found == sorted(found)
    assert len(found) == 20
    assert [part.ref.order for part in merge_slice(task).parts] == [(2, 1)]
    assert plan(turned, CompactSettings(), full=True).requests


def test_a_batch_that_another_one_replaced_meanwhile_is_fenced_and_not_corrupt() -> None:
    stores = filled()
    blob = stores.blob
    assert isinstance(blob, MemoryBlob)
    parts = [ref.key for ref in plan_read(stores, load(stores)).fetched]

    def overtaken(function, items):
        compact_shard(stores, "shard", settings(), full=True)
        for key in parts:
            blob.live.pop(key, None)
        yield from serial(function, items)

    with pytest.raises(Fenced, match="a batch was replaced while it was merged") as caught:
        compact_shard(stores, "shard", settings(), overtaken, full=True)

    assert caught.value.details["shard"] == "shard"
    assert caught.value.cure
