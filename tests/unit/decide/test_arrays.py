"""Lists made of lists: what statistics of elements and lengths prove of them, and no more."""

from typing import Any

import pytest

from strata.expr.nodes import Expr, Literal
from tests.unit.decide.test_fields import access
from tests.unit.decide.test_lists import NUMBERS, RECORDS, call, equal, kept, number

NESTED = "list<list<int32>>"
LIST = "array<int>"


def holds(lists: Expr, value: int) -> Expr:
    return call("array_contains", lists, number(value))


@pytest.mark.parametrize(
    ("function", "others"),
    [
        ("array_sort", ()),
        ("reverse_list", ()),
        ("array_remove", (number(1),)),
        ("array_except", (call("create_array", kind=LIST),)),
        ("slice", (number(1), number(9))),
    ],
)
def test_elements_are_those_of_the_list(function: str, others: tuple[Expr, ...]) -> None:
    made = call(function, access(NUMBERS, []), *others, kind=LIST)

    assert kept(holds(made, 9), NUMBERS, [[1, 2]], [[9, 1]], [None]) == [False, True, False]
    longer = call("greater_than", call("size", made, kind="integer"), number(2))
    assert kept(longer, NUMBERS, [[1, 2]], [[1, 2, 3]]) == [False, True]


@pytest.mark.parametrize("function", ["array_union", "concat_lists"])
def test_both_lists_give_elements(function: str) -> None:
    other = call("create_array", number(50), kind=LIST)
    made = call(function, access(NUMBERS, []), other, kind=LIST)

    assert kept(holds(made, 9), NUMBERS, [[1, 2]], [[9]], [[]]) == [True, True, False]
    assert kept(holds(made, 60), NUMBERS, [[1, 2]], [[9]], [[]]) == [False, False, False]


def test_lengths_add_up() -> None:
    column = access(NUMBERS, [])
    twice = call("size", call("concat_lists", column, column, kind=LIST), kind="integer")

    assert kept(equal(twice, 4), NUMBERS, [[1, 2]], [[1], [1, 2, 3]], [[1]]) == [True, True, False]
    united = call("size", call("array_union", column, column, kind=LIST), kind="integer")
    assert kept(equal(united, 0), NUMBERS, [[1]], [[], [1]]) == [False, True]
    assert kept(equal(united, 1), NUMBERS, [[1], [2]]) == [True]
    for lists in (
        (call("create_array", number(1), kind=LIST), column),
        (column, call("create_array", number(1), kind=LIST)),
    ):  # one of both has an element
        united = call("size", call("array_union", *lists, kind=LIST), kind="integer")
        assert kept(equal(united, 0), NUMBERS, [[], [2]]) == [False]
        assert kept(equal(united, 1), NUMBERS, [[], [2]]) == [True]


def test_common_elements_are_no_more_than_either_list_has() -> None:
    few = call("create_array", number(1), kind=LIST)
    size = call(
        "size", call("array_intersect", access(NUMBERS, []), few, kind=LIST), kind="integer"
    )

    assert kept(equal(size, 2), NUMBERS, [[1, 2, 3]]) == [False]
    assert kept(equal(size, 1), NUMBERS, [[1, 2, 3]], [[]]) == [True, False]


def test_flattened_lists_have_the_elements_inside() -> None:
    made = call("flatten", access(NESTED, []), kind=LIST)
    parts = [[[1, 2], [3]]], [[[9]], []], [[None, [1]]], [[]]

    assert kept(holds(made, 9), NESTED, *parts) == [False, True, False, False]
    assert kept(call("is_null", made), NESTED, *parts) == [False, False, True, False]
    size = call("size", made, kind="integer")
    three = [[1, 2, 3]] * 3
    assert kept(equal(size, 9), NESTED, [three], [three[:2]]) == [True, False]


@pytest.mark.parametrize(
    ("start", "length", "fails"), [(0, 1, True), (1, -1, True), (1, 0, False), (-3, 2, False)]
)
def test_a_slice_fails_for_an_impossible_start_or_length(
    start: int, length: int, fails: bool
) -> None:
    made = call("slice", access(NUMBERS, []), number(start), number(length), kind=LIST)

    assert kept(holds(made, 99), NUMBERS, [[1, 2]], [None]) == [fails, False]


def test_fields_of_the_elements_are_known() -> None:
    kind = "array<struct<k:string,x:int>>"
    made = call("slice", access(RECORDS, []), number(1), number(2), kind=kind)
    fields = call("get_array_struct_fields", made, number(1), kind=LIST)
    parts: tuple[list[Any], ...] = ([[{"k": "a", "x": 1}]], [[{"k": "b", "x": 9}]])

    assert kept(holds(fields, 9), RECORDS, *parts) == [False, True]


def test_a_slice_from_the_first_element_has_as_many_as_it_asks_for() -> None:
    made = call("slice", access(NUMBERS, []), number(1), number(1), kind=LIST)
    empty = call("equal_to", call("size", made, kind="integer"), Literal(0, "integer"))

    assert kept(empty, NUMBERS, [[1, 2]], [[], [1]]) == [False, True]
