"""Scalar types whose stored form nobody wants to read: how each is shown, and read back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.encodings import arrow_type
from strata.format.values.nested import nulls, structured
from strata.format.values.packed import from_text, numeric, to_text
from strata.format.values.physical import pack_mask, records, valid_mask
from strata.model.types import ColumnType, Kind

Matrix = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

UINT64: Final = pa.decimal128(20, 0)
NUMBER: Final = pa.struct([("approx", pa.float64()), ("text", pa.string())])
INTERVAL: Final = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("micros", pa.int64())])
INTERVAL_BYTES: Final = np.dtype([("months", ">u4"), ("days", ">u4"), ("micros", ">u8")])
TIME_BYTES: Final = np.dtype([("secs", ">u4"), ("nanos", ">u4")])
ACL_BYTES: Final = np.dtype([("grantee", ">u4"), ("grantor", ">u4"), ("mode", ">u8")])
MZ_ACL_BYTES: Final = np.dtype(
    [("grantee", ">u4"), ("grantee_id", ">u8"), ("grantor", ">u4"), ("grantor_id", ">u8"),
     ("mode", ">u8")]
)  # fmt: skip
ROLES: Final = {100: "s", 200: "g", 300: "u", 400: "p"}
ROLE: Final = r"^(p|[sgu](0|[1-9][0-9]{0,19}))$"
TIME: Final = r"^(?P<h>[0-9]{2}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})(?P<point>\.?)(?P<frac>[0-9]{0,9})$"
DAY_SECONDS: Final = 86_400
BILLION: Final = 10**9


@dataclass(frozen=True, slots=True)
class ScalarView:
    """How one kind is seen."""

    type: pa.DataType
    show: Callable[[pa.Array], pa.Array]
    store: Callable[[pa.Array, ColumnType], pa.Array]


def number_to_view(array: pa.StructArray) -> pa.StructArray:
    """Return packed numbers with their texts."""
    approx, packed = array.flatten()
    return structured(NUMBER, [approx, to_text(packed)], array)


def number_from_view(array: pa.StructArray) -> pa.StructArray:
    """Return numbers packed; the text says which, the approximation is made anew."""
    text = array.flatten()[1]
    if text.null_count != array.null_count:
        raise InvalidRequest("a numeric has no text", cure='as in {"approx": 1.5, "text": "1.5"}')
    return numeric(from_text(text))


def _show_time(array: pa.Array) -> pa.Array:
    fields = records(array, TIME_BYTES)
    secs, nanos = fields["secs"].astype(np.int64), fields["nanos"].astype(np.int64)
    leap = nanos // BILLION
    minutes, within = secs // 60, secs % 60 + leap
    parts = [(minutes // 60, 2), (minutes % 60, 2), (within, 2), (nanos - leap * BILLION, 9)]
    columns = []
    for values, places in parts:
        columns += [_digits(values, places), np.full((len(array), 1), ord(":"), np.uint8)]
    columns[5][:] = ord(".")
    return _texts(np.hstack(columns[:-1]), array)


def _store_time(array: pa.Array, column_type: ColumnType) -> pa.Array:
    pieces = pc.extract_regex(array, TIME)
    wrong = _true(pieces.is_null()) & _true(array.is_valid())
    hour, minute, second = (_ints(pc.struct_field(pieces, name)) for name in "hms")
    frac = pc.ascii_rpad(pc.fill_null(pc.struct_field(pieces, "frac"), ""), 9, "0")
    point = pc.fill_null(pc.struct_field(pieces, "point"), "")
    wrong |= _true(pc.equal(point, "")) != _true(
        pc.equal(pc.fill_null(pc.struct_field(pieces, "frac"), ""), "")
    )
    leap = (second == 60).astype(np.int64)
    wrong |= (hour > 23) | (minute > 59) | (second > 60)
    _refuse(array, wrong, column_type, "as in 23:59:59.123456789; 60 for a leap second")
    fields = np.zeros(len(array), TIME_BYTES)
    fields["secs"] = (hour * 60 + minute) * 60 + second - leap
    fields["nanos"] = _ints(frac) + leap * BILLION
    return _fixed(fields, array)


def _show_interval(array: pa.Array) -> pa.Array:
    fields = records(array, INTERVAL_BYTES)
    children = []
    for field in INTERVAL:
        unsigned = np.dtype(f"u{field.type.bit_width // 8}")
        values = fields[field.name].astype(unsigned) ^ unsigned.type(
            1 << (field.type.bit_width - 1)
        )
        children.append(_numbers(values.view(f"i{unsigned.itemsize}"), array))
    return structured(INTERVAL, children, array)


def _store_interval(array: pa.Array, column_type: ColumnType) -> pa.Array:
    fields = np.zeros(len(array), INTERVAL_BYTES)
    for child, field in zip(_children(array, column_type), INTERVAL, strict=True):
        signed = child.fill_null(0).to_numpy()
        unsigned = np.dtype(f"u{signed.itemsize}")
        fields[field.name] = signed.view(unsigned) ^ unsigned.type(1 << (8 * signed.itemsize - 1))
    return _fixed(fields, array)


def _show_uuid(array: pa.Array) -> pa.Array:
    raw = _matrix(array)
    nibbles = np.empty((len(array), 32), np.uint8)
    nibbles[:, 0::2], nibbles[:, 1::2] = raw >> 4, raw & 15
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]
    return _texts(np.insert(letters, (8, 12, 16, 20), ord("-"), axis=1), array)


def _store_uuid(array: pa.Array, column_type: ColumnType) -> pa.Array:
    plain = pc.utf8_lower(pc.replace_substring(array, "-", ""))
    good = pc.match_substring_regex(plain, "^[0-9a-f]{32}$")
    wrong = _true(array.is_valid()) & ~_true(good)
    _refuse(array, wrong, column_type, "32 hexadecimal digits, with or without hyphens")
    if not len(array):
        return pa.array([], arrow_type(column_type))
    filled = plain.fill_null("0" * 32)
    data = np.frombuffer(filled.buffers()[2], np.uint8, 32 * len(array), 32 * filled.offset)
    data = data.reshape(-1, 32)
    nibbles = data - np.where(data >= ord("a"), ord("a") - 10, ord("0")).astype(np.uint8)
    return _fixed(np.ascontiguousarray(nibbles[:, 0::2] << 4 | nibbles[:, 1::2]), array)


def _acl(role: pa.DataType) -> pa.DataType:
    return pa.struct([("grantee", role), ("grantor", role), ("mode", UINT64)])


def _show_acl(array: pa.Array) -> pa.Array:
    fields = records(array, ACL_BYTES)
    roles = [_numbers(fields[name].astype(np.int64), array) for name in ("grantee", "grantor")]
    mode = _numbers(fields["mode"].astype(np.uint64), array).cast(UINT64)
    return structured(_acl(pa.int64()), [*roles, mode], array)


def _store_acl(array: pa.Array, column_type: ColumnType) -> pa.Array:
    fields = np.zeros(len(array), ACL_BYTES)
    grantee, grantor, mode = _children(array, column_type)
    fields["grantee"] = _unsigned(grantee, pa.uint32(), column_type)
    fields["grantor"] = _unsigned(grantor, pa.uint32(), column_type)
    fields["mode"] = _unsigned(mode, pa.uint64(), column_type)
    return _fixed(fields, array)


def _show_mz_acl(array: pa.Array) -> pa.Array:
    fields = records(array, MZ_ACL_BYTES)
    roles = []
    for name in ("grantee", "grantor"):
        tags = fields[name].astype(np.int64)
        letters = np.select([tags == tag for tag in ROLES], list(ROLES.values()), "?")
        number = pa.array(fields[f"{name}_id"].astype(np.uint64)).cast(pa.string())
        shown = pc.if_else(pa.array(tags == 400), "", number)
        text = pc.binary_join_element_wise(pa.array(letters, pa.string()), shown, "")
        roles.append(pc.if_else(array.is_valid(), text, None))
    mode = _numbers(fields["mode"].astype(np.uint64), array).cast(UINT64)
    return structured(_acl(pa.string()), [*roles, mode], array)


def _store_mz_acl(array: pa.Array, column_type: ColumnType) -> pa.Array:
    fields = np.zeros(len(array), MZ_ACL_BYTES)
    grantee, grantor, mode = _children(array, column_type)
    for name, texts in (("grantee", grantee), ("grantor", grantor)):
        wrong = _true(texts.is_valid()) & ~_true(pc.match_substring_regex(texts, ROLE))
        _refuse(texts, wrong, column_type, "a role is s1, g1, u1 or p")
        filled = texts.fill_null("p")
        letters = pc.utf8_slice_codeunits(filled, 0, 1)
        for tag, letter in ROLES.items():
            fields[name][_true(pc.equal(letters, letter))] = tag
        digits = pc.utf8_slice_codeunits(filled, 1)
        number = pc.if_else(pc.equal(digits, ""), "0", digits)
        fields[f"{name}_id"] = _unsigned(number, pa.uint64(), column_type)
    fields["mode"] = _unsigned(mode, pa.uint64(), column_type)
    return _fixed(fields, array)


def _show_as(wanted: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda array: array.cast(wanted)


def _store_unsigned(array: pa.Array, column_type: ColumnType) -> pa.Array:
    wanted = arrow_type(column_type)
    values = _unsigned(array, wanted, column_type)
    return pa.array(values, wanted, mask=_mask(array))


VIEWS: Final[Mapping[Kind, ScalarView]] = MappingProxyType({
    Kind.UINT8: ScalarView(pa.int16(), _show_as(pa.int16()), _store_unsigned),
    Kind.UINT16: ScalarView(pa.int32(), _show_as(pa.int32()), _store_unsigned),
    Kind.UINT32: ScalarView(pa.int64(), _show_as(pa.int64()), _store_unsigned),
    Kind.OID: ScalarView(pa.int64(), _show_as(pa.int64()), _store_unsigned),
    Kind.UINT64: ScalarView(UINT64, _show_as(UINT64), _store_unsigned),
    Kind.MZ_TIMESTAMP: ScalarView(UINT64, _show_as(UINT64), _store_unsigned),
    Kind.TIME: ScalarView(pa.string(), _show_time, _store_time),
    Kind.INTERVAL: ScalarView(INTERVAL, _show_interval, _store_interval),
    Kind.UUID: ScalarView(pa.string(), _show_uuid, _store_uuid),
    Kind.ACLITEM: ScalarView(_acl(pa.int64()), _show_acl, _store_acl),
    Kind.MZ_ACLITEM: ScalarView(_acl(pa.string()), _show_mz_acl, _store_mz_acl),
})  # fmt: skip


def _unsigned(array: pa.Array, wanted: pa.DataType, column_type: ColumnType) -> npt.NDArray[Any]:
    """Return numbers, or texts of digits, as unsigned integers; 0 where null."""
    try:
        values: npt.NDArray[Any] = array.cast(wanted).fill_null(0).to_numpy()
    except pa.ArrowInvalid:
        top = 2**wanted.bit_width - 1
        value = next(v for v in array.to_pylist() if v is not None and not 0 <= int(v) <= top)
        raise InvalidRequest(
            "a number is out of the type's range",
            type=str(column_type), value=str(value), cure=f"0 to {top}",
        ) from None  # fmt: skip
    return values


def _children(array: pa.StructArray, column_type: ColumnType) -> list[pa.Array]:
    """Return the children of structs; none may be null in a struct that is not."""
    children: list[pa.Array] = array.flatten()
    for child, field in zip(children, array.type, strict=True):
        if child.null_count != array.null_count:
            raise InvalidRequest(
                "a part of a value is missing", type=str(column_type), part=field.name,
                cure="give all of its parts, or null",
            )  # fmt: skip
    return children


def _matrix(array: pa.Array) -> Matrix:
    width = array.type.byte_width
    return records(array, np.dtype(f"V{width}")).view(np.uint8).reshape(len(array), width)


def _fixed(rows: npt.NDArray[Any], like: pa.Array) -> pa.Array:
    """Return rows of bytes as fixed-width values; null, and zeros, where `like` is null."""
    width = rows.shape[1] if rows.ndim > 1 else rows.dtype.itemsize
    valid = valid_mask(like)
    if valid is not None:
        rows = rows.copy()
        rows[~valid] = np.zeros((), rows.dtype)
    buffers = [pack_mask(valid), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(width), len(like), buffers)


def _texts(chars: Matrix, like: pa.Array) -> pa.Array:
    """Return rows of characters as texts; null where `like` is null."""
    ends = np.arange(len(chars) + 1, dtype=np.int32) * chars.shape[1]
    data = pa.py_buffer(np.ascontiguousarray(chars))
    buffers = [pack_mask(valid_mask(like)), pa.py_buffer(ends), data]
    return pa.Array.from_buffers(pa.string(), len(like), buffers)


def _numbers(values: npt.NDArray[Any], like: pa.Array) -> pa.Array:
    return pa.array(values, mask=_mask(like))


def _digits(values: npt.NDArray[np.int64], places: int) -> Matrix:
    powers = 10 ** np.arange(places - 1, -1, -1, dtype=np.int64)
    return (values[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _ints(texts: pa.Array) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = texts.fill_null("0").cast(pa.int64()).to_numpy()
    return found


def _mask(array: pa.Array) -> Bools | None:
    found = nulls(array)
    return None if found is None else found.to_numpy(zero_copy_only=False)


def _true(mask: pa.BooleanArray) -> Bools:
    found: Bools = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _refuse(array: pa.Array, wrong: Bools, column_type: ColumnType, cure: str) -> None:
    if wrong.any():
        value = array[int(np.argmax(wrong))].as_py()
        raise InvalidRequest(
            "not a value of the type", type=str(column_type), value=value, cure=cure
        )
