"""What is said of many texts at once is what is said of each: results, and what parts may hold."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.expr.entry import Context
from strata.expr.functions import exact_texts, many_texts
from strata.expr.functions.points import Evaluate, NotEvaluated, pointwise
from strata.expr.nodes import Call, Column, Literal
from strata.expr.registry import REGISTRY
from strata.expr.sparktype import spark_type
from strata.expr.spec import NO, Bools, Numbers, Spec, Texts, anything, exactly

PIECES = ("", "a", "aa", "b", " ", "ab", "é", "%", ".", "_", "\0", None)
PATTERNS = ("a%", "%a", "%b%", "ab", "a_", "%", "%%a", "\\%%", "%é%", "a%b", "%\\_", "", "a%%")
PLACES = (0, 1, 2, -1, -2, -5, 9, 2**31 - 1, -(2**31), 1 << 21, None)
ASCII = (
    *("", "a", "b", "ab", "ba", "aa", "aaaa", "Ab cD", "a b a b", " a ", "  ", "aab", "xab", "abx"),
    *("z\nab", "a%b", "%", "a_", ".a.b.", "\0a", "a\0", "\x7f", "ABC xyz", "a1 b2", "bab-bab"),
    *("b" * 256, "ab" + "a" * 255, "x" * 300 + "b"),
)
TEXTS = st.text("abAB zé%_.\x00\x7f\n", max_size=7) | st.sampled_from(ASCII)

# What stands beside the text: its place among the arguments, constants, the type of the result.
FORMS: dict[str, tuple[int, tuple[tuple[Any, ...], ...], str]] = {
    "upper": (0, (), "string"),
    "lower": (0, (), "string"),
    "init_cap": (0, (), "string"),
    "reverse": (0, (), "string"),
    "length": (0, (), "integer"),
    "bit_length": (0, (), "integer"),
    "code_of_first": (0, (), "integer"),
    "substring": (0, (PLACES, PLACES), "string"),
    "joined_texts": (1, (PIECES, PIECES), "string"),
    "ends_with": (0, (PIECES,), "boolean"),
    "contains": (0, (PIECES,), "boolean"),
    "like": (0, (PATTERNS,), "boolean"),
    "stripped": (0, (PIECES,), "string"),
    "trim_left": (0, (PIECES,), "string"),
    "trim_right": (0, (PIECES,), "string"),
    "replaced": (0, (PIECES, PIECES), "string"),
    "translated": (0, (PIECES, PIECES), "string"),
    "split_part": (0, (PIECES, PLACES), "string"),
    "substring_index": (0, (PIECES, PLACES), "string"),
    "first_place": (0, (PIECES,), "integer"),
    "locate": (1, (PIECES, (1, 2)), "integer"),
}
# Texts of ASCII, and constants beside them, of which each result is known at once.
KNOWN: dict[str, tuple[tuple[Any, ...], ...]] = {
    "substring": ((2, 2), (0, 3), (-1, 1), (1, 0), (-1, 0), (-1, 9)),
    "joined_texts": (("x", "y"), ("", "é")),
    "ends_with": (("b",), ("ab",)),
    "contains": (("b",), ("ab",)),
    "like": (("%b%",), ("b%",), ("%b",), ("b",)),
    "stripped": (("a",),),
    "trim_left": (("a",),),
    "trim_right": (("a",),),
    "replaced": (("a", "x"), ("ab", ""), ("a", "é")),
    "translated": (("ab", "xy"), ("a", "xy"), ("aa", "xy")),
    "split_part": (("b", 1), ("b", -1), ("b", 9), ("ab", 2)),
    "substring_index": (("b", 1), ("b", -1), ("ab", 1)),
    "first_place": (("b",), ("ab",)),
    "locate": (("b", 1), ("ab", 1)),
}


def of_texts(name: str) -> Callable[[Call, tuple[Any, ...]], pa.Array]:
    found: Callable[[Call, tuple[Any, ...]], pa.Array] = getattr(many_texts, name)
    return found


def arguments(name: str, text: object, constants: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments in their order."""
    place = FORMS[name][0]
    return (*constants[:place], text, *constants[place:])


def one_by_one(name: str, text: str, constants: tuple[Any, ...]) -> Any:
    try:
        return getattr(exact_texts, name)(
            Call(name, (), FORMS[name][2]), arguments(name, text, constants)
        )
    except NotEvaluated:
        return None


def test_all_functions_of_many_texts_are_here() -> None:
    there = {
        name
        for name, found in vars(many_texts).items()
        if callable(found) and getattr(found, "__module__", "") == many_texts.__name__
    }
    assert {name for name in there if not name.startswith("_")} == set(FORMS)


@pytest.mark.parametrize("name", FORMS)
def test_results_of_many_texts_are_those_of_each(name: str) -> None:
    array = pa.array(["skipped", None, *ASCII], pa.string()).slice(1)  # begins within its buffers
    for constants in product(*FORMS[name][1]):
        try:
            made = of_texts(name)(Call(name, (), ""), arguments(name, array, constants))
        except NotEvaluated:
            continue
        first, *others = made.to_pylist()
        assert first is None
        assert len(others) == len(ASCII)
        for text, result in zip(ASCII, others, strict=True):
            assert result is None or result == one_by_one(name, text, constants)


@pytest.mark.parametrize("name", FORMS)
def test_plain_texts_are_evaluated_at_once(name: str) -> None:
    texts = ["ab", "b", "Bab a", "x" * 255 + "b"]
    for constants in KNOWN.get(name, ((),)):
        made = of_texts(name)(Call(name, (), ""), arguments(name, pa.array(texts), constants))

        assert made.to_pylist() == [one_by_one(name, text, constants) for text in texts]
        assert not made.null_count


PARTS = st.lists(
    st.tuples(
        TEXTS | st.none(), TEXTS | st.none(), st.integers(0, 3), st.booleans(), st.booleans()
    ),
    min_size=1,
    max_size=6,
)


def ranges(drawn: list[Any]) -> Spec:
    """Return parts: three of four have one text; a bound of None is open."""
    low = [None if a is None else a.encode() for a, *_ in drawn]
    high = [
        one if kind else None if b is None else b.encode()
        for one, (_, b, kind, *_) in zip(low, drawn, strict=True)
    ]
    empty, null = (np.array([row[place] for row in drawn]) for place in (3, 4))
    return Spec(Texts(pa.array(low, pa.binary()), pa.array(high, pa.binary()), empty), null)


def opened(call: Call, args: Any, context: Context) -> Spec:
    """Return the rule that knows nothing."""
    return anything(call.type)


def seen(spec: Spec, parts: int) -> list[tuple[Any, ...]]:
    """Return what each part may hold."""

    def each(end: Any) -> list[Any]:
        if end is None or isinstance(end, pa.Scalar):
            return [end.as_py() if end is not None else None] * parts
        found = end.to_pylist() if isinstance(end, pa.Array) else end.tolist()
        return found * parts if len(found) == 1 else found

    values = spec.values
    fields: tuple[Any, ...] = (spec.null, spec.fail)
    match values:
        case Texts() | Numbers():
            fields += (values.low, values.high, values.empty)
        case Bools():
            fields += (values.true, values.false)
    return list(zip(*map(each, fields), strict=True))


@pytest.mark.parametrize("name", FORMS)
@given(data=st.data())
def test_parts_may_hold_the_same_whether_at_once_or_one_by_one(
    name: str, data: st.DataObject
) -> None:
    drawn = data.draw(PARTS)
    constants = tuple(data.draw(st.sampled_from(one)) for one in FORMS[name][1])
    given_ = tuple(Literal(c, "integer" if isinstance(c, int) else "string") for c in constants)
    call = Call(name, arguments(name, Column(1, "x", "string"), given_), FORMS[name][2])
    specs = [exactly(one.value, one.type) for one in given_]
    args = arguments(name, ranges(drawn), tuple(specs))
    evaluate: Evaluate = getattr(exact_texts, name)

    fast = pointwise(opened, evaluate, many=of_texts(name))(call, args, Context(0, 0))
    slow = pointwise(opened, evaluate)(call, args, Context(0, 0))

    assert seen(fast, len(drawn)) == seen(slow, len(drawn))


def test_a_text_that_is_not_utf8_is_left_to_the_rule() -> None:
    bound = pa.array([b"a", b"\xff", b"\xc3\xa9", b"b"], pa.binary())
    call = Call("length", (Column(1, "x", "string"),), "integer")
    rule = pointwise(opened, exact_texts.length, many=many_texts.length)
    found = rule(call, [Spec(Texts(bound, bound, NO))], Context(0, 0)).values

    assert isinstance(found, Numbers)
    whole = spark_type("integer")
    assert found.low.tolist() == [1, whole.low, 1, 1]
    assert found.high.tolist() == [1, whole.high, 1, 1]


@pytest.mark.parametrize("name", ["upper", "concat", "like", "split_part", "cast", "string_instr"])
def test_a_certificate_is_of_the_module_of_the_rule(name: str) -> None:
    assert not REGISTRY[name].transfer.__module__.endswith(".points")


def test_a_result_that_would_be_huge_is_left_to_the_one_by_one() -> None:
    texts = pa.array(["a" * (1 << 19), "ba"])
    for function, other in ((many_texts.replaced, "bc"), (many_texts.replaced, "b")):
        made = function(Call("replaced", (), ""), (texts, "a", other)).to_pylist()
        assert (made[0] is None) == (one_by_one("replaced", "a" * (1 << 19), ("a", other)) is None)
        assert made[1] == "b" + other
