"""The twin reads texts: every expectation here is written by hand, from the documents."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from strata.ingest.twin import Unreadable, from_text
from strata.model.types import parse_type

UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
EMPTY = {
    "lower": None,
    "upper": None,
    "lower_inclusive": False,
    "upper_inclusive": False,
    "empty": True,
}


def naive(*fields: int) -> datetime:
    return datetime(*fields)  # noqa: DTZ001


def ends(lower: Any, upper: Any, low_in: bool = True, high_in: bool = False) -> dict[str, Any]:
    return {
        "lower": lower,
        "upper": upper,
        "lower_inclusive": low_in,
        "upper_inclusive": high_in,
        "empty": False,
    }


def shaped(vals: list[Any], *dims: tuple[int, int]) -> dict[str, Any]:
    return {"dims": [{"lower_bound": low, "length": n} for low, n in dims], "vals": vals}


def span(months: int, days: int, micros: int) -> dict[str, int]:
    return {"months": months, "days": days, "micros": micros}


def acl(grantee: Any, grantor: Any, mode: int) -> dict[str, Any]:
    return {"grantee": grantee, "grantor": grantor, "mode": mode}


READABLE: list[tuple[str, str | bytes, Any]] = [
    ("bool", "TRUE", True),
    ("bool", "0", False),
    ("int16", "5", 5),
    ("int16", "-5", -5),
    ("int16", "32767", 32767),
    ("int64", " -9223372036854775808 ", -(2**63)),
    ("uint64", "18446744073709551615", 2**64 - 1),
    ("oid", "4294967295", 2**32 - 1),
    ("mz_timestamp", "0", 0),
    ("float64", "0.1", 0.1),
    ("float64", "-0.0", 0.0),
    ("float64", "9007199254740993", 9007199254740992.0),
    ("float64", "-inf", float("-inf")),
    ("float64", "nan", "NaN"),
    ("float32", "16777217", 16777216.0),
    ("float32", "0.1", 0.10000000149011612),
    ("float32", "1.1754943508222875e-38", 1.1754943508222875e-38),
    # a little above the middle of 1 and the next float32: float64 would make it the very middle
    ("float32", "1.00000005960464477539062500000001", 1.0000001192092896),
    ("float32", "1.000000059604644775390625", 1.0),
    ("float32", "1.401298464324817e-45", 1.401298464324817e-45),
    ("float32", "3.4028235677973362e38", 3.4028234663852886e38),
    ("numeric(10,2)", "1.50", Decimal("1.5")),
    ("numeric(10,2)", "1.500", Decimal("1.5")),
    ("numeric(38,0)", "9" * 38, Decimal("9" * 38)),
    ("numeric", "9" * 39, Decimal("9" * 39)),
    ("numeric", "1e-30", Decimal("0.000000000000000000000000000001")),
    ("numeric", "NaN", "NaN"),
    ("numeric", "Infinity", Decimal("Infinity")),
    ("numeric", "-0", Decimal(0)),
    ("date", "2013-02-28", date(2013, 2, 28)),
    ("date", "0001-01-01", date(1, 1, 1)),
    ("time", "9:05", "09:05:00.000000000"),
    ("time", "23:59:60.5", "23:59:60.500000000"),
    ("time", "01:02:03.123456789", "01:02:03.123456789"),
    ("timestamp", "2013-01-01T10:00:00.5", naive(2013, 1, 1, 10, 0, 0, 500_000)),
    ("timestamp", "2013-01-01 10:00", naive(2013, 1, 1, 10)),
    ("timestamptz", "2013-01-01T10:00:00Z", datetime(2013, 1, 1, 10, tzinfo=UTC)),
    ("timestamptz", "2013-01-01 10:00:00+01:00", datetime(2013, 1, 1, 9, tzinfo=UTC)),
    ("timestamptz", "2013-01-01T10:00-0130", datetime(2013, 1, 1, 11, 30, tzinfo=UTC)),
    ("timestamptz", "2013-01-01T10:00:00", datetime(2013, 1, 1, 10, tzinfo=UTC)),
    ("timestamptz", "2013-01-01", datetime(2013, 1, 1, tzinfo=UTC)),
    ("uuid", UUID.upper(), UUID),
    ("uuid", UUID.replace("-", ""), UUID),
    ("uuid", "{" + UUID + "}", UUID),
    ("uuid", "urn:uuid:" + UUID, UUID),
    ("interval", "1 mon 2 days 03:04:05", span(1, 2, 11_045_000_000)),
    ("interval", "-1-2 3 04:05", span(-14, 3, 14_700_000_000)),
    ("interval", "P1M2DT3H", span(1, 2, 10_800_000_000)),
    ("interval", "P1Y2M3DT4H5M6.7S", span(14, 3, 14_706_700_000)),
    ("interval", "@ 1 day ago", span(0, -1, 0)),
    ("interval", "INTERVAL '1' DAY", span(0, 1, 0)),
    ("interval", "-1 days +02:03:00", span(0, -1, 7_380_000_000)),
    ("interval", '{"months": 1, "days": 2, "micros": 3}', span(1, 2, 3)),
    ("interval", '{"micros": -5}', span(0, 0, -5)),
    ("interval day to second", "1 02:00:00", timedelta(days=1, hours=2)),
    ("interval day to second", "INTERVAL '-1 02:00:00' DAY TO SECOND", -timedelta(1, 7200)),
    ("interval day to second", "106751991 days 04:00:54.775807", timedelta(microseconds=2**63 - 1)),
    ("interval year to month", "-1-2", -14),
    ("interval year to month", "INTERVAL '1-2' YEAR TO MONTH", 14),
    ("string", " kept ", " kept "),
    ("string", "a\x00b", "a\x00b"),
    ("char(3)", "ab ", "ab"),
    ("varchar(2)", "é ", "é "),
    ("bytes", "abc", b"abc"),
    ("bytes", b"\xff", b"\xff"),
    ("jsonb", '{"b": 1, "a": [1.0, 2]}', '{"a":[1.0,2],"b":1}'),
    ("jsonb", '{"a": 1, "a": 2}', '{"a":2}'),
    ("jsonb", '[1.10, 1e2, -0, "\\u00e9"]', '[1.1,100.0,0,"é"]'),
    ("jsonb", "12345678901234567890123", "12345678901234567890123"),
    ("jsonb", "0.10000000000000000001", "0.10000000000000000001"),
    ("jsonb", "null", "null"),
    ("aclitem", "1=ar/2", acl(1, 2, 3)),
    ("aclitem", "=r/2", acl(0, 2, 2)),
    ("aclitem", '{"grantee": 1, "grantor": 2, "mode": 18446744073709551615}', acl(1, 2, 2**64 - 1)),
    ("mz_aclitem", "u1=r/s2", acl("u1", "s2", 2)),
    ("mz_aclitem", "=U/p", acl("p", "p", 256)),
    ("list<string>", '{1,NULL,"a b"}', ["1", None, "a b"]),
    ("list<int32>", "[1, null]", [1, None]),
    ("list<string>", '{"a,b","c\\"d",e f,"NULL",}', ["a,b", 'c"d', "e f", "NULL", ""]),
    ("list<list<bool>>", "{{t,f},{}}", [[True, False], []]),
    ("array<int32>", "{{1,2},{3,4}}", shaped([1, 2, 3, 4], (1, 2), (1, 2))),
    ("array<int32>", "[0:1]={1,2}", shaped([1, 2], (0, 2))),
    ("array<int32>", "[[1],[2]]", shaped([1, 2], (1, 2), (1, 1))),
    (
        "array<int32>",
        '{"dims": [{"lower_bound": 0, "length": 2}], "vals": [1, 2]}',
        shaped([1, 2], (0, 2)),
    ),
    ("array<int32>", "{}", shaped([])),
    ("int2vector", "1 2 3", shaped([1, 2, 3], (0, 3))),
    ("array<int32>", f"[{2**63 - 1}:{2**63 - 1}]={{7}}", shaped([7], (2**63 - 1, 1))),
    ("map<string>", '{a=>1,"b c"=>NULL}', {"a": "1", "b c": None}),
    ("map<int64>", '{"b":2,"a":null}', {"a": None, "b": 2}),
    ("record<a: int32, b: string, c: bool>", '(1,"a b",)', {"a": 1, "b": "a b", "c": None}),
    ("record<a: int32, b: list<string>>", '(1,"{x,""y z""}")', {"a": 1, "b": ["x", "y z"]}),
    ("record<a: int32, b: jsonb>", '{"b":{"n":1e2},"c":0}', {"a": None, "b": '{"n":100.0}'}),
    ("record<>", "()", {}),
    ("range<int32>", "[1,5)", ends(1, 5)),
    ("range<int32>", "(1,3]", ends(2, 4)),
    ("range<int32>", "(,5]", ends(None, 6, low_in=False)),
    ("range<int32>", "[1,1)", EMPTY),
    ("range<int32>", "empty", EMPTY),
    ("range<int32>", '{"lower": 1, "upper": 5}', ends(1, 5)),
    ("range<float64>", "(,5]", ends(None, 5.0, low_in=False, high_in=True)),
    ("range<date>", '["2020-01-01",)', ends(date(2020, 1, 1), None)),
    ("list<range<int32>>", '{"[1,3)",empty}', [ends(1, 3), EMPTY]),
]
UNREADABLE: list[tuple[str, str | bytes]] = [
    ("bool", "yes"), ("int16", "32768"), ("int64", "5.0"), ("int64", "5e0"), ("int16", "0x10"),
    ("int32", "1_000"), ("int32", "١٢"), ("int32", "１２"), ("int32", ""), ("uint8", "-1"),
    ("float64", "1,5"), ("float64", "1e400"), ("float64", "0x1p3"), ("float32", "1e39"),
    ("float32", "3.4028235677973367e38"), ("float64", "1_0.5"), ("numeric(10,2)", "1.005"),
    ("numeric(10,2)", str(2**256 - 1)), ("numeric(38,0)", "1" + "0" * 38),
    ("numeric(38,0)", str(2**128)), ("numeric(4,2)", "100"), ("numeric(4,2)", "NaN"),
    ("float32", "1e-60"), ("float64", "1e-400"),
    ("numeric", "9" * 40), ("numeric", "1,5"), ("date", "2013-02-30"), ("date", "0000-01-01"),
    ("date", "10000-01-01"), ("date", "infinity"), ("time", "24:00"), ("time", "24:00:00"),
    ("time", "10:60:00"), ("time", "1:02:03.1234567891"), ("time", "-00:00:01"),
    ("timestamp", "2013-01-01T10:00:00Z"), ("timestamp", "0000-12-31T23:59:59"),
    ("timestamp", "2013-01-01T10:00:00.1234567"), ("timestamptz", "0001-01-01T00:00:00+01:00"),
    ("timestamptz", "9999-12-31T23:59:59-01:00"), ("timestamptz", "2013-01-01T25:00:00Z"),
    ("timestamptz", "yesterday"), ("uuid", UUID[:-1]), ("uuid", UUID + "-"), ("interval", "5"),
    ("interval", "1.5 mons"), ("interval", "0.0000001 s"), ("interval", "3000000000 days"),
    ("interval", '{"months": 1.5}'), ("interval", ""), ("interval", "P"),
    ("interval day to second", "1 mon"), ("interval day to second", "999999999 days"),
    ("interval day to second", "106751991 days 04:00:54.775808"),
    ("interval", "INTERVAL 'x' DAY TO SECOND"), ("interval", "INTERVAL '1 2' DAY TO SECOND"),
    ("interval", "INTERVAL '1:2.5' HOUR TO MINUTE"),
    ("interval year to month", "1 mon 1 day"), ("char(3)", "abcd"), ("varchar(2)", "ab "),
    ("string", b"\xff"), ("jsonb", "{a: 1}"), ("jsonb", "NaN"), ("jsonb", '"\\ud800"'),
    ("jsonb", "[" * 201 + "]" * 201), ("jsonb", "[" * 100_000 + "]" * 100_000), ("jsonb", "01"),
    ("aclitem", "u1=r/2"), ("aclitem", "1=q/2"), ("aclitem", '{"grantee": 1, "grantor": 2}'),
    ("mz_aclitem", "1=r/u2"), ("list<int32>", "{1,x}"), ("list<int32>", "{1"),
    ("list<int32>", '["1", {}]'), ("list<string>", '["\\ud800"]'),
    ("list<numeric(38,0)>", "{" + str(2**256 - 1) + "}"), ("array<int32>", "{{1},{2,3}}"),
    ("array<int32>", "[0:5]={1,2}"), ("array<int32>", '{"dims":[{"length":1}],"vals":[7]}'),
    ("array<int32>", f"[{2**63 - 1}:{2**63}]={{1,2}}"),
    ("array<int32>", "[99999999999999999999:99999999999999999999]={1}"),
    ("int2vector", "1 70000"), ("map<int64>", '{"a":"x"}'), ("map<int64>", "[1]"),
    ("map<int64>", '{"a":1,"a":2}'), ("map<int64>", "{a=>1,a=>2}"),
    ("record<a: int32, b: list<string>>", "(1)"), ("record<a: int32>", '{"a":1.5}'),
    ("range<int32>", "[5,1]"), ("range<int32>", "[1,2147483647]"), ("range<int32>", "[1]"),
    ("range<float64>", "[NaN,1]"), ("range<numeric>", "[1e30,-1]"),
    ("range<int32>", '{"lower":1,"empty":"no"}'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "value"), READABLE)
def test_a_text_is_read(kind: str, text: str | bytes, value: Any) -> None:
    found = from_text(text, parse_type(kind))

    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value) or isinstance(value, Decimal | dict)


@pytest.mark.parametrize(("kind", "text"), UNREADABLE)
def test_a_text_that_is_no_value_is_unreadable(kind: str, text: str | bytes) -> None:
    with pytest.raises(Unreadable):
        from_text(text, parse_type(kind))


def test_json_200_levels_deep_is_read() -> None:
    assert from_text("[" * 200 + "]" * 200, parse_type("jsonb")) == "[" * 200 + "]" * 200
