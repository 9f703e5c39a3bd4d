"""Lists made of lists: their elements lie in the range of the elements of these, in any order.

Nothing here fails but `slice` with an impossible start or length, and `flatten` where the bounds
on lengths allow a list that is too long.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from strata.expr.elements import MOST, Elements, as_list, element_type, only_where
from strata.expr.entry import Context, Entry, Outcome, numbers, strict
from strata.expr.nodes import Call
from strata.expr.records import union
from strata.expr.spec import (
    NO,
    YES,
    Bounds,
    Flags,
    Spec,
    both,
    either,
    everything,
    negated,
    occupied,
    uniform,
)

_TOO_LONG: Final = MOST - 15  # elements: Spark refuses to make longer lists


def _element(elements: Elements, type_name: str) -> Spec:
    """Return what an element may be, without values where there is none."""
    known = elements.element()
    spec = Spec(everything(type_name), YES) if known is None else Spec(known.values, known.null)
    return only_where(spec, uniform(elements.some))


def _total(bounds: Sequence[Bounds], *, product: bool = False) -> Any:
    """Return the sum or product of lengths, which may be beyond the length of a list."""
    found = np.asarray(bounds[0], np.float64)
    for other in bounds[1:]:
        found = found * other if product else found + other
    return found


def _as_length(counts: Any) -> Bounds:
    lengths: Bounds = np.minimum(counts, MOST).astype(np.int64)
    return lengths


def _same(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the lists of the same elements in another order."""
    elements = as_list(args[0].values)
    found = Elements(NO, elements.element, elements.shortest, elements.longest)
    return strict(args, Outcome(found))


def _fewer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return lists of some elements of the first one."""
    elements = as_list(args[0].values)
    found = Elements(NO, elements.element, longest=elements.longest)
    return strict(args, Outcome(found))


def _common(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return lists of elements that both lists have."""
    one, other = (as_list(arg.values) for arg in args)
    longest: Bounds = np.minimum(one.longest, other.longest)
    return strict(args, Outcome(Elements(NO, one.element, longest=longest)))


def _joined(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the lists one after the other."""
    return _together(call, args, [as_list(arg.values).shortest for arg in args])


def _united(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return lists of the elements of both, each once."""
    least = [np.minimum(as_list(arg.values).shortest, 1) for arg in args]
    return _together(call, args, [np.maximum(*least)])


def _together(call: Call, args: Sequence[Spec], shortest: Sequence[Bounds]) -> Spec:
    lists = [as_list(arg.values) for arg in args]
    kind = element_type(call.type)

    def element() -> Spec | None:
        first, *others = (_element(one, kind) for one in lists)
        found: Spec | None = first
        for other in others:
            found = union(found, other)
        return found

    longest = _total([one.longest for one in lists])
    found = Elements(NO, element, _as_length(_total(shortest)), _as_length(longest))
    return strict(args, Outcome(found))


def _flatten(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the elements of the lists in a list; null where one of these lists is null."""
    outer, kind = as_list(args[0].values), element_type(call.type)
    inside = _element(outer, call.type)
    lists = as_list(inside.values)
    longest = _total([outer.longest, np.where(outer.some, lists.longest, 0)], product=True)
    shortest = _total([outer.shortest, lists.shortest], product=True)
    some = both(uniform(outer.some), occupied(inside.values))
    found = Elements(
        NO,
        lambda: only_where(_element(lists, kind), some),
        _as_length(np.where(some, shortest, 0)),
        _as_length(np.where(some, longest, 0)),
    )
    fail: Flags = longest > _TOO_LONG
    return strict(args, Outcome(found, uniform(inside.null), uniform(both(fail, some))))


def _slice(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return neighbouring elements; a start of 0 fails, and so does a length below 0."""
    elements = as_list(args[0].values)
    start, length = (
        numbers(arg, node.type) for arg, node in zip(args[1:], call.args[1:], strict=True)
    )
    odd = both((start.low <= 0) & (start.high >= 0), negated(start.empty))
    short = both(length.low < 0, negated(length.empty))
    longest: Bounds = np.clip(np.minimum(elements.longest, length.high), 0, MOST)
    first: Flags = (start.low == 1) & (start.high == 1)
    shortest: Bounds = np.where(
        first, np.clip(np.minimum(elements.shortest, length.low), 0, MOST), 0
    )
    found = Elements(NO, elements.element, shortest, longest)
    return strict(args, Outcome(found, fail=uniform(either(odd, short))))


_ONE, _TWO = (1, 1), (2, 2)
ENTRIES: Final = (
    Entry("array_sort", "list", _ONE, _same, "the same elements"),
    Entry("reverse_list", "list", _ONE, _same, "the same elements"),
    Entry("array_remove", "list, value", _TWO, _fewer, "the same elements, or fewer"),
    Entry("array_except", "left, right", _TWO, _fewer, "elements of the left list"),
    Entry("array_intersect", "left, right", _TWO, _common, "elements of the left list"),
    Entry("array_union", "left, right", _TWO, _united, "elements of both"),
    Entry("concat_lists", "list, ...", (1, None), _joined, "elements of all; lengths add up"),
    Entry("flatten", "list of lists", _ONE, _flatten, "elements of the lists"),
    Entry("slice", "list, start, length", (3, 3), _slice, "the same elements, at most that length"),
)
