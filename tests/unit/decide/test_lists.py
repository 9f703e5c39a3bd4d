"""Lists and maps: what the statistics of elements, keys, values and lengths prove, and no more."""

import math
from typing import Any

import pytest

from strata.decide.decision import decide, needed_columns, split_conjuncts
from strata.decide.reasons import explain
from strata.decide.static import outlook
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.render import render
from tests.unit.decide.test_fields import access, stats_of

NUMBERS = "list<int32>"
RECORDS = "list<record<k: string, x: int32>>"
MAP = "map<int32>"


def number(value: int) -> Literal:
    """Return a constant."""
    return Literal(value, "integer")


def call(function: str, *args: Expr, kind: str = "boolean", **options: str) -> Call:
    """Return a call."""
    return Call(function, args, kind, tuple(sorted(options.items())))


def kept(condition: Expr, declared: str, *parts: list[Any]) -> list[bool]:
    """Return which parts a filter needs; the statistics it asks for say as much as all."""
    stats, relation = stats_of(declared, *parts)
    filter = Filter(condition, "", 0, 0)
    keep: list[bool] = decide(filter, stats, relation).keep.tolist()
    needed = stats.select(sorted(needed_columns(filter) & set(stats.schema.names)))
    assert decide(filter, needed, relation).keep.tolist() == keep
    return keep


def item(position: int, mode: str = "ansi") -> Call:
    """Return `c[position]`."""
    return call("get_array_item", access(NUMBERS, []), number(position), kind="integer", ansi=mode)


def equal(one: Expr, value: int) -> Call:
    """Return `one = value`."""
    return call("equal_to", one, number(value))


def test_an_index_that_may_miss_is_an_error_or_null() -> None:
    parts = [[1, 2], [3, 4]], [[1], [2, 3]], [None], [[]]

    assert kept(equal(item(1), 9), NUMBERS, *parts) == [False, True, False, True]
    assert kept(equal(item(1, "legacy"), 9), NUMBERS, *parts) == [False] * 4
    missing = call("is_null", item(1, "legacy"))
    assert kept(missing, NUMBERS, *parts) == [False, True, True, True]


def test_an_index_of_zero_fails_in_every_mode() -> None:
    at = call("element_at", access(NUMBERS, []), number(0), kind="integer", ansi="legacy")

    assert kept(equal(at, 9), NUMBERS, [[1]], [None], [[]]) == [True, False, True]


@pytest.mark.parametrize(
    ("values", "value", "expected"),
    [([[1, 5], []], 3, True), ([[1, 5]], 9, False), ([[None]], 9, False), ([None, []], 9, False)],
)
def test_a_value_that_no_element_can_equal_is_in_no_list(
    values: list[Any], value: int, expected: bool
) -> None:
    contains = call("array_contains", access(NUMBERS, []), number(value))

    assert kept(contains, NUMBERS, values) == [expected]


def test_nothing_not_contained_may_be_null_or_false() -> None:
    """`not contains` holds where the list lacks the value, not where it has a null."""
    lacks = call("not", call("array_contains", access(NUMBERS, []), number(5)))

    assert kept(lacks, NUMBERS, [[5], [5, 5]], [[5], []], [[5, 6]]) == [False, True, True]


def test_a_test_of_no_element_is_false_of_one_and_true_of_all() -> None:
    column = access(NUMBERS, [])
    test = call("greater_than", call("element", column, kind="integer"), number(5))
    some, all_ = call("exists", column, test), call("forall", column, test)
    parts = [[1, 2]], [[9], [1]], [[], None], [[None]]

    assert kept(some, NUMBERS, *parts) == [False, True, False, False]
    assert kept(all_, NUMBERS, *parts) == [False, True, True, False]


def aggregate(start: int, merge: str, finish: Expr | None = None) -> Call:
    """Return `aggregate(c, start, (a, x) -> merge(a, x), finish)`."""
    column, named = access(NUMBERS, []), (("variable", "0"),)
    so_far = Call("accumulated", (column,), "integer", named)
    merged = call(merge, so_far, call("element", column, kind="integer"), kind="integer")
    return Call("aggregate", (column, number(start), merged, finish or so_far), "integer", named)


def test_a_sum_of_a_list_lies_between_sums_of_its_ends() -> None:
    total = aggregate(0, "add")
    parts = [[1, 2], [3]], [[5, 5, 5]], [[]], [None], [[40], None]

    assert kept(equal(total, 15), NUMBERS, *parts) == [False, True, False, False, False]
    assert kept(call("is_null", total), NUMBERS, *parts) == [False, False, False, True, True]
    assert kept(equal(aggregate(15, "greatest"), 15), NUMBERS, *parts) == [True] * 3 + [False] * 2


def test_the_last_lambda_of_a_fold_may_fail() -> None:
    so_far = aggregate(0, "add").args[3]
    inverse = call("integral_divide", number(9), so_far, kind="integer", ansi="ansi")

    assert kept(equal(aggregate(0, "add", inverse), 99), NUMBERS, [[1]], [[0]], [[2, 3]]) == [
        False,
        True,
        False,
    ]


def test_a_variable_outside_of_its_lambda_may_be_anything() -> None:
    so_far = aggregate(0, "add").args[3]

    assert kept(equal(so_far, 99), NUMBERS, [[1]]) == [True]


def test_an_error_in_a_lambda_needs_an_element() -> None:
    column = access(NUMBERS, [])
    test = call("greater_than", call("divide", number(1), call("element", column)), number(5))

    assert kept(call("exists", column, test), NUMBERS, [[], None], [[0]]) == [False, True]


def test_a_key_out_of_range_has_no_value() -> None:
    value = call("get_map_value", access(MAP, []), Literal("k", "string"), kind="integer")
    parts = [[("k", 1)]], [[("a", 9)], [("b", 9)]], [[("a", 9), ("z", 9)]], [None, []]

    assert kept(equal(value, 9), MAP, *parts) == [False, False, True, False]
    assert kept(call("is_null", value), MAP, *parts) == [False, True, True, True]


def test_fields_of_elements_have_statistics_of_their_own() -> None:
    column = access(RECORDS, [])
    fields = call("get_array_struct_fields", column, number(1), kind="array<int>")
    parts = [[{"k": "a", "x": 1}, None]], [[{"k": "b", "x": 9}]]

    assert render(fields) == "c.x"
    assert kept(call("array_contains", fields, number(9)), RECORDS, *parts) == [False, True]


@pytest.mark.parametrize("name", ["s.1", "s.1/[]"])
def test_without_a_statistic_nothing_is_known(name: str) -> None:
    stats, relation = stats_of(NUMBERS, [[1, 2]], [[3, None]])
    contains = call("array_contains", access(NUMBERS, []), number(9))
    lessened = stats.drop([name])

    # Elements do not rest on what is known of the lists.
    keep = decide(Filter(contains, "", 0, 0), lessened, relation).keep
    assert keep.tolist() == [name != "s.1"] * 2


def test_nan_is_an_element_apart() -> None:
    column = access("list<float64>", [])
    contains = call("array_contains", column, Literal(math.nan, "double"))
    parts = [[1.0]], [[math.nan]], [[1.0, math.nan]]

    assert kept(contains, "list<float64>", *parts) == [False, True, True]


def test_lists_that_may_come_from_either_branch_enclose_both() -> None:
    empty = call("create_array", kind="array<int>")
    either = call("coalesce", access(NUMBERS, []), empty, kind="array<int>")
    size = call("size", either, kind="integer")

    assert kept(equal(size, 0), NUMBERS, [[1]], [[1], None], [[]]) == [False, True, True]
    assert kept(equal(size, 3), NUMBERS, [[1]], [None], [[1] * 3]) == [False, False, True]


def test_what_could_skip_and_why_is_told() -> None:
    stats, relation = stats_of(NUMBERS, [[1, 2]], [[3, 9]])
    filter = Filter(call("array_contains", access(NUMBERS, []), number(9)), "", 0, 0)

    assert outlook(filter).could_skip
    assert len(split_conjuncts(filter.expr)) == 1
    skipped, found = explain(filter, stats, relation, [0, 1])
    assert skipped.startswith("skipped: array_contains(c, 9) is never true")
    assert found.startswith("kept: array_contains(c, 9) may be true")
