"""Calls that each fit into memory may fail one inside the other; what stays small does not."""

from collections.abc import Sequence

import pytest

from strata.expr.entry import Context
from strata.expr.growth import CONSTANT_MAX, FACTOR_MAX, size_of
from strata.expr.interpret import Interpreter, Unknown
from strata.expr.nodes import Call, Column, Expr, Literal, Opaque
from strata.expr.spec import Spec

S, S2, N = Column(1, "s", "string"), Column(2, "s2", "string"), Column(3, "n", "integer")
LIST = Column(4, "l", "array<string>")


def text(function: str, *args: Expr | str | int) -> Call:
    return Call(function, _expressions(args), "string", (("checked", "yes"),))


def number(function: str, *args: Expr | str | int) -> Call:
    return Call(function, _expressions(args), "integer")


def _expressions(args: Sequence[Expr | str | int]) -> tuple[Expr, ...]:
    return tuple(
        Literal(arg, "string" if isinstance(arg, str) else "integer")
        if isinstance(arg, str | int)
        else arg
        for arg in args
    )


def evaluated(expr: Expr, *, lenient: bool = True) -> Spec:
    return Interpreter(Context(0, 0), lenient=lenient).evaluate(expr, Unknown())


def nested(function: str, times: int, expr: Expr, *others: Expr | str | int) -> Expr:
    for _ in range(times):
        expr = text(function, expr, *others)
    return expr


def doubled(times: int, expr: Expr) -> Expr:
    for _ in range(times):
        expr = text("concat", expr, expr)
    return expr


ITEM = Call("element", (LIST,), "string")
TWICE = Call("transform", (LIST, Call("concat", (ITEM, ITEM), "string")), "array<string>")
ONES = Call("create_array", (Literal(1, "integer"),) * 4, "array<integer>")


def joined(function: str, times: int) -> Call:
    found: Expr = LIST
    for _ in range(times):
        found = Call(function, (found, found), "array<string>")
    assert isinstance(found, Call)
    return found


def mapped(items: Expr, body: Expr) -> Call:
    return Call("transform", (items, body), f"array<{body.type}>")


LARGE = [
    text("string_repeat", text("string_repeat", S, 8), 4),
    text("string_repeat", text("string_repeat", "ab", 100_000), 100_000),
    text("string_repeat", S, FACTOR_MAX + 1),
    text("string_repeat", text("string_space", 100_000), 100),
    text("string_repeat", text("string_lpad", S, 100_000, "x"), 100),
    doubled(5, S),
    text("concat", *[text("string_space", 100_000)] * 11),
    text("string_replace", S, "a", "b" * FACTOR_MAX),
    text("string_replace", S, "a", S2),
    text("reg_exp_replace", text("string_repeat", S, 50), "a", "$0$0", 1),
    text("concat_ws", S, LIST),
    text("concat_ws", text("string_space", 100), LIST),
    text("concat_ws", text("string_repeat", S, 51), S2),
    nested("upper", 5, S),
    nested("string_translate", 4, S, "a", "\U0001f600"),
    nested("hex", 7, S),
    text("overlay", text("string_repeat", S, 60), text("string_repeat", S, 60), 1, -1),
    text("date_format", Column(5, "t", "timestamp"), "y" * (CONSTANT_MAX // 8)),
    Call("transform", (LIST, text("string_repeat", ITEM, 101)), "array<string>"),
    Call("transform", (LIST, text("string_space", 101)), "array<string>"),
    Call("transform", (TWICE, text("string_repeat", ITEM, 51)), "array<string>"),
    joined("concat_lists", 5),
    joined("array_union", 5),
    mapped(LIST, LIST),
    mapped(LIST, text("concat", S, ITEM)),
    mapped(LIST, mapped(LIST, text("concat", ITEM, S))),
    mapped(LIST, mapped(Column(5, "k", "array<string>"), ITEM)),
    mapped(ONES, text("string_repeat", S, 8)),
    mapped(LIST, text("hex", number("length", ITEM))),
    mapped(LIST, Call("cast", (number("length", ITEM),), "string")),
    mapped(mapped(ONES, LIST), text("string_repeat", S, 8)),
    Call("cast", (nested("hex", 4, Call("cast", (LIST,), "string")),), "binary"),
    text("substring", text("string_repeat", text("string_repeat", S, 8), 4), 1, 1),
]
LENGTHY = text("string_repeat", S, 30)
SMALL = [
    text("string_repeat", S, FACTOR_MAX),
    text("string_repeat", text("string_repeat", S, 10), 3),
    text("string_repeat", "ab", 100_000),
    text("string_repeat", Literal(None, "string"), 100_000),
    text("string_repeat", S, -1),
    text("string_lpad", S, 100_000, "x"),
    text("string_space", 100_000),
    doubled(4, S),
    text("concat", S, text("string_space", 100_000)),
    text("string_replace", text("lower", S), "a", "bb"),
    text("reg_exp_replace", S, "([0-9]+)", "<$1>", 1),
    text("concat_ws", ", ", S, LIST, S),
    text("concat_ws", S, S2, S2),
    text("upper", text("substring", Call("cast", (N,), "string"), 1, 2)),
    text("if", Call("is_null", (S,), "boolean"), S2, "none"),
    text("string_repeat", Call("cast", (number("length", LENGTHY),), "string"), 30),
    TWICE,
    joined("concat_lists", 4),
    joined("array_union", 4),
    mapped(ONES, text("string_repeat", S, 7)),
    mapped(ONES, text("string_space", 100_000)),
    mapped(LIST, text("substring", ITEM, number("length", S), 1)),
    mapped(LIST, text("upper", text("string_translate", ITEM, "a", "b"))),
    mapped(LIST, text("if", number("is_null", ITEM), ITEM, "none")),
]


@pytest.mark.parametrize("expr", LARGE, ids=range(len(LARGE)))
def test_what_grows_out_of_memory_may_fail(expr: Expr) -> None:
    assert evaluated(expr, lenient=False).fail.all()


@pytest.mark.parametrize("expr", SMALL, ids=range(len(SMALL)))
def test_what_stays_small_cannot_fail(expr: Expr) -> None:
    assert not evaluated(expr, lenient=False).fail.any()


def test_the_failure_reaches_the_condition() -> None:
    condition = Call("less_than", (number("length", LARGE[1]), Literal(0, "integer")), "boolean")

    assert evaluated(condition).fail.all()


def test_a_part_that_is_not_evaluated_does_not_fail() -> None:
    never = Literal(False, "boolean")
    large = Call("less_than", (number("length", LARGE[0]), Literal(0, "integer")), "boolean")

    assert not evaluated(Call("and", (never, large), "boolean")).fail.any()


@pytest.mark.parametrize("inner", [LARGE[0], Opaque("sequence", "string"), text("sequence", S)])
def test_no_try_hides_want_of_memory(inner: Expr) -> None:
    tried = Call("try_eval", (number("length", inner),), "integer")

    assert evaluated(tried).fail.all()


def test_a_try_hides_other_failures() -> None:
    divided = Call("divide", (Literal(1.0, "double"), Column(6, "x", "double")), "double")

    assert evaluated(divided).fail.all()
    assert not evaluated(Call("try_eval", (divided,), "double")).fail.any()


def test_a_text_in_a_variant_may_be_shown_in_capitals() -> None:
    sizes = size_of(Column(7, "v", "variant"))
    for expr in (
        Call("variant_get", (Column(7, "v", "variant"), Literal("$.a", "string")), "variant"),
        Call("cast", (Column(7, "v", "variant"),), "string"),
        Call("upper", (S,), "string"),
    ):
        sizes = size_of(expr, [sizes])

    assert not sizes.too_large
