"""Views: what readers see of each type, and the way back."""

import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.format.encodings import arrow_type
from strata.format.values.view import from_view, has_view, to_view, view_type
from strata.model.types import NESTED, ColumnType, Kind, parse_type
from tests.support.sizes import few_a_type
from tests.support.values import SCALARS, arrays, every_type, plain, sort_key, to_array, values


def test_every_kind_is_among_the_types_tried() -> None:
    assert {t.kind for t in every_type()} == set(Kind)


@pytest.mark.parametrize("column_type", every_type(), ids=str)
@few_a_type
@given(data=st.data())
def test_what_is_seen_can_be_stored_again(column_type: ColumnType, data: st.DataObject) -> None:
    stored = data.draw(arrays(column_type))

    seen = to_view(stored, column_type)
    again = from_view(seen, column_type)

    seen.validate(full=True)
    again.validate(full=True)
    assert seen.type == view_type(column_type)
    assert again.type == arrow_type(column_type)
    assert repr(plain(again)) == repr(plain(stored))
    assert has_view(column_type) == (seen.type != stored.type)


@pytest.mark.parametrize(
    "column_type", [t for t in SCALARS if t.kind is not Kind.MZ_ACLITEM], ids=str
)
@given(data=st.data())
def test_scalars_are_seen_in_the_order_in_which_they_are_stored(
    column_type: ColumnType, data: st.DataObject
) -> None:
    cells = sorted(
        data.draw(st.lists(values(column_type), max_size=8)),
        key=lambda value: sort_key(value, column_type),
    )
    seen = plain(to_view(to_array(cells, column_type), column_type))
    for a, b in pairwise([_comparable(value) for value in seen]):
        assert a <= b


def _comparable(value: Any) -> Any:
    if isinstance(value, dict) and "approx" in value:
        value = value["approx"]
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)  # noqa: PLR0124
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("declared", "stored", "seen"),
    [
        ("time", struct.pack(">II", 3661, 0), "01:01:01.000000000"),
        ("time", struct.pack(">II", 86_399, 1_999_999_999), "23:59:60.999999999"),
        (
            "interval",
            bytes.fromhex("80000001800000018000000000000000"),
            {"months": 1, "days": 1, "micros": 0},
        ),
        ("uuid", bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (
            "aclitem",
            bytes.fromhex("000000010000000200000000e000030f"),
            {"grantee": 1, "grantor": 2, "mode": Decimal(0xE000030F)},
        ),
        (
            "mz_aclitem",
            bytes.fromhex("0000012c00000000000000010000012c000000000000000200000000e000030f"),
            {"grantee": "u1", "grantor": "u2", "mode": Decimal(0xE000030F)},
        ),
        ("uint64", 2**64 - 1, Decimal(2**64 - 1)),
        ("list<uint8>", [255, None], [255, None]),
    ],
)
def test_a_value_is_seen_as(declared: str, stored: Any, seen: Any) -> None:
    column_type = parse_type(declared)
    assert plain(to_view(to_array([stored, None], column_type), column_type)) == [seen, None]
    back = from_view(pa.array([seen, None], view_type(column_type)), column_type)
    assert plain(back) == [stored, None]


@pytest.mark.parametrize(
    ("declared", "seen"),
    [
        ("uint8", -1), ("uint8", 256), ("uint64", Decimal(2**64)), ("oid", 2**32),
        ("time", "24:00:00"), ("time", "1:00:00"), ("time", "00:00:00."), ("time", "00:60:00"),
        ("time", "00:00:61"), ("time", "00:00:00.1234567890"), ("time", "noon"), ("uuid", "x"),
        ("uuid", "0" * 31), ("numeric", {"approx": 1.0, "text": "x"}),
        ("numeric", {"approx": 1.0, "text": None}),
        ("interval", {"months": 1, "days": None, "micros": 0}),
        ("mz_aclitem", {"grantee": "x1", "grantor": "p", "mode": Decimal(0)}),
        ("mz_aclitem", {"grantee": "u99999999999999999999", "grantor": "p", "mode": Decimal(0)}),
        ("aclitem", {"grantee": -1, "grantor": 0, "mode": Decimal(0)}),
        ("list<uuid>", ["x"]), ("map<uint8>", [("a", 300)]),
    ],
)  # fmt: skip
def test_what_is_no_value_of_the_type_is_refused(declared: str, seen: Any) -> None:
    column_type = parse_type(declared)
    with pytest.raises(InvalidRequest):
        from_view(pa.array([None, seen], view_type(column_type)), column_type)


def test_short_forms_are_read() -> None:
    times = pa.array(["01:02:03", "01:02:03.5"])
    assert plain(to_view(from_view(times, parse_type("time")), parse_type("time"))) == [
        "01:02:03.000000000",
        "01:02:03.500000000",
    ]
    uuids = pa.array(["000102030405060708090A0B0C0D0E0F"])
    assert plain(from_view(uuids, parse_type("uuid"))) == [bytes(range(16))]


def test_other_arrow_types_are_cast_or_refused() -> None:
    assert plain(from_view(pa.array([1, 2]), parse_type("uint8"))) == [1, 2]
    with pytest.raises(InvalidRequest, match="type"):
        from_view(pa.array([[1]]), parse_type("uint8"))
    with pytest.raises(InvalidRequest, match="type"):
        from_view(pa.array([1 << 40]), parse_type("int16"))


def test_views_of_scalars_are_flat_or_structs() -> None:
    assert all(
        not pa.types.is_nested(view_type(t)) or pa.types.is_struct(view_type(t))
        for t in every_type()
        if t.kind not in NESTED
    )
