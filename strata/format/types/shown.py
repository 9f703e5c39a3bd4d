"""Shared parts of scalar types' views: columns of fixed bytes, digits, texts and structs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.types.row import Message, TypeView
from strata.format.values.nested import structured
from strata.format.values.physical import pack_mask, records, turn_sign, valid_mask
from strata.kernels.arrays import Bytes, Ints
from strata.model.types import ColumnType


def record_view(written: Message, seen: pa.StructType) -> TypeView:
    """Return the view that shows stored numbers as a struct, in their order."""

    def show(array: pa.Array) -> pa.Array:
        fields = records(array, written.stored)
        shown = []
        for number, child in zip(written.numbers, seen, strict=True):
            values = fields[number.name].astype(f"u{number.width}")
            if number.is_signed:
                values = turn_sign(values).view(f"i{number.width}")
            shown.append(as_array(values, array).cast(child.type))
        return structured(seen, shown, array)

    def store(array: pa.Array, column_type: ColumnType) -> pa.Array:
        fields = np.zeros(len(array), written.stored)
        for number, child in zip(written.numbers, children(array, column_type), strict=True):
            if number.is_signed:
                fields[number.name] = turn_sign(child.fill_null(0).to_numpy())
            else:
                wanted = pa.from_numpy_dtype(np.dtype(f"u{number.width}"))
                fields[number.name] = as_unsigned(child, wanted, column_type)
        return fixed(fields, array)

    return TypeView(seen, show, store)


def as_unsigned(array: pa.Array, wanted: pa.DataType, column_type: ColumnType) -> npt.NDArray[Any]:
    """Return numbers, or texts of digits, as unsigned integers; 0 where null.

    Raises: InvalidRequest for a number that does not fit.
    """
    try:
        values: npt.NDArray[Any] = array.cast(wanted).fill_null(0).to_numpy()
    except pa.ArrowInvalid:
        top = 2**wanted.bit_width - 1
        value = next(v for v in array.to_pylist() if v is not None and not 0 <= int(v) <= top)
        raise InvalidRequest(
            "a number is out of the type's range",
            type=str(column_type),
            value=str(value),
            cure=f"0 to {top}",
        ) from None
    return values


def children(array: pa.StructArray, column_type: ColumnType) -> list[pa.Array]:
    """Return the children of structs.

    Raises: InvalidRequest if a child is null in a struct that is not null.
    """
    found: list[pa.Array] = array.flatten()
    for child, field in zip(found, array.type, strict=True):
        if child.null_count != array.null_count:
            raise InvalidRequest(
                "a part of a value is missing",
                type=str(column_type),
                part=field.name,
                cure="give all of its parts, or null",
            )
    return found


def matrix(array: pa.Array) -> Bytes:
    """Return values of one width as rows of bytes, zeros where null."""
    width = array.type.byte_width
    return records(array, np.dtype(f"V{width}")).view(np.uint8).reshape(len(array), width)


def fixed(rows: npt.NDArray[Any], like: pa.Array) -> pa.Array:
    """Return rows of bytes as fixed-width values; null, and zeros, where `like` is null."""
    width = rows.shape[1] if rows.ndim > 1 else rows.dtype.itemsize
    valid = valid_mask(like)
    if valid is not None:
        rows = rows.copy()
        rows[~valid] = np.zeros((), rows.dtype)
    buffers = [pack_mask(valid), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(width), len(like), buffers)


def as_texts(chars: Bytes, like: pa.Array) -> pa.Array:
    """Return rows of characters as texts; null where `like` is null."""
    ends = np.arange(len(chars) + 1, dtype=np.int32) * chars.shape[1]
    data = pa.py_buffer(np.ascontiguousarray(chars))
    buffers = [pack_mask(valid_mask(like)), pa.py_buffer(ends), data]
    return pa.Array.from_buffers(pa.string(), len(like), buffers)


def as_array(values: npt.NDArray[Any], like: pa.Array) -> pa.Array:
    """Return numbers as an array; null where `like` is null."""
    valid = valid_mask(like)
    return pa.array(values, mask=None if valid is None else ~valid)


def hex_texts(array: pa.Array, hyphens: Sequence[int] = ()) -> pa.Array:
    """Return fixed-width bytes as hexadecimal texts, with hyphens before some digits."""
    raw = matrix(array)
    nibbles = np.empty((len(array), 2 * raw.shape[1]), np.uint8)
    nibbles[:, 0::2], nibbles[:, 1::2] = raw >> 4, raw & 15
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]
    return as_texts(np.insert(letters, hyphens, ord("-"), axis=1), array)


def from_hexadecimal(texts: pa.Array, width: int, like: pa.Array) -> pa.Array:
    """Return texts of `2 * width` lower-case hexadecimal digits, or null, as bytes."""
    if not len(texts):
        return pa.array([], pa.binary(width))
    filled, digits = texts.fill_null("0" * 2 * width), 2 * width
    data = np.frombuffer(
        filled.buffers()[2], np.uint8, digits * len(texts), digits * filled.offset
    ).reshape(-1, digits)
    nibbles = data - np.where(data >= ord("a"), ord("a") - 10, ord("0")).astype(np.uint8)
    return fixed(np.ascontiguousarray(nibbles[:, 0::2] << 4 | nibbles[:, 1::2]), like)


def last_digits(values: Ints, places: int) -> Bytes:
    """Return the last decimal digits of each number as characters."""
    powers = 10 ** np.arange(places - 1, -1, -1, dtype=np.int64)
    return (values[:, None] // powers % 10 + ord("0")).astype(np.uint8)
