"""The twin reads JSON, Debezium's events and records of CSV: expectations written by hand."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from strata.ingest.twin import (
    Number,
    Undecided,
    Unreadable,
    csv_fields,
    from_connect,
    from_json,
    parse_json_line,
)
from strata.model.types import parse_type

BIG = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
KAFKA = "org.apache.kafka.connect.data."
DEBEZIUM = "io.debezium.time."
VARIABLE = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}


def decimal(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "name": KAFKA + "Decimal", "parameters": {"scale": str(scale)}}


def of(text: str) -> Any:
    return parse_json_line(b'{"v":' + text.encode() + b"}")["v"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int16", "5", 5),
        ("int16", "5.0", 5),
        ("int16", "5e0", 5),
        ("int16", '"5"', 5),
        ("int64", "9223372036854775807", 2**63 - 1),
        ("int64", "null", None),
        ("uint64", "1.8446744073709551615e19", 2**64 - 1),
        ("bool", "true", True),
        ("float64", "0.1", 0.1),
        ("float64", "9007199254740993.0", 9007199254740992.0),
        ("float64", "-0.0", 0.0),
        ("float64", '"NaN"', "NaN"),
        ("numeric(20,2)", "123456789012345678.25", Decimal("123456789012345678.25")),
        (
            "numeric",
            "0.100000000000000000000000000000000000001",
            Decimal("0.100000000000000000000000000000000000001"),
        ),
        ("string", '"5"', "5"),
        ("string", '"\\u0000"', "\x00"),
        ("string", '"\\ud83d\\ude00"', "😀"),
        ("bytes", '"é"', "é".encode()),
        ("date", '"2020-01-01"', date(2020, 1, 1)),
        ("jsonb", '"text"', '"text"'),
        ("jsonb", '{"b":1,"a":{"d":1e2,"c":[]}}', '{"a":{"c":[],"d":100.0},"b":1}'),
        ("jsonb", BIG, BIG),
        ("jsonb", "1e400", "1e+400"),
        (
            "interval",
            '{"months": 1, "days": 2, "micros": 3}',
            {"months": 1, "days": 2, "micros": 3},
        ),
        (
            "aclitem",
            '{"grantee": 1, "grantor": 2, "mode": 3}',
            {"grantee": 1, "grantor": 2, "mode": 3},
        ),
        (
            "mz_aclitem",
            '{"grantee": "u1", "grantor": "p", "mode": 3}',
            {"grantee": "u1", "grantor": "p", "mode": 3},
        ),
        ("map<int32>", '{"a":1,"b":null}', {"a": 1, "b": None}),
        ("record<a: int32, b: int32>", '{"a":1,"c":2}', {"a": 1, "b": None}),
        ("record<a: int32, b: int32>", '{"a":1,"A":2}', {"a": 1, "b": None}),
        (
            "array<list<int32>>",
            "[[1,2],[3]]",
            {"dims": [{"lower_bound": 1, "length": 2}], "vals": [[1, 2], [3]]},
        ),
        (
            "array<int32>",
            "[[1,2],[3,4]]",
            {"dims": [{"lower_bound": 1, "length": 2}] * 2, "vals": [1, 2, 3, 4]},
        ),
    ],
)
def test_a_json_value_is_read(kind: str, text: str, value: Any) -> None:
    found = from_json(of(text), parse_type(kind))

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int32", "true"),
        ("int32", "5.5"),
        ("int32", "2147483648"),
        ("int64", "1e999999"),
        ("int64", "1e99999999999999999999"),
        ("bool", "1"),
        ("string", "5"),
        ("string", "{}"),
        ("string", '"\\ud800"'),
        ("timestamptz", "1356998400000"),
        ("float64", "[1.0]"),
        ("float64", "1e309"),
        ("numeric(10,2)", BIG),
        ("numeric", BIG),
        ("interval", "5"),
        ("uuid", "{}"),
        ("time", "36000"),
        ("list<string>", "[1]"),
        ("list<int32>", '{"a":1}'),
        ("map<int32>", '[["a",1]]'),
        ("map<int32>", '{"a":1,"a":1}'),
        ("record<a: int32>", "[1]"),
        ("record<a: int32>", '{"A":1}'),
        ("record<a: int32, b: int32>", '{"b":1,"a ":null}'),
        ("array<int32>", "[[1],2]"),
        ("jsonb", '"\\udc00"'),
        ("jsonb", '{"\\ud800":1}'),
    ],
)
def test_a_json_value_of_another_type_is_unreadable(kind: str, text: str) -> None:
    with pytest.raises(Unreadable):
        from_json(of(text), parse_type(kind))


@pytest.mark.parametrize("line", [b"[1]", b"{", b'{"a":\xff}', b'{"a":NaN}', b'{"a":1}{', b"1"])
def test_a_line_that_is_no_object_is_unreadable(line: bytes) -> None:
    with pytest.raises(Unreadable):
        parse_json_line(line)


def test_a_parsed_line_keeps_numbers_and_knows_repeated_keys() -> None:
    line = parse_json_line(b' {"a":1.10,"b":{"c":1,"c":2}} ')

    assert line["a"] == Number("1.10")
    assert line["b"] == {"c": Number("2")}
    assert line["b"].twice == {"c"}


@pytest.mark.parametrize(
    ("kind", "text", "schema", "value"),
    [
        ("date", "1", None, date(1970, 1, 2)),
        ("time", "1000001", None, "00:00:01.000001000"),
        ("timestamp", "-1", None, datetime(1969, 12, 31, 23, 59, 59, 999_999)),  # noqa: DTZ001
        (
            "timestamptz",
            '"1970-01-01T00:00:00.5Z"',
            None,
            datetime(1970, 1, 1, 0, 0, 0, 500_000, UTC),
        ),
        ("bytes", '"AAH/"', None, b"\x00\x01\xff"),
        ("jsonb", '"{\\"b\\":1, \\"a\\":2}"', None, '{"a":2,"b":1}'),
        ("numeric(10,2)", '"1.50"', None, Decimal("1.5")),
        ("list<date>", "[0,null]", None, [date(1970, 1, 1), None]),
        ("date", "-1", {"type": "int32", "name": DEBEZIUM + "Date"}, date(1969, 12, 31)),
        ("time", "1", {"type": "int32", "name": DEBEZIUM + "Time"}, "00:00:00.001000000"),
        ("time", "1", {"type": "int64", "name": DEBEZIUM + "MicroTime"}, "00:00:00.000001000"),
        ("time", "1", {"type": "int64", "name": DEBEZIUM + "NanoTime"}, "00:00:00.000000001"),
        (
            "timestamp",
            "1",
            {"type": "int64", "name": DEBEZIUM + "Timestamp"},
            datetime(1970, 1, 1, 0, 0, 0, 1000),  # noqa: DTZ001
        ),
        (
            "timestamp",
            "1000",
            {"type": "int64", "name": DEBEZIUM + "NanoTimestamp"},
            datetime(1970, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
        ),
        (
            "timestamptz",
            "1",
            {"type": "int64", "name": KAFKA + "Timestamp"},
            datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
        ),
        ("numeric(10,2)", '"AJY="', decimal(2), Decimal("1.5")),
        ("numeric(38,10)", '"CUn1NGHM8/EcpqNbAgvS"', decimal(10), None),
        ("numeric", '{"scale":1,"value":"Dw=="}', VARIABLE, Decimal("1.5")),
        ("bytes", '"/w=="', {"type": "bytes"}, b"\xff"),
        ("list<int32>", "[1]", {"type": "array", "items": {"type": "int32"}}, [1]),
        ("string", '"a"', {"type": "string"}, "a"),
    ],
)
def test_an_events_value_is_read(kind: str, text: str, schema: Any, value: Any) -> None:
    if value is None:
        unscaled = 12345678901234567890123456789012345678
        value = Decimal("1234567890123456789012345678.9012345678")
        text = f'"{b64(unscaled)}"'

    assert from_connect(of(text), schema, parse_type(kind)) == value


def b64(unscaled: int) -> str:
    import base64

    return base64.b64encode(unscaled.to_bytes(40, "big", signed=True)).decode()


@pytest.mark.parametrize(
    ("kind", "text", "schema"),
    [
        ("time", "86400000000", None),
        ("time", "-1", None),
        ("date", "10000000", None),
        ("timestamp", str(2**63), None),
        ("bytes", '"a"', None),
        ("interval", "5", None),
        ("time", "86400000", {"type": "int32", "name": DEBEZIUM + "Time"}),
        ("timestamp", "1", {"type": "int64", "name": DEBEZIUM + "NanoTimestamp"}),
        ("numeric(38,0)", f'"{b64(2**256 - 1)}"', decimal(0)),
        ("numeric(10,2)", '"AJY="', decimal(4)),
        ("interval", "5", {"type": "int64", "name": DEBEZIUM + "MicroDuration"}),
    ],
)
def test_an_events_value_of_another_type_is_unreadable(kind: str, text: str, schema: Any) -> None:
    with pytest.raises(Unreadable):
        from_connect(of(text), schema, parse_type(kind))


def test_what_nobody_has_written_down_is_undecided() -> None:
    with pytest.raises(Undecided):
        from_connect(
            "x", {"type": "struct", "name": "io.debezium.data.geometry.Point"}, parse_type("string")
        )
    for lists in ("[[1],2]", "[2,[1]]", "[[1],[2]]"):
        with pytest.raises(Undecided, match="lists inside of lists"):
            from_connect(of(lists), None, parse_type("array<int32>"))


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        (b'1,,"",NA,"NA",a"b', [b"1", None, b"", None, b"NA", b'a"b']),
        (b'"a,b","c""d","e\nf"\r\n', [b"a,b", b'c"d', b"e\nf"]),
        (b"", [None]),
        (b",", [None, None]),
        (b" NA", [b" NA"]),
        (b"\xff", [b"\xff"]),
        ("é", ["é".encode()]),
    ],
)
def test_a_record_of_csv_is_its_fields(row: bytes | str, fields: list[bytes | None]) -> None:
    assert csv_fields(row) == fields


def test_nulls_and_delimiter_are_as_declared() -> None:
    assert csv_fields('\\N;;"\\N"', ";", ["\\N"]) == [None, b"", b"\\N"]
    with pytest.raises(Unreadable):
        csv_fields('1,"a')
