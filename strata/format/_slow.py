"""Temporary slow encoder."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from strata.format.physical import DTYPES, TEXTS, numbers
from strata.format.rowcodec_scalar import DAY_US, DAYS_TO_1970, FIELDS
from strata.model.types import ColumnType, Kind


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _num(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def _date(days: int) -> bytes:
    n = days + DAYS_TO_1970
    n400, n = divmod(n, 146097)
    n100 = min(n // 36524, 3)
    n -= n100 * 36524
    n4, n = divmod(n, 1461)
    n1 = min(n // 365, 3)
    return _num(1, n400 * 400 + n100 * 100 + n4 * 4 + n1 + 1) + _num(2, n - n1 * 365 + 1)


def _datum(value: Any, t: ColumnType) -> bytes:
    k = t.kind
    if value is None:
        return b"\x08\x01"
    if k is Kind.BOOL:
        return b"\x08\x03" if value else b"\x08\x02"
    f = FIELDS[k]
    if k in (Kind.INT16, Kind.INT32, Kind.INT64):
        return _varint(f << 3) + _varint(int(value))
    if k is Kind.FLOAT32:
        return b"\x2d" + int(value).to_bytes(4, "little")
    if k is Kind.FLOAT64:
        return b"\x31" + int(value).to_bytes(8, "little")
    if k in TEXTS:
        return _message(f, value.encode() if isinstance(value, str) else value)
    if k is Kind.DATE:
        return _message(f, _date(int(value)))
    if k is Kind.NUMERIC:
        sign, digits, _ = value.as_tuple()
        text = "".join(map(str, digits)) + "cd"[sign]
        return _message(
            f, _message(1, bytes.fromhex("0" * (len(text) % 2) + text)) + _num(2, t.scale or 0)
        )
    days, us = divmod(int(value), DAY_US)
    clock = _num(1, us // 1_000_000) + _num(2, us % 1_000_000 * 1000)
    return _message(f, _message(1, _date(days)) + _message(2, clock))


def encode_rows_slow(columns: Sequence[pa.Array], types: Sequence[ColumnType]) -> pa.BinaryArray:
    """Encode."""
    lists = []
    for a, t in zip(columns, types, strict=True):
        if t.kind in DTYPES:
            raw = numbers(a, DTYPES[t.kind]).tolist()
            lists.append(
                [v if ok else None for v, ok in zip(raw, a.is_valid().to_pylist(), strict=True)]
            )
        else:
            lists.append(a.to_pylist())
    rows = zip(*lists, strict=True) if lists else []
    return pa.array(
        [b"".join(_message(1, _datum(v, t)) for v, t in zip(r, types, strict=True)) for r in rows],
        pa.binary(),
    )
