"""Law 1: the concrete result of every expression on every row lies in the abstract one."""

import operator
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.expr.entry import Context
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr
from strata.expr.registry import REGISTRY
from strata.expr.spec import Bools, Numbers, Spec, Texts
from tests.support.expressions import TYPES, Enclosed, Part, contains, expressions, parts
from tests.twins.concrete import Failed, evaluate

NOWS = st.integers(0, 10**15)
MANY = settings(max_examples=settings().max_examples * 2)


def _interpreter(low: int, high: int, quarantine: tuple[str, ...] = ()) -> Interpreter:
    return Interpreter(Context(low, high), quarantine, lenient=False)


def _allows(spec: Spec, expr: Expr, row: dict[int, object], now: int) -> bool:
    try:
        return contains(spec, expr.type, evaluate(expr, row, now))  # type: ignore[arg-type]
    except Failed:
        return bool(spec.fail[0])


@pytest.mark.parametrize("kind", TYPES)
@MANY
@given(data=st.data())
def test_every_result_lies_in_the_range(kind: str, data: st.DataObject) -> None:
    expr = data.draw(expressions(kind))
    part = data.draw(parts(expr))
    low, span = data.draw(NOWS), data.draw(st.sampled_from((0, 1, 10**12)))
    spec = _interpreter(low, low + span).evaluate(expr, Enclosed(part))

    for row in part.rows:
        assert _allows(spec, expr, row, low + data.draw(st.integers(0, span)))


@given(expr=expressions("boolean"), now=NOWS, data=st.data())
def test_quarantine_only_widens(expr: Expr, now: int, data: st.DataObject) -> None:
    part = data.draw(parts(expr))
    suspects = data.draw(st.sets(st.sampled_from(sorted(REGISTRY)), max_size=3))
    spec = _interpreter(now, now, tuple(suspects)).evaluate(expr, Enclosed(part))

    assert all(_allows(spec, expr, row, now) for row in part.rows)


class _Together:
    """The environment of several parts at once."""

    def __init__(self, found: list[Part]) -> None:
        self.found = found

    def column(self, column: Column) -> Spec:
        specs = [part.specs[column.id] for part in self.found]
        null = np.concatenate([spec.null for spec in specs])
        values = [spec.values for spec in specs]
        match values[0]:
            case Bools():
                return Spec(Bools(_joined(values, "true"), _joined(values, "false")), null)
            case Numbers():
                names = ("low", "high", "empty", "nan")
                return Spec(Numbers(*(_joined(values, name) for name in names)), null)
            case _:
                empty = _joined(values, "empty")
                return Spec(Texts(_ends(values, "low"), _ends(values, "high"), empty), null)


def _joined(values: list[object], name: str) -> np.ndarray:
    return np.concatenate([getattr(value, name) for value in values])


def _ends(values: list[object], name: str) -> pa.Array:
    bounds = [getattr(value, name) for value in values]
    return pa.array([None if b is None else b[0].as_py() for b in bounds], pa.binary())


@MANY
@given(expr=expressions("boolean"), now=NOWS, data=st.data())
def test_many_parts_at_once_are_as_one_by_one(expr: Expr, now: int, data: st.DataObject) -> None:
    found = data.draw(st.lists(parts(expr), min_size=2, max_size=4))
    together = _interpreter(now, now).evaluate(expr, _Together(found))
    values = together.values
    assert isinstance(values, Bools)
    lanes = [values.true, values.false, together.null, together.fail]
    whole = [np.broadcast_to(lane, len(found)).tolist() for lane in lanes]

    for index, part in enumerate(found):
        alone = _interpreter(now, now).evaluate(expr, Enclosed(part))
        assert isinstance(alone.values, Bools)
        lanes = [alone.values.true, alone.values.false, alone.null, alone.fail]
        assert [lane[index] for lane in whole] == [bool(lane[0]) for lane in lanes]


@given(tests=st.lists(expressions("boolean", 1), min_size=2, max_size=4), data=st.data())
def test_and_is_no_wider_than_its_conjuncts(tests: list[Expr], data: st.DataObject) -> None:
    environment = Enclosed(data.draw(parts(*tests)))
    whole = _interpreter(0, 0).evaluate(Call("and", tuple(tests), "boolean"), environment)
    alone = [_interpreter(0, 0).evaluate(test, environment) for test in tests]
    true = reduce(operator.and_, [bool(spec.values.true[0]) for spec in alone])  # type: ignore[union-attr]

    assert isinstance(whole.values, Bools)
    assert bool(whole.values.true[0]) == true
    assert not whole.fail[0] or any(spec.fail[0] for spec in alone)
