"""What the frozen files hold, written out by hand: never edited once files exist."""
# ruff: noqa: DTZ001 -- a timestamp without a zone is one of the types

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

import pyarrow as pa

from strata.format.columns import updates_schema
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from tests.support.paged import Invented

VERSION: Final = 1  # of the format that freeze.py writes

_TYPES: Final = (
    "string", "bool", "int16", "int32", "int64", "float32", "float64", "numeric(38,9)", "date",
    "timestamp", "timestamptz", "bytes", "jsonb",
)  # fmt: skip
OLD: Final = Relation(
    4,
    tuple(Column(i, f"c{i}", parse_type(t)) for i, t in enumerate(_TYPES, 1)),
    key=(1, 2),
    order=(1,),
)
# What a later reader asks for: column 3 wider, 5 dropped, 20 added, another key.
NEW: Final = Relation(
    6,
    (
        Column(20, "added", parse_type("string"), default="?"),
        Column(3, "c3", parse_type("int64")),
        Column(1, "renamed", parse_type("string")),
    ),
    key=(3,),
    order=(),
)
NAN: Final = float("nan")

COLUMNS: Final = {
    "1": ["", "a", "a" * 30, "é😀", "x" * 300, None],
    "2": [True, False, None, True, False, None],
    "3": [0, -1, 32767, -32768, 127, None],
    "4": [0, -1, 2**31 - 1, -(2**31), 128, None],
    "5": [0, -1, 2**63 - 1, -(2**63), 2**35, None],
    "6": [0.0, -1.5, float("inf"), float("-inf"), NAN, None],
    "7": [0.0, -1.5, float("inf"), 5e-324, NAN, None],
    "8": [
        Decimal(0), Decimal("-1.5"), Decimal("99999999999999999999999999999.999999999"),
        Decimal("-99999999999999999999999999999.999999999"), Decimal("0.000000001"), None,
    ],
    "9": [
        date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), date(1969, 12, 31),
        None,
    ],
    "10": [
        datetime(1970, 1, 1), datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999),
        datetime(2024, 6, 30, 12, 30, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), None,
    ],
    "11": [
        datetime(1970, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC),
        datetime(2024, 6, 30, 12, 30, 1, 5, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC),
        datetime(2000, 2, 29, tzinfo=UTC), None,
    ],
    "12": [b"", b"\x00\xff", b"ab" * 20, b"\n", b"z", None],
    "13": ["null", '{"a":1,"b":[true,{}]}', "0.1", '"é"', "123456789012345678901234567890", None],
    "t": [-5, 0, 1, 7, 999, 999],
    "d": [1, -1, 1, 3, -3, 1],
}  # fmt: skip


# The parts of the frozen manifest in pages; the last but one has no statistics.
PAGED: Final = tuple(
    Invented(10 * n, 10 * n + 3, t=n, run=n // 4, known=n != 5, spread=n % 2) for n in range(7)
)


def updates() -> pa.Table:
    """Return the frozen updates."""
    return pa.table(COLUMNS, schema=updates_schema(OLD))
