"""Functions that choose one of their arguments: if, case_when, coalesce, greatest, least."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from strata.expr.entry import Context, Entry, bools
from strata.expr.nodes import Call
from strata.expr.spec import (
    NO,
    YES,
    Bools,
    Flags,
    Numbers,
    Spec,
    Texts,
    Values,
    everything,
    gate,
    hull,
    none_of,
    occupied,
    text_greatest,
    text_least,
)


class _Choice:
    """Collects the branches that may be taken, and the parts where each may be."""

    def __init__(self, type_name: str) -> None:
        self.values: Values = none_of(everything(type_name))
        self.null: Flags = NO
        self.fail: Flags = NO

    def add(self, branch: Spec, where: Flags) -> None:
        values = gate(branch.values, where)
        self.values = hull(self.values, values) if occupied(self.values).any() else values
        self.null = self.null | (branch.null & where)
        self.fail = self.fail | (branch.fail & where)

    def spec(self) -> Spec:
        return Spec(self.values, self.null, self.fail)


def _case_when(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the branches that may be reached; the branch of a null condition is not taken."""
    choice, reached = _Choice(call.type), YES
    for condition, value in zip(args[0:-1:2], args[1::2], strict=False):
        test = bools(condition)
        choice.fail = choice.fail | (reached & condition.fail)
        choice.add(value, reached & test.true)
        reached = reached & (test.false | condition.null)
    if len(args) % 2:
        choice.add(args[-1], reached)
    else:
        choice.null = choice.null | reached
    return choice.spec()


def _coalesce(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    choice, reached = _Choice(call.type), YES
    for arg in args:
        choice.add(arg, reached)
        reached = reached & arg.null
    return Spec(choice.values, reached, choice.fail)


Both = Callable[[Values, Values], Values]


def _greater(a: Values, b: Values) -> Values:
    """Return the greater of two non-null values; NaN is the greatest number."""
    match a, b:
        case Numbers(), Numbers():
            low, high = np.maximum(a.low, b.low), np.maximum(a.high, b.high)
            return Numbers(low, high, a.empty | b.empty, a.nan | b.nan)
        case Texts(), Texts():
            low = text_greatest(a.low, b.low, open_wins=False)
            return Texts(low, text_greatest(a.high, b.high), a.empty | b.empty)
        case Bools(), Bools():
            return Bools(a.true | b.true, a.false & b.false)
        case _:
            return hull(a, b)


def _lesser(a: Values, b: Values) -> Values:
    match a, b:
        case Numbers(), Numbers():
            low, high = np.minimum(a.low, b.low), np.minimum(a.high, b.high)
            both: Values = Numbers(low, high, a.empty | b.empty, a.nan & b.nan)
            # Compared with NaN, any other number is the lesser one.
            if a.nan.any():
                both = hull(both, Numbers(b.low, b.high, b.empty | ~a.nan))
            return hull(both, Numbers(a.low, a.high, a.empty | ~b.nan)) if b.nan.any() else both
        case Texts(), Texts():
            high = text_least(a.high, b.high, open_wins=False)
            return Texts(text_least(a.low, b.low), high, a.empty | b.empty)
        case Bools(), Bools():
            return Bools(a.true & b.true, a.false | b.false)
        case _:
            return hull(a, b)


def _extreme(pick: Both) -> Callable[[Call, Sequence[Spec], Context], Spec]:
    """Return the transfer of greatest or least: nulls are passed over."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        result = args[0]
        for arg in args[1:]:
            there = occupied(result.values) & occupied(arg.values)
            choice = _Choice(call.type)
            choice.add(Spec(pick(result.values, arg.values)), there)
            choice.add(Spec(result.values), arg.null)
            choice.add(Spec(arg.values), result.null)
            result = Spec(choice.values, result.null & arg.null, result.fail | arg.fail)
        return result

    return transfer


def _if(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return _case_when(call, args, context)


ENTRIES: Final = (
    Entry("if", "condition, then, otherwise", (3, 3), _if, "the branches that may be taken"),
    Entry(
        "case_when",
        "condition, value, ..., [otherwise]",
        (2, None),
        _case_when,
        "the branches that may be reached, in order",
    ),
    Entry("coalesce", "x, ...", (1, None), _coalesce, "stops at the first that is never null"),
    Entry("greatest", "x, ...", (2, None), _extreme(_greater), "monotone; passes over nulls"),
    Entry("least", "x, ...", (2, None), _extreme(_lesser), "monotone; passes over nulls"),
)
