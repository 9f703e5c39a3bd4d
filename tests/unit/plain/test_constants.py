"""Constants as their columns have them, and what a column cannot hold."""

from decimal import Decimal
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.expr.nodes import Column, Literal
from strata.plain.constants import coerced
from strata.plain.numbers import Compared, Constant, Spelling

DAY_US = 86_400_000_000
TEXT, NUMBER, BOOL = Spelling.TEXT, Spelling.NUMBER, Spelling.BOOL


@pytest.mark.parametrize(
    ("kind", "spelling", "text", "value"),
    [
        ("timestamp", TEXT, "1970-01-03", 2 * DAY_US),
        ("timestamp", Spelling.DATE, "1970-01-03", 2 * DAY_US),
        ("timestamp_ntz", TEXT, "1969-12-31", -DAY_US),
        ("timestamp", TEXT, "1970-01-01 00:01", 60_000_000),
        ("timestamp", TEXT, "1970-01-01T00:00:01.5Z", 1_500_000),
        ("timestamp", TEXT, "1970-01-01 01:00:00+01:30", -1_800_000_000),
        ("timestamp", TEXT, "1970-01-01 01:00:00-17:59", 68_340_000_000),
        ("timestamp", Spelling.TIMESTAMP, "1970-01-01 00:00:00.000001", 1),
        ("timestamp_ntz", TEXT, "1970-01-01 00:00:01", 1_000_000),
        ("date", TEXT, "1970-01-03", 2),
        ("date", Spelling.DATE, "1969-12-31", -1),
        ("boolean", BOOL, "true", True),
        ("boolean", TEXT, "false", False),
        ("string", TEXT, "", ""),
        ("double", NUMBER, "-1.5e3", -1500.0),
        ("integer", NUMBER, "-7", -7),
        ("decimal(10,2)", NUMBER, "1.5", Decimal("1.50")),
        ("timestamp", TEXT, "1970-01-01 24:00:00", None),
        ("timestamp", TEXT, "1970-01-01 01:00:00+18:00", None),
        ("timestamp", TEXT, "1970-01-01 01:00:00+01:60", None),
        ("timestamp", TEXT, "1970-02-29", None),
        ("timestamp", TEXT, "1970", None),
        ("timestamp", Spelling.DATE, "1970-01-01 00:00", None),
        ("timestamp", Spelling.TIMESTAMP_NTZ, "1970-01-01 00:00:00", None),
        ("timestamp_ntz", TEXT, "1970-01-01 00:00:00Z", None),
        ("timestamp_ntz", TEXT, "1970-01-01 00:00:00+00:00", None),
        ("date", TEXT, "1970-1-3", None),
        ("boolean", TEXT, "TRUE", None),
        ("boolean", NUMBER, "1", None),
        ("string", NUMBER, "5", None),
        ("binary", TEXT, "a", None),
    ],
)
def test_a_constant_is_in_the_type_of_its_column(
    kind: str, spelling: Spelling, text: str, value: Any
) -> None:
    column = Column(1, "c", kind, True)
    if value is None:
        with pytest.raises(InvalidRequest, match="needs Spark"):
            coerced(column, [Constant(spelling, text)], Compared.EQUAL)
        return
    _, [found] = coerced(column, [Constant(spelling, text)], Compared.EQUAL)

    assert isinstance(found, Literal)
    assert (found.value, type(found.value)) == (value, type(value))
