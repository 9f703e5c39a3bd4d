"""Arrow's evaluation of a plain filter is that of its twin, row by row."""

import random
from decimal import Decimal

import pyarrow as pa

from strata.expr.nodes import Expr
from strata.plain.clock import settled
from strata.plain.parse import UnknownColumn, plain_or_none
from strata.plain.rows import accepts, filter_columns
from strata.plain.types import comparable_type
from tests.support.plain_filters import RELATION, TYPES, drawn
from tests.twins.plain import PARTS, judged

ROWS = 60
_ARROW = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(3,3)": pa.decimal128(3, 3),
    "decimal(38,10)": pa.decimal128(38, 10),
    "decimal(20,0)": pa.decimal128(20, 0),
}
_WHOLE = (0, 1, -1, 5, 7, 99, 127, -128, 65, 16040, 15706, 11016)
_DAYS = (-719_162, 2_932_896, -5_000_000, 1_000_000_000, -(2**31), 2**31 - 1)
_MOMENTS = (
    -62_135_596_800_000_000,
    253_402_300_799_999_999,
    -2_208_988_800_000_001,
    0,
    16040 * 86_400_000_000,
    1_385_901_000_500_000,
    1_385_901_000_123_456,
    -1,
)
_FLOATS = (0.0, -0.0, 1.5, -1.5, 1000.0, 0.1, float("nan"), float("inf"), -float("inf"), 1e-9)
_TEXTS = (
    "",
    "a",
    "A",
    "k1",
    "ab",
    "b",
    "a\nb",
    "xay",
    "é",
    "aé",
    "a%",
    "a_b",
    "acb",
    "%",
    "_",
    "𝄞",
    "﹟",
    "K1",
    "\u212a1",  # the sign of Kelvin: a small k, as a K is
    "\u0131\u017f",  # a dotless i and a long s: capital I and S
    "\u0130",
    "ß",
    "ﬁ",
    "AB",
)


def _value(draw: random.Random, kind: str) -> object:
    if draw.random() < 0.15:
        return None
    if kind.startswith("decimal"):
        digits = 0 if kind == "decimal(20,0)" else int(kind[-2] if kind != "decimal(38,10)" else 10)
        top = 999 if kind == "decimal(3,3)" else 10_000
        return Decimal(draw.choice((0, 150, -150, 5, 999, draw.randint(-top, top)))).scaleb(-digits)
    match kind:
        case "double" | "float":
            return draw.choice(_FLOATS)
        case "string":
            return draw.choice(_TEXTS)
        case "boolean":
            return draw.random() < 0.5
        case "timestamp" | "timestamp_ntz":
            return draw.choice(_MOMENTS)
    if kind == "date" and draw.random() < 0.4:
        return draw.choice(_DAYS) if draw.random() < 0.5 else draw.randint(-800_000, 800_000)
    return draw.choice(_WHOLE)


def _batch(draw: random.Random) -> tuple[pa.RecordBatch, list[dict[str, object]]]:
    """Return rows as Arrow has them, and as plain values: days and microseconds as integers."""
    kinds = {
        c.name: kind for c in RELATION.columns if (kind := comparable_type(c.type)) is not None
    }
    rows = [{name: _value(draw, kind) for name, kind in kinds.items()} for _ in range(ROWS)]
    arrays = []
    for name, kind in kinds.items():
        values = [row[name] for row in rows]
        if kind == "float":
            values = pa.array(values, pa.float32()).to_pylist()
            for row, value in zip(rows, values, strict=True):
                row[name] = value
        stored = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}
        arrays.append(pa.array(values, stored.get(kind, _ARROW[kind])).cast(_ARROW[kind]))
    return pa.RecordBatch.from_arrays(arrays, names=list(kinds)), rows


def _functions(expr: Expr) -> set[str]:
    args = getattr(expr, "args", ())
    return {getattr(expr, "function", "column"), *(f for arg in args for f in _functions(arg))}


def test_rows_are_accepted_as_the_twin_accepts_them() -> None:
    draw = random.Random(11)
    tried: set[str] = set()
    columns: set[str] = set()
    plain = accepted = 0
    while plain < 1200:
        where = drawn(draw)
        try:
            filter = plain_or_none(RELATION, where, 0)
        except UnknownColumn:
            continue
        if filter is None:
            continue
        plain += 1
        batch, rows = _batch(draw)
        expr = settled(filter)
        wanted = [judged(row, expr) is True for row in rows]
        assert accepts(batch, expr).to_pylist() == wanted, where
        tried |= _functions(filter.expr)
        columns |= {column.name for column in filter_columns(filter.expr)}
        accepted += any(wanted) and not all(wanted)
    assert accepted > plain / 4
    assert tried == {
        "and", "or", "not", "equal_to", "equal_null_safe", "greater_than", "greater_than_or_equal",
        "less_than", "less_than_or_equal", "in", "like", "is_null", "is_not_null", "cast", "column",
        "coalesce", "remainder", "length", "is_nan", "starts_with", "ends_with", "contains",
        *PARTS, "current_timestamp", "current_date", "timestamp_add_interval", "date_add",
        "date_sub", "lower", "upper",
    }  # fmt: skip
    assert columns == set(TYPES) - {"bin", "r", "l", "nn"}  # Spark sees bytes and structs


def test_a_negative_zero_is_listed_as_zero() -> None:
    batch = pa.record_batch({"x": pa.array([-0.0, 0.0, 1.0, None])})
    for listed in ("0.0, 1.5", "-0.0, 2.5"):
        inside = plain_or_none(RELATION, f"x in ({listed})")
        outside = plain_or_none(RELATION, f"x not in ({listed})")
        assert inside is not None
        assert outside is not None
        assert accepts(batch, inside.expr).to_pylist() == [True, True, False, False]
        assert accepts(batch, outside.expr).to_pylist() == [False, False, True, False]
