"""One spelling for each value, so that equal rows have equal bytes.

Floats: -0.0 becomes 0.0, every NaN the quiet NaN 0x7ff8000000000000. JSON: keys sorted by code
point, no white space, of repeated keys the last, non-ASCII characters as themselves. Numbers keep
their exact value: an integer of any size stays as it is; a number with a point or an exponent is
written as the shortest text of its float64 where that says the same number, else with all its
digits; minus zero loses its sign. Char loses its trailing blanks. Numbers without a precision as
in `packed`; maps, arrays and ranges as in `canonical_nested`. Nothing lies under a null.

Ingest calls `canonical` once for each row that comes in; it also finds what cannot be a value:
texts that are too long, times after midnight, keys that a map has twice.
"""

import json
import math
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.values.canonical_nested import canonical_range, check_array, sorted_entries
from strata.format.values.nested import items, listed, structured
from strata.format.values.packed import numeric, pack, unpack
from strata.format.values.physical import records, valid_mask
from strata.format.values.view_scalar import BILLION, DAY_SECONDS, TIME_BYTES
from strata.model.types import ColumnType, Kind

MAX_DEPTH: Final = 200  # levels of nesting; deeper texts are refused, readers could not follow

# Numbers that orjson might not give back as they are: 16 digits or more, an exponent, minus zero.
EXOTIC: Final = r"[0-9.]{16}|[0-9][eE]|(^|[^0-9A-Za-z])-0"  # a date's -0 is no number


def canonical(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return values in their one spelling; nulls stay null, and hide nothing.

    Shape: `arrow_type(column_type)` in and out.
    Raises: InvalidRequest naming a value that is none of the type, and the cure.
    """
    kind, element = column_type.kind, column_type.element
    if kind is Kind.NUMERIC and column_type.precision is None:
        return numeric(pack(unpack(array.flatten()[1]), valid_mask(array)))
    if kind in _LEAVES:
        return _LEAVES[kind](array, column_type)
    if kind is Kind.RECORD:
        children = array.flatten()
        if not column_type.fields:
            return structured(array.type, [pa.nulls(len(array), pa.bool_())], array)
        pairs = zip(children, column_type.fields, strict=True)
        return structured(array.type, [canonical(c, f.type) for c, f in pairs], array)
    if element is None:
        return array
    if kind is Kind.LIST:
        lengths, inner = items(array)
        return listed(array.type, lengths, canonical(inner, element), array)
    if kind is Kind.MAP:
        lengths, entries = items(array)
        keys, values = sorted_entries(lengths, entries, column_type).flatten()
        held = pa.StructArray.from_arrays([keys, canonical(values, element)], ["key", "value"])
        return listed(array.type, lengths, held, array)
    children = array.flatten()
    if kind is Kind.RANGE:
        ends = [canonical(end, element) for end in children[:2]]
        return canonical_range(structured(array.type, [*ends, *children[2:]], array), column_type)
    values = canonical(children[1], ColumnType(Kind.LIST, element=element))
    return check_array(structured(array.type, [children[0], values], array), column_type)


def _floats(array: pa.Array, _: ColumnType) -> pa.Array:
    return canonical_floats(array)


def _json(array: pa.Array, column_type: ColumnType) -> pa.Array:
    result, invalid = canonical_json(array)
    _check(array, invalid, column_type, "write it as JSON; numbers are finite")
    return result


def _short(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return texts of limited length, counted in characters; char without blanks at its end."""
    if column_type.kind is Kind.CHAR:
        array = pc.utf8_rtrim(array, " ")
    if column_type.length is not None:
        long = pc.greater(pc.utf8_length(array), column_type.length).fill_null(False)
        cure = f"at most {column_type.length} characters, or widen the column"
        _check(array, long.to_numpy(zero_copy_only=False), column_type, cure)
    return array


def _times(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return times of day; a leap second stands in the last second of a minute."""
    fields = records(array, TIME_BYTES)
    secs, nanos = fields["secs"], fields["nanos"]
    wrong = (secs >= DAY_SECONDS) | (nanos >= 2 * BILLION)
    wrong |= (nanos >= BILLION) & (secs % 60 != 59)
    _check(array, wrong, column_type, "a second of the day and its nanoseconds")
    return array


_LEAVES: Final[Mapping[Kind, Callable[[pa.Array, ColumnType], pa.Array]]] = {
    Kind.FLOAT32: _floats,
    Kind.FLOAT64: _floats,
    Kind.JSONB: _json,
    Kind.CHAR: _short,
    Kind.VARCHAR: _short,
    Kind.TIME: _times,
}


def _check(
    array: pa.Array, wrong: npt.NDArray[np.bool_], column_type: ColumnType, cure: str
) -> None:
    if wrong.any():
        value = array[int(np.argmax(wrong))].as_py()
        raise InvalidRequest(
            "not a value of the type", type=str(column_type), value=value, cure=cure
        )


def canonical_floats(array: pa.Array) -> pa.Array:
    """Return a float array with one zero and one NaN; nulls stay null."""
    values = pc.add(array, pa.scalar(0.0, array.type))
    nan = pa.scalar(math.nan, array.type)
    return pc.if_else(pc.is_nan(values), nan, values)


def canonical_json(texts: pa.Array) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return JSON texts in canonical form, and which of them are not JSON.

    Shape: string array in; string array of the same length out, null where null or invalid came
    in; the mask is true where the text is not null and not JSON (NaN and Infinity, lone
    surrogates and nesting deeper than MAX_DEPTH count as not JSON).
    Cost: one parse a row, outside Arrow.
    """
    exotic = pc.match_substring_regex(texts, EXOTIC).to_pylist()
    out: list[bytes | None] = []
    for text, slow in zip(texts.cast(pa.binary()).to_pylist(), exotic, strict=True):
        out.append(None if text is None else canonical_text(text, exotic=slow))
    result = pa.array(out, pa.binary()).cast(pa.string())
    valid_in, valid_out = valid_mask(texts), valid_mask(result)
    if valid_out is None:
        return result, np.zeros(len(texts), np.bool_)
    return result, ~valid_out if valid_in is None else valid_in & ~valid_out


def canonical_text(text: bytes, *, exotic: bool = True) -> bytes | None:
    """Return one JSON text in canonical form, None if it is not JSON.

    `exotic`: the text may hold numbers that only the exact path keeps; True is always right.
    """
    # Counting brackets inside strings, too, errs towards the slow path, where depth is checked.
    if exotic or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        return _exact(text)
    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS)
    except ValueError:
        return None


def _exact(text: bytes) -> bytes | None:
    try:
        value = json.loads(
            text.decode(), parse_int=_Integer, parse_float=_Real, parse_constant=_refuse
        )
        pieces: list[bytes] = []
        _write(value, pieces, MAX_DEPTH)
    except (ValueError, RecursionError, InvalidOperation):
        return None
    return b"".join(pieces)


class _Integer(str):
    """The text of a JSON integer."""

    __slots__ = ()


class _Real(str):
    """The text of a JSON number with a point or an exponent."""

    __slots__ = ()


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _write(value: Any, pieces: list[bytes], depth: int) -> None:
    """Append the canonical text of a parsed value.

    Raises: ValueError below `depth` levels and for what UTF-8 cannot hold.
    """
    if isinstance(value, dict | list) and depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        pieces.append(b"{")
        for i, key in enumerate(sorted(value)):
            pieces += (b"," if i else b"", orjson.dumps(key), b":")
            _write(value[key], pieces, depth - 1)
        pieces.append(b"}")
    elif isinstance(value, list):
        pieces.append(b"[")
        for i, item in enumerate(value):
            pieces.append(b"," if i else b"")
            _write(item, pieces, depth - 1)
        pieces.append(b"]")
    elif isinstance(value, _Integer):
        pieces.append(b"0" if value == "-0" else value.encode())
    elif isinstance(value, _Real):
        pieces.append(_real(value))
    else:
        pieces.append(orjson.dumps(value))


def _real(text: str) -> bytes:
    """Return the canonical text of a number with a point or an exponent."""
    near = float(text) + 0.0
    try:
        exact = Decimal(text)
    except InvalidOperation as error:
        raise ValueError("an exponent that nothing holds") from error
    if math.isfinite(near) and Decimal(repr(near)) == exact:
        return orjson.dumps(near)
    # Without its limits of exponents the context would make a zero of 1e-999999999.
    digits = exact.normalize(Context(prec=len(text) + 1, Emin=MIN_EMIN, Emax=MAX_EMAX))
    return str(digits).lower().encode()
