"""Spark's type names, as its JSON and its DDL write them."""

import pytest

from strata.expr.sparktype import INT32, INT64, spark_type


@pytest.mark.parametrize(
    ("name", "family", "limits"),
    [
        ("integer", "int", INT32),
        ("int", "int", INT32),
        ("timestamp", "int", INT64),
        ("interval day to second", "int", INT64),
        ("interval month", "int", INT32),
        ("interval year to month", "int", INT32),
        ("decimal(3,1)", "decimal", (-999, 999)),
        ("string", "text", (0, 0)),
        ("string collate UTF8_LCASE", "other", (0, 0)),
        ("array<int>", "other", (0, 0)),
        ("void", "void", (0, 0)),
    ],
)
def test_a_type_has_a_family_and_limits(name: str, family: str, limits: tuple[int, int]) -> None:
    kind = spark_type(name)

    assert (kind.family, (kind.low, kind.high)) == (family, limits)


def test_a_decimal_is_wide_when_it_needs_more_than_64_bits() -> None:
    assert not spark_type("decimal(18,2)").wide
    assert spark_type("decimal(19,2)").wide
