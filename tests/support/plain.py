"""Values of every column type, edges first, and arrays of them.

A value is *physical*: days for a date, microseconds for a timestamp, the unscaled integer for a
numeric, the bits of a float, bytes for texts; None is null.
"""

import struct
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from strata.format.columns import updates_schema
from strata.format.encodings import arrow_type
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, Kind, parse_type
from tests.unit.format.rowcodec.proto import Physical

TYPES: Final = tuple(
    parse_type(text)
    for text in (
        "bool", "int16", "int32", "int64", "float32", "float64", "numeric(38,9)", "numeric(38,0)",
        "numeric(10,2)", "numeric(18,18)", "numeric(1,0)", "date", "timestamp", "timestamptz",
        "string", "bytes", "jsonb",
    )
)  # fmt: skip
INT_BITS: Final = {Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64, Kind.DATE: 32}
DAY_US: Final = 86_400_000_000
NAN64: Final = 0x7FF8000000000000
NAN32: Final = 0x7FC00000
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def physical(column_type: ColumnType) -> st.SearchStrategy[Any]:
    """Return a strategy of canonical non-null physical values of a type."""
    kind = column_type.kind
    if kind is Kind.BOOL:
        return st.integers(0, 1)
    if kind in INT_BITS:
        return _ints(INT_BITS[kind])
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        edges = [
            0,
            -1,
            DAY_US - 1,
            -DAY_US,
            999_999,
            -62_135_596_800_000_000,
            -62_135_596_800_000_001,
        ]
        days = st.integers(-10_000, 30_000).map(lambda day: day * DAY_US)
        return _ints(64) | days | st.sampled_from(edges) | st.integers(0, 2**51)
    if kind is Kind.NUMERIC:
        limit = 10 ** (column_type.precision or 38) - 1
        powers = [10**i + j for i in range(39) for j in (-1, 0, 1) if 10**i + j <= limit]
        return st.integers(-limit, limit) | st.sampled_from(powers + [-p for p in powers])
    if kind is Kind.FLOAT64:
        floats = st.floats(allow_nan=False).map(
            lambda x: struct.unpack("<Q", struct.pack("<d", x + 0.0))[0]
        )
        return floats | st.just(NAN64)
    if kind is Kind.FLOAT32:
        narrow = st.floats(width=32, allow_nan=False)
        floats = narrow.map(lambda x: struct.unpack("<I", struct.pack("<f", x + 0.0))[0])
        return floats | st.just(NAN32)
    if kind is Kind.BYTES:
        return _texts(st.binary(max_size=40), st.binary(min_size=1, max_size=3))
    texts = st.text(max_size=40).map(str.encode)
    return _texts(texts, st.text(min_size=1, max_size=2).map(str.encode))


def _texts(
    short: st.SearchStrategy[bytes], seed: st.SearchStrategy[bytes]
) -> st.SearchStrategy[bytes]:
    # Lengths around every place where the encoder changes its way.
    sizes = st.sampled_from(
        [4, 5, 12, 13, 28, 29, 121, 125, 126, 127, 128, 256, 257, 16_383, 16_390]
    )
    long = st.tuples(sizes, seed).map(lambda pair: (pair[1] * pair[0])[: pair[0]])
    return short | long.map(lambda data: data.decode(errors="ignore").encode())


def _ints(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    edges = [0, 1, -1, low, high, low + 1, *(1 << b for b in range(7, bits - 1, 7))]
    edges += [edge - 1 for edge in edges if edge > 1]
    return st.sampled_from([e for e in edges if low <= e <= high]) | st.integers(low, high)


def columns(types: Sequence[ColumnType], max_rows: int = 30) -> st.SearchStrategy[list[list[Any]]]:
    """Return a strategy of rows of physical values, nulls among them."""
    row = st.tuples(*(st.none() | physical(t) for t in types)).map(list)
    return st.lists(row, max_size=max_rows)


def to_array(values: Sequence[Physical], column_type: ColumnType) -> pa.Array:
    """Return physical values as an array, by the slow way through Python objects."""
    kind, wanted = column_type.kind, arrow_type(column_type)
    if kind in (Kind.FLOAT32, Kind.FLOAT64):
        code, size = ("<f", 4) if kind is Kind.FLOAT32 else ("<d", 8)
        floats = [
            None if v is None else struct.unpack(code, int(v).to_bytes(size, "little"))[0]
            for v in values
        ]
        return pa.array(floats, wanted)
    if kind is Kind.NUMERIC:
        with localcontext() as context:
            context.prec = 60
            scaled = [
                None if v is None else Decimal(int(v)).scaleb(-(column_type.scale or 0))
                for v in values
            ]
            return pa.array(scaled, wanted)
    if kind in (Kind.STRING, Kind.JSONB):
        return pa.array([v.decode() if isinstance(v, bytes) else None for v in values], wanted)
    if kind is Kind.BOOL:
        return pa.array([None if v is None else bool(v) for v in values], wanted)
    if kind is Kind.DATE:
        return pa.array(values, pa.int32()).cast(wanted)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return pa.array(values, pa.int64()).cast(wanted)
    return pa.array(values, wanted)


def plain(array: pa.Array) -> list[Any]:
    """Return an array's values as Python objects that compare bit by bit; None is null."""
    kind = array.type
    if pa.types.is_date(kind):
        return list(array.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(kind):
        return list(array.cast(pa.int64()).to_pylist())
    if pa.types.is_floating(kind):
        code = "<f" if pa.types.is_float32(kind) else "<d"
        return [None if v is None else struct.pack(code, v) for v in array.to_pylist()]
    return list(array.to_pylist())


def relation_of(types: Sequence[ColumnType], keys: int = 1, version: int = 0) -> Relation:
    """Return a relation with columns c1, c2, ... of the types, the first `keys` of them its key."""
    made = tuple(Column(i, f"c{i}", t) for i, t in enumerate(types, 1))
    return Relation(version, made, tuple(range(1, keys + 1)), ())


def updates_of(rows: Sequence[Sequence[Any]], relation: Relation) -> pa.Table:
    """Return rows of physical values as updates; t counts up, d alternates."""
    arrays = [
        to_array([row[i] for row in rows], column.type) for i, column in enumerate(relation.columns)
    ]
    times, diffs = range(len(rows)), [1 if i % 3 else -2 for i in range(len(rows))]
    arrays += [pa.array(times, pa.int64()), pa.array(diffs, pa.int64())]
    return pa.Table.from_arrays(arrays, schema=updates_schema(relation))
