"""A consolidated read in stretches is the merge of everything: any runs, times, slices, columns."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.decide.plan import plan_read
from strata.format.columns import D, T, child
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import ReadSettings
from strata.model.types import parse_type
from strata.parts.fetch import sorted_runs, source_of
from strata.parts.prefetch import Wanted, part_ahead
from strata.read import merged as module
from strata.read.as_of import as_of_view
from strata.read.merged import merged, stretches
from strata.read.scan import scan
from strata.state.schema import AddColumn, Change, DropColumn, WidenColumn
from strata.state.state import State
from strata.store.open import Stores
from strata.updates.merge import merge
from strata.updates.order import encode_keys
from strata.updates.slices import WHOLE, Slice
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION: Final = Relation(
    0,
    (
        Column(1, "id", parse_type("int64")),
        Column(2, "n", parse_type("int32")),
        Column(3, "s", parse_type("string")),
    ),
    (1,),
    (),
)
CHANGES: Final = (
    AddColumn("late", parse_type("int64"), nullable=True),
    DropColumn("n"),
    DropColumn("s"),
    WidenColumn("n", parse_type("int64")),
)
AHEAD: Final = (ReadSettings(fetchers=1), ReadSettings(fetchers=3, ahead_bytes=3000))


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Stretches are as small as the parts of these shards."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "LEAST_ROWS", 2)
        patched.setattr(module, "STRETCH_BYTES", 3000)
        yield


@st.composite
def shards(draw: st.DrawFn) -> Stores:
    """Draw a shard of batches that lie apart, overlap, or take back what others added."""
    stores = memory_stores()
    layout = draw(st.sampled_from(["row", "both", "structured"]))
    create(stores, RELATION, part_bytes=draw(st.sampled_from([600, 4000])), write_format=layout)
    random = Random(draw(st.integers(0, 2**32)))
    for number in range(draw(st.integers(1, 4))):
        runs = []
        for _ in range(draw(st.integers(1, 2))):
            low, width = random.choice((0, 100, 100 * number)), random.choice((3, 60, 200))
            times = random.choice(((5 * number,), tuple(range(5 * number, 5 * number + 5))))
            rows = [
                (
                    low + random.randrange(width),
                    random.choice((1, 2, None)),
                    random.choice("ab"),
                    random.choice(times),
                    random.choice((1, 1, -1, 2)),
                )
                for _ in range(random.choice((1, 20, 150)))
            ]
            runs.append(table(RELATION, rows))
        append(stores, "shard", 5 * number, 5 * number + 5, runs)
        if draw(st.integers(0, 5)) == 0:
            _changed(stores, draw(st.sampled_from(CHANGES)))
            break
    return stores


def _changed(stores: Stores, change: Change) -> None:
    Machine(stores).evolve("shard", change)


def twin(
    stores: Stores, state: State, as_of: int, within: Slice, after: int | None
) -> list[tuple[object, ...]]:
    """Return the rows of one merge of all runs."""
    source = source_of(stores.blob, state)
    runs = [run.parts for run in plan_read(stores, state, as_of=as_of).runs]
    heads = [
        (as_of_view(rows, as_of, after=after) for rows in map(_table, run))
        for parts in runs
        for run in sorted_runs(source, parts, within=within)
    ]
    return [row for rows in merge(heads, state.relation) for row in plain(rows, state.relation)]


def _table(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows


def plain(rows: pa.Table, relation: Relation) -> list[tuple[object, ...]]:
    names = [*(child(c.id) for c in relation.columns), T, D]
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


@settings(max_examples=tries(40, 2000), deadline=None)
@given(shards(), st.data())
def test_stretches_are_the_merge_of_everything(stores: Stores, data: st.DataObject) -> None:
    state = Machine(stores).load("shard")
    relation = state.relation
    as_of = data.draw(st.integers(0, state.upper - 1))
    after = data.draw(st.one_of(st.none(), st.integers(-1, as_of)))
    edges = sorted(data.draw(st.sets(st.integers(-1, 260), max_size=2)))
    keys = encode_keys(pa.table({"1": pa.array(edges, pa.int64())}), _ids(), 64).to_pylist()
    slices = [Slice(a, b) for a, b in zip([b"", *keys], [*keys, None], strict=True)]
    within = data.draw(st.sampled_from([*slices, WHOLE]))
    source = source_of(stores.blob, state)
    runs = [run.parts for run in plan_read(stores, state, as_of=as_of).runs]

    found = merged(
        source, runs, as_of, within, after=after, settings=data.draw(st.sampled_from(AHEAD))
    )

    rows = [row for some in found for row in plain(some, relation)]
    assert rows == twin(stores, state, as_of, within, after)


def _ids() -> Relation:
    return Relation(0, RELATION.columns[:1], (1,), ())


@settings(max_examples=tries(15, 500), deadline=None)
@given(shards(), st.data())
def test_chosen_columns_are_those_of_whole_rows(stores: Stores, data: st.DataObject) -> None:
    state = Machine(stores).load("shard")
    names = [c.name for c in state.relation.columns]
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True))
    plan = plan_read(stores, state)

    found = scan(stores, state, plan, columns=chosen, consolidate=True)

    whole = [
        row for batch in scan(stores, state, plan, consolidate=True) for row in batch.to_pylist()
    ]
    shown = [*chosen, "t", "d"]
    rows = [tuple(row.values()) for batch in found for row in batch.to_pylist()]
    assert rows == [tuple(row[name] for name in shown) for row in whole]


def apart(stores: Stores) -> list[bool]:
    """Return for each stretch of a shard whether its part is only decoded."""
    state = Machine(stores).load("shard")
    runs = [run.parts for run in plan_read(stores, state).runs]
    return [one.alone for one in stretches(runs, state.relations)]


def rows_at(low: int, time: int) -> pa.Table:
    return table(RELATION, [(low + i, i, "a", time, 1) for i in range(50)])


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([rows_at(100, 1)], [True, True]),
        ([rows_at(50, 1)], [True, True]),  # begins behind the last key
        ([rows_at(49, 1)], [False]),  # one key in both
        ([table(RELATION, [(60, 1, "a", 1, 1), (61, 1, "a", 2, 1)])], [True, False]),  # two times
        ([table(RELATION, [(60, 1, "a", 1, 1)])], [True, False]),  # one row
        ([rows_at(100, 1), rows_at(120, 2)], [True, False]),
    ],
)
def test_a_part_is_only_decoded_where_no_row_can_meet_another(
    later: list[pa.Table], expected: list[bool]
) -> None:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=1 << 20)
    append(stores, "shard", 0, 1, [rows_at(0, 0)])
    append(stores, "shard", 1, 5, later)

    assert apart(stores) == expected


@pytest.mark.parametrize(("change", "alone"), [(CHANGES[0], True), (CHANGES[2], False)])
def test_rows_that_a_dropped_column_told_apart_are_added_up(change: Change, alone: bool) -> None:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=1 << 20)
    rows = [(i // 2, 1, "ab"[i % 2], 0, 1) for i in range(50)]
    append(stores, "shard", 0, 1, [table(RELATION, rows)])

    _changed(stores, change)

    assert apart(stores) == [alone]
    state = Machine(stores).load("shard")
    found = scan(stores, state, plan_read(stores, state), consolidate=True)
    counts = [row["d"] for batch in found for row in batch.to_pylist()]
    assert counts == ([1] * 50 if alone else [2] * 25)


def test_only_the_requested_columns_of_a_lone_part_are_decoded() -> None:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=1 << 20)
    append(stores, "shard", 0, 1, [rows_at(0, 0)])
    state = Machine(stores).load("shard")
    asked = []

    def noted(*args: object, **options: object) -> object:
        asked.append(next(a for a in args if isinstance(a, Wanted)).columns)
        return part_ahead(*args, **options)  # type: ignore[arg-type]

    with patch.object(module, "part_ahead", noted):
        list(scan(stores, state, plan_read(stores, state), columns=["s"], consolidate=True))

    assert asked == [frozenset({3})]


def test_a_stretch_ends_where_no_part_reaches_on() -> None:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=1 << 20)
    append(stores, "shard", 0, 1, [rows_at(0, 0)])
    state = Machine(stores).load("shard")
    [run] = plan_read(stores, state).runs
    widths = (1, 1, 1, 1, 1, 1, 250, 250, 1, 1)
    many = [_at(run.parts[0], 100 * number, width) for number, width in enumerate(widths)]

    found = stretches([many[:5], many[5:]], state.relations)

    assert [sum(map(len, one.runs)) for one in found] == [1, 1, 1, 1, 1, 1, 4]
    assert [one.alone for one in found] == [True] * 6 + [False]


def _at(ref: PartRef, low: int, width: int) -> PartRef:
    keys = pa.table({"1": pa.array([low, low + width], pa.int64())})
    first, last = encode_keys(keys, _ids(), 64).to_pylist()
    return replace(ref, key_low=first, key_high=last, splits=())
