"""Converts source values to typed columns, whole columns at a time.

There are three kinds of source value: text (CSV), Python objects (JSON) and Arrow columns
(Parquet). Whether a value is readable depends on that value alone, see
`strata.ingest.values.column`.

Accepted text: the texts that Arrow's casts accept and `strata.ingest.values.numbers` does not
refuse, without the white space around them, and the forms of `strata.ingest.values.texts` and
`literals`. In a timestamptz an offset or Z is obeyed, and no offset means UTC. Times are in the
years 0001 to 9999. A number that overflows its type is bad, never infinite. A number that is too
small for its type is bad, never zero.
Docs: docs/reference/sources.md lists the forms by type.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.encodings import arrow_type
from strata.format.types.numbers import canonical_floats
from strata.format.values.canonical import canonical
from strata.format.values.json_text import MAX_DEPTH, canonical_json
from strata.ingest.values.column import (
    MOMENT,
    NONE_BAD,
    Cast,
    Rows,
    all_or_halves,
    choose,
    plainly,
    valid,
    with_nulls,
)
from strata.ingest.values.exact_json import NumberText, Twice
from strata.ingest.values.literals import Broken, Text
from strata.ingest.values.nested import Objects, nested_objects
from strata.ingest.values.nested_arrow import nested_arrow
from strata.ingest.values.numbers import (
    as_decimals,
    as_floats,
    as_texts,
    check_floats,
    decimals,
    exact_decimal,
    hexadecimal,
    no_floats,
    trimmed,
)
from strata.ingest.values.plain_json import json_texts
from strata.ingest.values.special import (
    ENCODED,
    RECORDS,
    SPECIAL,
    special_arrow,
    special_objects,
    special_text,
)
from strata.ingest.values.zones import same_zone, timestamptz_of
from strata.model.time import MAX_TIME, MIN_TIME
from strata.model.types import NESTED, ColumnType, Kind

__all__ = [
    "Cast",
    "NumberText",
    "Rows",
    "from_arrow",
    "from_objects",
    "from_text",
    "to_milliseconds",
]

SIGNED: Final = (Kind.INT16, Kind.INT32, Kind.INT64)
UNSIGNED: Final = (
    Kind.UINT8,
    Kind.UINT16,
    Kind.UINT32,
    Kind.UINT64,
    Kind.OID,
    Kind.MZ_TIMESTAMP,
)
INTEGERS: Final = (*SIGNED, *UNSIGNED)
FLOATS: Final = (Kind.FLOAT32, Kind.FLOAT64)
SIZED: Final = (Kind.CHAR, Kind.VARCHAR)

HEXADECIMAL: Final = r"\A\\x(?:[0-9a-fA-F]{2})*\Z"  # all of a text
_LIKE: Final[Sequence[tuple[Callable[[pa.DataType], bool], str]]] = (  # see `all_or_halves`
    (pa.types.is_boolean, r"(?i)^(?:true|false|[01])$"),
    (pa.types.is_integer, r"^-?\d+$"),
    (pa.types.is_floating, r"(?i)^[+-]?(?:\d*\.?\d*(?:e[+-]?\d+)?$|inf|nan)"),
    (pa.types.is_date, r"^\d{4}-\d\d-\d\d$"),
    (pa.types.is_timestamp, MOMENT),
)
MAX_DIGITS: Final = 20  # of an integer; more fit no type
JSON_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS


def from_text(texts: pa.Array, target: ColumnType) -> Cast:
    """Return text (binary or string, null allowed) as the Arrow type that holds `target`.

    Errs: rejects rather than guesses; only decimal text of a float is rounded.
    """
    strings = all_or_halves(texts, pa.string(), _utf8)
    if target.kind is Kind.STRING:
        return strings
    return _typed(strings.values, target).also(strings.bad)


def from_objects(values: Sequence[object], target: ColumnType, *, typed: bool = False) -> Cast:
    """Return the values of one key of many JSON objects as a column; a missing key is None.

    Numbers and the text of numbers are numbers; times are text; only a string is a string: nothing
    is silently turned into text. The type decides what objects and lists are. Any value is jsonb.
    `typed`: numbers have types, as in a union of Avro: they are no decimal text, to be rounded.
    """
    again = partial(from_objects, typed=typed)
    if target.kind in NESTED:
        return _one_spelling(nested_objects(values, target, again), target)
    if typed and target.kind in FLOATS:
        return _typed_floats(values, target)
    return _one_level(values, target, again)


def _one_level(values: Sequence[object], target: ColumnType, convert: Objects) -> Cast:
    """Return values of a type that nests nothing; `convert` converts the fields of an object."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {Text}:
        return from_text(pa.array(values, pa.string()), target)
    if Text in kinds:
        return _two_ways(values, target)
    if target.kind is Kind.JSONB:
        return _jsonb_of(values)
    if target.kind is Kind.BYTES and bytes in kinds:
        return _bytes_of(values)
    if kinds <= _NATIVE.get(target.kind, frozenset()):
        try:
            return _natively(values, target)
        except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
            pass  # some number is out of range: conversion from text finds which
    if kinds == {str}:
        return from_text(pa.array(values, pa.string()), target)
    if dict in kinds and target.kind in RECORDS:
        return special_objects(values, target, convert)
    texts, refused = _as_texts(values, target.kind)
    return from_text(texts, target).also(refused)


def _typed_floats(values: Sequence[object], target: ColumnType) -> Cast:
    """Return numbers that have types as floats; those that no float equals are bad."""
    lost = no_floats(values, target.kind)
    fitting = [None if row in lost else value for row, value in enumerate(values)]
    return from_objects(fitting, target).also(np.array(sorted(lost), np.int64))


def _natively(values: Sequence[object], target: ColumnType) -> Cast:
    """Return values that Arrow accepts directly; floats kept as text are converted as text."""
    texts = [row for row, value in enumerate(values) if type(value) is NumberText]
    if not texts:
        return _checked(pa.array(values, arrow_type(target)), target)
    read = from_text(pa.array([values[row] for row in texts], pa.string()), target)
    plain = list(values)
    for row, value in zip(texts, read.values.to_pylist(), strict=True):
        plain[row] = value
    bad = np.array(texts, np.int64)[read.bad]
    return _checked(pa.array(plain, pa.float64()), target).also(bad)


def _bytes_of(values: Sequence[object]) -> Cast:
    """Return bytes from sources that are not JSON; texts may be among them."""
    found = [_bytes_or_none(value) for value in values]
    bad = [row for row, value in enumerate(values) if value is not None and found[row] is None]
    return Cast(pa.array(found, pa.binary()), np.array(bad, np.int64))


def _bytes_or_none(value: object) -> bytes | None:
    if type(value) is bytes:
        return value
    try:
        data = value.encode() if isinstance(value, str) else None
    except UnicodeEncodeError:
        return None
    hexadecimal = data is not None and re.match(HEXADECIMAL, str(value))
    return bytes.fromhex(str(value)[2:]) if hexadecimal else data


def _two_ways(values: Sequence[object], target: ColumnType) -> Cast:
    """Convert values when some are `Text` and others are JSON values."""
    is_text = [type(value) is Text for value in values]
    pairs = list(zip(values, is_text, strict=True))
    texts = from_objects([value if text else None for value, text in pairs], target)
    others = from_objects([None if text else value for value, text in pairs], target)
    return choose(is_text, texts, others)


def from_arrow(values: pa.Array, target: ColumnType) -> Cast:
    """Return an Arrow column as the Arrow type that holds `target`, without loss.

    Text is read as text; other types are cast only within their family (a timestamp is not a
    number). Every row is bad if the families differ.
    """
    goal = arrow_type(target)
    values = plainly(values)
    if pa.types.is_null(values.type):
        return Cast(pa.nulls(len(values), goal), NONE_BAD)
    if pa.types.is_fixed_size_binary(values.type) and target.kind is Kind.BYTES:
        values = values.cast(pa.binary())
    if _is_text(values.type) and (target.kind is not Kind.BYTES or "string" in str(values.type)):
        return from_text(_plain_text(values), target)
    if target.kind is Kind.JSONB:
        texts = json_texts(values)
        return _typed(texts.values, target).also(texts.bad)
    try:
        if target.kind in NESTED:
            return _one_spelling(nested_arrow(values, target, from_arrow), target)
        as_stored = values.type == goal and target.kind not in ENCODED
        if target.kind in SPECIAL and not (pa.types.is_decimal(goal) or as_stored):
            return special_arrow(values, target, from_arrow)
        return _within_family(values, target, goal)
    except TypeError:
        return Cast(pa.nulls(len(values), goal), np.flatnonzero(valid(values)))


def _one_spelling(cast: Cast, target: ColumnType) -> Cast:
    """Return nested values in their stored spelling; values without one are bad."""
    spelt = all_or_halves(cast.values, cast.values.type, lambda part: canonical(part, target))
    return spelt.also(cast.bad)


def _within_family(values: pa.Array, target: ColumnType, goal: pa.DataType) -> Cast:
    """Cast a flat column.

    Raises: TypeError when its type is of another family.
    """
    if _family(values.type) != _family(goal):
        raise TypeError(values.type)
    if pa.types.is_decimal(goal):
        return as_decimals(values, goal)
    if pa.types.is_floating(goal):
        floats = as_floats(values, goal)
        return Cast(canonical_floats(floats.values), floats.bad)
    if pa.types.is_decimal(values.type) and values.type.scale < 0:
        values = as_texts(values)
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(goal):
        values = same_zone(values, goal)
    cast = all_or_halves(values, goal, lambda slice_: pc.cast(slice_, goal))
    return _checked(cast.values, target).also(cast.bad)


def to_milliseconds(values: pa.Array) -> pa.Array:
    """Return a column of times as int64 milliseconds, rounded down; integers are taken as such."""
    if pa.types.is_date32(values.type):
        values = pc.cast(values, pa.timestamp("us"))
    if pa.types.is_timestamp(values.type):
        micros = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
        floored = np.floor_divide(micros.fill_null(0).to_numpy(), 1000)
        return pa.array(floored, pa.int64(), mask=~valid(micros))
    return values.cast(pa.int64())


def _typed(strings: pa.Array, target: ColumnType) -> Cast:
    if target.kind is Kind.BYTES:
        return Cast(_bytes_of_texts(strings), NONE_BAD)
    if target.kind is Kind.JSONB:
        return _jsonb(strings)
    if target.kind in SIZED:
        return _sized(strings, target)
    if target.kind in NESTED:
        return from_objects([t and Text(t) for t in strings.to_pylist()], target)
    goal = arrow_type(target)
    if target.kind in SPECIAL and not pa.types.is_decimal(goal):
        return special_text(strings, target, from_objects)
    if target.kind in INTEGERS or pa.types.is_floating(goal) or pa.types.is_decimal(goal):
        return _number(strings, target, goal)
    if target.kind is Kind.TIMESTAMPTZ:
        cast = timestamptz_of(strings)
    else:
        cast = _converted(strings, goal)
    return _checked(cast.values, target).also(cast.bad)


def _bytes_of_texts(strings: pa.Array) -> pa.Array:
    """Return texts as bytes: PostgreSQL's hexadecimal digits as what they mean, others as UTF-8."""
    found = strings.cast(pa.binary())
    if not pc.any(pc.starts_with(strings, "\\x")).as_py():
        return found
    mask = pc.fill_null(pc.match_substring_regex(strings, HEXADECIMAL.replace("Z", "z")), False)
    meant = [bytes.fromhex(text[2:]) for text in strings.filter(mask).to_pylist()]
    return pc.replace_with_mask(found, mask, pa.array(meant, pa.binary()))


def _converted(strings: pa.Array, goal: pa.DataType) -> Cast:
    """Return texts as another type; white space around a text is allowed."""
    convert = partial(pc.cast, target_type=goal)
    try:
        return Cast(convert(strings), NONE_BAD)
    except pa.ArrowInvalid:
        like = next((like for is_kind, like in _LIKE if is_kind(goal)), "")
        return all_or_halves(pc.utf8_trim_whitespace(strings), goal, convert, like)


def _number(strings: pa.Array, target: ColumnType, goal: pa.DataType) -> Cast:
    if pa.types.is_decimal(goal):
        return decimals(trimmed(strings), goal)
    cast = _converted(strings, goal)
    if target.kind in FLOATS:
        floats = check_floats(cast.values, strings)
        return Cast(canonical_floats(floats.values), cast.bad).also(floats.bad)
    rows = hexadecimal(strings)
    return Cast(with_nulls(cast.values, rows), cast.bad).also(rows)


def _utf8(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _checked(values: pa.Array, target: ColumnType) -> Cast:
    """Return canonical values; values out of range become null and bad."""
    wrong = _out_of_range(values, target)
    if wrong is None:
        return Cast(_canonical(values, target), NONE_BAD)
    rows = np.flatnonzero(pc.fill_null(wrong, False).to_numpy(zero_copy_only=False))
    return Cast(_canonical(with_nulls(values, rows), target), rows)


def _canonical(values: pa.Array, target: ColumnType) -> pa.Array:
    return canonical_floats(values) if target.kind in FLOATS else values


def _out_of_range(values: pa.Array, target: ColumnType) -> pa.BooleanArray | None:
    if target.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        numbers, low, high = values.view(pa.int64()), MIN_TIME * 1000, MAX_TIME * 1000 + 999
        return pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
    if target.kind is Kind.DATE:
        days = values.view(pa.int32())
        low, high = MIN_TIME // 86_400_000, MAX_TIME // 86_400_000
        return pc.or_(pc.less(days, low), pc.greater(days, high))
    return None


def _sized(strings: pa.Array, target: ColumnType) -> Cast:
    """Return texts of at most the declared length; a char has no blanks at its end."""
    if target.kind is Kind.CHAR:
        strings = pc.utf8_rtrim(strings, " ")
    if target.length is None:
        return Cast(strings, NONE_BAD)
    long = pc.greater(pc.utf8_length(strings), target.length)
    rows = np.flatnonzero(pc.fill_null(long, False).to_numpy(zero_copy_only=False))
    return Cast(with_nulls(strings, rows), rows)


def _jsonb(texts: pa.Array) -> Cast:
    """Return JSON text in its one canonical form."""
    values, bad = canonical_json(texts)
    if bad.any():  # JSON knows four kinds of white space, columns know more
        values, bad = canonical_json(pc.utf8_trim_whitespace(texts))
    return Cast(values, np.flatnonzero(bad))


def _jsonb_of(values: Sequence[object]) -> Cast:
    """Return parsed JSON values as canonical text; numbers kept as text are converted as text."""
    texts: list[bytes | None] = []
    exact: set[int] = set()  # rows with numbers kept as text, or with many brackets
    deep: list[int] = []  # rows that are nested too deeply to be written, or broken

    def number(value: object) -> object:
        if isinstance(value, Broken):
            raise TypeError(value)
        if isinstance(value, Twice):
            return dict(value)
        exact.add(len(texts))
        return orjson.Fragment(str(value))

    for row, value in enumerate(values):
        try:
            text = None if value is None else orjson.dumps(value, number, JSON_OPTIONS)
        except TypeError:
            deep.append(row)
            text = None
        if text is not None and len(text) > 2 * MAX_DEPTH and _brackets(text) > MAX_DEPTH:
            exact.add(row)
        texts.append(text)
    result = pa.array(texts, pa.binary()).cast(pa.string())
    refused = np.array(deep, np.int64)
    rows = np.array(sorted(exact.difference(deep)), np.int64)
    if not len(rows):
        return Cast(result, refused)
    found, bad = canonical_json(result.take(pa.array(rows)))
    mask = np.isin(np.arange(len(values)), rows)
    whole = pc.replace_with_mask(result, pa.array(mask), found)
    return Cast(whole, rows[bad]).also(refused)


def _brackets(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


# JSON types that Arrow accepts directly, by the kind of the column.
_NATIVE: Final[dict[Kind, frozenset[type]]] = {
    Kind.BOOL: frozenset({bool}),
    Kind.STRING: frozenset({str}),
    **dict.fromkeys(INTEGERS, frozenset({int})),
    # A float32 is made of its text, to be rounded once, not twice.
    Kind.FLOAT64: frozenset({int, float, NumberText}),
}
# JSON types whose text may be read as the kind; the rest is bad.
_READABLE: Final[dict[Kind, frozenset[type]]] = {
    Kind.BOOL: frozenset({bool, str}),
    **dict.fromkeys((*INTEGERS, *FLOATS, Kind.NUMERIC), frozenset({int, float, str, NumberText})),
}


def _as_texts(values: Sequence[object], kind: Kind) -> tuple[pa.Array, Rows]:
    """Return JSON values as text, and the rows whose JSON type does not fit the column."""
    readable = _READABLE.get(kind, frozenset({str}))
    texts = [_text(v, kind) if type(v) in readable else None for v in values]
    refused = [n for n, v in enumerate(values) if v is not None and type(v) not in readable]
    return pa.array(texts, pa.binary()), np.array(refused, np.int64)


def _text(value: Any, kind: Kind) -> bytes:
    """Return a JSON value as text; 5.0 and 5e0 are the integer 5, but the text "5.0" is not."""
    if kind in INTEGERS and type(value) in (float, NumberText):
        found = exact_decimal(str(value), MAX_DIGITS, 0)
        return str(value if found is None else found).encode()
    return str(value).encode()


def _is_text(kind: pa.DataType) -> bool:
    return any(
        check(kind)
        for check in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
        )
    )


def _plain_text(values: pa.Array) -> pa.Array:
    """Return a text column as string or binary."""
    return values.cast(pa.binary()) if "binary" in str(values.type) else values.cast(pa.string())


def _family(kind: pa.DataType) -> str:
    if _is_text(kind):
        return "text"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return "date" if pa.types.is_date(kind) else str(kind)
