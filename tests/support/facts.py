"""What a part's statistics must say: loops over plain values, and data that hurts.

`complaints` compares statistics with the rows they stand for, value by value, in exact
arithmetic; it knows nothing of how statistics are made. `poison` draws the rows.
"""

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from strata.format.columns import child, updates_schema
from strata.format.encodings import encoding
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, Field, Kind, parse_type
from strata.stats.wire import Path, Steps, column_name, field_step, inside_name, path_name

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
    Kind.UINT8: [0, 1, 127, 128, 2**8 - 1],
    Kind.UINT16: [0, 1, 2**15, 2**16 - 1],
    Kind.UINT32: [0, 1, 2**31, 2**32 - 1],
    Kind.UINT64: [0, 1, 2**53 + 1, 2**63, 2**64 - 1],
    Kind.OID: [0, 2**31, 2**32 - 1],
    Kind.MZ_TIMESTAMP: [0, 2**63, 2**64 - 1],
    Kind.TIME: [b"\x00" * 8, bytes.fromhex("00015180773593ff"), bytes.fromhex("00000e4d00000000")],
    Kind.INTERVAL: [b"\x00" * 16, b"\xff" * 16, bytes.fromhex("80000000800000018000000000000000")],
    Kind.DAY_TIME: [-(2**63), -1, 0, 1, 2**63 - 1],
    Kind.YEAR_MONTH: [-(2**31), -1, 0, 1, 2**31 - 1],
    Kind.UUID: [b"\x00" * 16, b"\xff" * 16, bytes(range(16))],
    Kind.ACLITEM: [b"\x00" * 16, b"\xff" * 16, bytes(range(16))],
    Kind.MZ_ACLITEM: [b"\x00" * 32, b"\xff" * 32, bytes(range(32))],
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
POISON |= {kind: TEXTS for kind in (Kind.CHAR, Kind.VARCHAR)}
NUMBERS = [0, -1, 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64 - 1, 2**64, -(10**30), 10**300]
NUMBERS += [0.1, -0.0, 1.5, 1e16, 5e-324, -1.7976931348623157e308, 0.30000000000000004]
KEYS = ["a", "b", "a.b", "it's", "we ird", "$", "['x']", "", "\\", "é", "a\nb", "last_at"]

SCALARS = [
    *(k.value for k in POISON if k not in (Kind.NUMERIC, Kind.CHAR)),
    "numeric(18,3)",
    "char(3)",
    "jsonb",
]
NESTED = [
    "numeric",
    "list<float64>",
    "list<list<date>>",
    "list<record<at: timestamptz, n: numeric>>",
    "map<int64>",
    "map<list<string>>",
    "array<float32>",
    "int2vector",
    "range<int32>",
    "range<timestamptz>",
    "range<numeric>",
    "record<>",
    "record<lat: float64, sent_at: timestamptz>",
    "record<a/b: record<it's: string, []: list<bytes>>, doc: jsonb, u: uuid, d: map<uint64>>",
]
EVERY_TYPE = Relation(
    0,
    tuple(
        Column(number, f"c_{text}", parse_type(text))
        for number, text in enumerate([*SCALARS, *NESTED], 1)
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


@cache
def cells(declared: ColumnType) -> st.SearchStrategy[Any]:
    """Draw stored values of one column as plain Python, null included."""
    if declared.kind is Kind.JSONB:
        return st.one_of(st.none(), documents().map(canonical))
    if declared.kind in POISON and not fields(declared):
        return st.sampled_from([None, *POISON[declared.kind]])
    if declared.element is not None and declared.kind is Kind.LIST:
        return st.none() | st.lists(cells(declared.element), max_size=3)
    if declared.element is not None and declared.kind is Kind.MAP:
        entries = st.dictionaries(st.sampled_from(TEXTS), cells(declared.element), max_size=3)
        return st.none() | entries.map(lambda found: sorted(found.items()))
    inner = {field.name: cells(field.type) for field in fields(declared)}
    if declared.kind is Kind.NUMERIC:
        inner["binary"] = st.just(b"\x00" * 40)
    return st.none() | st.fixed_dictionaries(inner or {"_": st.none()})


def fields(declared: ColumnType) -> list[Field]:
    """Return the parts of a struct that statistics speak of, spelled out once more."""
    if declared.kind is Kind.RECORD:
        return list(declared.fields)
    if declared.kind is Kind.NUMERIC and declared.precision is None:
        return [Field("approx", ColumnType(Kind.FLOAT64))]
    if declared.kind is Kind.RANGE and declared.element is not None:
        flags = ["lower_inclusive", "upper_inclusive", "empty"]
        return [Field("lower", declared.element), Field("upper", declared.element)] + [
            Field(name, ColumnType(Kind.BOOL)) for name in flags
        ]
    if declared.kind in (Kind.ARRAY, Kind.INT2VECTOR):
        dims = parse_type("list<record<lower_bound: int64, length: int64>>")
        return [Field("dims", dims), Field("vals", ColumnType(Kind.LIST, element=declared.element))]
    return []


def poison(relation: Relation = EVERY_TYPE, max_rows: int = 6) -> st.SearchStrategy[pa.Table]:
    """Draw updates: none, one, a few; each column mixed, all null, or all equal."""

    @st.composite
    def draw_table(draw: st.DrawFn) -> pa.Table:
        rows = draw(st.integers(0, max_rows))
        columns = []
        for column in relation.columns:
            cell = cells(column.type)
            alike = draw(st.sampled_from(["mixed", "equal", "null"]))
            if alike == "mixed":
                columns.append([draw(cell) for _ in range(rows)])
            else:
                columns.append([draw(cell) if alike == "equal" else None] * rows)
        return table(columns, relation)

    return draw_table()


def table(columns: list[list[Any]], relation: Relation) -> pa.Table:
    """Return updates from plain column values; dates and times are numbers."""
    schema = updates_schema(relation)
    arrays = [
        pa.array(values, plain(field.type)).cast(field.type)
        for values, field in zip(columns, schema, strict=False)
    ]
    ones = pa.array([1] * len(columns[0]), pa.int64())
    return pa.table([*arrays, ones, ones], schema=schema)


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type whose values Python holds exactly: dates and times are numbers."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, plain(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(plain(kind.value_type)))
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


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
        else:
            values = values.cast(plain(values.type)).to_pylist()
            found += _inside_complaints(stats, column.id, (), column.type, values)
    return found


def known(stats: pa.RecordBatch | pa.Table, name: str) -> dict[str, Any] | None:
    """Return the fields of one statistics column, dates and times as numbers; None if unknown."""
    if name not in stats.schema.names:
        return None
    column = stats[name]
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count:
        return None
    return {
        f.name: values.cast(plain(f.type))[0].as_py()
        for f, values in zip(column.type, column.flatten(), strict=True)
    }


def _inside_complaints(
    stats: pa.Table, column_id: int, steps: Steps, declared: ColumnType, values: list[Any]
) -> Iterator[str]:
    """Check a column or a place inside one, and what is below it."""
    name = inside_name(column_id, steps)
    if (field := known(stats, name)) is not None:
        yield from (f"{name}: {c}" for c in _flat_complaints(field, values))
        if any(step in ("[]", "{k}", "{v}") for step in steps) and field["count"] != len(values):
            yield f"{name}: count {field['count']} for {values}"
    for step, inner, inside in _inside(declared, values):
        yield from _inside_complaints(stats, column_id, (*steps, step), inner, inside)


def _inside(declared: ColumnType, values: list[Any]) -> Iterator[tuple[str, ColumnType, list[Any]]]:
    some = [value for value in values if value is not None]
    if declared.kind is Kind.LIST and declared.element is not None:
        yield "[]", declared.element, [item for value in some for item in value]
    if declared.kind is Kind.MAP and declared.element is not None:
        yield "{k}", ColumnType(Kind.STRING), [key for value in some for key, _ in value]
        yield "{v}", declared.element, [item for value in some for _, item in value]
    for field in fields(declared):
        inside = [None if value is None else value[field.name] for value in values]
        yield field_step(field.name), field.type, inside


def _flat_complaints(field: dict[str, Any], values: list[Any]) -> Iterator[str]:
    nans = sum(v != v for v in values)  # noqa: PLR0124
    some = [v for v in values if v is not None and v == v]  # noqa: PLR0124
    if field["nulls"] != values.count(None) or field.get("nans", 0) != nans:
        yield f"counts {field} for {values}"
    if "low" in field:
        yield from _bound_complaints(field, some, "low", "high", "low_exact", "high_exact")
    if field.get("shortest") is not None and any(len(v) < field["shortest"] for v in some):
        yield f"shortest {field} for {values}"
    if field.get("longest") is not None and any(len(v) > field["longest"] for v in some):
        yield f"longest {field} for {values}"


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
        "integers": sum(isinstance(v, int) for v in numbers),
        "strings": len(strings),
        "lists": sum(isinstance(v, list) for v in values),
        "maps": sum(isinstance(v, dict) for v in values),
    }
    if any(field[name] != count for name, count in counts.items()):
        yield f"counts {field} for {values}"
    # Infinite bounds compare right, and finite ones are exact as Decimal.
    finite = {
        k: Decimal(v) if k in ("num_low", "num_high") and v is not None else v
        for k, v in field.items()
    }
    yield from _bound_complaints(finite, numbers, "num_low", "num_high", "num_exact", "num_exact")
    texts = ("str_low", "str_high", "str_low_exact", "str_high_exact")
    yield from _bound_complaints(field, strings, *texts)
