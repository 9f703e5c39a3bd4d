"""`aggregate`: what a lambda makes of lists lies in what the interpreter says of their part."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.expr.elements import Elements
from strata.expr.entry import Context
from strata.expr.functions.folds import folded
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.spec import Bools, Numbers, Spec, exactly
from tests.twins.concrete import Failed, Value, evaluate

SO_FAR, ITEM = "so far", "item"
INTEGERS = st.integers(-9, 9) | st.sampled_from((2**63 - 1, -(2**63), 2**62))
DOUBLES = st.integers(-9, 9).map(lambda n: n / 2) | st.sampled_from((math.inf, 1e308, -1e308))


@dataclass(frozen=True)
class Known:
    """The environment of a step: what has been made so far, and what an element may be."""

    so_far: Spec
    item: Spec

    def column(self, column: Column) -> Spec:
        """Return one of the two."""
        return self.so_far if column.name == SO_FAR else self.item


def bodies(kind: str) -> list[Expr]:
    """Return what lambdas make of the value so far and of an element."""
    so_far, item = Column(1, SO_FAR, kind), Column(2, ITEM, kind)

    def call(function: str, *args: Expr, result: str = kind, mode: str = "ansi") -> Call:
        return Call(function, args, result, (("ansi", mode),))

    one = Literal(1 if kind == "long" else 1.0, kind)
    first, then = (-5, 7) if kind == "long" else (-math.inf, math.nan)
    below = call("less_than", so_far, Literal(0 if kind == "long" else 0.0, kind), result="boolean")
    unknown = call("is_null", so_far, result="boolean")
    later = call("if", below, Literal(then, kind), Literal(None, kind))
    more = call("greater_than", item, so_far, result="boolean")
    return [
        call("add", so_far, item),
        call("add", so_far, item, mode="legacy"),
        call("add", so_far, item, mode="try"),
        call("subtract", item, so_far),
        call("multiply", so_far, item, mode="try"),
        call("add", so_far, one),
        call("greatest", so_far, item),
        call("coalesce", item, so_far),
        call("coalesce", so_far, item),
        call("if", more, item, so_far),
        call("if", unknown, item, so_far),
        call("if", unknown, Literal(first, kind), later),  # null, then a value, then another
        call("add", so_far, call("coalesce", item, one)),
        so_far,
        item,
    ]


def made(body: Expr, start: Value, items: Sequence[Value]) -> Value:
    """Return what Spark's loop makes, an element after the other."""
    return reduce(lambda so_far, item: evaluate(body, {1: so_far, 2: item}, 0), items, start)


def spec_of(values: Sequence[Value], kind: str) -> Spec:
    """Return the least Spec of some values."""
    some = [value for value in values if value is not None]
    null = np.array([len(some) < len(values)])
    if not some:
        return Spec(Numbers(*exact_zero(kind), np.array([True])), null)
    dtype = np.int64 if kind == "long" else np.float64
    low, high = (np.array([pick(some)], dtype) for pick in (min, max))
    return Spec(Numbers(low, high), null)


def exact_zero(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds that mean nothing."""
    zero = np.zeros(1, np.int64 if kind == "long" else np.float64)
    return zero, zero


def holds(spec: Spec, value: Value) -> bool:
    """Return whether a Spec of one part has a value."""
    if value is None:
        return bool(spec.null.any())
    assert isinstance(spec.values, Numbers)
    if isinstance(value, float) and math.isnan(value):
        return bool(spec.values.nan.any())
    inside = spec.values.low[0] <= value <= spec.values.high[0]
    return bool(inside and not spec.values.empty.any())


def fold(body: Expr, start: Value, lists: Sequence[Sequence[Value]], kind: str, steps: int) -> Spec:
    """Return what the interpreter says of the lists of one part."""
    items = spec_of([item for one in lists for item in one], "long" if kind == "boolean" else kind)
    lengths = [len(one) for one in lists]
    known = Elements(
        np.array([False]), lambda: items, np.array([min(lengths)]), np.array([max(lengths)])
    )
    interpreter = Interpreter(Context(0, 0), lenient=False)
    step: Callable[[Spec], Spec] = lambda value: interpreter.evaluate(body, Known(value, items))
    return folded(Spec(known), exactly(start, kind), step, kind, steps)


@pytest.mark.parametrize("kind", ["long", "double"])
@pytest.mark.parametrize("number", range(len(bodies("long"))))
@given(data=st.data(), steps=st.integers(0, 4))
def test_a_lambda_makes_nothing_that_its_range_lacks(
    kind: str, number: int, data: st.DataObject, steps: int
) -> None:
    body, values = bodies(kind)[number], INTEGERS if kind == "long" else DOUBLES
    start = data.draw(st.none() | values)
    lists = data.draw(st.lists(st.lists(st.none() | values, max_size=6), min_size=1, max_size=4))

    found = fold(body, start, lists, kind, steps)

    for one in lists:
        try:
            value = made(body, start, one)
        except Failed:
            assert found.fail.any()
        else:
            assert holds(found, value), (one, value, found)


@pytest.mark.parametrize(("kind", "zero"), [("long", 0), ("double", 0.0)])
def test_what_comes_only_after_three_steps_is_not_lost(kind: str, zero: Value) -> None:
    (chain,) = (body for body in bodies(kind) if repr(body).count("None") == 1)

    for start in (1, 1.0)[kind == "double"], None:
        found = fold(chain, start, [[zero] * size for size in range(6)], kind, 0)

        for size in range(6):
            assert holds(found, made(chain, start, [zero] * size)), size


def test_a_null_that_comes_late_is_not_lost() -> None:
    """A bound moves, then another one, then null comes."""
    so_far = Column(1, SO_FAR, "long")

    def under(bound: int) -> Call:
        return Call("less_than", (so_far, Literal(bound, "long")), "boolean")

    far = Call("if", (under(7), Literal(7, "long"), Literal(None, "long")), "long")
    body = Call("if", (under(0), far, Literal(-5, "long")), "long")
    last = Call(
        "if",
        (
            Call("greater_than", (so_far, Literal(6, "long")), "boolean"),
            Literal(None, "long"),
            body,
        ),
        "long",
    )

    found = fold(last, 1, [[0] * size for size in range(6)], "long", 0)

    assert [made(last, 1, [0] * size) for size in range(4)] == [1, -5, 7, None]
    assert found.null.any()


def test_a_sum_of_short_lists_is_as_narrow_as_its_ends() -> None:
    add = bodies("long")[0]

    found = fold(add, 10, [[1, 3], [2, 2, 2]], "long", 32)

    assert isinstance(found.values, Numbers)
    assert (found.values.low[0], found.values.high[0]) == (12, 19)
    assert not found.fail.any()
    assert not found.null.any()


def test_long_lists_keep_the_bounds_that_no_step_moves() -> None:
    add, greatest = bodies("double")[0], bodies("double")[6]
    items = [0.5] * 40

    total, largest = (fold(body, 0.0, [items], "double", 8) for body in (add, greatest))

    assert isinstance(total.values, Numbers)
    assert (total.values.low[0], total.values.high[0]) == (0.0, math.inf)
    assert not total.values.nan.any()
    lower = fold(add, 0.0, [[-0.5] * 40], "double", 8).values
    assert isinstance(lower, Numbers)
    assert (lower.low[0], lower.high[0]) == (-math.inf, 0.0)
    assert isinstance(largest.values, Numbers)
    assert (largest.values.low[0], largest.values.high[0]) == (0.0, 0.5)


def test_a_sum_of_many_doubles_never_fails() -> None:
    found = fold(bodies("double")[0], 0.0, [[0.5, -0.5] * 20], "double", 8)

    assert not found.fail.any()
    assert not found.null.any()


def test_truth_values_settle() -> None:
    so_far = Column(1, SO_FAR, "boolean")
    item = Column(2, ITEM, "long")
    more = Call("greater_than", (item, Literal(5, "long")), "boolean")
    body = Call("or", (so_far, more), "boolean")

    found = fold(body, False, [[1] * 9], "boolean", 2)

    assert isinstance(found.values, Bools)
    assert (found.values.true.any(), found.values.false.any()) == (False, True)
