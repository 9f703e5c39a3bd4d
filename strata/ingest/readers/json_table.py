"""Reads JSON lines with Arrow as a table, if that gives the same as reading object by object.

Arrow is about twenty times as fast, and gets every key and its type in advance. Texts that it would
read differently from `strata.ingest.readers.objects`, or not at all, are not read here. Then the
result is None, and the caller takes the slow way, which also reports what is wrong. So this module
never rejects a row.

Three traps of Arrow's reader (26.0) are avoided: it accepts objects that share a line or span
several, and NaN and Infinity in values that it ignores; and it crashes on a `null` between two
objects.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from strata.format.encodings import arrow_type
from strata.ingest.readers.source import Located
from strata.ingest.values.cast import INTEGERS, Rows
from strata.ingest.values.numbers import MOST_DIGITS
from strata.kernels.arrays import Bools, Bytes
from strata.kernels.json_members import misleads
from strata.model.types import ColumnType, Kind

SMALL_BYTES: Final = 1 << 17  # for less, Arrow costs more than the objects
LARGEST: Final = 256 << 20  # bytes of a text that is read at once
WORDS: Final = tuple(np.frombuffer(w, np.uint8) for w in (b"null", b"NaN", b"Inf", b"Infinity"))
BREAK, OPENS, CLOSES = b"\n{}"
ZERO = b"0"[0]
LONG_FLOAT: Final = 300  # digits
LOWER_E, UPPER_E = b"eE"
IS_DIGIT, IS_IN_NUMBER, SIGNS, BEFORE, BEHIND = (
    np.isin(np.arange(256), np.frombuffer(some, np.uint8))
    for some in (b"0123456789", b"0123456789.", b"+-", b'":,[ \t\r\n', b'",]} \t\r\n')
)
# Kinds whose values are text in JSON and are judged like any other text.
TEXTS: Final = (
    Kind.STRING,
    Kind.CHAR,
    Kind.VARCHAR,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ,
    Kind.UUID,
)


def read_table(data: bytes, schema: pa.Schema, *, others: bool) -> pa.Table | None:
    """Return a text's objects, one per line, with the keys of `schema`; None: take the slow way.

    A missing key is null. `others`: keys that the schema lacks are left out; otherwise they lead to
    None.
    Errs: returns None for many valid texts, such as 5.0 in a column of integers; a returned table
    equals the slow way's.
    """
    if not data or len(data) > LARGEST or misleads(np.frombuffer(data, np.uint8), *WORDS):
        return None
    lines = _whole_lines(data)
    if not lines or not is_utf8(data) or _too_many_digits(data, schema):
        return None
    try:
        table = pajson.read_json(
            pa.BufferReader(data),
            pajson.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pajson.ParseOptions(
                explicit_schema=schema,
                newlines_in_values=False,
                unexpected_field_behavior="ignore" if others else "error",
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != lines or not all(_finite(column) for column in table.columns):
        return None
    if not all(_fits(column) for column in table.columns):
        return None
    if (b"e-" in data or b"E-" in data) and any(_has_zero(column) for column in table.columns):
        return None  # 1e-400 is not zero
    return table.combine_chunks()


def _whole_lines(data: bytes) -> int:
    """Return how many lines are not blank; 0 if the ends of one show that it is not an object.

    An object has no line break between } and { inside it, so each such break ends an object and
    begins one; if there are as many objects as lines, each line is one object.
    """
    starts, stops, raw = line_places(data)
    return len(starts) if are_bare(starts, stops, raw) else 0


def are_bare(starts: Rows, stops: Rows, raw: Bytes) -> bool:
    """Return whether each line begins with { and ends with }."""
    return bool(((raw[starts] == OPENS) & (raw[stops - 1] == CLOSES)).all())


def line_places(data: bytes) -> tuple[Rows, Rows, Bytes]:
    """Return where the lines that are not blank begin and end, and the bytes."""
    raw = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(raw == BREAK)
    starts, stops = np.r_[0, breaks + 1], np.r_[breaks, len(raw)]
    full = stops > starts
    return starts[full], stops[full], raw


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are a text."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _finite(column: pa.ChunkedArray) -> bool:
    """Return whether JSON can express all floats."""
    if pa.types.is_floating(column.type):
        return pc.all(pc.is_finite(column)).as_py() is not False
    if pa.types.is_struct(column.type):
        return all(_finite(field) for field in column.flatten())
    return True


def _fits(column: pa.ChunkedArray) -> bool:
    """Return whether all decimals fit their type; Arrow counts only the digits that are written.

    For numeric(4,2), 1234 has four digits as written, and six as 1234.00.
    """
    if pa.types.is_decimal(column.type):
        ends = pc.min_max(column).as_py().values()
        limit = 10 ** (column.type.precision - column.type.scale)
        return all(end is None or -limit < end < limit for end in ends)
    if pa.types.is_struct(column.type):
        return all(_fits(field) for field in column.flatten())
    return True


def _has_zero(column: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(column.type):
        return pc.any(pc.equal(column, 0.0)).as_py() is True
    if pa.types.is_struct(column.type):
        return any(_has_zero(field) for field in column.flatten())
    return False


def _too_many_digits(data: bytes, schema: pa.Schema) -> bool:
    """Return whether a number may have more digits than Arrow handles correctly.

    Arrow's decimals wrap if digits and scale are more than 38 together. Its floats become zero if
    very many zeros follow the point.
    Errs: also counts digits and exponents in texts and in keys that are not read.
    """
    kinds = list(_leaves(schema))
    scales = [kind.scale for kind in kinds if pa.types.is_decimal(kind)]
    raw = np.frombuffer(data, np.uint8)
    if any(pa.types.is_floating(kind) for kind in kinds) and has_digits(raw, LONG_FLOAT):
        return True
    if not scales:
        return False
    return has_digits(raw, MOST_DIGITS + 1 - max(scales)) or _has_exponent(raw)


def _leaves(fields: Iterable[pa.Field]) -> Iterator[pa.DataType]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type)
        else:
            yield field.type


def has_digits(raw: Bytes, count: int) -> bool:
    """Return whether `count` digits are adjacent. Cost: looks at every n-th byte first."""
    step = max(1, count // 2)  # then two neighbours of the examined bytes are among the digits
    some = raw[::step] - ZERO < 10
    places = np.flatnonzero(some[:-1] & some[1:] if count > 1 else some) * step
    lengths = _past(raw, places, 1, IS_DIGIT) - _past(raw, places, -1, IS_DIGIT) - 1
    return bool((lengths >= count).any())


def _has_exponent(raw: Bytes) -> bool:
    """Return whether a number has an exponent; a very small one crashes Arrow's decimals."""
    marks = np.flatnonzero((raw[1:-1] == LOWER_E) | (raw[1:-1] == UPPER_E)) + 1
    marks = marks[IS_IN_NUMBER[raw[marks - 1]]]
    behind = marks + 1 + SIGNS[raw[marks + 1]]
    ends = _past(raw, behind, 1, IS_DIGIT)
    marks = marks[(ends > behind) & _is_one_of(raw, ends, BEHIND)]
    begins = _past(raw, marks - 1, -1, IS_IN_NUMBER)
    begins = begins - _is_one_of(raw, begins, SIGNS)
    return bool(_is_one_of(raw, begins, BEFORE).any())


def _past(raw: Bytes, places: Rows, step: int, wanted: Bools) -> Rows:
    """Return, for each of `places`, the first place from it on with an unwanted byte, or an end."""
    found = places.copy()
    going = np.arange(len(found))
    while len(going):
        at = found[going]
        inside = (at >= 0) & (at < len(raw))
        going = going[inside]
        going = going[wanted[raw[at[inside]]]]
        found[going] += step
    return found


def _is_one_of(raw: Bytes, places: Rows, wanted: Bools) -> Bools:
    """Return whether the byte at each place is wanted; an end is."""
    inside = (places >= 0) & (places < len(raw))
    return ~inside | wanted[raw[np.where(inside, places, 0)]]


def json_type(kind: ColumnType) -> pa.DataType | None:
    """Return the Arrow type that JSON values of a column are read as; None: only one by one."""
    held = arrow_type(kind)
    if kind.kind in INTEGERS:
        return pa.uint64() if held == pa.uint64() else pa.int64()
    if kind.kind in TEXTS:
        return pa.string()
    plain = kind.kind in (Kind.BOOL, Kind.FLOAT64) or pa.types.is_decimal(held)
    return held if plain else None


def located(data: bytes, before: int) -> Callable[[Rows], list[Located]]:
    """Return a function that finds line and text of rows; `before`: lines before the first."""

    def locate(rows: Rows) -> list[Located]:
        starts, stops, raw = line_places(data)
        breaks = np.flatnonzero(raw == BREAK)
        numbers = np.searchsorted(breaks, starts[rows]) + 1 + before
        texts = [data[starts[row] : stops[row]].decode() for row in rows.tolist()]
        return list(zip(numbers.tolist(), texts, strict=True))

    return locate


def told_nulls(data: bytes, name: str) -> int:
    """Return how often a key is explicitly null, at least."""
    key = orjson.dumps(name)
    return data.count(key + b":null") + data.count(key + b": null")
