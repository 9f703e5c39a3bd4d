"""The interpreter opens what it does not understand, and evaluates constants once."""

import numpy as np
import pytest

from strata.expr.entry import Context
from strata.expr.interpret import Interpreter, Unknown
from strata.expr.nodes import Call, Column, Expr, Literal, Opaque
from strata.expr.spec import Bools, Numbers, Spec

ONE = Literal(1, "integer")
COLUMN = Column(1, "n", "integer")


class _Parts:
    def __init__(self, *ranges: tuple[int, int]) -> None:
        low, high = zip(*ranges, strict=True)
        self.spec = Spec(Numbers(np.array(low), np.array(high)))

    def column(self, column: Column) -> Spec:
        return self.spec


def _interpreter(**options: bool) -> Interpreter:
    return Interpreter(Context(100, 200), **options)


@pytest.mark.parametrize(
    "expr",
    [
        Opaque("rand()", "boolean"),
        Call("rand", (), "boolean"),
        Call("not", (), "boolean"),
        Call("less_than", (ONE, ONE, ONE), "boolean"),
    ],
)
def test_what_is_not_understood_may_be_anything(expr: Expr) -> None:
    interpreter = _interpreter()
    spec = interpreter.evaluate(expr, Unknown())

    assert isinstance(spec.values, Bools)
    assert (spec.values.true[0], spec.values.false[0]) == (True, True)
    assert spec.null[0]
    assert spec.fail[0]
    assert id(expr) in interpreter.opened


def test_a_bug_in_a_rule_opens_the_call_unless_tests_want_to_see_it() -> None:
    malformed = Call("date_trunc", (Literal("day", "string"), Literal("x", "string")), "timestamp")

    assert _interpreter().evaluate(malformed, Unknown()).fail[0]
    with pytest.raises(AssertionError):
        _interpreter(lenient=False).evaluate(malformed, Unknown())


def test_one_evaluation_is_for_every_part() -> None:
    expr = Call("less_than", (COLUMN, Literal(5, "integer")), "boolean")
    spec = _interpreter().evaluate(expr, _Parts((1, 2), (4, 5), (6, 9)))

    assert isinstance(spec.values, Bools)
    assert spec.values.true.tolist() == [True, True, False]
    assert spec.values.false.tolist() == [False, True, True]


def test_constants_are_kept_and_columns_are_not() -> None:
    expr = Call("add", (COLUMN, Call("add", (ONE, ONE), "integer")), "integer")
    interpreter = _interpreter()
    first = interpreter.evaluate(expr, _Parts((1, 1)))
    second = interpreter.evaluate(expr, _Parts((5, 5)))

    assert isinstance(first.values, Numbers)
    assert isinstance(second.values, Numbers)
    assert (first.values.low[0], second.values.low[0]) == (3, 7)


def test_the_clock_is_a_range() -> None:
    spec = _interpreter().evaluate(Call("current_timestamp", (), "timestamp"), Unknown())

    assert isinstance(spec.values, Numbers)
    assert (spec.values.low[0], spec.values.high[0]) == (100, 200)


def test_a_fault_in_a_fold_opens_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*args: object) -> Spec:
        raise ValueError("a fault")

    monkeypatch.setattr("strata.expr.interpret.folded", faulty)
    items, variable = Column(2, "items", "array<int>"), (("variable", "0"),)
    so_far = Call("accumulated", (items,), "integer", variable)
    fold = Call("aggregate", (items, ONE, so_far, so_far), "integer", variable)

    spec = _interpreter().evaluate(fold, Unknown())

    assert spec.fail.all()
    assert spec.null.all()
    with pytest.raises(ValueError, match="a fault"):
        _interpreter(lenient=False).evaluate(fold, Unknown())
