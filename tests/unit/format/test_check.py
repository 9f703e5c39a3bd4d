"""The two halves of a part are compared bit by bit, however deep the values lie."""

from typing import Any

import pyarrow as pa
import pytest

from strata.format.check import compare, differs, shorten
from strata.model.schema import Column
from strata.model.types import parse_type
from tests.formats import every_type


def child_of_null(value: float) -> pa.Array:
    """Return one null struct that hides a value."""
    inside = pa.array([value], pa.float64())
    return pa.StructArray.from_arrays([inside], names=["a"], mask=pa.array([True]))


@pytest.mark.parametrize("column", every_type.RELATION.columns, ids=lambda c: str(c.type))
def test_values_of_every_type_equal_themselves_and_nothing_else(column: Column) -> None:
    array = every_type.updates()[str(column.id)].combine_chunks()
    assert not differs(array, array).any()
    assert not differs(array.slice(3), pa.concat_arrays([array.slice(3)])).any()

    turned = array.take(pa.array([*range(1, len(array)), 0]))
    texts = [repr(shorten(value)) for value in array]
    wanted = [a != b for a, b in zip(texts, [*texts[1:], texts[0]], strict=True)]
    assert differs(array, turned).tolist() == wanted
    assert any(wanted)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1.0, None], [1.0]),
        ([None], []),
        ([[]], None),
        ([-0.0], [0.0]),
        ([1.0, 2.0], [2.0, 1.0]),
    ],
)
def test_one_difference_inside_is_a_difference(left: Any, right: Any) -> None:
    kind = pa.list_(pa.list_(pa.float64())) if left == [[]] else pa.list_(pa.float64())
    same = pa.array([[3.0, float("nan")]] if left != [[]] else [[[3.0]]], kind)

    a = pa.concat_arrays([same, pa.array([left], kind), same])
    b = pa.concat_arrays([same, pa.array([right], kind), same])

    assert differs(a, b).tolist() == [False, True, False]
    assert differs(b, a).tolist() == [False, True, False]


def test_what_a_null_hides_is_not_compared() -> None:
    assert not differs(child_of_null(1.0), child_of_null(2.0)).any()


def test_every_column_is_counted() -> None:
    numbers = Column(7, "n", parse_type("list<int64>"))
    texts = Column(9, "m", parse_type("map<string>"))
    n = pa.array([[1], [2], None], pa.list_(pa.int64()))
    m = pa.array([[("a", "b")], [], None], pa.map_(pa.string(), pa.string()))
    wrong = pa.array([[("a", "c")], None, None], m.type)

    check = compare([numbers, texts], [n, m], [n, wrong], first_row=100)

    assert (check.rows, check.valid, check.invalid) == (3, {7: 3, 9: 1}, {7: 0, 9: 2})
    assert [(x.row, x.column) for x in check.first] == [(100, 9), (101, 9)]
    assert (check.first[0].codec, check.first[0].columns) == ("[('a', 'b')]", "[('a', 'c')]")


def test_values_that_python_cannot_hold_are_shown_too() -> None:
    far = pa.array([[2**31 - 1]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    assert "2147483647" in shorten(far[0])
    assert shorten(pa.array(["x" * 500])[0]).endswith("(502 characters)")
