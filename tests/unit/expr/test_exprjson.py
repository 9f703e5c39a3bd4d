"""Filters keep their meaning when they are written down and read back."""

from decimal import Decimal
from typing import Any

import pytest

from strata.expr.elements import key_type
from strata.expr.exprjson import dump_filter, load_filter
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal, Opaque


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "integer"),
        (True, "boolean"),
        (2**63 - 1, "long"),
        (0.1, "double"),
        ("é", "string"),
        (float("inf"), "double"),
        (float("-inf"), "double"),
        (b"\xff\x00", "binary"),
        (Decimal("-1.50"), "decimal(10,2)"),
    ],
)
def test_a_constant_is_read_back_as_it_was(value: Any, kind: str) -> None:
    expr = Call(
        "equal_to",
        (Column(3, "x", kind, False), Literal(value, kind)),
        "boolean",
        (("ansi", "ansi"),),
    )
    filter = Filter(expr, "x = ?", 5, 6)

    assert load_filter(dump_filter(filter)) == filter


def test_a_constant_that_cannot_be_written_down_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        dump_filter(Filter(Literal({1}, "array<int>"), "", 0, 0))


def test_a_column_may_be_null_unless_it_is_said_not_to() -> None:
    assert Column(1, "x", "integer").nullable
    assert not Column(1, "x", "integer", nullable=False).nullable
    expr = Opaque("Rand: rand()", "double")
    assert load_filter(dump_filter(Filter(expr, "", 0, 0))).expr == expr


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("map<int,string>", "int"),
        ("map<struct<a:int,b:int>,int>", "struct<a:int,b:int>"),
        ("struct<a:int,b:int>", "unknown"),
        ("map<int,int", "unknown"),
        ("x", "unknown"),
    ],
)
def test_only_a_map_has_keys(kind: str, keys: str) -> None:
    assert key_type(kind) == keys
