"""Decode rows of the row codec, one column of a batch at a time.

First every row is walked once, from datum to datum (`Spans`). Then each wanted column is read from
its spans; nested columns walk their contents in the same way. This module reads rows in the form
that `encode` writes. A row that differs anywhere is marked *odd*: its values here are meaningless,
and `scalar` reads the whole row. `strata.kernels.row_read` states what the kernels promise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.format.encodings import DIMENSIONS, arrow_type
from strata.format.rowcodec.encode import raw_bytes
from strata.format.rowcodec.fields import (
    DATUM,
    DIMENSION,
    FALSE,
    INFINITY,
    MINUS_INFINITY,
    NAN,
    TRUE,
    VALUE,
    layout_of,
    tag_of,
    words,
)
from strata.format.types.rights import ROLES
from strata.format.types.row import ROLE, ROLE_SUFFIX, Form, Message, signed, unsigned
from strata.format.values import packed
from strata.format.values.packed import NUMERIC_BYTES
from strata.format.values.physical import offsets, pack_mask, turn_sign
from strata.kernels import digits, row_read, row_times
from strata.kernels.arrays import Bools, Bytes, Ints, Words
from strata.model.types import ColumnType, Kind

STRING: Final = ColumnType(Kind.STRING)


@dataclass(frozen=True, slots=True)
class Spans:
    """The same datum in every row: the place of its message, and the odd rows."""

    data: Bytes
    starts: Ints  # -1: the row has none
    stops: Ints
    odd: Bools  # updated by readers

    def tagged(self, column_type: ColumnType) -> tuple[Bytes, Ints, Ints, int, int, Bools]:
        """Return the arguments of kernels that read datums of the type."""
        return self.data, self.starts, self.stops, *tag_of(column_type), self.odd

    def messages(self, column_type: ColumnType) -> tuple["Spans", Bools]:
        """Return the contents of texts and messages of the type, and which are not null."""
        begins, ends, valid = row_read.read_spans(*self.tagged(column_type))
        return Spans(self.data, begins, ends, self.odd), valid

    def elements(self, frame: int = DATUM) -> tuple["Spans", Ints]:
        """Return the consecutive messages inside each span, and their offsets."""
        ends = row_read.count_elements(self.data, self.starts, self.stops, frame, self.odd)
        starts, stops = row_read.find_elements(self.data, self.starts, self.stops, ends)
        return Spans(self.data, starts, stops, np.zeros(len(starts), np.bool_)), ends

    def datums(self, count: int, wanted: Sequence[int]) -> list["Spans"]:
        """Return the wanted datums; each span holds `count` of them."""
        keep = np.full(count, -1, np.int64)
        lines = {position: line for line, position in enumerate(dict.fromkeys(wanted))}
        for position, line in lines.items():
            keep[position] = line
        starts, stops = row_read.walk(
            self.data, self.starts, self.stops, keep, len(lines), self.odd
        )
        return [
            Spans(self.data, starts[lines[position]], stops[lines[position]], self.odd)
            for position in wanted
        ]


def decode_batch(
    rows: pa.BinaryArray, types: Sequence[ColumnType], wanted: Sequence[int]
) -> tuple[list[pa.Array], Bools]:
    """Return the wanted columns of a batch of rows, and which rows are odd.

    Shape: no row is null; the values of odd rows mean nothing.
    """
    ends = offsets(rows)
    odd = np.zeros(len(rows), np.bool_)
    whole = Spans(raw_bytes(rows.buffers()[2]), ends[:-1].copy(), ends[1:].copy(), odd)
    columns = whole.datums(len(types), wanted)
    arrays = [read_column(c, types[i]) for c, i in zip(columns, wanted, strict=True)]
    return arrays, odd


def read_column(spans: Spans, column_type: ColumnType) -> pa.Array:
    """Return the values of a column; a value is null if its datum is null or missing."""
    array: pa.Array = _DECODERS[layout_of(column_type).form](spans, column_type)
    return array


def _fixed(values: Any, valid: Bools, column_type: ColumnType) -> pa.Array:
    """Return values of fixed width that are stored one after another."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(arrow_type(column_type), len(valid), [pack_mask(valid), data])


def _varints(spans: Spans, tag: tuple[int, int], within: tuple[int, int]) -> tuple[Words, Bools]:
    return row_read.read_varints(
        spans.data, spans.starts, spans.stops, *tag, words(within), spans.odd
    )


def _bool(spans: Spans, _: ColumnType) -> pa.Array:
    values, valid = _varints(spans, (0x08, 1), (2**64 - FALSE, TRUE - FALSE))
    data = pa.py_buffer(np.packbits(values == TRUE, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(valid), [pack_mask(valid), data])


def _int(spans: Spans, column_type: ColumnType) -> pa.Array:
    dtype = layout_of(column_type).width
    bits = dtype.itemsize * 8
    within = signed(bits) if dtype.kind == "i" else unsigned(bits)
    values, valid = _varints(spans, tag_of(column_type), within)
    return _fixed(values.astype(dtype), valid, column_type)


def _float(spans: Spans, column_type: ColumnType) -> pa.Array:
    dtype = layout_of(column_type).width
    values, valid = row_read.read_fixed(
        spans.data, spans.starts, spans.stops, tag_of(column_type)[0], dtype.itemsize, spans.odd
    )
    return _fixed(values.astype(dtype), valid, column_type)


def _text(spans: Spans, column_type: ColumnType) -> pa.Array:
    inside, valid = spans.messages(column_type)
    return _texts(inside, valid, column_type)


def _texts(spans: Spans, valid: Bools, column_type: ColumnType) -> pa.Array:
    """Return the texts, copied together; all are odd if one of them is not UTF-8."""
    ends = row_read.text_offsets(spans.starts, spans.stops)
    data = np.empty(int(ends[-1]), np.uint8)
    row_read.copy_texts(spans.data, spans.starts, spans.stops, data)
    buffers = [pack_mask(valid), pa.py_buffer(ends), pa.py_buffer(data)]
    is_text = layout_of(column_type).form is Form.TEXT
    if is_text and not row_read.any_high(data):  # ASCII: no need to check each text
        return pa.Array.from_buffers(pa.string(), len(valid), buffers)
    array = pa.Array.from_buffers(pa.binary(), len(valid), buffers)
    if not is_text:
        return array
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:  # the patient decoder finds the place
        spans.odd[:] = True
        return pa.nulls(len(array), pa.string())


def _block(spans: Spans, column_type: ColumnType) -> pa.Array:
    inside, valid = spans.messages(column_type)
    width = arrow_type(column_type).byte_width
    blocks = row_read.copy_blocks(inside.data, inside.starts, inside.stops, width, spans.odd)
    return _fixed(blocks, valid, column_type)


def _read_numbers(spans: Spans, spec: Message) -> tuple[Bytes, Words]:
    """Return tags and values of messages of numbers."""
    return row_read.read_number_messages(
        spans.data, spans.starts, spans.stops, spec.fields, spec.heads, spec.within, spans.odd
    )


def _date(spans: Spans, column_type: ColumnType) -> pa.Array:
    return _fixed(*row_times.read_dates(*spans.tagged(column_type)), column_type)


def _timestamp(spans: Spans, column_type: ColumnType) -> pa.Array:
    return _fixed(*row_times.read_timestamps(*spans.tagged(column_type)), column_type)


def _numbers(spans: Spans, column_type: ColumnType) -> pa.Array:
    """Return values that are one number of a message, or all its numbers as fixed bytes."""
    layout = layout_of(column_type)
    inside, valid = spans.messages(column_type)
    tags, table = _read_numbers(inside, layout.numbers)
    if layout.only:
        for number, line in zip(layout.numbers.numbers, table, strict=True):
            if number.name == layout.only:
                found = line
            else:
                spans.odd[line != 0] = True
        return _fixed(found.astype(layout.width), valid, column_type)
    records = np.zeros(len(valid), layout.width)
    for i, number in enumerate(layout.numbers.numbers):
        plain = table[i].astype(f"u{number.width}")
        records[number.name] = turn_sign(plain) if number.is_signed else plain
        if number.tag == ROLE:
            records[number.name + ROLE_SUFFIX] = _ROLES[tags[i]]
    records[~valid] = np.zeros((), layout.width)
    return _fixed(records, valid, column_type)


_ROLES: Final = np.zeros(256, np.uint32)  # how a role is stored, by the tag of its field
for _role, (_, _tag) in ROLES.items():
    _ROLES[_tag] = _role


def _decimal(spans: Spans, column_type: ColumnType) -> pa.Array:
    assert column_type.precision is not None
    inside, valid = spans.messages(column_type)
    high, low = divmod(10**column_type.precision, 2**64)
    pairs = digits.read_decimals(
        inside.data,
        inside.starts,
        inside.stops,
        column_type.scale or 0,
        words((low, high)),
        spans.odd,
    )
    return _fixed(pairs, valid, column_type)


def _numeric(spans: Spans, column_type: ColumnType) -> pa.Array:
    others = row_read.read_others(spans.data, spans.starts, spans.stops, INFINITY, NAN)
    inside, valid = spans.messages(column_type)
    raw = digits.read_packed(inside.data, inside.starts, inside.stops, spans.odd)
    records = raw.reshape(-1, NUMERIC_BYTES)
    special = others != 0
    records[special, 0] = 1
    flags = np.where(others == NAN, packed.NAN, packed.INFINITY)
    flags |= np.where(others == MINUS_INFINITY, packed.NEGATIVE, 0)
    records[special, digits.FLAGS_AT] = flags[special]
    records[spans.odd & (records[:, 0] == 0), 0] = (
        1  # `approximate` refuses bytes that are not a number
    )
    buffers = [pack_mask(valid | special), pa.py_buffer(raw)]
    return packed.numeric(pa.Array.from_buffers(pa.binary(NUMERIC_BYTES), len(valid), buffers))


def _children(ends: Ints, valid: Bools | None, child: pa.Array, list_type: pa.DataType) -> pa.Array:
    """Return lists (or maps) of all their elements."""
    mask = None if valid is None else pack_mask(valid)
    buffers = [mask, pa.py_buffer(ends.astype(np.int32))]
    return pa.Array.from_buffers(list_type, len(ends) - 1, buffers, children=[child])


def _struct(kind: pa.DataType, valid: Bools, children: Sequence[pa.Array]) -> pa.Array:
    buffers = [pack_mask(valid)]
    return pa.Array.from_buffers(kind, len(valid), buffers, children=list(children))


def _list_of(spans: Spans, element: ColumnType) -> tuple[pa.Array, Ints]:
    """Return the elements of lists that lie in each span, and their offsets."""
    elements, ends = spans.elements()
    child = read_column(elements, element)
    row_read.mark_parents(ends, elements.odd, spans.odd)
    return child, ends


def _list(spans: Spans, column_type: ColumnType) -> pa.Array:
    inside, valid = spans.messages(column_type)
    child, ends = _list_of(inside, column_type.inner)
    return _children(ends, valid, child, arrow_type(column_type))


def _record(spans: Spans, column_type: ColumnType) -> pa.Array:
    inside, valid = spans.messages(column_type)
    count = len(column_type.fields)
    children = [
        read_column(datum, field.type)
        for datum, field in zip(inside.datums(count, range(count)), column_type.fields, strict=True)
    ] or [pa.nulls(len(valid), pa.bool_())]
    return _struct(arrow_type(column_type), valid, children)


def _map(spans: Spans, column_type: ColumnType) -> pa.Array:
    inside, valid = spans.messages(column_type)
    entries, ends = inside.elements()
    odd = entries.odd
    keys, key_ends, starts, stops = row_read.find_entries(
        entries.data, entries.starts, entries.stops, ends, odd
    )
    key_spans = Spans(entries.data, keys, key_ends, odd)
    everywhere = np.ones(len(odd), np.bool_)
    pairs = [
        _texts(key_spans, everywhere, STRING),
        read_column(Spans(entries.data, starts, stops, odd), column_type.inner),
    ]
    row_read.mark_parents(ends, odd, spans.odd)
    kind = arrow_type(column_type)
    child = _struct(pa.struct([kind.key_field, kind.item_field]), everywhere, _no_null_keys(pairs))
    return _children(ends, valid, child, kind)


def _no_null_keys(pairs: list[pa.Array]) -> list[pa.Array]:
    return [pairs[0].fill_null(""), pairs[1]]


def _array(spans: Spans, column_type: ColumnType) -> pa.Array:
    inside, valid = spans.messages(column_type)
    starts, stops = row_read.find_array(inside.data, inside.starts, inside.stops, spans.odd)
    child, ends = _list_of(Spans(inside.data, starts, stops, spans.odd), column_type.inner)
    behind = Spans(inside.data, stops, inside.stops, spans.odd)
    dims, dim_ends = behind.elements(VALUE)
    _, values = _read_numbers(dims, DIMENSION)
    row_read.mark_parents(dim_ends, dims.odd, spans.odd)
    row_read.check_dimensions(dim_ends, values[1], ends, spans.odd)
    item = DIMENSIONS.value_type
    pairs = [
        pa.Array.from_buffers(pa.int64(), len(line), [None, pa.py_buffer(line)]) for line in values
    ]
    shapes = _struct(item, np.ones(len(dims.starts), np.bool_), pairs)
    kind = arrow_type(column_type)
    lists = [
        _children(dim_ends, valid, shapes, DIMENSIONS),
        _children(ends, valid, child, kind.field("vals").type),
    ]
    return _struct(kind, valid, lists)


def _range(spans: Spans, column_type: ColumnType) -> pa.Array:
    inside, valid = spans.messages(column_type)
    flags, sides = row_read.find_ends(inside.data, inside.starts, inside.stops, spans.odd)
    lower, upper = (
        read_column(Spans(inside.data, sides[i], sides[i + 1], spans.odd), column_type.inner)
        for i in (0, 2)
    )
    for bit, end in ((4, lower), (8, upper)):
        null = end.is_null().to_numpy(zero_copy_only=False)
        spans.odd[((flags & bit) != 0) & null] = True
    marks = [
        pa.Array.from_buffers(
            pa.bool_(),
            len(valid),
            [pack_mask(valid), pa.py_buffer(np.packbits((flags & bit) != 0, bitorder="little"))],
        )
        for bit in (1, 2, 16)
    ]
    return _struct(arrow_type(column_type), valid, [lower, upper, *marks])


_DECODERS: Final[dict[Form, Callable[[Spans, ColumnType], Any]]] = {
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
