"""Three-valued logic, with errors in the order in which Spark evaluates.

`a AND b`: `b` is evaluated unless `a` is false, so a certainly false `a` hides the errors of
`b`, and a certainly false `b` hides nothing. `OR` is the mirror image.
"""

from collections.abc import Sequence
from typing import Final

from strata.expr.entry import Context, Entry, bools
from strata.expr.nodes import Call
from strata.expr.spec import (
    NO,
    YES,
    Bools,
    Numbers,
    Spec,
    both,
    either,
    negated,
    occupied,
)


def conjunction(left: Spec, right: Spec) -> Spec:
    """Return `left AND right`."""
    a, b = bools(left), bools(right)
    goes_on = either(a.true, left.null)
    return Spec(
        Bools(both(a.true, b.true), either(a.false, both(goes_on, b.false))),
        either(both(left.null, either(right.null, b.true)), both(a.true, right.null)),
        either(left.fail, both(goes_on, right.fail)),
    )


def negation(spec: Spec) -> Spec:
    """Return `NOT spec`."""
    values = bools(spec)
    return Spec(Bools(values.false, values.true), spec.null, spec.fail)


def _and(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    result = args[0]
    for arg in args[1:]:
        result = conjunction(result, arg)
    return result


def _or(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return negation(_and(call, [negation(arg) for arg in args], context))


def _not(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return negation(args[0])


def _is_null(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    (arg,) = args
    return Spec(Bools(arg.null, occupied(arg.values)), NO, arg.fail)


def _is_not_null(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return negation(_is_null(call, args, context))


def _is_nan(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    (arg,) = args
    if isinstance(arg.values, Numbers):
        return Spec(
            Bools(arg.values.nan, either(negated(arg.values.empty), arg.null)), NO, arg.fail
        )
    return Spec(Bools(occupied(arg.values), YES), NO, arg.fail)


ENTRIES: Final = (
    Entry("and", "left, right, ...", (2, None), _and, "exact; a false left side hides errors"),
    Entry("or", "left, right, ...", (2, None), _or, "exact; a true left side hides errors"),
    Entry("not", "x", (1, 1), _not, "exact"),
    Entry("is_null", "x", (1, 1), _is_null, "exact; errors of x remain"),
    Entry("is_not_null", "x", (1, 1), _is_not_null, "exact; errors of x remain"),
    Entry("is_nan", "x", (1, 1), _is_nan, "exact; false for null"),
)
