"""A filter as the planner takes it: the typed expression, and the clock that it was read with."""

from dataclasses import dataclass

from strata.expr.nodes import Expr


@dataclass(frozen=True, slots=True)
class Filter:
    """A boolean expression over a shard's columns.

    Units: `now_low` and `now_high` are microseconds since 1970, both inclusive: the span in
    which the clock of the filter (`current_timestamp()` and its kin) may stand. They are equal
    for a read; a plan that must hold for a while has a wider span.
    """

    expr: Expr
    sql: str  # as the user wrote it, for people
    now_low: int
    now_high: int
