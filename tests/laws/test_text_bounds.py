"""The least and the greatest text, and lists as bytes: kernels beside their slow twins."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from strata.format.values import sortable
from strata.stats.flat import min_max

LONG = ["", "\0", "a", "a\0", "a\0\0", "aaaaaaaa", "aaaaaaaa\0", "aaaaaaaab", "é", "a" * 30]
texts = st.none() | st.sampled_from(LONG) | st.text("ab\0", max_size=12)
numbers = st.none() | st.integers(-(2**31), 2**31 - 1)


def sliced(data: st.DataObject, values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a part of a longer array, and where they are null, nothing's bytes."""
    array = pa.array([*values[:2], *values, *values[:1]], kind)
    return array.slice(len(values[:2]), len(values))


@given(st.data(), st.lists(texts, max_size=20), st.sampled_from([pa.string(), pa.binary()]))
def test_bounds_of_texts_are_those_that_arrow_finds(
    data: st.DataObject, values: list[str | None], kind: pa.DataType
) -> None:
    array = sliced(
        data, [v if v is None or kind == pa.string() else v.encode() for v in values], kind
    )
    wanted = pc.min_max(array.cast(pa.binary()))

    found = min_max(array)

    known = [None if end is None else end.cast(pa.binary()).as_py() for end in found]
    assert known == [wanted["min"].as_py(), wanted["max"].as_py()]


def test_what_lies_under_a_null_is_no_bound() -> None:
    offsets = pa.array([0, 6, 7], pa.int32()).buffers()[1]
    array = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"zzzzzzb"), pa.py_buffer(b"\x02"))

    assert [end.as_py() for end in min_max(array) if end is not None] == ["b", "b"]


@given(
    st.data(),
    st.lists(st.none() | st.lists(numbers, max_size=4), max_size=12),
    st.sampled_from([pa.int32(), pa.int64(), pa.float64(), pa.decimal128(12, 2), pa.date32()]),
)
def test_lists_of_numbers_in_one_pass_are_the_same_bytes(
    data: st.DataObject, values: list[list[int | None] | None], kind: pa.DataType
) -> None:
    array = sliced(data, values, pa.list_(pa.int32())).cast(pa.list_(kind))
    slow = pc.binary_join_element_wise(b"\x01", sortable._list(array), b"")
    wanted = pc.if_else(array.is_valid(), slow, b"\x02")

    assert sortable.sortable_bytes(array).to_pylist() == wanted.to_pylist()
