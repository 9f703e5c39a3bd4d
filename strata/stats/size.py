"""Estimate the stored size of one part's statistics.

A manifest is an Arrow file with zstd-compressed buffers, one for each field of each column, for all
parts together. The following approximates well what a part adds to it; it is cheap, needs no
compressor and gives the same result everywhere:

* a number, date or time: its significant bytes, 0 for zero and null (runs of zero bytes vanish),
* a floating point number: its width, 0 for zero and null,
* a uuid, a time, any value of fixed width: its width; 0 for null,
* a text: its bytes and 2 for its length; 0 for empty and null,
* a known flag, and the validity of a column: one bit each.

`tests/unit/stats/test_size.py` compares the estimate with real manifests. The `rows` column and the
names of columns are not counted, because every manifest has them anyway. Neither are sets and bloom
filters, which have limits of their own (`strata.stats.members`).
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.stats.wire import is_budgeted

LENGTH_BITS: Final = 16
# The least numbers that need more than 1, 2, ... 7 bytes
_SIGNED_LIMITS: Final = np.int64(1) << np.arange(7, 63, 8)
_UNSIGNED_LIMITS: Final = np.uint64(1) << np.arange(8, 63, 8, dtype=np.uint64)

Bits = npt.NDArray[np.int64]


def encoded_size(row: pa.RecordBatch) -> int:
    """Return the size of one part's statistics. Units: bytes."""
    assert row.num_rows == 1
    return int(encoded_sizes(row)[0])


def encoded_sizes(table: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the size of each part's statistics. Units: bytes, one int64 a row."""
    bits = np.zeros(table.num_rows, np.int64)
    for name in table.schema.names:
        if is_budgeted(name):
            bits += column_bits(table.column(name))
    return (bits + 7) // 8


def column_bits(column: pa.Array | pa.ChunkedArray) -> Bits:
    """Return the size of one statistics column. Units: bits, one int64 a row."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if len(column) == 1:
        return np.array([_bits_of_one(column)])
    bits = np.ones(len(column), np.int64)
    for child in column.flatten():  # null wherever the struct is
        bits += _value_bits(child)
    return bits


def _bits_of_one(column: pa.StructArray) -> int:
    """Return the size of a column of one row; every part that is written has many of these."""
    bits = 1
    for child in column.flatten():
        if child.null_count:
            continue
        kind = child.type
        if pa.types.is_boolean(kind):
            bits += 1
        elif pa.types.is_floating(kind):
            bits += kind.bit_width if child[0].as_py() != 0 else 0
        elif pa.types.is_integer(kind):
            bits += _integer_size(child[0].as_py(), signed=pa.types.is_signed_integer(kind))
        elif pa.types.is_temporal(kind):
            bits += _integer_size(child[0].value, signed=True)
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            size = child[0].as_buffer().size
            bits += 8 * size + LENGTH_BITS if size else 0
        else:
            bits += int(_value_bits(child)[0])
    return bits


def _integer_size(number: int, *, signed: bool) -> int:
    """Return the bits of the significant bytes of a number, one of them for its sign."""
    if number == 0:
        return 0
    magnitude = ~number if number < 0 else number
    return 8 * max(1, -(-(magnitude.bit_length() + signed) // 8))


def _value_bits(values: pa.Array) -> Bits:
    kind = values.type
    if pa.types.is_boolean(kind):
        return _present(values).astype(np.int64)
    if pa.types.is_floating(kind):
        counted = _present(values) & (np.asarray(values) != 0)
        return np.where(counted, kind.bit_width, 0)
    if pa.types.is_decimal(kind):
        return _byte_bits(values, kind.byte_width)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return _integer_bits(values)
    if pa.types.is_fixed_size_binary(kind):
        return _present(values) * np.int64(8 * kind.byte_width)
    lengths = np.asarray(_filled(pc.binary_length(values)), dtype=np.int64)
    return np.where(lengths == 0, 0, 8 * lengths + LENGTH_BITS)


def _integer_bits(values: pa.Array) -> Bits:
    kind = values.type
    if pa.types.is_unsigned_integer(kind):
        return _sized(np.asarray(_filled(values)), _UNSIGNED_LIMITS)
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    plain = values.cast(width) if pa.types.is_temporal(kind) else values
    numbers = np.asarray(_filled(plain), dtype=np.int64)
    return _sized(np.where(numbers < 0, ~numbers, numbers), _SIGNED_LIMITS, numbers == 0)


def _sized(magnitudes: npt.NDArray[Any], limits: npt.NDArray[Any], zero: Any = None) -> Bits:
    sizes = 8 * (1 + np.searchsorted(limits, magnitudes, side="right"))
    return np.where(magnitudes == 0 if zero is None else zero, 0, sizes)


def _byte_bits(values: pa.Array, width: int) -> Bits:
    """Return the bits of little-endian decimals, without bytes that only repeat the sign."""
    if not len(values):
        return np.zeros(0, np.int64)
    data = values.buffers()[1]
    start = values.offset * width
    raw = np.frombuffer(data, np.uint8)[start : start + len(values) * width].reshape(-1, width)
    sign = np.where(raw[:, -1:] >= 0x80, 0xFF, 0)
    significant = (raw != sign)[:, ::-1]
    sizes = np.where(significant.any(axis=1), width - significant.argmax(axis=1), 1)
    return np.where(raw.any(axis=1) & _present(values), 8 * sizes, 0)


def _present(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.is_valid()) if values.null_count else np.ones(len(values), bool)


def _filled(values: pa.Array) -> pa.Array:
    return pc.fill_null(values, 0) if values.null_count else values
