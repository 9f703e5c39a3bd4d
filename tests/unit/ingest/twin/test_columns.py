"""The twin reads typed values and stored columns: expectations written by hand."""

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from strata.ingest.twin import Unreadable, from_python, stored
from strata.model.types import parse_type

DIMS = pa.list_(pa.struct([("lower_bound", pa.int64()), ("length", pa.int64())]))
NUMBER = pa.struct([("approx", pa.float64()), ("text", pa.string())])
CODES = pa.dictionary(pa.int8(), pa.string())
EMPTY = bytes(5)


@pytest.mark.parametrize(
    ("kind", "value", "arrow", "read"),
    [
        ("int16", 5, pa.int64(), 5),
        ("int16", 5.0, pa.float64(), 5),
        ("int16", Decimal("5.00"), pa.decimal128(10, 2), 5),
        ("int16", "5", pa.string(), 5),
        ("float64", 2**53 + 1, pa.int64(), float(2**53)),
        ("float32", 0.1, pa.float64(), 0.10000000149011612),
        ("numeric", 1.5, pa.float64(), Decimal("1.5")),
        ("numeric", math.nan, pa.float64(), "NaN"),
        ("numeric", {"approx": 1.0, "text": "1.5"}, NUMBER, Decimal("1.5")),
        ("numeric(38,0)", Decimal(10) ** 37, pa.decimal256(76, 0), Decimal(10) ** 37),
        ("time", time(1, 2, 3, 5), pa.time64("us"), "01:02:03.000005000"),
        ("time", 1, pa.time64("ns"), "00:00:00.000000001"),
        ("date", date(2020, 1, 1), pa.date32(), date(2020, 1, 1)),
        ("timestamp", datetime(2020, 1, 1), pa.timestamp("us"), datetime(2020, 1, 1)),  # noqa: DTZ001
        ("timestamptz", 1, pa.timestamp("s", "UTC"), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("interval day to second", 5, pa.int64(), timedelta(microseconds=5)),
        ("interval day to second", timedelta(1), pa.duration("us"), timedelta(1)),
        ("interval year to month", 14, pa.int32(), 14),
        (
            "interval",
            pa.MonthDayNano([1, 2, 3000]),
            pa.month_day_nano_interval(),
            {"months": 1, "days": 2, "micros": 3},
        ),
        ("uuid", b"a" * 16, pa.uuid(), "61616161-6161-6161-6161-616161616161"),
        ("bytes", b"\xff", pa.binary(), b"\xff"),
        ("string", "x", pa.string(), "x"),
        ("string", "x", pa.dictionary(pa.int8(), pa.string()), "x"),
        ("int16", 5, pa.dictionary(pa.int8(), pa.int64()), 5),
        (
            "jsonb",
            {"b": 1, "a": [None]},
            pa.struct([("b", pa.int64()), ("a", pa.list_(pa.int64()))]),
            '{"a":[null],"b":1}',
        ),
        ("list<int16>", [1, None], pa.list_(pa.int64()), [1, None]),
        ("map<int32>", [("b", 1), ("a", 2)], pa.map_(pa.string(), pa.int64()), {"a": 2, "b": 1}),
        ("map<int32>", [(b"b", 1)], pa.map_(pa.binary(), pa.int64()), {"b": 1}),
        ("map<int32>", [("b", 1)], pa.map_(CODES, pa.int64()), {"b": 1}),
        (
            "array<int32>",
            [1, 2],
            pa.list_(pa.int32()),
            {"dims": [{"lower_bound": 1, "length": 2}], "vals": [1, 2]},
        ),
        (
            "record<a: int16, b: uuid>",
            {"a": 1, "c": 5},
            pa.struct([("a", pa.int64()), ("c", pa.int64())]),
            {"a": 1, "b": None},
        ),
        (
            "range<int32>",
            {"lower": 1, "upper": 2},
            pa.struct([("lower", pa.int64()), ("upper", pa.int64())]),
            {
                "lower": 1,
                "upper": 2,
                "lower_inclusive": True,
                "upper_inclusive": False,
                "empty": False,
            },
        ),
    ],
)
def test_a_typed_value_is_read(kind: str, value: Any, arrow: pa.DataType, read: Any) -> None:
    assert from_python(value, arrow, parse_type(kind)) == read


@pytest.mark.parametrize(
    ("kind", "value", "arrow"),
    [
        ("int16", 300_000, pa.int64()),
        ("int32", 1.5, pa.float64()),
        ("int32", True, pa.bool_()),
        ("timestamp", 1001, pa.timestamp("ns")),
        ("timestamptz", 1, pa.int64()),
        ("int64", datetime(2020, 1, 1), pa.timestamp("us")),  # noqa: DTZ001
        ("time", 86_400, pa.time32("s")),
        ("date", 3_000_000, pa.date32()),
        ("timestamp", 2**62, pa.timestamp("us")),
        ("interval", pa.MonthDayNano([1, 2, 3]), pa.month_day_nano_interval()),
        ("map<int32>", [("a", 1), ("a", 2)], pa.map_(pa.string(), pa.int64())),
        ("map<int32>", [(1, 2)], pa.map_(pa.int32(), pa.int32())),
        ("numeric(10,2)", Decimal("1.005"), pa.decimal128(10, 3)),
        ("string", 5, pa.int64()),
    ],
)
def test_a_typed_value_of_another_type_is_unreadable(
    kind: str, value: Any, arrow: pa.DataType
) -> None:
    with pytest.raises(Unreadable):
        from_python(value, arrow, parse_type(kind))


def number(digits: int, exponent: int, *units: int, flag: int = 0) -> bytes:
    head = digits.to_bytes(4, "little") + exponent.to_bytes(4, "little", signed=True)
    body = b"".join(unit.to_bytes(2, "little") for unit in [*units, *[0] * (13 - len(units))])
    return head + body + bytes([flag]) + EMPTY


NUMERIC = pa.struct([("approx", pa.float64()), ("binary", pa.binary(40))])
ROW = pa.struct([("a", pa.int32())])
RANGE = pa.struct(
    [
        ("lower", pa.int32()),
        ("upper", pa.int32()),
        ("lower_inclusive", pa.bool_()),
        ("upper_inclusive", pa.bool_()),
        ("empty", pa.bool_()),
    ]
)


@pytest.mark.parametrize(
    ("kind", "column", "values"),
    [
        (
            "numeric",
            pa.array(
                [
                    {"approx": -101.0, "binary": number(3, 0, 101, flag=0x80)},
                    {"approx": 1500.0, "binary": number(2, 2, 15)},
                    {"approx": math.nan, "binary": number(1, 0, 0, flag=0x20)},
                    None,
                ],
                NUMERIC,
            ),
            [Decimal(-101), Decimal(1500), "NaN", None],
        ),
        ("numeric(10,2)", pa.array([Decimal("1.50")], pa.decimal128(10, 2)), [Decimal("1.5")]),
        (
            "time",
            pa.array([bytes.fromhex("00000e4d00000000")], pa.binary(8)),
            ["01:01:01.000000000"],
        ),
        (
            "time",
            pa.array([bytes.fromhex("0001517f59682f00")], pa.binary(8)),
            ["23:59:60.500000000"],
        ),
        (
            "interval",
            pa.array([bytes.fromhex("80000001800000018000000000000000")], pa.binary(16)),
            [{"months": 1, "days": 1, "micros": 0}],
        ),
        (
            "aclitem",
            pa.array([bytes.fromhex("000000010000000200000000e000030f")], pa.binary(16)),
            [{"grantee": 1, "grantor": 2, "mode": 0xE000030F}],
        ),
        (
            "mz_aclitem",
            pa.array(
                [bytes.fromhex("0000012c00000000000000010000012c000000000000000200000000e000030f")],
                pa.binary(32),
            ),
            [{"grantee": "u1", "grantor": "u2", "mode": 0xE000030F}],
        ),
        ("float64", pa.array([math.nan, 1.5, math.inf]), ["NaN", 1.5, math.inf]),
        (
            "date",
            pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32()),
            [date(1970, 1, 1), 2**31 - 1],
        ),
        (
            "timestamptz",
            pa.array([-1], pa.timestamp("us", "UTC")),
            [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)],
        ),
        (
            "interval day to second",
            pa.array([2**63 - 1], pa.duration("us")),
            [timedelta(microseconds=2**63 - 1)],
        ),
        (
            "jsonb",
            pa.array(['{"a":[1.5,100.0],"b":null}', "1e400", "1e16"]),
            ['{"a":[1.5,100.0],"b":null}', "1e+400", "1e+16"],
        ),
        ("uuid", pa.array([b"a" * 16], pa.binary(16)), ["61616161-6161-6161-6161-616161616161"]),
        (
            "map<int32>",
            pa.array([[("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int32())),
            [{"a": 1, "b": None}],
        ),
        ("record<a: int32>", pa.array([{"a": 1}, None], ROW), [{"a": 1}, None]),
        (
            "array<int32>",
            pa.array(
                [{"dims": [{"lower_bound": 0, "length": 1}], "vals": [7]}],
                pa.struct([("dims", DIMS), ("vals", pa.list_(pa.int32()))]),
            ),
            [{"dims": [{"lower_bound": 0, "length": 1}], "vals": [7]}],
        ),
    ],
)
def test_a_stored_column_is_decoded(kind: str, column: pa.Array, values: list[Any]) -> None:
    assert stored(column, parse_type(kind)) == values


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("float64", pa.array([-0.0])),
        ("numeric", pa.array([{"approx": 10.0, "binary": number(2, 0, 10)}], NUMERIC)),
        ("numeric", pa.array([{"approx": 1.0, "binary": number(1, 0, 2)}], NUMERIC)),
        ("time", pa.array([bytes.fromhex("0001518000000000")], pa.binary(8))),
        ("char(3)", pa.array(["a "])),
        ("jsonb", pa.array(['{"b":1,"a":1}'])),
        ("jsonb", pa.array(["[1, 2]"])),
        ("jsonb", pa.array(["1.10"])),
        ("map<int32>", pa.array([[("b", 1), ("a", 1)]], pa.map_(pa.string(), pa.int32()))),
        (
            "range<int32>",
            pa.array(
                [
                    {
                        "lower": 1,
                        "upper": 2,
                        "lower_inclusive": True,
                        "upper_inclusive": True,
                        "empty": False,
                    }
                ],
                RANGE,
            ),
        ),
    ],
)
def test_what_no_part_may_hold_equals_nothing(kind: str, column: pa.Array) -> None:
    [found] = stored(column, parse_type(kind))

    assert isinstance(found, Unreadable)


@pytest.mark.parametrize(
    ("value", "arrow", "kind", "read"),
    [
        (0.10000000149011612, pa.float32(), "numeric(10,2)", "0.1"),
        (0.125, pa.float32(), "numeric(10,3)", "0.125"),
        (0.1, pa.float64(), "numeric(10,2)", "0.1"),
        (0.0999755859375, pa.float16(), "numeric(10,2)", "0.1"),
        (0.10000000149011612, pa.float32(), "numeric", "0.100000001490116119384765625"),
    ],
)
def test_a_float_as_a_decimal_is_its_exact_value_or_its_shortest_text(
    value: float, arrow: pa.DataType, kind: str, read: str
) -> None:
    assert from_python(value, arrow, parse_type(kind)) == Decimal(read)


def test_a_float_whose_shortest_text_does_not_fit_is_no_decimal() -> None:
    with pytest.raises(Unreadable):
        from_python(0.125, pa.float32(), parse_type("numeric(10,2)"))
