"""`aggregate`: a lambda goes from element to element of a list, with what it has made so far.

The interpreter evaluates the lambda (`strata.expr.interpret`), step by step on all parts at once.
After as many steps as a list has elements, the result is what the last step made; where lists are
longer than `STEPS`, bounds that further steps do not widen are sought.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np

from strata.expr.elements import as_list, only_where
from strata.expr.entry import Context, Entry, Outcome, strict
from strata.expr.members import bare
from strata.expr.nodes import Call
from strata.expr.records import union
from strata.expr.spec import (
    NO,
    Bools,
    Flags,
    Numbers,
    Spec,
    both,
    either,
    everything,
    gate,
    hull,
    negated,
    occupied,
    uniform,
)

STEPS: Final = 32  # elements of a list that are followed one by one


def folded(
    lists: Spec,
    start: Spec,
    step: Callable[[Spec], Spec],
    type_name: str,
    followed: int = STEPS,
) -> Spec:
    """Return what a lambda may have made behind the last element of a list.

    `start`: the value before the first element. `step`: what the lambda makes of one that may stand
    before any element. `type_name`: of the values. `followed`: elements that are followed one by
    one. A failure is one of any step that is made.
    """
    elements = as_list(lists.values)
    shortest, longest = elements.shortest, elements.longest
    there = uniform(occupied(lists.values))
    value = Spec(bare(start.values), start.null)
    steps, fail = [value], start.fail
    found = only_where(value, both(there, shortest <= 0))
    for done in range(min(followed, int(np.max(np.where(there, longest, 0), initial=0)))):
        made, goes_on = step(value), both(there, longest > done)
        fail = either(fail, both(made.fail, goes_on))
        value = only_where(Spec(bare(made.values), made.null), goes_on)
        steps.append(value)
        ends = both(shortest <= done + 1, longest >= done + 1)
        found = _enclosing([found, only_where(value, ends)])
    beyond = uniform(both(there, longest > followed))
    if not beyond.any():
        return Spec(found.values, found.null, fail)
    rest = _settled(_enclosing(steps), step, type_name)
    rest = Spec(rest.values, rest.null, both(rest.fail, beyond))
    total = _enclosing([found, only_where(rest, beyond)])
    return Spec(total.values, total.null, either(fail, rest.fail))


def _enclosing(specs: Sequence[Spec]) -> Spec:
    first: Spec | None = specs[0]
    total = reduce(union, specs[1:], first)
    assert total is not None  # since each is known
    return total


def _settled(known: Spec, step: Callable[[Spec], Spec], type_name: str) -> Spec:
    """Return values that enclose the known ones, and what steps make of any of them.

    A bound that a step moves is given up; where that is not enough, anything may be.
    """
    wider = _widened(known, step(known), type_name)
    wider = _widened(wider, step(wider), type_name)  # NaN of infinities comes one step later
    made = step(wider)
    lost = uniform(negated(_encloses(wider, made)))
    kept = only_where(Spec(wider.values, wider.null, both(made.fail, negated(lost))), negated(lost))
    every = Spec(gate(everything(type_name), lost), lost, lost)
    return _enclosing([kept, every])


def _widened(known: Spec, made: Spec, type_name: str) -> Spec:
    """Return the values of both; a bound of numbers that moves becomes that of the type."""
    null, total = either(known.null, made.null), hull(known.values, made.values)
    match known.values, total, everything(type_name):
        case Numbers() as before, Numbers() as after, Numbers() as every:
            low = np.where(after.low < before.low, every.low, after.low)
            high = np.where(after.high > before.high, every.high, after.high)
            return Spec(Numbers(low, high, after.empty, after.nan), null)
    return Spec(total, null)


def _encloses(wide: Spec, narrow: Spec) -> Flags:
    """Return where every value of one Spec, and null, is also in the other."""
    null = either(wide.null, negated(narrow.null))
    match wide.values, narrow.values:
        case Bools() as a, Bools() as b:
            same = both(either(a.true, negated(b.true)), either(a.false, negated(b.false)))
        case Numbers() as a, Numbers() as b:
            inside = (a.low <= b.low) & (b.high <= a.high) & negated(a.empty)
            same = both(either(b.empty, inside), either(a.nan, negated(b.nan)))
        case _:
            return NO
    return both(null, same)


def _aggregate(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return what the last lambda makes of the value behind the last element."""
    lists, start, made, finished = args
    fail = reduce(either, (start.fail, made.fail, finished.fail))
    return strict([lists], Outcome(finished.values, finished.null, fail))


def _accumulated(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return what the lambda has made so far, which the interpreter passes."""
    return args[0]


ENTRIES: Final = (
    Entry(
        "aggregate",
        "list, start, merge, finish",
        (4, 4),
        _aggregate,
        "what the lambda makes, element by element; beyond 32, bounds that no step moves",
    ),
    Entry(
        "accumulated", "list", (1, 1), _accumulated, "what the lambda has made so far", passes=True
    ),
)
