"""A merge across relation versions says the same as its inputs, and finds inputs that do not."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from strata.audit.parts import PartTask, check_part
from strata.compact import compact_shard
from strata.compact.tasks import TaskOutput
from strata.decide.plan import plan_read
from strata.errors import Corrupt
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.schema import Column, Relation
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.parts.relation_change import Crossed, crosses, expected_shift, migrated
from strata.parts.write import write_batch, write_parts
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from strata.state.state import State
from strata.stats import collect
from strata.store.keys import part_prefix
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores, settings, snapshot
from tests.support.updates import table

INT, TEXT = parse_type("int32"), parse_type("string")
RELATION = Relation(0, (Column(1, "k", TEXT), Column(2, "b", INT), Column(3, "c", INT)), (1,), ())


def load(stores: Stores) -> State:
    return Machine(stores).load("shard")


def evolve(stores: Stores, *changes: Change) -> Relation:
    for change in changes:
        Machine(stores).evolve("shard", change)
    return load(stores).relation


def filled(rows: int = 6, **changes: object) -> Stores:
    """Return a shard in which rows differ only in column b, which sorts before c."""
    stores = memory_stores()
    create(stores, RELATION, **changes)
    for day in range(2):
        updates = [(f"k{i % 3}", i, rows - i, day, 1) for i in range(rows)]
        append(stores, "shard", day, day + 1, [table(RELATION, updates)])
    return stores


def counted(stores: Stores) -> Counter[tuple[object, ...]]:
    return Counter({row[:-2]: row[-1] for row in snapshot(stores, "shard")})


@pytest.mark.parametrize("memory_bytes", [2_000, 2**30])
@pytest.mark.parametrize("layout", ["row", "both", "structured"])
def test_rows_that_differ_only_in_a_dropped_column_become_one(
    layout: str, memory_bytes: int
) -> None:
    stores = filled(60, write_format=layout, row_group_bytes=1024, part_bytes=1024)
    evolve(stores, DropColumn("b"), DropColumn("c"))
    before = counted(stores)
    assert before == {("k0",): 40, ("k1",): 40, ("k2",): 40}

    report = compact_shard(
        stores, "shard", settings(history_ms=1, memory_bytes=memory_bytes), full=True
    )

    assert counted(stores) == before
    first = report.requests[:-1] or report.requests  # with little memory: one for each batch
    assert sum(request.updates_in for request in first) == 120
    assert report.requests[-1].updates_out == 3
    (batch,) = load(stores).batches
    assert batch.versions == (2,)
    assert {ref.relation_version for ref in plan_read(stores, load(stores)).fetched} == {2}


def test_a_row_is_taken_back_in_columns_that_it_was_not_written_with() -> None:
    stores = filled()
    relation = evolve(stores, DropColumn("b"), AddColumn("b", INT, default=50))
    taken = [("k0", 6, 50, 2, -2), ("k0", 3, 50, 2, -2), ("k1", 5, 5, 2, -2)]
    append(stores, "shard", 2, 3, [table(relation, taken)])

    compact_shard(stores, "shard", settings(history_ms=1), full=True)

    assert counted(stores) == {
        ("k1", 5, 50): 2,
        ("k1", 2, 50): 2,
        ("k2", 4, 50): 2,
        ("k2", 1, 50): 2,
        ("k1", 5, 5): -2,
    }


def test_one_run_of_an_old_version_is_brought_to_the_newest_when_all_is_asked_for() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    append(stores, "shard", 0, 1, [table(RELATION, [("k", 1, 2, 0, 1)])])
    evolve(stores, RenameColumn("b", "x"))
    compact_shard(stores, "shard", settings(), full=True)
    assert load(stores).batches[0].versions == (1,)

    seqno = load(stores).seqno
    assert compact_shard(stores, "shard", settings(), full=True).requests == ()
    assert load(stores).seqno == seqno


@pytest.mark.parametrize(
    ("change", "crossing"),
    [
        (RenameColumn("b", "x"), False),
        (AddColumn("x", INT), False),
        (AddColumn("x", INT, default=0), True),
        (DropColumn("b"), True),
        (WidenColumn("b", parse_type("int64")), True),
    ],
    ids=str,
)
def test_a_version_crosses_where_a_digest_may_change(change: Change, crossing: bool) -> None:
    stores = filled()
    evolve(stores, change)

    assert crosses(0, load(stores).relations) is crossing
    assert not crosses(1, load(stores).relations)


def test_a_change_of_relation_while_a_merge_runs_is_harmless() -> None:
    stores = filled()
    evolve(stores, DropColumn("b"))

    def overtaken(function, items):
        results = list(serial(function, items))
        evolve(stores, AddColumn("b", INT, default=50))
        yield from results

    report = compact_shard(stores, "shard", settings(), overtaken, full=True)

    assert report.applied == 1
    assert load(stores).batches[0].versions == (1,)
    assert set(row[2] for row in counted(stores)) == {50}


@pytest.mark.parametrize("lie", ["lost", "digest", "row"])
def test_a_merge_across_versions_does_not_hide_a_lie(lie: str) -> None:
    """The recorded digest is compared in the columns that the part was written with."""
    stores = filled()
    evolve(stores, DropColumn("b"))
    before = load(stores)

    def lying(function, items):
        for result in serial(function, items):
            crossed = result.crossed
            if lie == "lost":
                yield replace(result, crossed=crossed[1:])
            elif lie == "digest":
                first = replace(crossed[0], written=crossed[0].written + 1)
                yield replace(result, crossed=(first, *crossed[1:]))
            else:
                part = result.parts[0]
                wrong = replace(part.ref, digest=part.ref.digest ^ 1)
                yield replace(result, parts=(replace(part, ref=wrong), *result.parts[1:]))

    with pytest.raises(Corrupt, match="does not hold"):
        compact_shard(stores, "shard", settings(), lying, full=True)
    assert load(stores) == before


@pytest.mark.parametrize("change", [DropColumn("b"), AddColumn("x", INT, default=1)], ids=str)
def test_an_input_that_is_not_what_was_recorded_is_found(change: Change) -> None:
    stores = filled()
    state = load(stores)
    rows = table(RELATION, [("k", 1, 2, 2, 1)])
    parts = write_parts(
        stores.blob,
        part_prefix("shard"),
        [rows],
        RELATION,
        layout="both",
        description=Description(2, 3, MIN_TIME),
        part_bytes=4096,
        row_group_bytes=4096,
        stats_spec=state.spec.stats,
    )
    lying = [replace(part, ref=replace(part.ref, digest=part.ref.digest ^ 1)) for part in parts]
    batch = write_batch(stores.blob, "shard", lying, 2, 3, MIN_TIME)
    Machine(stores).append("shard", token="lie", lower=2, upper=3, batch=batch)
    evolve(stores, change)

    with pytest.raises(Corrupt, match="recorded when it was written"):
        compact_shard(stores, "shard", settings(), full=True)


@pytest.mark.parametrize(("low", "outcome"), [(50, "clean"), (51, "mismatch")])
def test_the_format_check_judges_statistics_of_columns_that_a_part_predates(
    low: int, outcome: str
) -> None:
    """A backfill after the change collects them; they must hold as the others do."""
    stores = filled(3)
    evolve(stores, AddColumn("x", INT, default=50))
    state = load(stores)
    ref = plan_read(stores, state).fetched[0]
    newest = migrated(table(RELATION, [("k", 1, 1, 0, 1)] * 3), RELATION, state.relation)
    only = Relation(1, (state.relation.by_id[4],), (), ())
    stats = collect(newest, only)
    bounds = {**stats["s.4"][0].as_py(), "low": low, "high": low}
    stats = stats.set_column(1, "s.4", pa.array([bounds], stats["s.4"].type))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, stats.schema) as writer:
        writer.write_batch(stats)

    recorded = sink.getvalue().to_pybytes()
    task = PartTask("run", "shard", stores.settings, ref, state.relations, recorded)

    assert check_part(task).verdict.outcome == outcome


def test_a_shift_is_of_all_tasks_together() -> None:
    stores = filled()
    evolve(stores, DropColumn("b"))
    state = load(stores)
    refs = plan_read(stores, state).fetched
    halves = [
        Crossed(ref.key, part, 5)
        for ref in refs
        for part in (ref.digest // 2, ref.digest - ref.digest // 2)
    ]

    shift = expected_shift(refs, halves, state.relations, "shard")

    assert shift == (sum(10 - ref.digest for ref in refs)) % 2**64
    with pytest.raises(Corrupt):
        expected_shift(refs, halves[1:], state.relations, "shard")


def test_migrated_rows_have_the_newest_columns() -> None:
    new = Relation(
        1,
        (Column(1, "k", TEXT), Column(3, "c", parse_type("int64")), Column(4, "x", INT, default=7)),
        (1,),
        (),
    )
    rows = migrated(table(RELATION, [("k", 1, 2, 0, 1)]), RELATION, new)

    assert rows.select(updates_schema(new).names).schema.types == updates_schema(new).types
    assert rows.to_pylist() == [{"1": "k", "3": 2, "4": 7, "t": 0, "d": 1}]
    assert isinstance(TaskOutput(()).crossed, tuple)
