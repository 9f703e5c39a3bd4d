"""Canonical values of every type: what is canonical stays, what is spelt otherwise becomes it."""

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.format.encodings import arrow_type
from strata.format.values.canonical import canonical
from strata.model.types import ColumnType, parse_type
from tests.support.sizes import few_a_type
from tests.support.values import MESSY, NAN, arrays, every_type, plain, to_array


@pytest.mark.parametrize("column_type", every_type(), ids=str)
@few_a_type
@given(data=st.data())
def test_canonical_values_stay_as_they_are(column_type: ColumnType, data: st.DataObject) -> None:
    array = data.draw(arrays(column_type))

    result = canonical(array, column_type)

    result.validate(full=True)
    assert result.type == arrow_type(column_type)
    assert repr(plain(result)) == repr(plain(array))


def range_of(lower: Any, upper: Any, bounds: str, *, empty: bool = False) -> dict[str, Any]:
    return {
        "lower": lower,
        "upper": upper,
        "lower_inclusive": bounds[0] == "[",
        "upper_inclusive": bounds[1] == "]",
        "empty": empty,
    }


EMPTY = range_of(None, None, "()", empty=True)
CELL = [{"lower_bound": 1, "length": 1}]
NO_CELL = [{"lower_bound": 1, "length": 3}, {"lower_bound": 0, "length": 0}]


@pytest.mark.parametrize(
    ("declared", "given_", "stored"),
    [
        ("char(3)", "ab  ", "ab"),
        ("char(3)", "abc   ", "abc"),
        ("char(1)", "   ", ""),
        ("char(1)", "😀", "😀"),
        ("varchar(3)", "a  ", "a  "),
        ("map<int32>", [("b", 1), ("é", 2), ("a", None)], [("a", None), ("b", 1), ("é", 2)]),
        ("map<int32>", [("\U00010000", 1), ("\uffff", 2)], [("\uffff", 2), ("\U00010000", 1)]),
        ("list<jsonb>", [' {"b":1, "a":2}', None], ['{"a":2,"b":1}', None]),
        ("range<int32>", range_of(1, 3, "(]"), range_of(2, 4, "[)")),
        ("range<int32>", range_of(1, 2, "()"), EMPTY),
        ("range<int32>", range_of(1, 1, "[]"), range_of(1, 2, "[)")),
        ("range<int32>", range_of(None, 2**31 - 1, "[)"), range_of(None, 2**31 - 1, "()")),
        ("range<uint8>", range_of(254, None, "(]"), range_of(255, None, "[)")),
        ("range<date>", range_of(-1, 0, "[]"), range_of(-1, 1, "[)")),
        ("range<float64>", range_of(1.0, 1.0, "[)"), EMPTY),
        ("range<float64>", range_of(1.0, 1.0, "[]"), range_of(1.0, 1.0, "[]")),
        ("range<float64>", range_of(1.0, NAN, "(]"), range_of(1.0, NAN, "(]")),
        ("range<string>", range_of("b", "a", "[]", empty=True), EMPTY),
        ("array<int32>", {"dims": CELL, "vals": [7]}, {"dims": CELL, "vals": [7]}),
        ("array<int32>", {"dims": NO_CELL, "vals": []}, {"dims": [], "vals": []}),
    ],
)
def test_a_value_is_stored_as(declared: str, given_: Any, stored: Any) -> None:
    column_type = parse_type(declared)
    result = canonical(to_array([None, given_], column_type), column_type)
    assert repr(plain(result)) == repr([None, stored])
    assert canonical(result, column_type).equals(result) or "nan" in repr(stored)


@pytest.mark.parametrize(
    ("declared", "given_"),
    [
        ("char(3)", "abcd"), ("varchar(3)", "abc "), ("list<varchar(1)>", ["a", "ab"]),
        ("jsonb", "{"), ("map<jsonb>", [("a", "NaN")]), ("map<int32>", [("a", 1), ("a", 1)]),
        ("map<int32>", [("a", 1), ("b", 1), ("a", 2)]), ("range<int32>", range_of(2, 1, "[]")),
        ("range<int32>", range_of(2**31 - 1, None, "()")),
        ("range<int32>", range_of(0, 2**31 - 1, "[]")),
        ("range<float64>", range_of(NAN, 1.0, "[]")),
        ("array<int32>", {"dims": CELL, "vals": []}), ("array<int32>", {"dims": [], "vals": [1]}),
        ("array<int32>", {"dims": None, "vals": []}), ("array<int32>", {"dims": [], "vals": None}),
        ("array<int32>",
         {"dims": [{"lower_bound": 1, "length": -1}, {"lower_bound": 1, "length": -1}],
          "vals": [1]}),
        ("array<int32>", {"dims": [{"lower_bound": None, "length": 1}], "vals": [1]}),
        ("time", struct.pack(">II", 86_400, 0)), ("time", struct.pack(">II", 0, 10**9)),
        ("time", struct.pack(">II", 59, 2 * 10**9)),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused(declared: str, given_: Any) -> None:
    column_type = parse_type(declared)
    with pytest.raises(InvalidRequest):
        canonical(to_array([None, given_], column_type), column_type)


@pytest.mark.parametrize(
    "declared", ["{}", "list<{}>", "map<list<{}>>", "record<a: {}>", "range<{}>"]
)
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_floats_have_one_zero_and_one_nan_at_any_depth(declared: str, kind: str) -> None:
    column_type = parse_type(declared.format(kind))

    def wrapped(x: float) -> Any:
        return {
            "{}": x,
            "list<{}>": [x],
            "map<list<{}>>": [("a", [x])],
            "record<a: {}>": {"a": x},
            "range<{}>": range_of(x, None, "[)"),
        }[declared]

    for x in MESSY:
        array = canonical(to_array([wrapped(x)], column_type), column_type)
        wanted = to_array([wrapped(NAN if x != x else 0.0)], column_type)  # noqa: PLR0124
        assert leaf_bytes(array) == leaf_bytes(wanted)


def leaf_bytes(array: pa.Array) -> bytes:
    while pa.types.is_nested(array.type):
        if pa.types.is_map(array.type):
            array = array.items
        else:
            array = array.values if pa.types.is_list(array.type) else array.field(0)
    return bytes(array.buffers()[1])[: array.type.bit_width // 8]


def test_nothing_lies_under_a_null() -> None:
    column_type = parse_type("record<a: list<int32>>")
    hidden = pa.StructArray.from_arrays(
        [pa.array([[1], [2, 3]], pa.list_(pa.int32()))],
        fields=list(arrow_type(column_type)),
        mask=pa.array([True, False]),
    )
    lists = canonical(hidden, column_type).field(0)
    assert lists.to_pylist() == [None, [2, 3]]
    assert lists.values.to_pylist() == [2, 3]


@pytest.mark.parametrize("declared", ["range<int32>", "range<string>", "range<numeric>"])
def test_nothing_lies_under_a_range_that_is_null(declared: str) -> None:
    column_type = parse_type(declared)
    made = canonical(to_array([EMPTY, None, EMPTY], column_type), column_type)

    for number in range(made.type.num_fields):  # as it is stored, not as the range hides it
        assert not made.field(number)[1].is_valid
        assert made.field(number).null_count == (3 if number < 2 else 1)
