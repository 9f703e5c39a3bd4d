"""Random parts: for each column a range, loose or exact or unknown, and rows that lie in it.

The ranges are invented around edges (limits of types, ends of months, changes of the clock),
never single points only: interior rows are what finds a false claim of monotonicity. Poison
(null, NaN, infinities) comes apart from the range. JSON has no range to invent; its
statistics are collected.
"""

import datetime as dt
import json
import random
from dataclasses import dataclass
from decimal import Context, Decimal

import pyarrow as pa

from strata.format.columns import updates_schema
from strata.format.encodings import arrow_type, spark_ddl
from strata.model.schema import Column, Relation
from strata.model.types import Kind, parse_type
from strata.stats import collect, concat
from strata.stats.shapes import Shapes
from strata.stats.wire import column_name, scalar_type
from tests.spark.ranges_members import member_stats
from tests.spark.ranges_nested import TYPES as NESTED
from tests.spark.ranges_nested import collected, nested_columns
from tests.spark.ranges_shapes import COLUMNS as SHAPED
from tests.spark.ranges_shapes import shape_stats, shaped

_TYPES = {
    "sh": "int16", "sh2": "int16", "i": "int32", "i2": "int32", "l": "int64", "l2": "int64",
    "f": "float32", "f2": "float32", "d": "float64", "d2": "float64",
    "dec": "numeric(10,2)", "dec2": "numeric(7,4)", "wide": "numeric(38,10)",
    "wide2": "numeric(30,5)", "day": "date", "day2": "date", "ts": "timestamptz",
    "ts2": "timestamptz", "tn": "timestamp", "tn2": "timestamp", "s": "string", "s2": "string",
    "b": "bool", "b2": "bool", "js": "jsonb",
    "stamp": "string", **SHAPED,
    "st": "record<i: int32, inner: record<d: float64, s: string>, day: date>",
    **NESTED,
}  # fmt: skip

RELATION = Relation(
    0,
    tuple(Column(i, name, parse_type(text)) for i, (name, text) in enumerate(_TYPES.items(), 1)),
    (1,),
    (1,),
)
ROWS_A_PART = 12
_SMALL = (-1000, -101, -100, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 9, 10, 49, 50, 51, 99, 100, 1000)


def _days() -> list[int]:
    dates = [
        (y, m, d)
        for y in (1, 1582, 1899, 1969, 1970, 1999, 2000, 2023, 2024, 9999)
        for m, d in ((1, 1), (1, 30), (1, 31), (2, 28), (3, 1), (3, 31), (6, 30), (12, 31))
    ]
    return [(dt.date(*d) - dt.date(1970, 1, 1)).days for d in (*dates, (2024, 2, 29))]


_DAY_US = 86_400_000_000
# Changes of the clock in New York, and the date line's move in Kwajalein.
_CLOCKS = (1710054000_000_000, 1730613600_000_000, 1699164000_000_000, 745_934_400_000_000)


def _micros() -> list[int]:
    near = (0, 1, -1, 3_600_000_000, _DAY_US - 1)
    return [d * _DAY_US + n for d in _days()[::3] for n in near] + [
        c + n for c in _CLOCKS for n in (*near, -3_600_000_000, 1_800_000_000)
    ]


_EDGES = {
    Kind.INT16: (*_SMALL, -(2**15), 2**15 - 1, 2**15 - 2, 2024, 1969),
    Kind.INT32: (*_SMALL, -(2**31), -(2**31) + 1, 2**31 - 1, 2**31 - 2, 2**16, 46341),
    Kind.INT64: (*_SMALL, -(2**63), -(2**63) + 1, 2**63 - 1, 2**62, 2**31, 3037000500, 2**53 + 1,
                 9223372036855, -9223372036855, 9223372036854775),
    Kind.DATE: tuple(_days()),
    Kind.TIMESTAMP: tuple(_micros()),
    Kind.TIMESTAMPTZ: tuple(_micros()),
}  # fmt: skip
_EXTREME = {
    Kind.DATE: (-(2**31), -(2**31) + 40, 2**31 - 1, 106751991, 106751992, -106751991),
    Kind.TIMESTAMP: (-(2**63), -(2**63) + _DAY_US, 2**63 - 1, 2**63 - _DAY_US),
    Kind.TIMESTAMPTZ: (-(2**63), -(2**63) + _DAY_US, 2**63 - 1, 2**63 - _DAY_US),
}
_FLOATS = (0.0, 0.5, -0.5, 1.0, -1.0, 2.5, 3.0, 0.1, 1e-300, 1e15 + 0.3, 2.0**31, -(2.0**31) - 0.5,
           2.0**63, -(2.0**63), 1e308, -1e308, 32767.5, 127.5, 99999999.994, 9.995)  # fmt: skip
_TEXTS = ("", "a", "ab", "abb", "abc", "a%", "a\uffff", "b", "B", "é", "zz", "\uffff", "\U0010ffff",
          " 5 ", "5", "10", "9", "-1", "2024-02-29", "2024-02-30", "true", "nan", "k1", "k2", "k9",
          "a\ud7ff", "month", "{\"n\": 1}",
          "\0", "a\0", "A", "Zb aB", "ß", "İ", "\u212a", "ŉ", "\t7\n", "5 ", "\u00a05", "٣",
          "1.5e3", "1d", "Infinity", "-0", "0x1F", "x\ny", "a-b-", "-", "2024-02-29 ",
          "TRUE", "n")  # fmt: skip


@dataclass(frozen=True)
class Parts:
    """Rows of many parts, and the statistics they have."""

    rows: pa.Table  # column `part`, then the relation's columns by name
    stats: pa.Table
    relation: Relation = RELATION

    @property
    def ddl(self) -> str:
        """Return the columns as Spark declares them."""
        return ", ".join(f"{c.name} {spark_ddl(c.type)}" for c in self.relation.columns)


def random_parts(seed: int, count: int) -> Parts:
    """Return `count` parts of `ROWS_A_PART` rows."""
    rng = random.Random(seed)
    drawn = [c for c in RELATION.columns if c.name not in ("st", *NESTED)]
    columns: dict[str, list[object]] = {c.name: [] for c in drawn}
    stats: dict[str, list[object]] = {c.name: [] for c in drawn}
    documents = []
    for _ in range(count):
        for column in drawn:
            if column.type.kind is Kind.JSONB:
                values, stat = _documents(rng), None
                documents.append(_collected(values, column))
            else:
                values, stat = _column(rng, column)
            columns[column.name] += values
            stats[column.name].append(stat)
    arrays = {
        c.name: pa.array(columns[c.name], _raw(c)).cast(arrow_type(c.type))
        if _raw(c) != arrow_type(c.type)
        else pa.array(columns[c.name], arrow_type(c.type))
        for c in drawn
    }
    part = pa.array([p for p in range(count) for _ in range(ROWS_A_PART)], pa.int64())
    json_stats = concat(documents, [ROWS_A_PART] * count)
    table = {name: json_stats[name] for name in json_stats.column_names}
    for c in drawn:
        if c.type.kind is not Kind.JSONB:
            table[column_name(c.id)] = _stats(c, stats[c.name])
    arrays["st"] = _structs(arrays, rng)
    structs = [arrays["st"].slice(n * ROWS_A_PART, ROWS_A_PART) for n in range(count)]
    table |= collected(RELATION.by_name["st"], structs, rng)
    lists, their_stats = nested_columns(rng, RELATION, ROWS_A_PART, count)
    arrays, table = arrays | lists, table | their_stats
    found = member_stats(arrays, pa.table(table), RELATION, ROWS_A_PART, seed)
    found |= shape_stats(arrays, RELATION, ROWS_A_PART, seed)
    return Parts(pa.table({"part": part, **arrays}), pa.table(table | found))


def _structs(arrays: dict[str, pa.Array], rng: random.Random) -> pa.StructArray:
    """Return structs of values of other columns, some of them null, at either level."""

    def nulls() -> pa.Array:
        share = rng.choice((0.0, 0.0, 0.1))
        return pa.array([rng.random() < share for _ in range(len(arrays["i"]))])

    inner = pa.StructArray.from_arrays([arrays["d"], arrays["s"]], ["d", "s"], mask=nulls())
    return pa.StructArray.from_arrays(
        [arrays["i"], inner, arrays["day"]], ["i", "inner", "day"], mask=nulls()
    )


def _raw(column: Column) -> pa.DataType:
    """Return the integer type that stands for a date or timestamp while building."""
    match column.type.kind:
        case Kind.DATE:
            return pa.int32()
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return pa.int64()
        case _:
            return arrow_type(column.type)


def _column(rng: random.Random, column: Column) -> tuple[list[object], dict[str, object] | None]:
    if column.name in SHAPED:
        rows: list[object] = [*shaped(rng, column.name, ROWS_A_PART)]
        low, high = min(rows, key=_order), max(rows, key=_order)  # type: ignore[arg-type]
    else:
        low, high = _range(rng, column)
        rows = [low, high, *(_between(rng, column, low, high) for _ in range(ROWS_A_PART - 2))]
    stat: dict[str, object] = {"low": low, "high": high, "nulls": 0}
    if column.type.kind in (Kind.FLOAT32, Kind.FLOAT64):
        stat["nans"] = 0
        if rng.random() < 0.2:
            rows[2], stat["nans"] = float("nan"), 1
    if rng.random() < 0.3:
        rows[3], stat["nulls"] = None, 1
    if rng.random() < 0.05:
        rows = [None] * ROWS_A_PART
        stat |= {"low": None, "high": None, "nulls": ROWS_A_PART}
        if "nans" in stat:
            stat["nans"] = 0
    if rng.random() < 0.1:
        stat["low"] = None
    if rng.random() < 0.1:
        stat["high"] = None
    rng.shuffle(rows)
    return rows, None if rng.random() < 0.03 else stat


# Texts that dates and times are written as, among them odd ones.
_STAMPS = (
    "2023-12-31", "2024-01-05", "2024-02-29", "2024-02-30", "2024-03-10 02:30:00", "20240105",
    "2024-01-05 23:59:59", "2024-01-05 24:00:00", "2024-01-05T10:00:00.123", "2024-01-05t10:00:00",
    "2024-1-5", "2024-13-01", "2024-01", "2024", "20231-01-01", "+20241-01-05", "0000-01-01",
    "9999-12-31", "2024-01-05 10:00:00.5", "2024-01-05 10:00:00.123", "2024-01-05T10:00:00Z",
    "2024-01-05 10:00:00 America/New_York", "2024-01-05T23:00:00-12:00", "12:30:00", "12:30", "05",
    "2024/01/05 10:00:00", "05.01.2024", "01-05", " 2024-01-05 ", "", "2024-01-0", "2024-12-99",
    "2024-01-05 9:00:00", "2024-01-05 99", "2024-06-15 12:00:61", "2025-01-01 00:00:00+18:00",
    "0001-01-01", "-0001-01-01", "1582-10-10", "2024-03-10T02:30:00-05", "2024-01-05 10:00:00UTC",
    "2024-01-05 10:00:00 GMT+1", "T10:00", "epoch", "now", "2024-01-05 10:00:00.1234567",
    "2024-01-05 ", "2024-01-05T", "2024-01-05 10:00:00.", "+2024-01-05",
    "2024-02-29T23:59:59.999999999",
    "294247-01-10 04:00:54.775807", "294247-01-10 04:00:54.775808", "5881580-07-11",
    "5881580-07-12",
)  # fmt: skip


def _edges(rng: random.Random, column: Column) -> tuple[object, ...]:
    kind = column.type.kind
    if column.name == "stamp":
        return _STAMPS
    if kind in _EXTREME and rng.random() < 0.1:
        return _EXTREME[kind]
    if kind in _EDGES:
        return _EDGES[kind]
    match kind:
        case Kind.BOOL:
            return (False, True)
        case Kind.STRING:
            return _TEXTS
        case Kind.FLOAT64:
            return (*_FLOATS, float("inf"), -float("inf")) if rng.random() < 0.2 else _FLOATS
        case Kind.FLOAT32:
            return tuple(_single(x) for x in _FLOATS if abs(x) < 1e38)
        case _:
            precision, scale = column.type.precision or 0, column.type.scale or 0
            top = 10**precision - 1
            whole = (*_SMALL, top, -top, top - 1, top // 2, 12345, -99999, 10**scale, -(10**scale))
            return tuple(decimal_of(w, scale) for w in whole if abs(w) <= top)


def decimal_of(whole: int, scale: int) -> Decimal:
    """Return whole * 10**-scale, with every digit."""
    digits = tuple(int(digit) for digit in str(abs(whole)))
    return Decimal((int(whole < 0), digits, -scale))


def unscaled(value: Decimal, scale: int) -> int:
    """Return value * 10**scale, which must be whole."""
    return int(value.scaleb(scale, Context(prec=80)))


def _single(value: float) -> float:
    return float(pa.scalar(value, pa.float64()).cast(pa.float32()).as_py())


def _range(rng: random.Random, column: Column) -> tuple[object, object]:
    """Return two edges in order: often near each other, sometimes the same."""
    edges = sorted(_edges(rng, column), key=_order)
    if rng.random() < 0.5:
        start = rng.randrange(len(edges))
        pair = [edges[start], edges[min(len(edges) - 1, start + rng.choice((0, 1, 1, 2, 4)))]]
    else:
        pair = sorted(rng.choices(edges, k=2), key=_order)
    return pair[0], pair[1]


def _order(value: object) -> object:
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value


def _between(rng: random.Random, column: Column, low: object, high: object) -> object:
    """Return a value of [low, high]: an edge inside it, or any point."""
    inside = [e for e in _edges(rng, column) if _order(low) <= _order(e) <= _order(high)]  # type: ignore[operator]
    if inside and rng.random() < 0.4:
        return rng.choice(inside)
    if isinstance(low, bool):
        return rng.choice((low, high))
    if isinstance(low, int) and isinstance(high, int):
        return rng.randint(low, high)
    if isinstance(low, float) and isinstance(high, float):
        point = rng.uniform(min(max(low, -1e308), 1e308), max(min(high, 1e308), -1e308))
        point = min(max(point, low), high)
        return _single(point) if column.type.kind is Kind.FLOAT32 else point
    if isinstance(low, Decimal) and isinstance(high, Decimal):
        scale = column.type.scale or 0
        return decimal_of(rng.randint(unscaled(low, scale), unscaled(high, scale)), scale)
    if column.name == "stamp" and rng.random() < 0.5:
        moment = dt.datetime(2024, 1, 1) + dt.timedelta(minutes=rng.randrange(1_000_000))  # noqa: DTZ001
        text = moment.isoformat(
            rng.choice(" T"), rng.choice(("seconds", "minutes", "milliseconds"))
        )
        text = text[: rng.choice((4, 7, 10, 30, 30))]
        if str(low).encode() <= text.encode() <= str(high).encode():
            return text
    return rng.choice((low, high))


def _stats(column: Column, stats: list[object]) -> pa.Array:
    """Return the statistics of one column; raw integers become dates and timestamps."""
    kind, raw = scalar_type(column.type), _raw(column)
    fields = {}
    for field in kind:
        values = [None if s is None else s.get(field.name) for s in stats]  # type: ignore[attr-defined]
        array = pa.array(values, raw if field.name in ("low", "high") else field.type)
        fields[field.name] = array.cast(field.type)
    mask = pa.array([s is None for s in stats])
    return pa.StructArray.from_arrays(list(fields.values()), fields=list(kind), mask=mask)


_MIXED = (
    *(1, "x", True, None, [1], {"y": 1}, 2.5, "7"),
    *("NaN", "Infinity", "true", "2024-02-29", "1e3", "", -0.0, 10**30, 1e-7, [], {}, False),
)


def _documents(rng: random.Random) -> list[object]:
    """Return JSON texts: one kind a path in most parts, any kind in some."""
    low = rng.choice((-5, 0, 10, 1000, 2**53))
    span = rng.choice((0, 3, 1000))
    fraction = rng.random() < 0.3
    missing = rng.choice((0.0, 0.0, 0.2, 1.0))
    prefix = rng.choice(("k", "a", "é", ""))
    texts = {name: iter(shaped(rng, name, ROWS_A_PART)) for name in SHAPED}

    def number() -> int | float:
        whole = rng.randint(low, low + span)
        return whole + rng.choice((0.5, 0.25)) if fraction else whole

    def document() -> object:
        if rng.random() < 0.03:
            return None
        if rng.random() < 0.02:
            return json.dumps(rng.choice((5, "text", [1, {"n": 1}], None, True, [])))
        inner: object = {"x": number(), "y": "t"} if rng.random() < 0.9 else rng.choice(_MIXED)
        made = {
            "n": number(),
            "s": f"{prefix}{rng.randint(0, 9)}",
            "m": rng.choice(_MIXED),
            "b": rng.random() < 0.5,
            "a": [1, {"x": 2}],
            "o": inner,
            "big": rng.choice((2**70, 1e300, -1e-300, 1e18, 12345678901234567890)),
            "doc": json.dumps({"n": number()}),
            **{name: next(some) for name, some in texts.items()},
        }
        if rng.random() < 0.01:
            made["fig"] = rng.choice((7, 2.5, True, None, [1]))
        kept = {key: value for key, value in made.items() if rng.random() >= missing}
        return json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    return [document() for _ in range(ROWS_A_PART)]


def _collected(values: list[object], column: Column) -> pa.RecordBatch:
    relation = Relation(0, (column,), (column.id,), ())
    zeros = pa.array([0] * len(values), pa.int64())
    table = pa.Table.from_arrays(
        [pa.array(values, pa.string()), zeros, zeros], schema=updates_schema(relation)
    )
    shapes = Shapes(relation)
    return shapes.beside(collect(table, relation, ("js.fig", "js.when"), shapes=shapes))
