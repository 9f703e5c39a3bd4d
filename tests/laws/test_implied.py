"""Law: on each row on which an equality with a constant is true, what it implies is true."""

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.decide.implied import implied
from strata.expr.nodes import Call, Column, Expr, Literal

A, B, C = (Column(n, name, "string") for n, name in enumerate("abc", 1))
N = Column(4, "n", "short")
T = Column(5, "t", "boolean")
DAY = Column(6, "day", "date")
EPOCH = date(1970, 1, 1)
Row = dict[str, Any]

# Few letters, so that pieces and separators occur within each other, and joined texts are alike
TEXTS = st.text("x-", max_size=4)
ROWS = st.fixed_dictionaries({name: st.none() | TEXTS for name in "abc"})


def nested(one: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """Draw texts that are joined, some of which are joined themselves."""
    return st.tuples(one, one).map(lambda args: Call("concat", args, "string"))


def text(value: str) -> Literal:
    return Literal(value, "string")


def day_of(number: int) -> date:
    return EPOCH + timedelta(number)


STRICT: Mapping[str, Callable[..., Any]] = {
    "equal_to": lambda a, b: a == b,
    "in": lambda a, *items: a in items,
    "concat": lambda *texts: "".join(texts),
    "cast": lambda a: str(a).lower() if isinstance(a, bool) else str(a),
    "month_name": lambda day: day_of(day).strftime("%b"),
    "day_name": lambda day: day_of(day).strftime("%a"),
    "month": lambda day: day_of(day).month,
    "week_day": lambda day: day_of(day).weekday(),
}
WITH_NULLS: Mapping[str, Callable[..., Any]] = {
    "is_null": lambda a: a is None,
    "and": lambda *args: all(arg is True for arg in args),
    "or": lambda *args: any(arg is True for arg in args),
    "concat_ws": lambda between, *texts: between.join(t for t in texts if t is not None),
}


def value_of(expr: Expr, row: Row) -> Any:
    """Return what an expression is on a row, as Spark evaluates it."""
    if isinstance(expr, Column):
        return row[expr.name]
    if isinstance(expr, Literal):
        return expr.value
    assert isinstance(expr, Call)
    args = [value_of(arg, row) for arg in expr.args]
    if expr.function in WITH_NULLS:
        return WITH_NULLS[expr.function](*args)
    return None if None in args else STRICT[expr.function](*args)


def check(expr: Call, row: Row) -> None:
    """Check that what is implied by the value that the expression has on a row is true of it."""
    value = value_of(expr, row)
    if value is None:
        return
    for asked in (
        Call("equal_to", (expr, text(value)), "boolean"),
        Call("equal_to", (text(value), expr), "boolean"),
        Call("in", (expr, text("-x-"), text(value)), "boolean"),
    ):
        found = implied(asked)
        assert found is None or value_of(found, row) is True, (asked, row)


@given(st.lists(st.sampled_from([A, B, C]) | TEXTS.map(text), min_size=1, max_size=5), ROWS)
@example([A, text("-"), B], {"a": "x", "b": "-x", "c": None})
@example([A, text("--"), B], {"a": "-", "b": "", "c": None})
def test_of_joined_texts(args: list[Expr], row: Row) -> None:
    check(Call("concat", tuple(args), "string"), row)


@given(st.recursive(st.sampled_from([A, B, C]) | TEXTS.map(text), nested, max_leaves=6), ROWS)
def test_of_texts_joined_one_after_the_other(expr: Expr, row: Row) -> None:
    check(Call("concat", (expr, text("-"), A), "string"), row)


@given(
    st.sampled_from(["-", "--", "x-", ""]), st.lists(st.sampled_from([A, B, C]), min_size=1), ROWS
)
def test_of_texts_joined_by_a_separator(between: str, args: list[Expr], row: Row) -> None:
    check(Call("concat_ws", (text(between), *args), "string"), row)


@given(st.integers(-(2**15), 2**15 - 1), st.booleans(), st.integers(-719_162, 2_900_000))
def test_of_numbers_and_days_as_texts(number: int, truth: bool, day: int) -> None:
    row = {"n": number, "t": truth, "day": day}
    for expr in (
        Call("cast", (N,), "string"),
        Call("cast", (T,), "string"),
        Call("month_name", (DAY,), "string"),
        Call("day_name", (DAY,), "string"),
    ):
        check(expr, row)


DASH = text("-")


def joined(*args: Expr) -> Call:
    return Call("concat", args, "string")


def apart(*args: Expr, by: Expr = DASH) -> Call:
    return Call("concat_ws", (by, *args), "string")


def cast(column: Column) -> Call:
    return Call("cast", (column,), "string")


def words(expr: Expr | None) -> Any:
    """Return an expression as nested tuples that are read at once; None as it is."""
    if isinstance(expr, Column):
        return expr.name
    if isinstance(expr, Literal):
        return expr.value
    return expr and isinstance(expr, Call) and (expr.function, *map(words, expr.args))


BYTES = Column(8, "y", "binary")
LIST = Column(9, "l", "array<string>")
LOWER = Column(10, "ci", "string collate UTF8_LCASE")


@pytest.mark.parametrize(
    ("expr", "constant", "said"),
    [
        (joined(A, DASH, B), "x-y", ("and", ("equal_to", "a", "x"), ("equal_to", "b", "y"))),
        (joined(A, DASH, B), "x-y-z", None),  # either may have the other
        (joined(text("k-"), A), "k-k-", ("equal_to", "a", "k-")),
        (joined(text("k-"), A, B), "x-y", False),
        (joined(A, B, text("!")), "xy", False),
        (joined(A, B), "xy", None),
        (joined(joined(A, DASH), B), "x-", ("and", ("equal_to", "a", "x"), ("equal_to", "b", ""))),
        (joined(Call("upper", (A,), "string"), DASH), "X-", ("equal_to", ("upper", "a"), "X")),
        (joined(A, DASH, B), "xy", False),
        (joined(BYTES, DASH), "x-", None),
        (joined(LOWER, DASH), "x-", None),
        (joined(A, Literal(None, "string"), B), "x-", None),
        (apart(A), "x", ("or", ("equal_to", "a", "x"), ("is_null", "a"))),
        (
            apart(A, B),
            "x-y",
            (
                "or",
                ("and", ("equal_to", "a", "x"), ("equal_to", "b", "y")),
                ("is_null", "a"),
                ("is_null", "b"),
            ),
        ),
        (apart(A, B), "xy", ("or", ("is_null", "a"), ("is_null", "b"))),
        (apart(A, B), "x-y-z", None),
        (apart(A, LIST), "x-y", None),
        (apart(A, B, by=text("")), "xy", None),
        (apart(A, B, by=A), "x-y", None),
        (apart(), "", None),
        (cast(N), "777", ("equal_to", "n", 777)),
        (cast(N), "32767", ("equal_to", "n", 32767)),
        (cast(N), "-32768", ("equal_to", "n", -32768)),
        (cast(N), "32768", False),
        (cast(N), "-32769", False),
        (cast(N), "07", False),
        (cast(N), "-0", False),
        (cast(N), "+1", False),
        (cast(N), "\u0663", False),
        (cast(N), "", False),
        (cast(N), "9" * 5000, False),
        (cast(T), "true", ("equal_to", "t", True)),
        (cast(T), "TRUE", False),
        (cast(Column(7, "f", "double")), "1.0", None),
        (Call("month_name", (DAY,), "string"), "Feb", ("equal_to", ("month", "day"), 2)),
        (Call("day_name", (DAY,), "string"), "Sun", ("equal_to", ("week_day", "day"), 6)),
        (Call("day_name", (DAY,), "string"), "Monday", False),
        (Call("lower", (A,), "string"), "x", None),
        (Call("cast", (A,), "integer"), "1", None),
        (A, "x", None),
    ],
)
def test_what_is_said_is_what_can_be(expr: Expr, constant: str, said: Any) -> None:
    found = implied(Call("equal_to", (expr, text(constant)), "boolean"))
    assert words(found) == said


@pytest.mark.parametrize(
    "items",
    [
        (text("7"), Literal(None, "string")),
        (text("7"), A),
        (text("7"), Literal("7", "string collate UTF8_LCASE")),
        (text("7"), Literal(7, "string")),
    ],
)
def test_of_items_that_are_no_texts_nothing_is_said(items: tuple[Expr, ...]) -> None:
    assert implied(Call("in", (cast(N), *items), "boolean")) is None
    known = implied(Call("in", (cast(N), text("7"), text("8")), "boolean"))
    assert words(known) == ("or", ("equal_to", "n", 7), ("equal_to", "n", 8))


def test_a_long_list_of_numbers_as_texts_is_asked_at_once() -> None:
    numbers = [7 * n for n in range(1000)]
    asked = [text("never"), *(text(str(n)) for n in numbers)]
    found = implied(Call("in", (Call("cast", (N,), "string"), *asked), "boolean"))
    assert isinstance(found, Call)
    assert (found.function, found.args[0]) == ("in", N)
    assert [item.value for item in found.args[1:]] == [n for n in numbers if n < 2**15]


@pytest.mark.parametrize("count", [32, 33])
def test_a_list_of_joined_texts_is_asked_one_by_one_while_it_is_short(count: int) -> None:
    """A thousand of them would take a second in each batch."""
    joined = Call("concat", (A, text("-"), B), "string")
    asked = tuple(text(f"x{n}-y") for n in range(count))
    found = implied(Call("in", (joined, *asked), "boolean"))
    assert (found is None) == (count > 32)


def test_a_long_list_that_says_something_of_several_columns_says_nothing() -> None:
    joined = Call("concat", (A, text("-"), B, text("+"), C), "string")
    for mixed in (("x--y+z", "x-y++z"), ("x--y+z", "x-y+z")):
        found = [implied(Call("in", (joined, *map(text, mixed * n)), "boolean")) for n in (1, 20)]
        assert found[0] is not None
        assert found[1] is None
    never = implied(Call("in", (joined, *map(text, ["x"] * 40)), "boolean"))
    assert never == Literal(False, "boolean")


@given(st.lists(st.integers(-(2**16), 2**16), min_size=40, max_size=60), st.booleans())
def test_of_one_of_many_texts(numbers: list[int], other: bool) -> None:
    texts = [str(n) for n in numbers] + ["x"] * other
    found = implied(Call("in", (Call("cast", (N,), "string"), *map(text, texts)), "boolean"))
    for number in (*numbers, 1):
        row = {"n": number}
        held = -(2**15) <= number < 2**15
        assert found is None or not held or value_of(found, row) is (number in numbers)
    assert found is not None
