"""Rows are weighed as Arrow would lay them out anew, however they are sliced or chunked."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata.format.weigh import BLOCK_ROWS, MANY, Weighed, fitting, plain_bytes, plain_sizes
from tests.support.updates import relations, split, updates


def bits(value: Any, kind: pa.DataType) -> int:
    """Return the twin: what one value takes, with its bit of validity."""
    if pa.types.is_struct(kind):
        children = [None if value is None else value[field.name] for field in kind]
        return 1 + sum(bits(v, f.type) for v, f in zip(children, kind, strict=True))
    if pa.types.is_list(kind):
        return 33 + sum(bits(item, kind.value_type) for item in value or [])
    if pa.types.is_map(kind):
        entries = value or []
        return 33 + sum(1 + bits(k, kind.key_type) + bits(v, kind.item_type) for k, v in entries)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        raw = value.encode() if isinstance(value, str) else (value or b"")
        return 33 + 8 * len(raw)
    return 1 + int(kind.bit_width)


@given(st.data())
def test_first_rows_weigh_what_their_values_do(data: st.DataObject) -> None:
    table = data.draw(updates(data.draw(relations())))
    cuts = data.draw(st.lists(st.integers(0, 40), max_size=3))
    chunked = pa.Table.from_batches(split(table, cuts), table.schema)
    rows = [
        sum(bits(table[field.name][i].as_py(), field.type) for field in table.schema)
        for i in range(table.num_rows)
    ]
    totals = np.cumsum([0, *rows])

    found = plain_sizes(chunked, np.arange(table.num_rows + 1))

    assert found.tolist() == (totals // 8).tolist()
    weighed = Weighed(chunked)
    assert weighed.bits(np.arange(table.num_rows + 1)).tolist() == totals.tolist()
    first, last = sorted(data.draw(st.integers(0, table.num_rows)) for _ in range(2))
    assert weighed.between(first, last) == totals[last] - totals[first]
    rest = Weighed(table.slice(first))  # whose offsets begin anywhere
    assert rest.bits(np.arange(table.num_rows - first + 1)).tolist() == [
        total - totals[first] for total in totals[first:]
    ]
    limit = data.draw(st.integers(0, int(totals[-1]) // 8 + 1))
    fits = max([n for n, total in enumerate(totals) if total // 8 <= limit])
    wanted = max(fits, 1) if table.num_rows else 0
    assert fitting(chunked, limit) == wanted


@given(
    st.lists(st.lists(st.none() | st.text(max_size=5), min_size=4, max_size=4), min_size=1),
    st.integers(MANY - 1, MANY + 3),
    st.integers(0, 3),
)
def test_rows_of_many_texts_weigh_as_much_as_those_of_few(
    rows: list[list[str | None]], count: int, first: int
) -> None:
    texts = [pa.array([row[n % 4] for row in rows], pa.string()) for n in range(count)]
    table = pa.table({str(n): some for n, some in enumerate([*texts, pa.array(range(len(rows)))])})
    some = table.slice(min(first, len(rows)))
    found = Weighed(some).bits(np.arange(some.num_rows + 1))
    wanted = [sum(bits(row[f.name], f.type) for f in some.schema) for row in some.to_pylist()]
    assert found.tolist() == np.cumsum([0, *wanted]).tolist()


def test_what_lies_under_nulls_weighs_nothing() -> None:
    hidden = pa.StringArray.from_buffers(
        2,
        pa.array([0, 9, 10], pa.int32()).buffers()[1],
        pa.py_buffer(b"unseen...x"),
        pa.py_buffer(b"\x02"),
        1,
    )

    assert hidden.to_pylist() == [None, "x"]
    assert plain_bytes(pa.table({"a": hidden})) == plain_bytes(pa.table({"a": [None, "x"]}))
    assert Weighed(pa.table({"a": hidden})).between(0, 2) == 2 * 33 + 8

    ends = pa.array([0, 3, 4], pa.int32())
    lists = pa.ListArray.from_arrays(
        ends, pa.array([7, 8, 9, 1], pa.int32()), mask=pa.array([True, False])
    )
    assert lists.to_pylist() == [None, [1]]
    assert len(lists.values) == 4
    assert plain_bytes(pa.table({"a": lists})) == plain_bytes(
        pa.table({"a": [None, [1]]}).cast(pa.schema({"a": lists.type}))
    )
    assert Weighed(pa.table({"a": lists})).between(0, 2) == 2 * 33 + 33


def test_long_tables_are_cut_at_blocks() -> None:
    rows = pa.table({"a": np.arange(3 * BLOCK_ROWS + 5)})

    assert fitting(rows, plain_bytes(rows)) == rows.num_rows
    assert fitting(rows, plain_bytes(rows) - 1) == 3 * BLOCK_ROWS
    assert fitting(rows, plain_bytes(rows) // 2) == BLOCK_ROWS
