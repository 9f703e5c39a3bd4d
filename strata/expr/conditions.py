"""Take the conditions of an AND or OR apart, and join them."""

from strata.expr.nodes import Call, Expr


def flat(function: str, expr: Expr) -> tuple[Expr, ...]:
    """Return the arguments of an and/or, or the expression alone."""
    if isinstance(expr, Call) and expr.function == function:
        return expr.args
    return (expr,)


def join_conditions(function: str, parts: tuple[Expr, ...]) -> Expr:
    """Return the and/or of some conditions; a single condition unchanged."""
    return parts[0] if len(parts) == 1 else Call(function, parts, "boolean")
