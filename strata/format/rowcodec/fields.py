"""The form of each type in a datum of the row codec: the tags of its fields.

Field numbers and message layouts come from the table in `strata.format.encodings`. Encoder and
decoders share this module, so they cannot differ.
"""

from typing import Final

import numpy as np

from strata.errors import InvalidRequest
from strata.format.encodings import encoding
from strata.format.types.row import Form, Layout, NumberField, message, unsigned
from strata.kernels.arrays import Words
from strata.model.types import MAX_DEPTH, ColumnType

VARINT, FIXED64, SIZED, FIXED32 = 0, 1, 2, 5  # wire types of protobuf
DATUM: Final = 0x0A  # frame of a datum in a row, of an entry in a map
VALUE: Final = 0x12  # frame of the value in a map's entry, of an array's dimension
LOWER: Final = 0x12  # frame of a range's lower end
UPPER: Final = 0x22

NULL, FALSE, TRUE = 1, 2, 3
INFINITY, MINUS_INFINITY, NAN = 6, 7, 8  # of `other`

DIMENSION: Final = message(
    NumberField("lower_bound", 0x08), NumberField("length", 0x10, limit=unsigned(63))
)


def words(numbers: tuple[int, int]) -> Words:
    """Return two numbers as the array that kernels take."""
    return np.array(numbers, np.uint64)


def layout_of(column_type: ColumnType) -> Layout:
    """Return the layout of a type's values in memory and in a datum."""
    return encoding(column_type).layout


def wire_type(layout: Layout) -> int:
    """Return the wire type of the field that holds values of a layout."""
    if layout.form in {Form.BOOL, Form.VARINT}:
        return VARINT
    if layout.form is Form.FIXED:
        return FIXED32 if layout.width.itemsize == 4 else FIXED64
    return SIZED


def tag_of(column_type: ColumnType) -> tuple[int, int]:
    """Return the tag bytes of a type's field, the first byte lowest, and their number."""
    row = encoding(column_type)
    tag = row.number << 3 | wire_type(row.layout)
    return (tag, 1) if tag < 128 else (tag & 127 | 128 | tag >> 7 << 8, 2)


def check_depth(column_type: ColumnType, depth: int = 0) -> None:
    """Raise InvalidRequest for a type nested deeper than protobuf libraries read."""
    if depth > MAX_DEPTH:
        raise InvalidRequest("a type is nested too deeply", deepest=MAX_DEPTH)
    for field in column_type.fields:
        check_depth(field.type, depth + 1)
    if column_type.element is not None:
        check_depth(column_type.element, depth + 1)
