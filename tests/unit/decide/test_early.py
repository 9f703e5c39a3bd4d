"""What an early look does with the conjunct: calls are settled only where each part has values."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata.decide.early import EarlyLook
from strata.expr.entry import Context
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.spec import NO, Numbers, Spec, Texts
from tests.spec.language import col


class Parts:
    """Two parts, in both of which each column holds 1 to 9; the second may hold nothing."""

    def __init__(self, *, empty: bool) -> None:
        self._empty = np.array([False, empty])

    def column(self, _: Column) -> Spec:
        low, high = (np.array([end, end], np.int64) for end in (1, 9))
        return Spec(Numbers(low, high, self._empty, NO))


def looked(conjunct: Expr, *, empty: bool) -> Expr:
    interpreter = Interpreter(Context(0, 0), lenient=False)
    return EarlyLook(conjunct, interpreter, Parts(empty=empty), 2, null_matters=False).conjunct


def test_a_call_is_settled_only_where_no_part_is_without_a_value() -> None:
    conjunct = ((col("n") < 0) | (col("m") > 5)).expr
    assert isinstance(conjunct, Call)

    settled = looked(conjunct, empty=False)

    assert isinstance(settled, Call)
    assert settled.args == (Literal(False, "boolean"), conjunct.args[1])
    assert looked(conjunct, empty=True) is conjunct


def test_a_column_of_long_decimals_may_be_without_a_value_too() -> None:
    """Their bounds are Python's integers, so that blocks of them are not judged together."""

    class Mixed(Parts):
        def column(self, column: Column) -> Spec:
            if column.name == "n":
                return Parts(empty=False).column(column)
            low, high = (np.array([end, end], object) for end in (1, 9))
            return Spec(Numbers(low, high, self._empty if self._empty.any() else NO, NO))

    long = Column(9, "long", "decimal(30,0)")
    above = Call("greater_than", (long, Literal(5, "decimal(30,0)")), "boolean")
    conjunct = Call("or", ((col("n") < 0).expr, above), "boolean")
    interpreter = Interpreter(Context(0, 0), lenient=False)

    def found(*, empty: bool) -> Any:
        parts = Mixed(empty=empty)
        return EarlyLook(conjunct, interpreter, parts, 2, null_matters=False).conjunct

    assert found(empty=False) is not conjunct
    assert found(empty=True) is conjunct


@pytest.mark.parametrize("null_matters", [False, True])
def test_a_part_with_a_null_stays_where_what_follows_a_null_may_fail(null_matters: bool) -> None:
    class Named:
        def column(self, _: Column) -> Spec:
            names = pa.array([b"aa", b"bb", b"cc"], pa.binary())
            return Spec(Texts(names, names), np.array([False, True, False]), NO)

    name = Column(1, "name", "string")
    conjunct = Call("equal_to", (name, Literal("cc", "string")), "boolean")
    look = EarlyLook(conjunct, Interpreter(Context(0, 0)), Named(), 3, null_matters=null_matters)

    out = look.ruled_out(Named(), slice(0, 3))

    assert out.tolist() == [True, not null_matters, False]
