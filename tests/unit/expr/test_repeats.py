"""Calls that occur twice are evaluated once in an environment, with the same result."""

from collections import Counter

import numpy as np
import pytest

from strata.expr import interpret
from strata.expr.entry import Context, Entry
from strata.expr.interpret import Interpreter, Unknown
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.registry import REGISTRY
from strata.expr.repeats import with_repeats
from strata.expr.spec import Numbers, Spec

X = Column(1, "x", "integer")


def call(function: str, *args: Expr, kind: str = "boolean") -> Call:
    return Call(function, args, kind)


def plus(n: object, kind: str = "integer") -> Call:
    return call("add", X, Literal(n, kind), kind=kind)


class Holding:
    """An environment in which a column is one number."""

    def __init__(self, number: int) -> None:
        self.number = np.array([number])

    def column(self, column: Column) -> Spec:
        """Return the number."""
        return Spec(Numbers(self.number, self.number))


def test_equal_calls_become_one_object_and_others_stay_apart() -> None:
    expr = call(
        "or",
        call("less_than", plus(1), Literal(5, "integer")),
        call("less_than", plus(1), Literal(6, "integer")),
        call("less_than", plus(2), Literal(True, "integer")),
        call("less_than", plus(True), Literal(6, "integer")),
        call("less_than", plus(1, "long"), Literal(6, "long")),
        call("less_than", plus(0.0, "double"), plus(-0.0, "double")),
    )
    found, repeated = with_repeats(expr)

    assert found == expr
    assert isinstance(found, Call)
    first, second, *others = (arg.args[0] for arg in found.args if isinstance(arg, Call))
    assert first is second
    assert repeated == {id(first)}
    assert len({id(one) for one in others}) == len(others)


def test_constants_are_not_counted() -> None:
    one = call("add", Literal(1, "integer"), Literal(2, "integer"), kind="integer")
    same = call("add", Literal(1, "integer"), Literal(2, "integer"), kind="integer")

    assert with_repeats(call("less_than", one, same))[1] == frozenset()


def test_a_repeated_call_is_evaluated_once_in_each_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: Counter[str] = Counter()
    entry = REGISTRY["add"]

    def counted(node: Call, args: object, context: Context) -> Spec:
        times["add"] += 1
        return entry.transfer(node, args, context)  # type: ignore[arg-type]

    changed = Entry("add", entry.arguments, entry.arity, counted, entry.note)
    monkeypatch.setattr(interpret, "REGISTRY", {**REGISTRY, "add": changed})
    expr, repeated = with_repeats(
        call("or", *(call("less_than", plus(1), Literal(n, "integer")) for n in range(5)))
    )
    interpreter = Interpreter(Context(0, 0), repeated=repeated)
    for number in (1, 7, 1):
        environment = Holding(number)
        found = interpreter.evaluate(expr, environment)
        alone = Interpreter(Context(0, 0)).evaluate(expr, environment)

        assert (found.values.true, found.values.false) == (alone.values.true, alone.values.false)  # type: ignore[union-attr]
    assert times["add"] == 3 * (1 + 5)
    interpreter.evaluate(expr, Unknown())
    assert times["add"] == 3 * (1 + 5) + 1
