"""A merge in two passes, of batches in another sort order or relation, writes the rows of one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.audit.batches import look
from strata.compact import compact_shard, plan, preview, rewrite, stretches, tasks
from strata.compact.report import CompactReport
from strata.errors import Corrupt
from strata.format.manifest import part_refs
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts import relation_change
from strata.parts.manifests import load_manifest_of
from strata.read.scan import read_updates
from strata.state.schema import AddColumn, Change, DropColumn, SortBy, WidenColumn
from strata.state.transitions import advance_since
from strata.store.open import Stores
from tests.support.paged import cut
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores, snapshot
from tests.support.stored import settings as of_compaction
from tests.support.updates import table

RELATION = Relation(
    0,
    (
        Column(1, "c", parse_type("string")),
        Column(2, "n", parse_type("int32")),
        Column(3, "x", parse_type("string")),
    ),
    (1,),
    (),
)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 60).map(lambda n: f"{n * 7 % 61:03}{'y' * (n % 40)}"),
        st.integers(-9, 9),
        st.sampled_from(["a", "b"]),
        st.sampled_from([1, 1, 1, -1]),
    ),
    min_size=1,
    max_size=40,
)
BY_N, BY_X = SortBy(("n",)), SortBy(("x", "n"))
ADDED = AddColumn("z", parse_type("string"), default="none")
CHANGES: tuple[Sequence[Change], ...] = (
    (BY_N,),
    (BY_X,),
    (DropColumn("x"),),
    (DropColumn("x"), BY_N),
    (WidenColumn("n", parse_type("int64")), BY_N),
    (ADDED, BY_X),
    (BY_N, ADDED),
    (ADDED,),
)


@contextmanager
def small(task_bytes: int, parts: int = 100_000) -> Iterator[None]:
    """Let a task read about so many bytes, and call a merge of so many parts one of very many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "SMALL_TASK", task_bytes)
        patch.setattr(tasks, "TASK_PARTS", 0)
        patch.setattr(rewrite, "STRETCH_PARTS", parts)
        patch.setattr(stretches, "STRETCH_PARTS", parts)
        patch.setattr(rewrite, "PIECE_PARTS", 2)
        yield


def stored(
    runs: Sequence[list[tuple[Any, ...]]],
    changes: Sequence[Change],
    since: int,
    part_bytes: int = 600,
) -> Stores:
    """Return a shard whose last batch is newer than the changes, in small parts."""
    stores = memory_stores()
    create(stores, RELATION, part_bytes=part_bytes, row_group_bytes=part_bytes // 2)
    for at, rows in enumerate(runs[:-1]):
        found = [(*row[:3], at, row[3]) for row in rows]
        append(stores, "shard", at, at + 1, [table(RELATION, found[::2]), table(RELATION, found)])
    machine = Machine(stores)
    for change in changes:
        machine.evolve("shard", change)
    relation, at = machine.load("shard").relation, len(runs) - 1
    places = {"c": 0, "n": 1, "x": 2}
    found = [
        (*("new" if (i := places.get(c.name)) is None else row[i] for c in relation.columns), at, 1)
        for row in runs[-1]
    ]
    append(stores, "shard", at, at + 1, [table(relation, found)])
    machine.apply("shard", partial(advance_since, since=since))
    return stores


def rows_of(stores: Stores) -> pa.Table:
    """Return the rows of the only batch in the order of its parts, after a look at its figures."""
    state = Machine(stores).load("shard")
    filled = [batch for batch in state.batches if batch.manifest]
    assert len(filled) <= 1
    assert all(run.order == state.relation.sort_ids for b in filled for run in b.runs)
    assert [finding for one in look(stores, state) for finding in one.findings] == []
    refs = part_refs(load_manifest_of(stores.blob, "shard", filled[0])) if filled else []
    rows = [read_updates(stores, state, ref) for ref in refs]
    return pa.concat_tables(rows).combine_chunks() if rows else pa.table({})


def merged(stores: Stores, **options: int) -> CompactReport:
    return compact_shard(stores, "shard", of_compaction(**options), full=True)


@settings(max_examples=tries(12, 300), deadline=None)
@given(
    runs=st.lists(ROWS, min_size=2, max_size=4),
    changes=st.sampled_from(CHANGES),
    task_bytes=st.sampled_from([1, 1500, 5000]),
    parts=st.sampled_from([1, 3, 100_000]),
    paged=st.booleans(),
    data=st.data(),
)
def test_the_rows_are_those_of_a_merge_in_one_pass(
    runs: list[list[tuple[Any, ...]]],
    changes: Sequence[Change],
    task_bytes: int,
    parts: int,
    paged: bool,
    data: st.DataObject,
) -> None:
    since = data.draw(st.integers(0, len(runs) - 1))
    with cut(*((2, 2) if paged else (10_000,))):
        plain, other = (stored(runs, changes, since) for _ in range(2))
        before = snapshot(plain, "shard")
        merged(plain)
        with small(task_bytes, parts):
            merged(other)

    assert rows_of(other).equals(rows_of(plain))
    assert snapshot(other, "shard") == before


def letters(number: int) -> str:
    return f"{number * 2654435761 % 2**32:08x}" * 4


def large(changes: Sequence[Change]) -> Stores:
    rows = [(letters(n), n * 31 % 97, "a", 1) for n in range(300)]
    return stored([rows, rows[100:200], rows[:5]], changes, 0, 3000)


def dying(after: int) -> Callable[..., Iterator[Any]]:
    def run(function: Callable[..., Any], items: Sequence[Any]) -> Iterator[Any]:
        for number, item in enumerate(items):
            if number == after:
                raise RuntimeError("the run was killed")
            yield function(item)

    return run


@pytest.mark.parametrize("changes", [(BY_N,), (DropColumn("x"), BY_N)])
def test_many_tasks_write_a_run_each_and_the_next_round_merges_them(
    changes: Sequence[Change],
) -> None:
    stores, plain = large(changes), large(changes)
    merged(plain)
    with small(8_000):
        state = Machine(stores).load("shard")
        made = plan(state, of_compaction().compact, full=True)
        shown = preview(stores, "shard", of_compaction(), full=True)
        report = merged(stores)
        last = report.requests[-1]

    assert made.more
    assert [request.outcome for request in shown.requests] == ["planned"] * 2
    assert all("written anew before it is merged" in r.reason for r in report.requests[:-1])
    assert report.requests[0].tasks > 3
    assert last.runs_in > len(made.requests) + 1
    assert (report.runs_before, report.runs_after) == (5, 1)
    assert report.idle_reason is None
    assert rows_of(stores).equals(rows_of(plain))


@pytest.mark.parametrize("changes", [(BY_N,), (DropColumn("x"), BY_N), (ADDED, BY_X)])
def test_a_killed_rewrite_goes_on_where_it_was(changes: Sequence[Change]) -> None:
    stores, plain = large(changes), large(changes)
    with small(8_000):
        undisturbed = merged(plain)
        with pytest.raises(RuntimeError, match="killed"):
            compact_shard(stores, "shard", of_compaction(chunk_bytes=1), dying(3), full=True)
        kept = Machine(stores).load("shard").merging
        report = merged(stores, chunk_bytes=1)

    assert [progress.done for progress in kept] == [3]
    assert report.requests[0].resumed == 3
    assert report.requests[0].tasks == undisturbed.requests[0].tasks
    assert rows_of(stores).equals(rows_of(plain))
    assert Machine(stores).load("shard").merging == ()


def test_parts_that_only_lack_a_column_are_kept_once_they_are_written_anew() -> None:
    stores = large((ADDED,))
    with small(2**26, parts=2):
        report = merged(stores)

    anew = [r for r in report.requests if "written anew" in r.reason]
    assert [r.outcome for r in anew] == ["applied", "applied"]
    assert all(
        run.order == (1, 2, 3, 4) for b in Machine(stores).load("shard").batches for run in b.runs
    )


def test_a_part_that_contradicts_its_digest_stops_the_rewrite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores = large((DropColumn("x"), BY_N))
    before = Machine(stores).load("shard")
    hashes = relation_change.row_hashes
    monkeypatch.setattr(relation_change, "row_hashes", lambda *args: hashes(*args) ^ 1)

    with small(8_000), pytest.raises(Corrupt, match="does not hold what was recorded"):
        merged(stores)
    assert Machine(stores).load("shard").batches == before.batches
