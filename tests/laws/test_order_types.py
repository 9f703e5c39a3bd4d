"""Laws 4 and 5 for every type: one order, whether by rows, by bytes or by Python's sort."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.columns import updates_schema
from strata.format.sortable import sortable_bytes
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
from tests.values import columns, every_type, plain, sort_key, to_array

Rows = list[tuple[Any, int, int]]  # value, t, d


def relation_of(column_type: ColumnType) -> Relation:
    return Relation(0, (Column(1, "c", column_type),), (1,), ())


def table(rows: Rows, relation: Relation) -> pa.Table:
    schema = updates_schema(relation)
    cells = to_array([row[0] for row in rows], relation.columns[0].type)
    times, diffs = (pa.array([row[i] for row in rows], pa.int64()) for i in (1, 2))
    return pa.Table.from_arrays([cells, times, diffs], schema=schema)


def keys_of(rows: pa.Table, relation: Relation) -> list[tuple[Any, int]]:
    """Return what each row sorts by, in Python."""
    cells = plain(rows.column(0))
    pairs = zip(cells, rows["t"].to_pylist(), strict=True)
    return [(sort_key(cell, relation.columns[0].type), t) for cell, t in pairs]


def contents(rows: pa.Table) -> Counter[str]:
    """Return how often each (value, t) occurs: consolidation by counting."""
    counts: Counter[str] = Counter()
    for cell, t, d in zip(plain(rows.column(0)), *(rows[n].to_pylist() for n in "td"), strict=True):
        counts[repr((cell, t))] += d
    return Counter({key: count for key, count in counts.items() if count})


@st.composite
def drawn(draw: st.DrawFn, column_type: ColumnType) -> tuple[pa.Table, Relation]:
    """Draw unsorted updates of one column."""
    cells = draw(columns(column_type, max_rows=8))
    small = st.tuples(st.integers(0, 1), st.integers(-2, 2))
    rest = draw(st.lists(small, min_size=len(cells), max_size=len(cells)))
    relation = relation_of(column_type)
    return table(
        [(cell, *pair) for cell, pair in zip(cells, rest, strict=True)], relation
    ), relation


@pytest.mark.parametrize("column_type", every_type(), ids=str)
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
    for (a, _), one in zip(keys, encoded, strict=True):
        for (b, _), other in zip(keys, encoded, strict=True):
            assert (a < b) == (one < other)
            assert a == b or not other.startswith(one)


@pytest.mark.parametrize("column_type", every_type(), ids=str)
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
        [table([], relation),
         *merge([run.to_batches(max_chunksize=2) for run in sources], relation, memory_bytes=size)]
    )  # fmt: skip

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
    shuffled = table([(cell, 0, 1) for cell in ordered[::-1]], relation)
    assert plain(sort_updates(shuffled, relation).column(0)) == ordered
