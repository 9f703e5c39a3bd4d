"""Converts columns of types without an Arrow cast: times, uuids, intervals, rights, any numeric.

Each source value is converted to the form in which readers see the type, and stored from that form
(`strata.format.values.view`). So values that a reader got can be ingested again.
"""

from collections.abc import Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.encodings import ENCODINGS, arrow_type
from strata.format.values.packed import MAX_DIGITS, numeric
from strata.format.values.packed import from_text as packed_text
from strata.format.values.view import from_view, view_type
from strata.ingest.values.calendar_spans import calendar_spans, is_calendar_span
from strata.ingest.values.column import Cast, Rows, all_or_halves, choose, lost, valid, with_nulls
from strata.ingest.values.literals import Text, parse_json
from strata.ingest.values.nested import Objects, nested_objects
from strata.ingest.values.nested_arrow import Arrays, nested_arrow
from strata.ingest.values.numbers import float_texts
from strata.ingest.values.texts import READERS
from strata.model.types import ColumnType, Field, Kind

SPECIAL: Final = frozenset({Kind.NUMERIC, *READERS})
# Stored as bytes of Strata's own: a source's bytes of the same width say something else.
ENCODED: Final = frozenset({Kind.TIME, Kind.INTERVAL, Kind.ACLITEM, Kind.MZ_ACLITEM})
_FIELDS: Final = MappingProxyType(
    {pa.int32(): Kind.INT32, pa.int64(): Kind.INT64, pa.string(): Kind.STRING}
)
SPANS: Final = (Kind.INTERVAL, Kind.DAY_TIME, Kind.YEAR_MONTH)
OBJECT: Final = r"^\s*\{"


def _record(seen: pa.StructType) -> ColumnType:
    """Return a struct that readers see as a record of its fields."""
    return ColumnType(Kind.RECORD, fields=tuple(Field(f.name, _field(f.type)) for f in seen))


def _field(kind: pa.DataType) -> ColumnType:
    if pa.types.is_decimal(kind):
        return ColumnType(Kind.NUMERIC, kind.precision, kind.scale)
    return ColumnType(_FIELDS[kind])


# Scalar types that readers see as a struct, as the record of its fields.
RECORDS: Final = MappingProxyType(
    {
        row.kind: _record(row.view.type)
        for row in ENCODINGS.values()
        if row.view is not None and pa.types.is_struct(row.view.type)
    }
)


def special_text(strings: pa.Array, target: ColumnType, convert: Objects) -> Cast:
    """Return texts as a column of one of the special types; `convert` converts JSON fields."""
    if target.kind is Kind.NUMERIC:
        return _numeric(strings)
    if target.kind in RECORDS and pc.any(pc.match_substring_regex(strings, OBJECT)).as_py():
        return special_objects(_parsed(strings), target, convert)
    seen = READERS[target.kind](strings, view_type(target))
    return _stored(seen, target).also(lost(strings, seen))


def special_objects(values: Sequence[Any], target: ColumnType, convert: Objects) -> Cast:
    """Return JSON objects, which may include texts, as a column; `convert` converts fields."""
    record = RECORDS[target.kind]
    names = {field.name for field in record.fields}
    is_text = [isinstance(value, str) for value in values]
    texts = [Text(value) if isinstance(value, str) else None for value in values]
    # An object with other fields says more than is stored: hours beside days.
    dicts = [v if isinstance(v, dict) and v.keys() <= names else None for v in values]
    objects = _from_records(nested_objects(dicts, record, convert), target)
    pairs = enumerate(zip(values, dicts, strict=True))
    refused = [n for n, (v, d) in pairs if v is not None and d is None and not is_text[n]]
    return choose(is_text, convert(texts, target), objects).also(np.array(refused, np.int64))


def _parsed(strings: pa.Array) -> list[Any]:
    """Return texts; texts of JSON objects become objects."""
    found: list[Any] = []
    for text in strings.to_pylist():
        try:
            is_object = text is not None and text.lstrip().startswith("{")
            found.append(parse_json(text) if is_object else text)
        except (ValueError, RecursionError):
            found.append(False)  # which is neither
    return found


def special_arrow(values: pa.Array, target: ColumnType, convert: Arrays) -> Cast:
    """Return an Arrow column as a column of one of the special types.

    Raises: TypeError when its type is of another family.
    """
    kind, source = target.kind, values.type
    if kind is Kind.TIME and pa.types.is_time(source):
        return _stored(pc.cast(pc.cast(values, pa.time64("ns")), pa.string()), target)
    if kind is Kind.NUMERIC:
        return _numeric_arrow(values)
    if kind is Kind.DAY_TIME and (pa.types.is_duration(source) or pa.types.is_int64(source)):
        goal = arrow_type(target)  # Spark writes such intervals to Parquet as microseconds
        return all_or_halves(values, goal, lambda slice_: pc.cast(slice_, goal))
    if kind is Kind.YEAR_MONTH and pa.types.is_integer(source):
        return all_or_halves(values, pa.int32(), lambda slice_: pc.cast(slice_, pa.int32()))
    if kind is Kind.INTERVAL and pa.types.is_duration(source):
        return _clock_intervals(values, target, convert)
    if kind in SPANS and is_calendar_span(source):
        found = calendar_spans(values, target)
        return _stored(found.values, target).also(found.bad)
    if kind in RECORDS and pa.types.is_struct(source):
        if not {field.name for field in source} <= {field.name for field in RECORDS[kind].fields}:
            raise TypeError(source)
        return _from_records(nested_arrow(values, RECORDS[kind], convert), target)
    raise TypeError(source)


def _stored(seen: pa.Array, target: ColumnType) -> Cast:
    return all_or_halves(seen, arrow_type(target), lambda slice_: from_view(slice_, target))


def _from_records(records: Cast, target: ColumnType) -> Cast:
    """Return the stored form of structs that readers see; a field without a value is 0 or bad."""
    seen, bad = records.values, records.bad
    children = seen.flatten()
    if target.kind is Kind.INTERVAL:
        children = [child.fill_null(0) for child in children]
    else:
        there, missing = valid(seen), np.zeros(len(seen), np.bool_)
        for child in children:
            missing |= there & ~valid(child)
        rows: Rows = np.flatnonzero(missing)
        seen, bad = with_nulls(seen, rows), np.union1d(bad, rows)
        children = with_nulls(
            pa.StructArray.from_arrays(children, fields=list(seen.type)), rows
        ).flatten()
    kind = view_type(target)
    whole = pa.StructArray.from_arrays(children, fields=list(kind), mask=seen.is_null())
    return _stored(whole, target).also(bad)


def _numeric(strings: pa.Array) -> Cast:
    trimmed = pc.utf8_trim_whitespace(strings)
    goal = arrow_type(ColumnType(Kind.NUMERIC))
    return all_or_halves(trimmed, goal, lambda slice_: numeric(packed_text(slice_)))


def _numeric_arrow(values: pa.Array) -> Cast:
    """Return numbers of any Arrow type, or the struct that readers see, as numeric."""
    kind = values.type
    if pa.types.is_struct(kind) and kind.get_field_index("text") >= 0:
        texts = values.flatten()[kind.get_field_index("text")]
        return _numeric(texts.cast(pa.string())).also(lost(values, texts))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise TypeError(kind)
    if pa.types.is_floating(kind):
        return _numeric(float_texts(values, _has_few_digits))
    return _numeric(pc.cast(values, pa.string()))


def _has_few_digits(text: str) -> bool:
    return len(Decimal(text).as_tuple().digits) <= MAX_DIGITS


def _clock_intervals(values: pa.Array, target: ColumnType, convert: Arrays) -> Cast:
    """Return durations as intervals without months and days."""
    exact = special_arrow(values, ColumnType(Kind.DAY_TIME), convert)
    micros = exact.values.view(pa.int64())
    none = pa.array(np.zeros(len(micros), np.int32))
    kind = view_type(target)
    seen = pa.StructArray.from_arrays(
        [none, none, micros], fields=list(kind), mask=micros.is_null()
    )
    return _stored(seen, target).also(exact.bad)
