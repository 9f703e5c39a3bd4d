"""Encode columns as rows of the row codec, a batch at a time.

Each column becomes `Datums`: the size of every value's datum, and a function that writes all datums
at given places. Nested columns first ask their children for sizes and later pass them their places.
The size of a row is the sum over its columns. So every byte is written once, at its place.

The bytes are those of any protobuf encoder; a null, false or true uses the field `other`.
`strata.kernels.row_write` copies texts and numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.rowcodec.fields import (
    DATUM,
    DIMENSION,
    FALSE,
    LOWER,
    UPPER,
    VALUE,
    layout_of,
    tag_of,
)
from strata.format.types.rights import PUBLIC, ROLES
from strata.format.types.row import ROLE, ROLE_SUFFIX, Form
from strata.format.values.packed import NUMERIC_BYTES
from strata.format.values.physical import kernel_bytes, numbers, offsets, turn_sign, valid_mask
from strata.kernels import digits, row_write
from strata.kernels.arrays import Bools, Bytes, Ints, Words
from strata.model.types import ColumnType

MAX_BYTES: Final = 2**31 - 1  # the most that a binary array can hold
DAY_US: Final = 86_400_000_000
NO_ROLES: Final = np.zeros((0, 0), np.uint8)


@dataclass(frozen=True, slots=True)
class Datums:
    """A column as datums, not yet written."""

    sizes: Ints  # bytes of each datum's body, without its frame
    put: Callable[[Bytes, Ints, int], None]  # into out, with a frame, at cursors that it advances


def encode_batch(columns: Sequence[pa.Array], types: Sequence[ColumnType]) -> pa.BinaryArray:
    """Return the rows of a batch.

    Shape: equally long arrays of the types' Arrow types, at least one.
    Raises: InvalidRequest for more than 2 GiB.
    """
    datums = [datums_of(array, t) for array, t in zip(columns, types, strict=True)]
    lengths = np.zeros(len(columns[0]), np.int64)
    for column in datums:
        row_write.add_framed(lengths, column.sizes)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    if total > MAX_BYTES:
        raise InvalidRequest("rows are too big to be encoded together", bytes=total)
    data = np.empty(total, np.uint8)
    cursor = ends - lengths
    starts = np.zeros(len(lengths) + 1, np.int32)
    starts[1:] = ends
    for column in datums:
        column.put(data, cursor, DATUM)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def datums_of(array: pa.Array, column_type: ColumnType) -> Datums:
    """Return the datums of a column; its nulls are those of the array itself."""
    mask = valid_mask(array)
    valid = np.ones(len(array), np.bool_) if mask is None else np.ascontiguousarray(mask)
    return _ENCODERS[layout_of(column_type).form](array, valid, column_type)


def _varints(values: Words, valid: Bools, tag: int, head: int) -> Datums:
    sizes = row_write.varint_sizes(values, valid, head)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        row_write.put_varints(values, valid, sizes, tag, head, frame, out, at)

    return Datums(sizes, put)


def _bool(array: pa.Array, valid: Bools, _: ColumnType) -> Datums:
    values = array.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.uint64)
    return _varints(values + np.uint64(FALSE), valid, 0x08, 1)


def _int(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    dtype = layout_of(column_type).width
    wide = np.int64 if dtype.kind == "i" else np.uint64
    values = numbers(array, dtype).astype(wide).view(np.uint64)
    return _varints(values, valid, *tag_of(column_type))


def _float(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    dtype = layout_of(column_type).width
    bits = numbers(array, dtype).astype(np.uint64)
    tag, _ = tag_of(column_type)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        row_write.put_fixed(bits, valid, dtype.itemsize, tag, frame, out, at)

    return Datums(np.where(valid, dtype.itemsize + 1, 2), put)


def _texts(ends: Ints, data: pa.Buffer | None, valid: Bools, column_type: ColumnType) -> Datums:
    tag, head = tag_of(column_type)
    sizes = row_write.text_sizes(ends, valid, head)
    raw = raw_bytes(data)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        row_write.put_texts(ends, raw, valid, sizes, tag, head, frame, out, at)

    return Datums(sizes, put)


def _text(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    return _texts(offsets(array), array.buffers()[2], valid, column_type)


def _block(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    ends = (np.arange(len(array) + 1) + array.offset) * array.type.byte_width
    return _texts(ends, array.buffers()[1], valid, column_type)


def raw_bytes(buffer: pa.Buffer | None) -> Bytes:
    """Return a buffer as bytes for the kernels of this room, which expect one at least."""
    return kernel_bytes(buffer if buffer else pa.py_buffer(b"\0"))


def _messages(inner: Ints, valid: Bools, column_type: ColumnType) -> tuple[Ints, Any]:
    """Return body sizes of message fields, and a function that writes all but their contents."""
    tag, head = tag_of(column_type)
    sizes = row_write.message_sizes(inner, valid, head)

    def put(out: Bytes, at: Ints, frame: int) -> Ints:
        return row_write.put_messages(inner, valid, sizes, tag, head, frame, out, at)

    return sizes, put


def _number_messages(
    table: Words, valid: Bools, column_type: ColumnType, roles: Bytes = NO_ROLES
) -> Datums:
    """Return messages of numbers; a zero is left out unless it belongs to a role.

    Shape: numbers by rows.
    """
    spec = layout_of(column_type).numbers
    inner = row_write.number_message_sizes(table, spec.fields, spec.heads)
    sizes, put_all = _messages(inner, valid, column_type)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        inside = put_all(out, at, frame)
        row_write.put_number_messages(table, roles, spec.fields, spec.heads, inner, out, inside)

    return Datums(sizes, put)


def _numbers(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    layout = layout_of(column_type)
    spec, stored = layout.numbers, numbers(array, layout.width)
    table = np.zeros((len(spec.numbers), len(array)), np.uint64)
    for line, number in zip(table, spec.numbers, strict=True):
        if layout.only:
            if number.name == layout.only:
                line[:] = stored.astype(np.int64).view(np.uint64)
        elif number.is_signed:
            plain = turn_sign(stored[number.name].astype(f"u{number.width}"))
            line[:] = plain.view(f"i{number.width}").astype(np.int64).view(np.uint64)
        else:
            line[:] = stored[number.name]
    roles = [_roles(stored[n.name + ROLE_SUFFIX], valid) for n in spec.numbers if n.tag == ROLE]
    return _number_messages(table, valid, column_type, np.array(roles) if roles else NO_ROLES)


def _roles(kinds: np.ndarray[Any, Any], valid: Bools) -> Bytes:
    """Return the tags of the fields of roles."""
    kinds = np.where(valid, kinds, PUBLIC)
    tags = np.zeros(len(kinds), np.uint8)
    for kind, (_, tag) in ROLES.items():
        tags[kinds == kind] = tag
    if not tags.all():
        wrong = int(kinds[tags == 0][0])
        raise InvalidRequest("unknown kind of role", found=wrong, known=list(ROLES))
    return tags


def _days(days: Ints) -> list[Words]:
    year, ordinal = np.empty_like(days), np.empty_like(days)
    digits.split_days(days, year, ordinal)
    return [year.view(np.uint64), ordinal.view(np.uint64)]


def _date(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    days = numbers(array, layout_of(column_type).width).astype(np.int64)
    return _number_messages(np.array(_days(days)), valid, column_type)


def _timestamp(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    micros = numbers(array, layout_of(column_type).width)
    days = micros // DAY_US
    in_day = micros - days * DAY_US
    seconds = in_day // 1_000_000
    nanos = (in_day - seconds * 1_000_000) * 1000
    parts = [*_days(days), seconds.view(np.uint64), nanos.view(np.uint64)]
    return _number_messages(np.array(parts), valid, column_type)


def _decimal(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    pairs = numbers(array, layout_of(column_type).width).view(np.uint64).reshape(-1, 2)
    base16 = digits.decimal_digits(pairs.copy(), valid)
    scales = np.full(len(array), column_type.scale or 0, np.int64)
    return _numerics(base16, scales, (~valid).astype(np.uint8), column_type)


def _numeric(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    packed = array.field(1)
    start = packed.offset * NUMERIC_BYTES
    raw = raw_bytes(packed.buffers()[1])[start : start + len(packed) * NUMERIC_BYTES]
    return _numerics(*digits.packed_digits(raw, valid), column_type)


def _numerics(base16: Words, scales: Ints, others: Bytes, column_type: ColumnType) -> Datums:
    lengths, sizes = row_write.numeric_sizes(base16, scales, others)
    tag, _ = tag_of(column_type)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        row_write.put_numerics(base16, scales, others, lengths, sizes, tag, frame, out, at)

    return Datums(sizes, put)


def _elements(array: pa.Array) -> tuple[Ints, slice]:
    """Return the offsets of lists into the elements they use, and the slice of those elements."""
    ends = offsets(array)
    return ends - ends[0], slice(int(ends[0]), int(ends[-1]))


def _list(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    ends, used = _elements(array)
    child = datums_of(array.values[used], column_type.inner)
    sizes, put_all = _messages(row_write.framed_sums(child.sizes, ends), valid, column_type)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        inside = put_all(out, at, frame)
        child.put(out, row_write.positions(inside, ends, child.sizes), DATUM)

    return Datums(sizes, put)


def _record(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    children = [datums_of(array.field(i), f.type) for i, f in enumerate(column_type.fields)]
    inner = np.zeros(len(array), np.int64)
    for child in children:
        row_write.add_framed(inner, child.sizes)
    sizes, put_all = _messages(inner, valid, column_type)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        inside = put_all(out, at, frame)
        for child in children:
            child.put(out, inside, DATUM)

    return Datums(sizes, put)


def _map(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    ends, used = _elements(array)
    keys, child = array.keys[used], datums_of(array.items[used], column_type.inner)
    key_ends, key_data = offsets(keys), raw_bytes(keys.buffers()[2])
    entries = row_write.entry_sizes(key_ends, child.sizes)
    sizes, put_all = _messages(row_write.framed_sums(entries, ends), valid, column_type)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        inside = row_write.positions(put_all(out, at, frame), ends, entries)
        row_write.put_keys(key_ends, key_data, entries, out, inside)
        child.put(out, inside, VALUE)

    return Datums(sizes, put)


def _array(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    dims, values = array.field(0), array.field(1)
    ends, used = _elements(values)
    child = datums_of(values.values[used], column_type.inner)
    row = row_write.framed_sums(child.sizes, ends)
    dim_ends, dim_used = _elements(dims)
    table = np.empty((2, int(dim_ends[-1])), np.uint64)
    for i in range(2):
        table[i] = numbers(dims.values.field(i)[dim_used], np.dtype("<u8"))
    spec = DIMENSION.fields, DIMENSION.heads
    shapes = row_write.number_message_sizes(table, *spec)
    inner = row_write.framed_sums(shapes, dim_ends)
    row_write.add_framed(inner, row)
    sizes, put_all = _messages(inner, valid, column_type)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        inside = put_all(out, at, frame)
        row_write.put_frames(DATUM, row, out, inside)
        child.put(out, row_write.positions(inside, ends, child.sizes), DATUM)
        behind = np.where(inside < 0, -1, inside + row)
        at_dims = row_write.positions(behind, dim_ends, shapes)
        row_write.put_frames(VALUE, shapes, out, at_dims)
        row_write.put_number_messages(table, NO_ROLES, *spec, shapes, out, at_dims)

    return Datums(sizes, put)


def _flags(array: pa.Array) -> Bools:
    flags: Bools = array.fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _range(array: pa.Array, valid: Bools, column_type: ColumnType) -> Datums:
    lower, upper = (datums_of(array.field(i), column_type.inner) for i in range(2))
    empty = np.ascontiguousarray(_flags(array.field(4)))
    known = [_flags(array.field(i).is_valid()) for i in range(2)]
    parts = [_flags(array.field(2)), _flags(array.field(3)), *known]
    ends = sum(flag.astype(np.uint8) << i for i, flag in enumerate(parts)).astype(np.uint8)  # type: ignore[union-attr]
    inner = row_write.range_sizes(lower.sizes, upper.sizes, ends, empty)
    middle = np.zeros(len(array), np.int64)
    row_write.add_framed(middle, inner)
    sizes, put_all = _messages(np.where(empty, 0, middle), valid, column_type)

    def put(out: Bytes, at: Ints, frame: int) -> None:
        inside = put_all(out, at, frame)
        at_lower, at_upper = row_write.put_ranges(inner, lower.sizes, ends, empty, out, inside)
        lower.put(out, at_lower, LOWER)
        upper.put(out, at_upper, UPPER)

    return Datums(sizes, put)


_ENCODERS: Final[dict[Form, Callable[[pa.Array, Bools, ColumnType], Datums]]] = {
    Form.BOOL: _bool,
    Form.VARINT: _int,
    Form.FIXED: _float,
    Form.TEXT: _text,
    Form.BYTES: _text,
    Form.BLOCK: _block,
    Form.DATE: _date,
    Form.TIMESTAMP: _timestamp,
    Form.NUMBERS: _numbers,
    Form.DECIMAL: _decimal,
    Form.NUMERIC: _numeric,
    Form.LIST: _list,
    Form.RECORD: _record,
    Form.MAP: _map,
    Form.ARRAY: _array,
    Form.RANGE: _range,
}
