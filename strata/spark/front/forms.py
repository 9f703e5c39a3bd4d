"""Other forms of a filter, in which Spark may evaluate it, and what they may fail on.

Spark splits the filter of a user's `where` and evaluates it in its own order: tests for null late,
repeated sub-expressions first. Each form is a condition equivalent to the written one;
`also_failing` joins them, so that no error of any form is hidden.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from strata.decide.static import Favourable
from strata.expr.conditions import flat, join_conditions
from strata.expr.entry import Context
from strata.expr.interpret import Interpreter, Unknown
from strata.expr.nodes import Call, Column, Expr, Literal, Opaque

CLOCKS: Final = frozenset({"current_timestamp", "current_date", "local_timestamp"})
_ANY_TIME: Final = Context(-62_135_596_800_000_000, 253_402_300_799_999_999)  # years 1 to 9999
_LOGIC: Final = frozenset({"and", "or", "not"})
_TAKING: Final = frozenset({"get_array_item", "element_at"})
VARIABLES: Final = frozenset({"element", "element_index", "accumulated"})
LAMBDAS: Final = frozenset({"exists", "forall", "filter", "transform", "aggregate"})
_LAZY: Final = frozenset({"and", "or", "if", "case_when", "coalesce"})


def may_fail(expr: Expr) -> bool:
    """Return whether an expression may fail on some row of any data, at any time.

    A filter of a log, a receipt or an option is evaluated again later, with another clock.
    """
    spec = Interpreter(_ANY_TIME).evaluate(expr, Unknown())
    return bool(np.any(spec.fail))


def fails_always(expr: Expr) -> bool:
    """Return whether an expression may fail for any statistics of the columns, at any time.

    Errs: towards no if it reads the clock, since it may take a branch only at some times.
    """
    if not all(map(_is_timeless, _walk(expr))):
        return False
    spec = Interpreter(_ANY_TIME).evaluate(expr, Favourable())
    return bool(np.all(spec.fail))


def _is_timeless(node: Expr) -> bool:
    """Return whether neither a node nor anything inside it can read the clock."""
    if isinstance(node, Call):
        return node.function not in CLOCKS
    return isinstance(node, Column | Literal | Opaque)


def null_tests_last(expr: Expr) -> Expr:
    """Return the condition with the conjuncts that test for null after the others.

    Generated code uses this order where no other conjunct reads the column. It keeps the place of
    some tests: those of an expression that may be null although its arguments are not. So a test
    that may fail also fails in its place, and no test in front of it hides that.
    """
    conjuncts = flat("and", expr)
    tests = tuple(filter(_tests_for_null, conjuncts))
    others = (
        fails_only(conjunct) if conjunct in tests else conjunct
        for conjunct in conjuncts
        if conjunct not in tests or may_fail(conjunct)
    )
    return join_conditions("and", (*others, *tests))


def _tests_for_null(conjunct: Expr) -> bool:
    if not isinstance(conjunct, Call):
        return False
    inner = conjunct.args[0]
    negated = conjunct.function == "not" and isinstance(inner, Call) and inner.function == "is_null"
    return conjunct.function == "is_not_null" or negated


def with_repeated(expr: Expr, *, whole: bool) -> Expr:
    """Return the condition, failing also where a repeated sub-expression fails.

    Generated code computes a repeated sub-expression once, in front, and assumes that both sides of
    AND and OR are evaluated. `whole`: repeated anywhere in the condition; otherwise within each
    simple condition, with AND, OR and NOT above them evaluated in order.
    """
    if not whole and isinstance(expr, Call) and expr.function in _LOGIC:
        args = tuple(with_repeated(arg, whole=False) for arg in expr.args)
        parts = (flat(expr.function, arg) for arg in args) if expr.function == "and" else (args,)
        return Call(expr.function, tuple(p for part in parts for p in part), expr.type)
    if not any(_is_call(node, _LAZY) for node in _walk(expr)):
        return expr
    counted = Counter(node for node in _walk(expr) if isinstance(node, Call))
    repeated = [
        node
        for node, times in counted.items()
        if times > 1 and node != expr and is_closed(node) and may_fail(node)
    ]
    if not repeated:
        return expr
    return Call("and", (*map(fails_only, repeated), *flat("and", expr)), "boolean")


def with_extracted(expr: Expr) -> Expr:
    """Return the condition, failing also where an access to a missing element fails.

    Above a sample or a limit, Spark extracts elements of columns before it filters.
    """
    taken = [n for n in _walk(expr) if _is_call(n, _TAKING) and is_closed(n) and may_fail(n)]
    if not taken:
        return expr
    probes = (fails_only(node) for node in dict.fromkeys(taken))
    return Call("and", (*probes, *flat("and", expr)), "boolean")


def _is_call(node: Expr, functions: frozenset[str]) -> bool:
    return isinstance(node, Call) and node.function in functions


def _walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from _walk(arg)


def unbranched(expr: Expr) -> Expr:
    """Return a condition with AND and OR for the branches that `strata.spark.front.ordered` makes.

    A null condition counts as false here, as in a filter; so only conditions directly under AND and
    OR are rewritten.
    """
    if not isinstance(expr, Call) or expr.type != "boolean":
        return expr
    args = tuple(map(unbranched, expr.args))
    match expr.function, args:
        case ("and" | "or") as function, _:
            pass
        case "if", (condition, then, Literal(value=False)):
            function, args = "and", (condition, then)
        case "if", (condition, Literal(value=True), otherwise):
            function, args = "or", (condition, otherwise)
        case _:
            return expr
    return join_conditions(function, tuple(part for arg in args for part in flat(function, arg)))


def also_failing(expr: Expr, other: Expr) -> Expr:
    """Return a filter that fails where another way to write it fails, too."""
    written, made = flat("and", expr), flat("and", other)
    same = 0
    while same < min(len(written), len(made)) and written[same] == made[same]:
        same += 1  # a certainly false condition in front of both hides the errors of both
    if _only_probes_more(written[same:], made[same:]) or not any(map(may_fail, made[same:])):
        return expr
    if any(map(fails_always, written[same : same + 1])):
        return expr
    probe = fails_only(join_conditions("and", made[same:]))
    return Call("and", (*written[:same], probe, *written[same:]), "boolean")


def _only_probes_more(written: tuple[Expr, ...], made: tuple[Expr, ...]) -> bool:
    """Return whether one list of conjuncts is the other plus conjuncts that are true or fail."""
    left = iter(written)
    for conjunct in made:
        for own in left:
            if own == conjunct:
                break
            if not _is_probe(own):
                return False
        else:
            return False
    return True


def _is_probe(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.function == "or" and expr == fails_only(_inner(expr))


def _inner(expr: Call) -> Expr:
    first = expr.args[0]
    return first.args[0] if isinstance(first, Call) and first.args else first


def is_closed(expr: Expr) -> bool:
    """Return whether an expression has a value for each row: no variable without its lambda.

    A variable has no value where the list is empty or null, which says nothing about the row.
    """
    return not _variables(expr)


def _variables(expr: Expr) -> frozenset[Expr]:
    """Return the lists whose elements an expression reads outside of a lambda over them."""
    if not isinstance(expr, Call):
        return frozenset()
    inside = [_variables(arg) for arg in expr.args]
    if expr.function in VARIABLES:
        return inside[0] | {expr.args[0]}
    if expr.function in LAMBDAS:
        return inside[0] | (frozenset().union(*inside[1:]) - {expr.args[0]})
    return frozenset().union(*inside)


def fails_only(expr: Expr) -> Expr:
    """Return a condition that is true, but fails where `expr` fails.

    For an expression that is not closed nothing is known: it may be anything, as may its probe.
    """
    if not is_closed(expr):
        return Opaque("the variable of a lambda outside of it", "boolean")
    nulls = (Call("is_null", (expr,), "boolean"), Call("is_not_null", (expr,), "boolean"))
    return Call("or", nulls, "boolean")


def shape(expr: Expr, negated: bool = False) -> Expr:
    """Return a condition with AND and OR wherever Spark's optimiser finds them."""
    if isinstance(expr, Call) and expr.function == "not":
        return shape(expr.args[0], not negated)
    if isinstance(expr, Call) and expr.function in ("and", "or"):
        function = {"and": "or", "or": "and"}[expr.function] if negated else expr.function
        parts = (flat(function, shape(arg, negated)) for arg in expr.args)
        return join_conditions(function, tuple(part for found in parts for part in found))
    branches = _branches(expr, null_is_false=not negated)
    if branches is not None:
        return shape(branches, negated)
    return Call("not", (expr,), "boolean") if negated else expr


def _branches(expr: Expr, null_is_false: bool) -> Expr | None:
    """Return an IF or CASE with a constant branch as AND or OR; None for anything else."""
    if not isinstance(expr, Call) or expr.type != "boolean":
        return None
    if expr.function not in ("if", "case_when") or len(expr.args) not in (2, 3):
        return None
    condition, then = expr.args[:2]
    otherwise = expr.args[2] if len(expr.args) == 3 else Literal(None, "boolean")
    inverse = Call("not", (condition,), "boolean")
    match _truth(then, null_is_false), _truth(otherwise, null_is_false):
        case _, False:
            return Call("and", (condition, then), "boolean")
        case _, True:
            return Call("or", (inverse, then), "boolean")
        case True, _:
            return Call("or", (condition, otherwise), "boolean")
        case False, _:
            return Call("and", (inverse, otherwise), "boolean")
    return None


def _truth(branch: Expr, null_is_false: bool) -> bool | None:
    if not isinstance(branch, Literal) or (branch.value is None and not null_is_false):
        return None
    return bool(branch.value)
