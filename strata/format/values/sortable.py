"""Bytes that sort like values, for every type; manifests and nested columns compare by them.

    value a <= value b   exactly when   bytes(a) <= bytes(b);   no bytes are a prefix of others

A value is a tag (1: value, 2: null, so that nulls are last at every depth), then:

    numbers   big-endian, the sign bit flipped; NaN after all others
    bytes     of fixed width unchanged; texts with 00 written as 00 FF and ended by 00 01
    structs   their children, one after another
    lists     their values, one after another, then 00: the shorter sorts first
    maps      as lists of structs of key and value

Manifests store prefixes of these bytes, so existing encodings must not change. Twin: `sort_key` of
`tests/support/values.py`.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.values.nested import is_listed, items
from strata.format.values.physical import valid_mask
from strata.kernels.arrays import Bytes

VALUE_TAG: Final = b"\x01"
NULL_TAG: Final = b"\x02"
ESCAPED_ZERO: Final = b"\x00\xff"
END: Final = b"\x00\x01"
LIST_END: Final = b"\x00"
MOST_BYTES: Final = 2**31 - 1  # offsets of Arrow's binary arrays end there


def sortable_bytes(array: pa.Array) -> pa.BinaryArray:
    """Return each value as bytes that sort like the values; null in the array is a value here.

    Shape: no nulls come out.
    Raises: InvalidRequest for a type that has no order.
    """
    if pa.types.is_list(array.type) and _is_number(array.type.value_type):
        found = _number_lists(array)
        if found is not None:
            return found
    body = _body(array)
    tagged = pc.binary_join_element_wise(pa.scalar(VALUE_TAG), body, b"")
    if not array.null_count:
        return tagged
    return pc.if_else(array.is_valid(), tagged, pa.scalar(NULL_TAG))


def flat_columns(array: pa.Array) -> list[pa.Array]:
    """Return flat arrays that, compared one after another, sort like `array`.

    A struct becomes "is null" and its children; a list or map becomes its bytes.
    """
    if pa.types.is_struct(array.type):
        children = [flat for child in array.flatten() for flat in flat_columns(child)]
        return [array.is_null(), *children]
    return [sortable_bytes(array)] if is_listed(array.type) else [array]


def as_integers(a: pa.Array) -> pa.Array:
    """Return times as their integers, which Arrow compares fastest."""
    if pa.types.is_date32(a.type) or pa.types.is_time32(a.type):
        return a.view(pa.int32())
    if pa.types.is_temporal(a.type):
        return a.view(pa.int64())
    return a


def _body(a: pa.Array) -> pa.BinaryArray:
    kind = a.type
    if pa.types.is_struct(kind):
        children = [sortable_bytes(child) for child in a.flatten()]
        return pc.binary_join_element_wise(*children, b"") if len(children) > 1 else children[0]
    if is_listed(kind):
        return _list(a)
    if pa.types.is_fixed_size_binary(kind):
        return a.fill_null(bytes(kind.byte_width)).cast(pa.binary())
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        return _text(a.cast(pa.binary()))
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
        return _text(a.cast(pa.binary()))
    return _number(a)


def _list(a: pa.Array) -> pa.BinaryArray:
    """Return the values of each list, concatenated: the same bytes, other offsets."""
    lengths, inner = items(a)
    encoded = sortable_bytes(inner)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    starts = np.frombuffer(encoded.buffers()[1], np.int32)[encoded.offset :] if len(inner) else ends
    offsets = pa.py_buffer(starts[ends].astype(np.int32))
    joined = pa.Array.from_buffers(pa.binary(), len(a), [None, offsets, encoded.buffers()[2]])
    return pc.binary_join_element_wise(joined, pa.scalar(LIST_END), b"")


def _number_lists(a: pa.Array) -> pa.BinaryArray | None:
    """Return lists of numbers as sortable bytes, in one pass; None if there are too many bytes.

    Twin: `_list`.
    """
    from strata.kernels.merge_lists import list_bytes  # loads the compiler

    lengths, inner = items(a)
    encoded = _number_bytes(inner)
    listed, known = valid_mask(a), valid_mask(inner)
    room = 2 * len(a) + len(inner) + encoded.size
    if room > MOST_BYTES:
        return None
    ends, data = np.zeros(len(a) + 1, np.int32), np.empty(room, np.uint8)
    all_true = np.ones(0, np.bool_)
    size = list_bytes(
        lengths,
        all_true if listed is None else listed,
        encoded.reshape(-1),
        encoded.shape[1],
        all_true if known is None else known,
        ends,
        data,
    )
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data[:size])]
    return pa.Array.from_buffers(pa.binary(), len(a), buffers)


def _text(a: pa.BinaryArray) -> pa.BinaryArray:
    escaped = pc.replace_substring(a, pattern=b"\x00", replacement=ESCAPED_ZERO)
    return pc.binary_join_element_wise(escaped, pa.scalar(END), b"")


def _is_number(kind: pa.DataType) -> bool:
    """Return whether `_number_bytes` takes a type."""
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )


def _number(a: pa.Array) -> pa.BinaryArray:
    """Return fixed-width values as bytes that sort like the numbers."""
    return _binary(_number_bytes(a))


def _number_bytes(a: pa.Array) -> Bytes:
    """Return fixed-width values big-endian, signs flipped so that bytes sort like numbers."""
    a = as_integers(a)
    kind = a.type
    if pa.types.is_boolean(kind):
        values = _known(a.cast(pa.uint8()), 0).to_numpy()
    elif pa.types.is_decimal128(kind):
        return _decimal_bytes(_known(a, 0))
    elif pa.types.is_floating(kind):
        values = _float_words(_known(a, 0.0).to_numpy())
    elif pa.types.is_signed_integer(kind):
        signed = _known(a, 0).to_numpy()
        unsigned = np.dtype(f"u{signed.dtype.itemsize}")
        top = unsigned.type(1 << (8 * signed.dtype.itemsize - 1))
        values = signed.view(unsigned) ^ top
    elif pa.types.is_unsigned_integer(kind):
        values = _known(a, 0).to_numpy()
    else:
        raise InvalidRequest("this type has no order of bytes yet", type=str(kind))
    big_endian = values.astype(values.dtype.newbyteorder(">"))
    width = values.dtype.itemsize
    rows: Bytes = big_endian.view(np.uint8).reshape(len(a), width)
    return rows


def _known(a: pa.Array, value: float) -> pa.Array:
    """Return an array with `value` for null; `fill_null` has a cost even without nulls."""
    return a.fill_null(value) if a.null_count else a


def _float_words(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    canonical = np.where(np.isnan(floats), np.nan, floats) + floats.dtype.type(0)  # -0.0 to 0.0
    canonical = np.abs(canonical, where=np.isnan(floats), out=canonical)  # NaN without a sign
    width = floats.dtype.itemsize
    words = canonical.astype(floats.dtype).view(np.dtype(f"u{width}"))
    top = words.dtype.type(1 << (8 * width - 1))
    turned: npt.NDArray[Any] = np.where(words & top, ~words, words | top)
    return turned


def _decimal_bytes(a: pa.Array) -> Bytes:
    raw = np.frombuffer(a.buffers()[1], np.uint8)[a.offset * 16 : (a.offset + len(a)) * 16]
    big_endian = raw.reshape(len(a), 16)[:, ::-1].copy()
    big_endian[:, 0] ^= 0x80
    return big_endian


def _binary(rows: Bytes) -> pa.BinaryArray:
    """Return each row of a byte matrix as one binary value."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    data = np.ascontiguousarray(rows)
    return pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
