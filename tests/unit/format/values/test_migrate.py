"""Defaults and widenings of columns."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Corrupt, InvalidRequest
from strata.format.digest import row_hashes
from strata.format.encodings import arrow_type
from strata.format.values.canonical import canonical
from strata.format.values.migrate import (
    check_widens,
    default_array,
    default_scalar,
    not_wider,
    widen,
    widens,
)
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from tests.support.values import arrays, number, plain, sort_key


def column(declared: str, default: object) -> Column:
    return Column(1, "a", parse_type(declared), default=default)


@pytest.mark.parametrize(
    ("declared", "default", "value"),
    [
        ("int16", 5, 5),
        ("int64", None, None),
        ("float64", 1, 1.0),
        ("float32", -0.0, 0.0),
        ("numeric(10,2)", "1.5", Decimal("1.50")),
        ("numeric(10,2)", 3, Decimal("3.00")),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("timestamp", "2024-01-01T12:00:00", datetime(2024, 1, 1, 12)),  # noqa: DTZ001
        ("timestamptz", "2024-01-01T12:00:00+02:00", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("timestamptz", "2024-01-01T12:00:00", datetime(2024, 1, 1, 12, tzinfo=UTC)),
        ("string", "x", "x"),
        ("bytes", "AAE=", b"\x00\x01"),
        ("jsonb", {"b": 1, "a": [1.0]}, '{"a":[1.0],"b":1}'),
        ("jsonb", "x", '"x"'),
        ("bool", False, False),
    ],
)
def test_a_default_is_the_value_that_its_json_says(
    declared: str, default: object, value: Any
) -> None:
    assert default_scalar(column(declared, default)).as_py() == value
    assert default_array(column(declared, default), 2).to_pylist() == [value, value]
    assert len(default_array(column(declared, default), 0)) == 0


@pytest.mark.parametrize(
    ("declared", "default"),
    [
        ("int16", 70_000),
        ("int16", "5"),
        ("int64", 1.5),
        ("int64", True),
        ("bool", 0),
        ("string", 5),
        ("numeric(3,2)", "12.345"),
        ("numeric(10,2)", "x"),
        ("date", "x"),
        ("bytes", "é"),
        ("float64", "x"),
        ("float64", True),
    ],
)
def test_a_default_that_does_not_fit_is_refused(declared: str, default: object) -> None:
    with pytest.raises(InvalidRequest, match="default"):
        default_scalar(column(declared, default))


@pytest.mark.parametrize(
    ("declared", "default", "value"),
    [
        ("uint8", 255, 255),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("numeric", "1.50", number("1.5")),
        ("numeric", "-Infinity", number("-Infinity")),
        ("time", "01:01:01", bytes.fromhex("00000e4d00000000")),
        ("interval", {"months": 1, "days": 1}, bytes.fromhex("80000001800000018000000000000000")),
        ("interval day to second", -5, -5),
        ("char(3)", "a  ", "a"),
        ("uuid", "00010203-0405-0607-0809-0a0b0c0d0e0f", bytes(range(16))),
        ("aclitem", {"grantee": 1, "grantor": 2, "mode": 0xE000030F},
         bytes.fromhex("000000010000000200000000e000030f")),
        ("list<int32>", [1, None], [1, None]),
        ("list<list<float32>>", [[-0.0], []], [[0.0], []]),
        ("map<int16>", {"b": 1, "a": None}, [("a", None), ("b", 1)]),
        ("record<a: int32, b: list<date>>", {"b": ["1970-01-02"]}, {"a": None, "b": [1]}),
        ("record<>", {}, {"_": None}),
        ("array<int32>", [7, 8], {"dims": [{"lower_bound": 1, "length": 2}], "vals": [7, 8]}),
        ("int2vector", [], {"dims": [], "vals": []}),
        ("range<int32>", {"lower": 1, "upper": 3, "upper_inclusive": True},
         {"lower": 1, "upper": 4, "lower_inclusive": True, "upper_inclusive": False,
          "empty": False}),
    ],
)  # fmt: skip
def test_a_default_of_any_type_is_what_its_json_says(
    declared: str, default: object, value: Any
) -> None:
    found = default_array(column(declared, default), 2)
    assert repr(plain(found)) == repr([value, value])
    assert found.type == arrow_type(parse_type(declared))
    assert default_array(column(declared, default), 0).type == found.type
    assert default_scalar(column(declared, default)).equals(found[0])


@pytest.mark.parametrize(
    ("declared", "default"),
    [
        ("uint8", 256), ("uint8", -1), ("numeric", "9" * 40), ("numeric", True),
        ("time", "25:00:00"), ("time", 5), ("varchar(2)", "abc"), ("uuid", "x"),
        ("list<int32>", {}), ("list<int32>", ["x"]),
        ("map<int32>", []), ("record<a: int32>", {"b": 1}), ("record<a: int32>", [1]),
        ("array<int32>", {"dims": [{"length": 2}], "vals": [1]}), ("array<int32>", 5),
        ("range<int32>", {"lower": 2, "upper": 1}), ("range<int32>", {"from": 2}),
        ("interval", {"months": 1.5}), ("aclitem", {"grantee": 1}),
    ],
)  # fmt: skip
def test_a_default_of_any_type_that_does_not_fit_is_refused(declared: str, default: object) -> None:
    with pytest.raises(InvalidRequest, match="default"):
        default_scalar(column(declared, default))


WIDENINGS = [
    ("int16", "int32"), ("int16", "int64"), ("int32", "int64"), ("float32", "float64"),
    ("uint8", "uint16"), ("uint8", "uint32"), ("uint8", "uint64"), ("uint8", "int16"),
    ("uint8", "int32"), ("uint8", "int64"), ("uint16", "uint32"), ("uint16", "uint64"),
    ("uint16", "int32"), ("uint16", "int64"), ("uint32", "uint64"), ("uint32", "int64"),
    ("numeric(4,2)", "numeric(10,2)"), ("varchar(3)", "varchar(5)"), ("varchar(3)", "varchar"),
    ("varchar", "string"), ("varchar(3)", "string"), ("char(3)", "varchar(3)"),
    ("list<int16>", "list<int64>"), ("map<list<float32>>", "map<list<float64>>"),
    ("array<uint8>", "array<int16>"), ("range<int32>", "range<int64>"),
    ("record<a: int16>", "record<a: int32>"),
    ("record<a: int16>", "record<a: int16, b: list<uuid>>"),
    ("list<record<a: uint8, b: string>>", "list<record<a: uint16, b: string, c: map<numeric>>>"),
]  # fmt: skip


@pytest.mark.parametrize(("narrow", "wide"), WIDENINGS)
@given(data=st.data())
def test_a_widened_value_is_itself_in_order_and_digest(
    narrow: str, wide: str, data: st.DataObject
) -> None:
    old, new = parse_type(narrow), parse_type(wide)
    array = data.draw(arrays(old))

    assert widens(old, new)
    result = widen(array, column(wide, None))

    result.validate(full=True)
    assert result.type == arrow_type(new)
    assert canonical(result, new).equals(result) or "nan" in repr(plain(result))
    keys, wider = ([sort_key(v, t) for v in plain(a)] for a, t in ((array, old), (result, new)))
    for i in range(len(keys)):
        for j in range(len(keys)):
            assert (keys[i] < keys[j]) == (wider[i] < wider[j])
    hashes = []
    for cells, declared in ((array, old), (result, new)):
        relation = Relation(0, (Column(1, "a", declared),), (1,), ())
        hashes.append(row_hashes(pa.record_batch([cells], ["1"]), relation).tolist())
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("int64", "numeric(38,0)", "numeric(38,0) is stored otherwise than int64"),
        ("int64", "float64", "float64 does not hold every int64"),
        ("int16", "uint16", "uint16 does not hold every int16"),
        ("uint64", "int64", "int64 does not hold every uint64"),
        ("oid", "uint32", "uint32 does not hold every oid"),
        ("numeric(4,2)", "numeric(10,3)", "a scale of 2"),
        ("numeric(4,2)", "numeric", "stored otherwise"),
        ("numeric", "numeric(38,2)", "stored otherwise"),
        ("varchar", "varchar(9)", "does not hold"),
        ("varchar(3)", "char(3)", "does not hold"),
        ("string", "bytes", "bytes does not hold every string"),
        ("date", "timestamp", "does not hold"),
        ("list<int64>", "list<int32>", "the items: int32 does not hold"),
        ("list<int32>", "array<int32>", "does not hold"),
        ("record<a: int32, b: int32>", "record<a: int32>", "keeps its fields"),
        ("record<a: int32, b: int32>", "record<b: int32, a: int32>", "keeps its fields"),
        ("record<a: list<int32>>", "record<a: list<int16>>", "field a: the items: int16"),
        ("record<>", "record<a: int16>", "without"),
    ],
)
def test_what_does_not_widen_is_refused_with_the_reason(old: str, new: str, reason: str) -> None:
    assert not widens(parse_type(old), parse_type(new))
    assert reason in (not_wider(parse_type(old), parse_type(new)) or "")
    with pytest.raises(Corrupt, match=re.escape(reason)):
        check_widens(Column(1, "a", parse_type(old)), Column(1, "a", parse_type(new)))


@pytest.mark.parametrize(("narrow", "wide"), WIDENINGS)
def test_nothing_widens_both_ways(narrow: str, wide: str) -> None:
    assert not_wider(parse_type(wide), parse_type(narrow))


def test_defaults_have_the_arrow_type_of_their_column() -> None:
    assert default_array(column("jsonb", 1), 1).type == pa.string()
    assert default_array(column("int16", None), 3) == pa.nulls(3, pa.int16())
