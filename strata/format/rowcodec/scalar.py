"""Read one row of the row codec at a time: the patient half of the decoder.

`decode` reads whole columns of rows in the form that this version writes. A row in another form
(unknown fields, fields in another order, numbers longer than needed, damage) is read here. This
module follows every rule of the protobuf wire format and names each value that it cannot read. It
reads no deeper than the column's type: deeper nesting is an unknown field or a mistake.

Values are physical (`Physical`), in the form that `objects` turns into arrays.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from strata.errors import Corrupt
from strata.format.encodings import ENCODINGS, encoding
from strata.format.rowcodec import values as scalars
from strata.format.rowcodec.fields import (
    FALSE,
    INFINITY,
    MINUS_INFINITY,
    NAN,
    NULL,
    SIZED,
    TRUE,
    layout_of,
    wire_type,
)
from strata.format.rowcodec.wire import (
    MalformedError,
    fields,
    message,
    number,
    parts,
    signed,
    unsigned,
)
from strata.format.types.row import Form
from strata.model.types import ColumnType

# Int: numbers, days, microseconds, the unscaled integer of a decimal, the bits of a float. Bytes:
# texts, and the stored bytes of types that have them. A list is a list; a record is a tuple; a map
# is a list of pairs by key; an array is (dimensions, elements); a range is its five children. None
# is null.
Physical = Any
OTHER: Final = 1  # field number of the enum of values without content
WHOLE: Final = {Form.TEXT, Form.BYTES, Form.BLOCK}  # not messages, which could be merged
ONEOF: Final = frozenset(encoding.number for encoding in ENCODINGS.values())
SPECIAL: Final = {INFINITY: (False, False), MINUS_INFINITY: (True, False), NAN: (False, True)}


def decode_row(data: bytes, types: Sequence[ColumnType]) -> list[Physical]:
    """Return the physical values of one encoded row; None is null.

    Raises: Corrupt, with the position of the column if there is one.
    """
    try:
        datums = _repeated(data, 1)
    except MalformedError as error:
        raise Corrupt("a row cannot be decoded", reason=str(error)) from error
    if len(datums) != len(types):
        raise Corrupt("a row has the wrong number of values", found=len(datums), wanted=len(types))
    values: list[Physical] = []
    for position, (datum, column_type) in enumerate(zip(datums, types, strict=True)):
        try:
            values.append(_datum(datum, column_type))
        except MalformedError as error:
            raise Corrupt(
                "a value cannot be decoded",
                column=position,
                type=str(column_type),
                reason=str(error),
            ) from error
    return values


def _repeated(data: bytes, wanted: int) -> list[bytes]:
    return [message(value) for number, _, value in fields(data) if number == wanted]


def _datum(data: bytes, column_type: ColumnType) -> Physical:
    """Return the value of one datum message; the last of several one-of fields counts."""
    row = encoding(column_type)
    found: tuple[int, int, int | bytes] | None = None
    for item in fields(data):
        if item[0] in ONEOF:
            found = item if row.layout.form in WHOLE else _merged(found, item)
    if found is None:
        raise MalformedError("the datum is empty or of an unknown kind")
    field, wire, value = found
    if field == OTHER:
        return _other(number(value), column_type)
    if field != row.number:
        raise MalformedError(f"field {field} does not hold a {row.kind}")
    if wire != wire_type(row.layout):
        raise MalformedError(f"wire type {wire} instead of {wire_type(row.layout)}")
    return _READERS[row.layout.form](value, column_type)


def _merged(before: Any, item: tuple[int, int, int | bytes]) -> tuple[int, int, int | bytes]:
    """Merge a message that occurs twice, as protobuf demands."""
    if before is not None and before[0] == item[0] and before[1] == item[1] == SIZED:
        return item[0], item[1], before[2] + item[2]
    return item


def _other(value: int, column_type: ColumnType) -> Physical:
    form = layout_of(column_type).form
    if value == NULL:
        return None
    if form is Form.BOOL and value in (FALSE, TRUE):
        return int(value == TRUE)
    if form is Form.NUMERIC and value in SPECIAL:
        negative, nan = SPECIAL[value]
        return scalars.special(negative=negative, nan=nan)
    raise MalformedError(f"special value {value!r} does not fit a {column_type.kind}")


def _int(value: int | bytes, column_type: ColumnType) -> int:
    dtype = layout_of(column_type).width
    bits = 8 * dtype.itemsize
    return signed(value, bits) if dtype.kind == "i" else unsigned(value, bits)


def _text(value: int | bytes, column_type: ColumnType) -> bytes:
    data = message(value)
    if layout_of(column_type).form is Form.TEXT:
        _utf8(data)
    return data


def _utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("the text is not UTF-8") from error


def _list(value: int | bytes, column_type: ColumnType) -> list[Physical]:
    return [_datum(datum, column_type.inner) for datum in _repeated(message(value), 1)]


def _record(value: int | bytes, column_type: ColumnType) -> tuple[Physical, ...]:
    datums = _repeated(message(value), 1)
    if len(datums) != len(column_type.fields):
        raise MalformedError(f"a record of {len(datums)} instead of {len(column_type.fields)}")
    pairs = zip(datums, column_type.fields, strict=True)
    return tuple(_datum(datum, field.type) for datum, field in pairs)


def _map(value: int | bytes, column_type: ColumnType) -> list[tuple[bytes, Physical]]:
    entries: dict[bytes, Physical] = {}
    for entry in _repeated(message(value), 1):
        keys = _repeated(entry, 1)
        key = keys[-1] if keys else b""
        _utf8(key)
        values = _repeated(entry, 2)
        if not values:
            raise MalformedError("an entry of a map has no value")
        if key in entries:
            raise MalformedError(f"a map has the key {key.decode()!r} twice")
        entries[key] = _datum(b"".join(values), column_type.inner)
    return sorted(entries.items())


def _array(
    value: int | bytes, column_type: ColumnType
) -> tuple[list[tuple[int, int]], list[Physical]]:
    data = message(value)
    elements = _list(b"".join(_repeated(data, 1)), column_type)
    dims = []
    for dim in _repeated(data, 2):
        numbers = parts(dim)
        dims.append((signed(numbers.get(1, 0), 64), unsigned(numbers.get(2, 0), 63)))
    count = 1 if dims else 0
    for _, length in dims:
        count *= length
    if count != len(elements) or any(length == 0 for _, length in dims):
        raise MalformedError(f"an array of {len(elements)} elements with the dimensions {dims}")
    return dims, elements


def _range(value: int | bytes, column_type: ColumnType) -> tuple[Physical, ...]:
    outer = parts(message(value))
    if 1 not in outer:
        return None, None, 0, 0, 1
    inner = parts(message(outer[1]))
    flags = [int(number(inner.get(i, 0)) != 0) for i in (1, 3)]
    ends = [_end(inner[i], column_type) if i in inner else None for i in (2, 4)]
    return (*ends, *flags, 0)


def _end(value: int | bytes, column_type: ColumnType) -> Physical:
    end = _datum(message(value), column_type.inner)
    if end is None:
        raise MalformedError("an end of a range is null")
    return end


def _block(value: int | bytes, column_type: ColumnType) -> bytes:
    return scalars.block(message(value), encoding(column_type).arrow(column_type).byte_width)


_READERS: Final[dict[Form, Callable[[int | bytes, ColumnType], Physical]]] = {
    Form.VARINT: _int,
    Form.FIXED: lambda value, _: number(value),
    Form.TEXT: _text,
    Form.BYTES: _text,
    Form.BLOCK: _block,
    Form.DATE: lambda value, _: scalars.date(message(value)),
    Form.TIMESTAMP: lambda value, _: scalars.timestamp(message(value)),
    Form.NUMBERS: lambda value, kind: scalars.numbers(message(value), layout_of(kind)),
    Form.DECIMAL: lambda value, kind: scalars.decimal(message(value), kind),
    Form.NUMERIC: lambda value, _: scalars.numeric(message(value)),
    Form.LIST: _list,
    Form.RECORD: _record,
    Form.MAP: _map,
    Form.ARRAY: _array,
    Form.RANGE: _range,
}
