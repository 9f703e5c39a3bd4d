"""What a part's statistics must say: loops over plain values, and data that hurts.

`complaints` compares statistics with the rows they stand for, value by value, in exact
arithmetic; it knows nothing of how statistics are made. `poison` draws the rows.
"""

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from strata.format.columns import child, updates_schema
from strata.format.encodings import ENCODINGS, encoding
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, Kind
from strata.stats.wire import Path, column_name, path_name

NAN = math.nan
LONG = "https://example.org/a/very/long/prefix/" * 3
TEXTS = [
    "", "a", "a\x00", "ab", "A", "\x7f", "\x80", "é", "\ud7ff", "\ue000", "\uffff", "\U00010000",
    "\U0010ffff", "\U0010ffff" * 30, "\ud7ff" * 40, "\x7f" * 101, "x" * 100, "x" * 101, LONG + "a",
    LONG + "b", "2013-01-31T05:00:00Z", "2013-02-01 05:00:00", "null", "1",
]  # fmt: skip
POISON: dict[Kind, list[Any]] = {
    Kind.BOOL: [False, True],
    Kind.INT16: [-(2**15), -1, 0, 1, 2**15 - 1],
    Kind.INT32: [-(2**31), -1, 0, 1, 2**31 - 1],
    Kind.INT64: [-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1],
    Kind.FLOAT32: [-math.inf, -1.5, -0.0, 0.0, 2.0**-149, math.inf, NAN],
    Kind.FLOAT64: [-math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 0.1, math.inf, NAN],
    Kind.NUMERIC: [Decimal(10**18 - 1).scaleb(-3), Decimal("-0.001"), Decimal(0), -Decimal(10**14)],
    Kind.DATE: [-(2**31), -719162, -1, 0, 2932896, 2**31 - 1],
    Kind.TIMESTAMP: [-(2**63), -1, 0, 1356998400000000, 2**63 - 1],
    Kind.TIMESTAMPTZ: [-(2**63), -1, 0, 1356998400000000, 2**63 - 1],
    Kind.STRING: TEXTS,
    Kind.BYTES: [
        b"",
        b"\x00",
        b"\xff",
        b"\xff" * 99,
        b"\xff" * 150,
        b"a" + b"\xff" * 120,
        b"b" * 101,
    ],
}
NUMBERS = [0, -1, 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64 - 1, 2**64, -(10**30), 10**300]
NUMBERS += [0.1, -0.0, 1.5, 1e16, 5e-324, -1.7976931348623157e308, 0.30000000000000004]
KEYS = ["a", "b", "a.b", "it's", "we ird", "$", "['x']", "", "\\", "é", "a\nb", "last_at"]

PLAIN = {Kind.DATE: pa.int32(), Kind.TIMESTAMP: pa.int64(), Kind.TIMESTAMPTZ: pa.int64()}
EVERY_TYPE = Relation(
    0,
    tuple(
        Column(number, f"c_{kind}", ColumnType(kind, *((18, 3) if kind is Kind.NUMERIC else ())))
        for number, kind in enumerate(ENCODINGS, 1)
    ),
    (1,),
    (),
)
DOCUMENT = next(c for c in EVERY_TYPE.columns if c.type.kind is Kind.JSONB)


def documents() -> st.SearchStrategy[Any]:
    """Draw JSON values: every kind, odd keys, numbers that float64 cannot hold."""
    leaf = st.one_of(
        st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS), st.integers()
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
        ),
        max_leaves=8,
    )


def canonical(value: Any) -> str:
    """Return JSON text with sorted keys and no white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def cells(kind: Kind) -> st.SearchStrategy[Any]:
    """Draw values of one column, null included."""
    if kind is Kind.JSONB:
        return st.one_of(st.none(), documents().map(canonical))
    return st.sampled_from([None, *POISON[kind]])


def poison(relation: Relation = EVERY_TYPE, max_rows: int = 6) -> st.SearchStrategy[pa.Table]:
    """Draw updates: none, one, a few; each column mixed, all null, or all equal."""

    @st.composite
    def draw_table(draw: st.DrawFn) -> pa.Table:
        rows = draw(st.integers(0, max_rows))
        columns = []
        for column in relation.columns:
            cell = cells(column.type.kind)
            equal = draw(st.sampled_from(["mixed", "equal", "null"]))
            repeated = {"equal": st.tuples(cell).map(lambda c: list(c) * rows)}
            values = repeated.get(equal, st.lists(cell, min_size=rows, max_size=rows))
            columns.append([None] * rows if equal == "null" else draw(values))
        return table(columns, relation)

    return draw_table()


def table(columns: list[list[Any]], relation: Relation) -> pa.Table:
    """Return updates from plain column values; dates and times are numbers."""
    schema = updates_schema(relation)
    arrays = [
        pa.array(values, PLAIN.get(column.type.kind, field.type)).cast(field.type)
        for values, column, field in zip(columns, relation.columns, schema, strict=False)
    ]
    ones = pa.array([1] * len(columns[0]), pa.int64())
    return pa.table([*arrays, ones, ones], schema=schema)


def complaints(stats: pa.RecordBatch | pa.Table, rows: pa.Table, relation: Relation) -> list[str]:
    """Return what is false in one row of statistics about `rows`; empty if they enclose them."""
    assert stats.num_rows == 1
    found = []
    if stats["rows"].to_pylist() != [rows.num_rows]:
        found.append(f"rows: {stats['rows'].to_pylist()} for {rows.num_rows}")
    for column in relation.columns:
        values = rows[child(column.id)]
        if encoding(column.type).stats == "json":
            found += _json_complaints(stats, values.to_pylist(), column.id)
        elif (field := known(stats, column_name(column.id))) is not None:
            plain = values.cast(PLAIN.get(column.type.kind, values.type)).to_pylist()
            found += [f"{column.name}: {c}" for c in _flat_complaints(field, plain)]
    return found


def known(stats: pa.RecordBatch | pa.Table, name: str) -> dict[str, Any] | None:
    """Return the fields of one statistics column, dates and times as numbers; None if unknown."""
    if name not in stats.schema.names:
        return None
    column = stats[name]
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count:
        return None
    kinds = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}
    kinds[pa.timestamp("us", "UTC")] = pa.int64()
    return {
        f.name: values.cast(kinds.get(f.type, f.type))[0].as_py()
        for f, values in zip(column.type, column.flatten(), strict=True)
    }


def _flat_complaints(field: dict[str, Any], values: list[Any]) -> Iterator[str]:
    nans = sum(v != v for v in values)  # noqa: PLR0124
    some = [v for v in values if v is not None and v == v]  # noqa: PLR0124
    if field["nulls"] != values.count(None) or field.get("nans", 0) != nans:
        yield f"counts {field} for {values}"
    if "low" in field:
        yield from _bound_complaints(field, some, "low", "high", "low_exact", "high_exact")


def _bound_complaints(
    field: dict[str, Any], values: list[Any], low: str, high: str, low_exact: str, high_exact: str
) -> Iterator[str]:
    if field[low] is not None and any(v < field[low] for v in values):
        yield f"{low} {field[low]!r} is above one of {values}"
    if field[high] is not None and any(v > field[high] for v in values):
        yield f"{high} {field[high]!r} is below one of {values}"
    if field[low_exact] and field[low] not in values:
        yield f"{low} {field[low]!r} is not exact: {values}"
    if field[high_exact] and field[high] not in values:
        yield f"{high} {field[high]!r} is not exact: {values}"


def _json_complaints(stats: pa.Table, texts: list[str | None], column_id: int) -> Iterator[str]:
    column = known(stats, column_name(column_id))
    if column is not None and column["nulls"] != texts.count(None):
        yield f"nulls {column}"
    values = [json.loads(t, parse_float=Decimal) for t in texts if t is not None]
    yield from _tree_complaints(stats, values, column_id, (), absent=False)


def _tree_complaints(
    stats: pa.Table, values: list[Any], column_id: int, path: Path, *, absent: bool
) -> Iterator[str]:
    """Check a path and what is below; `absent`: its nearest known ancestor claims it is."""
    name = path_name(column_id, path)
    field = known(stats, name)
    if field is None and absent and values:
        yield f"{name} is taken for absent, but there is {values}"
    if field is not None:
        yield from (f"{name}: {c}" for c in _path_complaints(field, values))
    below = field["complete"] if field is not None else absent
    maps = [value for value in values if isinstance(value, dict)]
    for key in dict.fromkeys(key for one in maps for key in one):
        inside = [one[key] for one in maps if key in one]
        yield from _tree_complaints(stats, inside, column_id, (*path, key), absent=below)


def _path_complaints(field: dict[str, Any], values: list[Any]) -> Iterator[str]:
    numbers = [v for v in values if isinstance(v, int | Decimal) and not isinstance(v, bool)]
    strings = [v for v in values if isinstance(v, str)]
    counts = {
        "present": len(values),
        "json_nulls": sum(v is None for v in values),
        "bools": sum(isinstance(v, bool) for v in values),
        "trues": sum(v is True for v in values),
        "numbers": len(numbers),
        "strings": len(strings),
        "lists": sum(isinstance(v, list) for v in values),
        "maps": sum(isinstance(v, dict) for v in values),
    }
    if any(field[name] != count for name, count in counts.items()):
        yield f"counts {field} for {values}"
    # Infinite bounds compare right, and finite ones are exact as Decimal.
    finite = {k: Decimal(v) if k in ("num_low", "num_high") and v is not None else v
              for k, v in field.items()}  # fmt: skip
    yield from _bound_complaints(finite, numbers, "num_low", "num_high", "num_exact", "num_exact")
    texts = ("str_low", "str_high", "str_low_exact", "str_high_exact")
    yield from _bound_complaints(field, strings, *texts)
