"""A filter for the planner: the typed expression and the clock of its evaluation."""

from dataclasses import dataclass

from strata.expr.nodes import Expr


@dataclass(frozen=True, slots=True)
class Filter:
    """A boolean expression over a shard's columns.

    Units: `now_low` and `now_high` are microseconds since 1970, both inclusive: the span of
    possible values of the filter's clock (`current_timestamp()` and its kin). They are equal for a
    read; a plan that must stay valid for a while has a wider span.
    """

    expr: Expr
    sql: str  # as the user wrote it, for people
    now_low: int
    now_high: int
