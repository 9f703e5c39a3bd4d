"""What is understood of PyArrow's expressions, and what looks alike and is not."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from strata.plain.conditions import (
    And,
    Compare,
    Condition,
    Flag,
    IsNull,
    Not,
    NotUnderstood,
    Only,
    StartsWith,
)
from strata.plain.of_arrow import arrow_condition, arrow_fields

N, B, S = pc.field("n"), pc.field("b"), pc.field("s")
NULL = pc.scalar(pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        (pc.if_else(B, N > 5, NULL), Only(Flag("b"), Compare("n", ">", 5))),
        (pc.if_else(B, N > 5, pc.scalar(True)), NotUnderstood()),
        (pc.if_else(B, N > 5, B), NotUnderstood()),
        (pc.scalar(5) > N, Compare("n", "<", 5)),
        (pc.scalar(5) <= N, Compare("n", ">=", 5)),
        (pc.scalar(pa.scalar(None, pa.int64())) < N, NotUnderstood()),
        (N.is_null(), IsNull("n")),
        (N.is_null(nan_is_null=True), IsNull("n", nan=True)),
        (~N.is_valid(), Not(Not(IsNull("n")))),
        (pc.starts_with(S, "a"), StartsWith("s", "a")),
        (pc.starts_with(S, "a", ignore_case=True), NotUnderstood()),
        (B & (N + 1 > 5), And((Flag("b"), NotUnderstood()))),
    ],
    ids=str,
)
def test_an_expression_is_understood_as(expression: pc.Expression, condition: Condition) -> None:
    assert arrow_condition(expression) == condition


def test_every_column_that_is_read_is_named() -> None:
    assert arrow_fields(pc.if_else(B, N + 1 > 5, pc.starts_with(S, "a"))) == {"b", "n", "s"}
