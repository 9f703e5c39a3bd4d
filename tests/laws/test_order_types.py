"""Laws 4 and 5 for every type: one order, whether by rows, by bytes or by Python's sort."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.columns import updates_schema
from strata.format.values.sortable import sortable_bytes
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, parse_type
from strata.updates.consolidate import consolidate
from strata.updates.merge import merge
from strata.updates.order import (
    compare_adjacent,
    encode_keys,
    equal_adjacent,
    is_sorted,
    sort_names,
    sort_updates,
)
from tests.support.sizes import few_a_type
from tests.support.values import columns, every_type, plain, sort_key, to_array

Rows = list[tuple[bool | None, Any, int, int]]  # two columns, t, d


def relation_of(column_type: ColumnType) -> Relation:
    """Return a relation in which rows often have to look at the second column."""
    columns_ = (Column(1, "flag", parse_type("bool")), Column(2, "c", column_type))
    return Relation(0, columns_, (1, 2), ())


def table(rows: Rows, relation: Relation) -> pa.Table:
    schema = updates_schema(relation)
    cells = to_array([row[1] for row in rows], relation.columns[1].type)
    flags, times, diffs = (
        pa.array([row[i] for row in rows], schema.field(i).type) for i in (0, 2, 3)
    )
    return pa.Table.from_arrays([flags, cells, times, diffs], schema=schema)


def keys_of(rows: pa.Table, relation: Relation) -> list[tuple[Any, ...]]:
    """Return what each row sorts by, in Python."""
    types = [column.type for column in relation.columns]
    cells = [[sort_key(cell, t) for cell in plain(rows.column(i))] for i, t in enumerate(types)]
    return list(zip(*cells, rows["t"].to_pylist(), strict=True))


def contents(rows: pa.Table) -> Counter[str]:
    """Return how often each (values, t) occurs: consolidation by counting."""
    counts: Counter[str] = Counter()
    for *update, diff in zip(*(plain(column) for column in rows.columns), strict=True):
        counts[repr(update)] += diff
    return Counter({key: count for key, count in counts.items() if count})


@st.composite
def drawn(draw: st.DrawFn, column_type: ColumnType) -> tuple[pa.Table, Relation]:
    """Draw unsorted updates of a type."""
    cells = draw(columns(column_type, max_rows=8))
    small = st.tuples(st.sampled_from([False, None]), st.integers(0, 1), st.integers(-2, 2))
    rest = draw(st.lists(small, min_size=len(cells), max_size=len(cells)))
    relation = relation_of(column_type)
    rows = [(flag, cell, t, d) for cell, (flag, t, d) in zip(cells, rest, strict=True)]
    return table(rows, relation), relation


@pytest.mark.parametrize("column_type", every_type(), ids=str)
@few_a_type
@given(data=st.data())
def test_updates_sort_and_compare_like_python_sorts_them(
    column_type: ColumnType, data: st.DataObject
) -> None:
    rows, relation = data.draw(drawn(column_type))

    result = sort_updates(rows, relation)

    keys = keys_of(result, relation)
    assert keys == sorted(keys_of(rows, relation))
    assert contents(result) == contents(rows)
    assert is_sorted(result, relation)
    _bytes_compare_like_rows(rows, relation)


def _bytes_compare_like_rows(rows: pa.Table, relation: Relation) -> None:
    names = sort_names(relation)

    keys = keys_of(rows, relation)
    encoded = encode_keys(rows, relation).to_pylist()

    signs = [(a > b) - (a < b) for a, b in pairwise(keys)]
    assert compare_adjacent(rows, names).tolist() == signs
    assert equal_adjacent(rows, names).tolist() == [sign == 0 for sign in signs]
    for (*a, _), one in zip(keys, encoded, strict=True):
        for (*b, _), other in zip(keys, encoded, strict=True):
            assert (a < b) == (one < other)
            assert a == b or not other.startswith(one)


@pytest.mark.parametrize("column_type", every_type(), ids=str)
@few_a_type
@given(data=st.data())
def test_consolidation_and_merge_count_like_a_counter(
    column_type: ColumnType, data: st.DataObject
) -> None:
    relation = relation_of(column_type)
    runs = [run for run, _ in data.draw(st.lists(drawn(column_type), max_size=3))]
    size = data.draw(st.sampled_from([1, 300, 10_000_000]))
    expected = contents(pa.concat_tables([table([], relation), *runs]))
    sources = [sort_updates(run, relation) for run in runs]

    whole = pa.concat_tables([table([], relation), *runs])
    one = consolidate(sort_updates(whole, relation), relation)
    merged = pa.concat_tables(
        [
            table([], relation),
            *merge(
                [run.to_batches(max_chunksize=2) for run in sources], relation, memory_bytes=size
            ),
        ]
    )

    for result in (one, merged):
        assert contents(result) == expected
        assert result.num_rows == len(expected)
        assert is_sorted(result, relation)


@pytest.mark.parametrize(
    ("declared", "ordered"),
    [
        ("list<int32>", [[], [-1], [1], [1, 2], [1, None], [2], [None], [None, 1], None]),
        ("map<int32>",
         [[], [("", 0)], [("a", 1)], [("a", 1), ("b", 0)], [("a", None)], [("b", 0)]]),
        ("record<a: int32, b: string>",
         [{"a": 1, "b": "z"}, {"a": 2, "b": ""}, {"a": 2, "b": None}, {"a": None, "b": "a"},
          {"a": None, "b": None}, None]),
        ("list<list<string>>",
         [[], [[]], [[], []], [["\x00"]], [["\x00", ""]], [["\x00a"]], [None]]),
        ("list<bytes>",
         [[], [b""], [b"", b""], [b"\x00"], [b"\x00\x01"], [b"\x00\xff"], [b"\xff"]]),
    ],
)  # fmt: skip
def test_the_order_is(declared: str, ordered: list[Any]) -> None:
    column_type = parse_type(declared)
    keys = sortable_bytes(to_array(ordered, column_type)).to_pylist()

    assert keys == sorted(set(keys))
    relation = relation_of(column_type)
    shuffled = table([(True, cell, 0, 1) for cell in ordered[::-1]], relation)
    assert plain(sort_updates(shuffled, relation).column(1)) == ordered
