"""Results of single values stand in their parts, and what the rule says stands in all others."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata.expr.elements import Elements
from strata.expr.entry import Context
from strata.expr.functions import exact_texts, many_texts
from strata.expr.functions.points import NotEvaluated, numbers_of, pointwise
from strata.expr.nodes import Call, Column, Literal
from strata.expr.registry import REGISTRY
from strata.expr.spec import NO, YES, Bools, Numbers, Spec, Texts, exactly

NOW = Context(0, 0)
X, Y = Column(1, "x", "string"), Column(2, "y", "string")


def texts(low: list[bytes | None], high: list[bytes | None], null: Any = NO) -> Spec:
    return Spec(Texts(pa.array(low, pa.binary()), pa.array(high, pa.binary())), null)


def single(some: list[bytes | None], null: Any = NO, *, alike: bool = False) -> Spec:
    """Return one text for each part; `alike`: both bounds are one array."""
    bound = pa.array(some, pa.binary())
    return Spec(Texts(bound, bound), null) if alike else texts(some, some, null)


def part(spec: Spec, number: int) -> Spec:
    """Return what is known of one part."""

    def at(flags: Any) -> Any:
        return flags if flags.size == 1 else flags[[number]]

    assert isinstance(spec.values, Texts)
    low, high = (end[number : number + 1] for end in (spec.values.low, spec.values.high))
    return Spec(Texts(low, high, at(spec.values.empty)), at(spec.null), at(spec.fail))


def ends(spec: Spec, parts: int) -> list[tuple[Any, Any]]:
    """Return the bounds of each part."""
    values = spec.values
    assert isinstance(values, Texts)
    low, high = (
        [end.as_py() if isinstance(end, pa.Scalar) else None] * parts
        if end is None or isinstance(end, pa.Scalar) or len(end) < parts
        else end.to_pylist()
        for end in (values.low, values.high)
    )
    return list(zip(low, high, strict=True))


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("odd", [b"\xff", b"\x80", "é".encode()])
def test_the_rule_stands_where_nothing_is_evaluated(odd: bytes, *, at_once: bool) -> None:
    def rule(call: Call, args: Any, context: Context) -> Spec:
        seven, twelve = np.full(3, 7), np.full(3, 12)
        return Spec(Numbers(seven, twelve), np.array([True] * 3), np.array([True] * 3))

    def evaluated(call: Call, args: tuple[Any, ...]) -> int:
        if not args[0].isascii():
            raise NotEvaluated
        return len(args[0])

    many = many_texts.length if at_once else None
    call = Call("length", (X,), "integer")
    found = pointwise(rule, evaluated, many=many)(call, [single([b"ab", odd, b""])], NOW)

    assert isinstance(found.values, Numbers)
    assert found.values.low.tolist() == [2, 7, 0]
    assert found.values.high.tolist() == [2, 12, 0]
    assert found.null.tolist() == found.fail.tolist() == [False, True, False]


def test_the_rule_is_not_asked_where_everything_is_evaluated() -> None:
    def rule(call: Call, args: Any, context: Context) -> Spec:
        raise AssertionError

    call = Call("upper", (X,), "string")
    asked = pointwise(rule, exact_texts.upper, many=many_texts.upper)
    null = np.array([False, True])
    found = asked(call, [single([b"ab", b"C"], null)], NOW)

    assert ends(found, 2) == [(b"AB", b"AB"), (b"C", b"C")]
    assert found.null.tolist() == [False, True]
    assert not found.fail.any()


def test_texts_are_evaluated_at_once_where_one_argument_varies() -> None:
    """Of two that vary the results are made one after another."""

    def rule(call: Call, args: Any, context: Context) -> Spec:
        raise AssertionError

    def of_each(call: Call, args: tuple[Any, ...]) -> str:
        return "each " + "".join(args)

    def of_many(call: Call, args: tuple[Any, ...]) -> pa.Array:
        return pa.array(["many", "many"])

    call = Call("joined_texts", (X, Y), "string")
    asked = pointwise(rule, of_each, many=of_many)
    two = single([b"a", b"b"])

    at_once = asked(call, [two, exactly("c", "string")], NOW)
    assert ends(at_once, 2) == [(b"many", b"many")] * 2
    one_by_one = asked(call, [two, single([b"c", b"d"])], NOW)
    assert ends(one_by_one, 2) == [(b"each ac", b"each ac"), (b"each bd", b"each bd")]


@pytest.mark.parametrize("function", ["upper", "length", "init_cap"])
def test_one_array_of_bounds_is_as_two(function: str) -> None:
    """An open bound is no text, also where it is the same on both sides."""
    some = [b"ab", None, "é".encode(), b"", b"Ab c"]
    call = Call(function, (X,), "integer" if function == "length" else "string")
    transfer = REGISTRY[function].transfer
    one, two = (transfer(call, [single(some, alike=a)], NOW) for a in (True, False))

    if isinstance(one.values, Numbers):
        assert isinstance(two.values, Numbers)
        assert one.values.low.tolist() == two.values.low.tolist() == [2, 0, 1, 0, 4]
        assert one.values.high.tolist() == two.values.high.tolist() == [2, 2**31 - 1, 1, 0, 4]
    else:
        assert ends(one, 5) == ends(two, 5)
        assert ends(one, 5)[0][0] in (b"AB", b"Ab")
        assert ends(one, 5)[1] == (None, None)


def test_whole_numbers_are_single_where_both_bounds_are_equal() -> None:
    """Numbers held as fractions are not; nor is what may be no number."""
    call = Call("substring", (X, Column(3, "n", "integer"), Literal(1, "integer")), "string")
    low, high = np.array([1, 1, 2, 3]), np.array([1, 2, 2, 3])
    none = np.array([False, False, False, True])
    transfer, text = REGISTRY["substring"].transfer, single([b"abc"] * 4)

    found = transfer(call, [text, Spec(Numbers(low, high, none)), exactly(1, "integer")], NOW)
    assert ends(found, 4) == [(b"a", b"a"), (None, None), (b"b", b"b"), (None, None)]

    for odd in (Numbers(low * 1.0, high * 1.0), Numbers(low, high, NO, YES)):
        found = transfer(call, [text, Spec(odd), exactly(1, "integer")], NOW)
        assert ends(found, 4) == [(None, None)] * 4


@pytest.mark.parametrize("function", ["concat", "contains", "string_replace"])
def test_texts_that_vary_together_are_evaluated_as_in_each_part(function: str) -> None:
    some: list[bytes | None] = [b"ab", b"b", b"", b"ab", None, b"bab"]
    pairs = [(a, b) for a in some for b in some]
    left, right = (single([pair[side] for pair in pairs]) for side in (0, 1))
    more = (Literal("x", "string"),) if function == "string_replace" else ()
    call = Call(function, (X, Y, *more), "boolean" if function == "contains" else "string")
    specs = [exactly(one.value, one.type) for one in more]
    transfer = REGISTRY[function].transfer
    whole = transfer(call, [left, right, *specs], NOW)

    for number in range(len(pairs)):
        alone = transfer(call, [part(left, number), part(right, number), *specs], NOW)
        if isinstance(whole.values, Bools):
            assert isinstance(alone.values, Bools)
            for side in ("true", "false"):
                flags = np.broadcast_to(getattr(whole.values, side), len(pairs))
                assert flags[number] == getattr(alone.values, side)[0]
        else:
            assert ends(whole, len(pairs))[number] == ends(alone, 1)[0]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_an_argument_that_may_be_null_is_left_out_or_not(parts: int) -> None:
    """`concat_ws` leaves nulls out, so that two texts are possible."""
    call = Call("concat_ws", (Literal("-", "string"), X), "string")
    null = np.array([True, False, False][:parts])
    given = [exactly("-", "string"), single([b"a"] * parts, null)]
    found = REGISTRY["concat_ws"].transfer(call, given, NOW)

    assert ends(found, parts) == [(None, None), (b"a", b"a"), (b"a", b"a")][:parts]


@pytest.mark.parametrize("function", ["upper", "substring_index", "ends_with"])
def test_two_parts_are_not_one(function: str) -> None:
    more = {"substring_index": ("b", 1), "ends_with": ("b",)}.get(function, ())
    constants = [Literal(c, "string" if isinstance(c, str) else "integer") for c in more]
    kind = "boolean" if function == "ends_with" else "string"
    call = Call(function, (X, *constants), kind)
    specs = [exactly(one.value, one.type) for one in constants]
    found = REGISTRY[function].transfer(call, [single([b"ab", b"cd"]), *specs], NOW)

    if isinstance(found.values, Bools):
        assert found.values.true.tolist() == [True, False]
    else:
        wanted = {"upper": [b"AB", b"CD"], "substring_index": [b"a", b"cd"]}[function]
        assert ends(found, 2) == [(one, one) for one in wanted]


def test_lists_of_single_texts_are_written_out() -> None:
    constants = (Literal("-", "string"), Literal(-1, "integer"))
    call = Call("string_split", (X, *constants), "array<string>", (("checked", "true"),))
    specs = [exactly(one.value, one.type) for one in constants]
    transfer = REGISTRY["string_split"].transfer
    found = transfer(call, [single([b"a-b", b"c", b"d-e-f"]), *specs], NOW).values

    assert isinstance(found, Elements)
    assert found.shortest.tolist() == found.longest.tolist() == [2, 1, 3]
    members = [ends(one, 3) for one in found.members]
    assert members == [
        [(b"a", b"a"), (b"c", b"c"), (b"d", b"d")],
        [(b"b", b"b"), (None, None), (b"e", b"e")],
        [(None, None), (None, None), (b"f", b"f")],
    ]
    mixed = transfer(call, [texts([b"a-b", b"a-"], [b"a-b", b"a-z"]), *specs], NOW).values
    assert isinstance(mixed, Elements)
    assert mixed.longest.tolist() != [2, 1]
    assert np.broadcast_to(mixed.longest, 2)[1] > 2


@pytest.mark.parametrize(
    "spec",
    [
        Spec(Texts(None, None)),
        Spec(Numbers(np.array([1]), np.array([2]), YES)),
        Spec(Numbers(np.array([1.0]), np.array([2.0]), NO, YES)),
        Spec(Numbers(np.array([1], object), np.array([2], object))),
        Spec(Numbers(np.array([1]), np.array([2])), YES),
        Spec(Numbers(np.array([1]), np.array([2])), NO, YES),
    ],
)
def test_only_certain_numbers_have_bounds(spec: Spec) -> None:
    with pytest.raises(NotEvaluated):
        numbers_of(spec)

    assert numbers_of(Spec(Numbers(np.array([1]), np.array([2])))) == (1, 2)
