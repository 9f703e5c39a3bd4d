"""Arrow arrays as the plain numbers inside them, and back, without a copy where possible."""

from typing import Any

import numpy as np
import pyarrow as pa

from strata.errors import InvalidRequest
from strata.kernels.arrays import Bools, Bytes, Int32s, Ints
from strata.model.types import ColumnType


def valid_mask(array: pa.Array) -> Bools | None:
    """Return which values are not null, or None if all are valid."""
    if array.null_count == 0:
        return None
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    flat = np.unpackbits(bits, bitorder="little", count=array.offset + len(array))
    return flat[array.offset :].view(np.bool_)


def numbers(array: pa.Array, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the values of a fixed-width array as `dtype`, read-only; null slots hold anything."""
    if len(array) == 0:
        return np.frombuffer(b"", dtype)
    data = np.frombuffer(array.buffers()[1], dtype)
    data.setflags(write=False)
    return data[array.offset : array.offset + len(array)]


def kernel_bytes(buffer: pa.Buffer | None) -> Bytes:
    """Return a buffer as bytes for kernels: read-only, even if the buffer is not.

    Kernels are compiled for one kind of array, and who made a buffer decides whether it is.
    """
    view = np.frombuffer(buffer or b"", np.uint8)
    view.setflags(write=False)
    return view


def present(array: pa.Array) -> Bools:
    """Return which values are not null."""
    found: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def true(mask: pa.BooleanArray) -> Bools:
    """Return where a mask is true, not null."""
    found: Bools = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def number_dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    """Return the NumPy type of a type's numbers; for dates and times, of the stored integers.

    None for anything else.

    >>> number_dtype(pa.timestamp("us")), number_dtype(pa.string())
    (dtype('int64'), None)
    """
    is_time = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if not (is_time or pa.types.is_integer(kind) or kind in {pa.float32(), pa.float64()}):
        return None
    letter = "f" if pa.types.is_floating(kind) else "iu"[pa.types.is_unsigned_integer(kind)]
    return np.dtype(f"<{letter}{kind.bit_width // 8}")


def offsets(array: pa.Array) -> Ints:
    """Return the n+1 byte offsets of a string or binary array, or those of a list's values."""
    return stored_offsets(array).astype(np.int64)


def stored_offsets(array: pa.Array) -> Int32s:
    """Return the stored `offsets` without a copy."""
    if len(array) == 0:
        return np.zeros(1, np.int32)
    raw = np.frombuffer(array.buffers()[1], np.int32)
    return raw[array.offset : array.offset + len(array) + 1]


def records(array: pa.Array, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return fixed-width bytes as records of `dtype`; zeros where null."""
    found = numbers(array, dtype)
    valid = valid_mask(array)
    return found if valid is None else np.where(valid, found, np.zeros((), dtype))


def pack_mask(valid: np.ndarray[Any, Any] | None) -> pa.Buffer | None:
    """Return the validity bitmap of an array, None if all are valid."""
    if valid is None or bool(valid.all()):
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def turn_sign(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return integers as unsigned integers of the same width with the sign bit flipped.

    In big-endian order they sort like the signed integers. A second flip restores the bits.
    """
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    turned: np.ndarray[Any, Any] = values.view(unsigned) ^ unsigned.type(
        1 << (8 * unsigned.itemsize - 1)
    )
    return turned


def refuse(array: pa.Array, wrong: Bools, column_type: ColumnType, cure: str) -> None:
    """Raise InvalidRequest naming the first `wrong` value, if there is any."""
    if wrong.any():
        value = array[int(np.argmax(wrong))].as_py()
        raise InvalidRequest(
            "not a value of the type", type=str(column_type), value=value, cure=cure
        )
