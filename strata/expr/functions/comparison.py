"""Comparisons of two ranges: true is possible, false is possible.

NaN equals NaN and is greater than every number; -0.0 equals 0.0. Texts compare by bytes;
another collation is not tracked and opens the answer. A constant that is certainly not among the
members of a place equals none of its values.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np

from strata.expr.entry import Context, Entry, Outcome, family, strict, texts
from strata.expr.members import may_occur, single
from strata.expr.nodes import Call, Literal
from strata.expr.spec import (
    NO,
    YES,
    Bools,
    Flags,
    Json,
    Numbers,
    Spec,
    Texts,
    both,
    either,
    negated,
    occupied,
    text_compare,
)

# With more constants than this, `in` bisects them instead of comparing one after the other.
_MANY_ITEMS: Final = 8


def _numbers_less(a: Numbers, b: Numbers, *, equal: bool) -> Flags:
    """Return where some number of `a` is less (or equal) than some number of `b`."""
    bounds = (a.low <= b.high) if equal else (a.low < b.high)
    less = both(bounds, neither(a.empty, b.empty))
    if b.nan is not NO:
        some = negated(a.empty)
        less = either(less, both(b.nan, either(some, a.nan) if equal else some))
    return less


def neither(a: Flags, b: Flags) -> Flags:
    """Return where neither flag is set."""
    return negated(either(a, b))


def _texts_less(a: Texts, b: Texts, *, equal: bool) -> Flags:
    operation = "less_equal" if equal else "less"
    return both(text_compare(operation, a.low, b.high), neither(a.empty, b.empty))


def _bools_less(a: Bools, b: Bools, *, equal: bool) -> Flags:
    less = both(a.false, b.true)
    if not equal:
        return less
    return either(less, either(both(a.true, b.true), both(a.false, b.false)))


def may_be_less(left: Spec, right: Spec, *, equal: bool) -> Flags:
    """Return where some value on the left is less (or equal) than some value on the right."""
    match left.values, right.values:
        case Numbers() as a, Numbers() as b if _same_width(a, b):
            return _numbers_less(a, b, equal=equal)
        case ((Texts() | Json()), (Texts() | Json())):
            return _texts_less(texts(left), texts(right), equal=equal)
        case Bools() as a, Bools() as b:
            return _bools_less(a, b, equal=equal)
        case a, b:
            return both(occupied(a), occupied(b))


def may_be_equal(left: Spec, right: Spec) -> Flags:
    """Return where some value on the left equals some value on the right."""
    possible = _ranges_meet(left, right)
    for one, other in ((left, right), (right, left)):
        if (value := single(other.values)) is not None:
            possible = both(possible, may_occur(one.values, value))
    return possible


def _ranges_meet(left: Spec, right: Spec) -> Flags:
    """Return where the ranges of two sides have a value in common."""
    match left.values, right.values:
        case Numbers() as a, Numbers() as b if _same_width(a, b):
            overlap = both((a.low <= b.high) & (b.low <= a.high), neither(a.empty, b.empty))
            return either(overlap, both(a.nan, b.nan))
        case Bools() as p, Bools() as q:
            return either(both(p.true, q.true), both(p.false, q.false))
        case _:
            below = may_be_less(left, right, equal=True)
            return both(below, may_be_less(right, left, equal=True))


def may_differ(left: Spec, right: Spec) -> Flags:
    """Return where some value on the left differs from some value on the right."""
    match left.values, right.values:
        case Numbers() as a, Numbers() as b if _same_width(a, b):
            bounds = (a.low != a.high) | (b.low != b.high) | (a.low != b.low)
            differ = both(bounds, neither(a.empty, b.empty))
            odd = either(both(a.nan, negated(b.empty)), both(b.nan, negated(a.empty)))
            return either(differ, odd)
        case ((Texts() | Json()), (Texts() | Json())):
            p, q = texts(left), texts(right)
            ends = ((p.low, p.high), (q.low, q.high), (p.low, q.low))
            same = reduce(both, [text_compare("equal", *pair, unknown=False) for pair in ends])
            return both(negated(same), neither(p.empty, q.empty))
        case Bools() as c, Bools() as d:
            return either(both(c.true, d.false), both(c.false, d.true))
        case a, b:
            return both(occupied(a), occupied(b))


def _same_width(a: Numbers, b: Numbers) -> bool:
    # int64 against float64 would be compared as doubles, which is not exact.
    return (a.low.dtype == np.float64) == (b.low.dtype == np.float64)


def _comparable(call: Call) -> bool:
    """Return whether both sides have one type, or types whose stored values compare correctly."""
    left, right = (arg.type for arg in call.args)
    return left == right or (family(left) == family(right) and family(left) not in ("decimal",))


Test = Callable[[Spec, Spec], Flags]


def _comparison(true: Test, false: Test) -> Callable[[Call, Sequence[Spec], Context], Spec]:
    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        if not _comparable(call):
            return strict(args, Outcome(Bools(YES, YES)))
        left, right = args
        return strict(args, Outcome(Bools(true(left, right), false(left, right))))

    return transfer


def _lt(a: Spec, b: Spec) -> Flags:
    return may_be_less(a, b, equal=False)


def _le(a: Spec, b: Spec) -> Flags:
    return may_be_less(a, b, equal=True)


def _gt(a: Spec, b: Spec) -> Flags:
    return may_be_less(b, a, equal=False)


def _ge(a: Spec, b: Spec) -> Flags:
    return may_be_less(b, a, equal=True)


def _equal_null_safe(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    left, right = args
    some_left, some_right = occupied(left.values), occupied(right.values)
    if _comparable(call):
        same, differ = may_be_equal(left, right), may_differ(left, right)
    else:
        same = differ = both(some_left, some_right)
    unlike = either(both(left.null, some_right), both(right.null, some_left))
    values = Bools(either(same, both(left.null, right.null)), either(differ, unlike))
    return Spec(values, NO, either(left.fail, right.fail))


def _in(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    value, *items = args
    numbers = _constant_numbers(call)
    if numbers is not None and isinstance(value.values, Numbers):
        return _in_sorted(value, numbers)
    same, differ = NO, YES
    for node, item in zip(call.args[1:], items, strict=True):
        comparable = _comparable(Call("equal_to", (call.args[0], node), "boolean"))
        some = both(occupied(value.values), occupied(item.values))
        same = either(same, may_be_equal(value, item) if comparable else some)
        differ = both(differ, may_differ(value, item) if comparable else some)
    null, fail = value.null, value.fail
    for item in items:
        null = either(null, both(item.null, occupied(value.values)))
        fail = either(fail, item.fail)
    return Spec(Bools(both(same, occupied(value.values)), differ), null, fail)


def _constant_numbers(call: Call) -> np.ndarray | None:
    """Return the sorted items if they are many constants of the value's own integer type."""
    items = call.args[1:]
    kind = call.args[0].type
    if len(items) < _MANY_ITEMS or family(kind) != "int":
        return None
    values = [item.value for item in items if isinstance(item, Literal) and item.type == kind]
    if len(values) < len(items) or not all(isinstance(value, int) for value in values):
        return None
    return np.unique(np.array(values, np.int64))


def _in_sorted(value: Spec, items: np.ndarray) -> Spec:
    numbers = value.values
    assert isinstance(numbers, Numbers)
    first = np.searchsorted(items, numbers.low, side="left")
    behind = np.searchsorted(items, numbers.high, side="right")
    some, found = negated(numbers.empty), first < behind
    if numbers.members is not None:
        held = reduce(either, (numbers.members.may_hold(int(item)) for item in items), NO)
        found = both(found, held)
    point = numbers.low == numbers.high
    return Spec(Bools(both(found, some), both(~(point & found), some)), value.null, value.fail)


ENTRIES: Final = (
    Entry("equal_to", "left, right", (2, 2), _comparison(may_be_equal, may_differ), "exact"),
    Entry("equal_null_safe", "left, right", (2, 2), _equal_null_safe, "exact; never null"),
    Entry("less_than", "left, right", (2, 2), _comparison(_lt, _ge), "exact"),
    Entry("less_than_or_equal", "left, right", (2, 2), _comparison(_le, _gt), "exact"),
    Entry("greater_than", "left, right", (2, 2), _comparison(_gt, _le), "exact"),
    Entry("greater_than_or_equal", "left, right", (2, 2), _comparison(_ge, _lt), "exact"),
    Entry("in", "x, item, ...", (1, None), _in, "exact against each item's range"),
)
