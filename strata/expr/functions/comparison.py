"""Comparisons of two ranges: true is possible, false is possible.

NaN equals NaN and is greater than every number; -0.0 equals 0.0. Texts compare by bytes;
another collation is not tracked and opens the answer. A constant that is certainly not among the
members of a place equals none of its values.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa

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
    TextBound,
    Texts,
    both,
    either,
    negated,
    occupied,
    text_compare,
)

Rows = np.ndarray[Any, np.dtype[np.intp]]

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


def _texts_meet(a: Texts, b: Texts) -> Flags:
    """Return where two ranges of texts have a text in common."""
    some = neither(a.empty, b.empty)
    if a.low is a.high and b.low is b.high:
        return both(text_compare("equal", a.low, b.low), some)
    below = both(text_compare("less_equal", a.low, b.high), some)
    if below.size > 1 and not below.any():
        return NO
    return both(text_compare("less_equal", b.low, a.high), below)


def _texts_differ(a: Texts, b: Texts, meet: Flags) -> Flags:
    """Return where texts of two ranges may differ; `meet`: where some may be equal."""
    some = neither(a.empty, b.empty)
    if not meet.any():
        return some
    ends = [(a.low, b.low), *((one.low, one.high) for one in (a, b) if one.low is not one.high)]
    if any(end is None for end in (a.low, a.high, b.low, b.high)):
        return some
    rows = few_of(meet)
    same = reduce(both, [_equal_at(*pair, rows) for pair in ends])
    return both(negated(same if rows is None else scattered(same, rows, meet.size)), some)


def _equal_at(a: TextBound, b: TextBound, rows: Rows | None) -> Flags:
    return text_compare("equal", some_of(a, rows), some_of(b, rows), unknown=False)


def few_of(flags: Flags) -> Rows | None:
    """Return the parts where a flag is set if they are few enough to be looked at by themselves."""
    few = flags.size > 1 and 2 * np.count_nonzero(flags) < flags.size
    return np.flatnonzero(flags) if few else None


def some_of(bound: TextBound, rows: Rows | None) -> TextBound:
    """Return the bounds of some parts; None: of all. A bound of one element stands for all."""
    if bound is None or rows is None or isinstance(bound, pa.Scalar) or len(bound) == 1:
        return bound
    return bound.take(pa.array(rows))


def scattered(flags: Flags, rows: Rows, parts: int) -> Flags:
    """Return the flags of some parts among all, unset elsewhere."""
    every = np.zeros(parts, np.bool_)
    every[rows] = flags
    return every


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
        case ((Texts() | Json()), (Texts() | Json())):
            return _texts_meet(texts(left), texts(right))
        case _:
            below = may_be_less(left, right, equal=True)
            return both(below, may_be_less(right, left, equal=True))


def may_differ(left: Spec, right: Spec, meet: Flags = YES) -> Flags:
    """Return where some value on the left differs from some value on the right.

    `meet`: where some may be equal; texts are compared further only there.
    """
    match left.values, right.values:
        case Numbers() as a, Numbers() as b if _same_width(a, b):
            bounds = (a.low != a.high) | (b.low != b.high) | (a.low != b.low)
            differ = both(bounds, neither(a.empty, b.empty))
            odd = either(both(a.nan, negated(b.empty)), both(b.nan, negated(a.empty)))
            return either(differ, odd)
        case ((Texts() | Json()), (Texts() | Json())):
            return _texts_differ(texts(left), texts(right), meet)
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


def _equal(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    if not _comparable(call):
        return strict(args, Outcome(Bools(YES, YES)))
    left, right = args
    same = may_be_equal(left, right)
    return strict(args, Outcome(Bools(same, may_differ(left, right, same))))


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
        same = may_be_equal(left, right)
        differ = may_differ(left, right, same)
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
        meet = may_be_equal(value, item) if comparable else some
        same = either(same, meet)
        differ = both(differ, may_differ(value, item, meet) if comparable else some)
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
    Entry("equal_to", "left, right", (2, 2), _equal, "exact"),
    Entry("equal_null_safe", "left, right", (2, 2), _equal_null_safe, "exact; never null"),
    Entry("less_than", "left, right", (2, 2), _comparison(_lt, _ge), "exact"),
    Entry("less_than_or_equal", "left, right", (2, 2), _comparison(_le, _gt), "exact"),
    Entry("greater_than", "left, right", (2, 2), _comparison(_gt, _le), "exact"),
    Entry("greater_than_or_equal", "left, right", (2, 2), _comparison(_ge, _lt), "exact"),
    Entry("in", "x, item, ...", (1, None), _in, "exact against each item's range"),
)
