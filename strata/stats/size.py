"""What the statistics of one part cost where they are stored.

A manifest is an Arrow file whose buffers are compressed with zstd, one buffer for each field of
each column, all parts together. What a part adds to it is, to a good approximation that is cheap,
needs no compressor and is the same everywhere:

* a number, date or time: its significant bytes, 0 for zero and null (runs of zero bytes vanish),
* a floating point number: its width, 0 for zero and null,
* a text: its bytes and 2 for its length; 0 for empty and null,
* a flag, and whether a column is null: one bit.

`tests/unit/stats/test_size.py` holds the measure against real manifests. The `rows` column and
the names of columns are not counted: a manifest has them once, or anyway.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.stats.wire import PREFIX

_LENGTH_BITS: Final = 16

Bits = npt.NDArray[np.int64]


def encoded_size(row: pa.RecordBatch) -> int:
    """Return what the statistics of one part cost. Units: bytes."""
    assert row.num_rows == 1
    return int(encoded_sizes(row)[0])


def encoded_sizes(table: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return what the statistics of each part cost. Units: bytes, one int64 a row."""
    bits = np.zeros(table.num_rows, np.int64)
    for name in table.schema.names:
        if name.startswith(PREFIX):
            bits += column_bits(table.column(name))
    return (bits + 7) // 8


def column_bits(column: pa.Array | pa.ChunkedArray) -> Bits:
    """Return what one statistics column costs. Units: bits, one int64 a row."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    bits = np.ones(len(column), np.int64)
    known = np.asarray(pc.is_valid(column))
    for child in column.flatten():
        bits += np.where(known, _value_bits(child), 0)
    return bits


def _value_bits(values: pa.Array) -> Bits:
    kind = values.type
    if pa.types.is_boolean(kind):
        return np.ones(len(values), np.int64)
    if pa.types.is_floating(kind):
        zero = pc.fill_null(pc.equal(values, pa.scalar(0.0, kind)), True)
        return np.where(np.asarray(zero), 0, kind.bit_width)
    if pa.types.is_decimal(kind):
        return _byte_bits(values, kind.byte_width)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return _integer_bits(values)
    lengths = np.asarray(pc.fill_null(pc.binary_length(values), 0), dtype=np.int64)
    return np.where(lengths == 0, 0, 8 * lengths + _LENGTH_BITS)


def _integer_bits(values: pa.Array) -> Bits:
    width = pa.int32() if values.type.bit_width == 32 else pa.int64()
    plain = values.cast(width) if pa.types.is_temporal(values.type) else values
    numbers = np.asarray(pc.fill_null(plain.cast(pa.int64()), 0))
    magnitudes = np.where(numbers < 0, ~numbers, numbers).astype(np.uint64)
    limits = np.uint64(1) << np.arange(7, 64, 8, dtype=np.uint64)  # signed bytes: 7 bits, 15, ...
    sizes = 8 * (1 + np.searchsorted(limits, magnitudes, side="right"))
    return np.where(numbers == 0, 0, sizes)


def _byte_bits(values: pa.Array, width: int) -> Bits:
    """Return the bits of decimals: little-endian, without bytes that only repeat the sign."""
    if not len(values):
        return np.zeros(0, np.int64)
    data = values.buffers()[1]
    start = values.offset * width
    raw = np.frombuffer(data, np.uint8)[start : start + len(values) * width].reshape(-1, width)
    sign = np.where(raw[:, -1:] >= 0x80, 0xFF, 0)
    significant = (raw != sign)[:, ::-1]
    sizes = np.where(significant.any(axis=1), width - significant.argmax(axis=1), 1)
    zero = ~raw.any(axis=1) | np.asarray(pc.is_null(values))
    return np.where(zero, 0, 8 * sizes)
