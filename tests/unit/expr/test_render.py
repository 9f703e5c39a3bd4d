"""Expressions and ranges read like SQL."""

from dataclasses import replace

import numpy as np
import pytest

from strata.expr.elements import MOST, Elements, Entries
from strata.expr.nodes import Call, Column, Expr, Literal, Opaque
from strata.expr.render import describe, render, show
from strata.expr.spec import NO, YES, Bools, Numbers, Spec, everything, exactly

N = Column(1, "n", "integer")
FIVE = Literal(5, "integer")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Call("less_than", (N, FIVE), "boolean"), "n < 5"),
        (Call("and", (Call("not", (N,), "boolean"), N), "boolean"), "NOT (n) AND n"),
        (Call("multiply", (Call("add", (N, FIVE), "long"), FIVE), "long"), "(n + 5) * 5"),
        (Call("cast", (N,), "double"), "CAST(n AS double)"),
        (Call("cast", (N,), "double", (("ansi", "try"),)), "TRY_CAST(n AS double)"),
        (Call("date_trunc", (Literal("day", "string"), N), "timestamp"), "date_trunc('day', n)"),
        (Call("in", (N, FIVE, Literal(None, "integer")), "boolean"), "n IN (5, NULL)"),
        (Opaque("rand()", "double"), "{rand()}"),
    ],
)
def test_an_expression_reads_like_sql(expr: Expr, text: str) -> None:
    assert render(expr) == text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0, "date", "1970-01-01"),
        (2**31 - 1, "date", "2147483647"),
        (1_356_998_400_000_000, "timestamp", "2013-01-01 00:00:00Z"),
        (-5, "decimal(10,2)", "-0.05"),
        (-30 * 86_400_000_000, "interval day to second", "INTERVAL '-30' DAY"),
        (3_600_000_001, "interval day to second", "INTERVAL '0 1:00:00.000001' DAY TO SECOND"),
        (14, "interval year to month", "INTERVAL '14' MONTH"),
        (True, "boolean", "true"),
        ("x" * 100, "string", "'" + "x" * 59 + "…'"),
    ],
)
def test_a_value_is_readable(value: object, kind: str, text: str) -> None:
    assert show(value, kind) == text


@pytest.mark.parametrize(
    ("spec", "kind", "text"),
    [
        (Spec(Numbers(np.array([1]), np.array([5])), YES), "integer", "[1, 5] or null"),
        (Spec(everything("date"), NO, YES), "date", "any value or an error"),
        (Spec(Bools(YES, NO)), "boolean", "true"),
        (exactly(None, "string"), "string", "null"),
        (exactly("ab", "string"), "string", "['ab', 'ab']"),
        (exactly(float("nan"), "double"), "double", "NaN"),
    ],
)
def test_a_range_is_readable(spec: Spec, kind: str, text: str) -> None:
    assert describe(spec, kind) == text


def test_lists_and_maps_are_told_by_their_lengths_and_what_is_in_them() -> None:
    numbers = Spec(Numbers(np.array([1]), np.array([5])), np.array([True]))
    some = Elements(np.array([False]), lambda: numbers, np.array([1]), np.array([3]))
    open_ = Elements(np.array([False]), lambda: None, np.array([0]), np.array([MOST]))

    assert describe(Spec(some), "array<int>") == "lists of 1 to 3: [1, 5] or null"
    assert describe(Spec(open_), "array<int>") == "lists of 0 or more"
    texts = Elements(
        np.array([False]), lambda: exactly("k", "string"), np.array([2]), np.array([2])
    )
    maps = Entries(np.array([False]), texts, replace(some, shortest=np.array([3])))
    shown = describe(Spec(maps), "map<string,int>")
    assert shown == "maps of 3: [1, 5] or null, keys ['k', 'k']"
