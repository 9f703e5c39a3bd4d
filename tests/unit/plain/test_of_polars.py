"""What is understood of Polars' expressions, and what looks alike and is not."""

from datetime import date, datetime
from decimal import Decimal

import polars as pl
import pytest

from strata.plain.conditions import (
    Among,
    And,
    Compare,
    Condition,
    Day,
    Flag,
    IsNan,
    IsNull,
    Moment,
    Not,
    NotUnderstood,
    Or,
    StartsWith,
)
from strata.plain.of_polars import polars_condition

N, S = pl.col("n"), pl.col("s")
SECOND = datetime(1970, 1, 1, 0, 0, 1)  # noqa: DTZ001 -- a time without a zone
SAME = And((Compare("n", "=", 5), Not(IsNull("n"))))


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        (N.eq_missing(5), SAME),
        (N.ne_missing(5), Not(SAME)),
        (N.eq_missing(pl.col("m")), NotUnderstood()),
        (N > 5, Compare("n", ">", 5)),
        (pl.lit(5) > N, Compare("n", "<", 5)),
        (N != 5, Compare("n", "<>", 5)),
        (pl.lit(None) == N, NotUnderstood()),
        (N + 1 > 5, NotUnderstood()),
        ((N > 5) & pl.col("b"), And((Compare("n", ">", 5), Flag("b")))),
        ((N > 5) | (N + 1 > 5), Or((Compare("n", ">", 5), NotUnderstood()))),
        (~pl.col("b"), Not(Flag("b"))),
        (N.is_null(), IsNull("n")),
        (N.is_not_nan(), Not(IsNan("n"))),
        (N.is_between(1, 2, closed="left"), And((Compare("n", ">=", 1), Compare("n", "<", 2)))),
        (N.is_between(1, 2, closed="none"), And((Compare("n", ">", 1), Compare("n", "<", 2)))),
        (N.is_in([1, None]), Among("n", [1], True)),
        (S.str.starts_with("a"), StartsWith("s", "a")),
        (S == "a", Compare("s", "=", "a")),
        (date(1970, 1, 3) == N, Compare("n", "=", Day(2))),
        (SECOND == N, Compare("n", "=", Moment(1_000_000, zoned=False))),
        (Decimal("1.50") == N, Compare("n", "=", Decimal("1.50"))),
    ],
    ids=str,
)
def test_an_expression_is_understood_as(expression: pl.Expr, condition: Condition) -> None:
    assert polars_condition(expression) == condition
