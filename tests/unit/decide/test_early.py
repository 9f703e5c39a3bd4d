"""What an early look does with the conjunct: calls are settled only where each part has values."""

import numpy as np

from strata.decide.early import EarlyLook
from strata.expr.entry import Context
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.spec import NO, Numbers, Spec
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
