"""Random parts whose columns go in pairs, with how the two differ: for `tools/certify_pairs.py`."""

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from strata.decide.differences import PairInterpreter
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context
from strata.expr.nodes import Expr
from strata.expr.spec import Spec
from strata.format.columns import child, updates_schema
from strata.model.schema import Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.stats import collect, concat
from strata.stats.pairs import PairGathering, wanted_pairs
from tests.spark.escapes import NOW
from tests.spark.ranges import RELATION, ROWS_A_PART, Parts, random_parts

PAIRS = (
    ("dec", "dec2"),
    ("i", "i2"),
    ("l", "l2"),
    ("f", "f2"),
    ("d", "d2"),
    ("day", "day2"),
    ("ts", "ts2"),
    ("tn", "tn2"),
)
_SIGNS = ("=", "<", "<=", ">", ">=")
_UNITS = {"i": 1, "l": 1, "f": 0.5, "d": 0.5, "day": 1, "ts": 700_000, "tn": 700_000}
_NAMES = tuple(name for pair in PAIRS for name in pair)
# Only decimals of one scale go in pairs, so the second one is another than that of RELATION
_PAIRED = Relation(
    0,
    tuple(
        replace(c, type=parse_type("numeric(12,2)")) if c.name == "dec2" else c
        for c in RELATION.columns
    ),
    RELATION.key,
    RELATION.order,
)
_SOME = Relation(0, tuple(c for c in _PAIRED.columns if c.name in _NAMES), (), ())


def paired_parts(seed: int, count: int) -> Parts:
    """Return parts of rows whose columns differ by little in most parts, and their statistics."""
    rng, parts = random.Random(seed), random_parts(seed, count)
    rows = parts.rows
    for left, right in PAIRS:
        place = rows.column_names.index(right)
        near = _near_decimals if left == "dec" else _near
        made = near(rng, rows[left].combine_chunks(), rows[right].combine_chunks(), left)
        rows = rows.set_column(place, right, made)
    stats = [_statistics(rows.slice(n * ROWS_A_PART, ROWS_A_PART)) for n in range(count)]
    return Parts(rows, concat(stats, [ROWS_A_PART] * count), _PAIRED)


def _near(rng: random.Random, left: pa.Array, right: pa.Array, name: str) -> pa.Array:
    """Return values near those of another column in most parts; a type's end stays in it."""
    plain = pa.float64() if name in ("f", "d") else pa.int64()
    raw = pa.int32() if name == "day" else pa.int64()
    flat = [a if name in ("f", "d") else a.cast(raw).cast(pa.int64()) for a in (left, right)]
    near, far = (a.cast(plain).to_pylist() for a in flat)
    bits = 31 if name in ("i", "day") else 63
    found: list[object] = []
    for start in range(0, len(near), ROWS_A_PART):
        least, span = rng.choice((-3, 0, 0, 1)), rng.choice((0, 1, 5))
        close = rng.random() < 0.7
        for a, b in zip(near[start:][:ROWS_A_PART], far[start:][:ROWS_A_PART], strict=True):
            if not close or a is None:
                found.append(b)
                continue
            moved = a + _UNITS[name] * (least + rng.randint(0, span))
            is_whole = plain == pa.int64()
            found.append(min(max(moved, -(2**bits)), 2**bits - 1) if is_whole else moved)
    if name in ("f", "d"):
        missing = np.array([one is None for one in found])
        numbers = np.array([0.0 if one is None else one for one in found])
        return pa.array(numbers, pa.float64(), mask=missing).cast(right.type, safe=False)
    return pa.array(found, pa.int64()).cast(raw).cast(right.type)


def _near_decimals(rng: random.Random, left: pa.Array, right: pa.Array, name: str) -> pa.Array:
    """Return decimals of two digits near those of another column in most parts."""
    far = right.cast(pa.decimal128(12, 4)).to_pylist()
    found: list[Decimal | None] = []
    for start in range(0, len(left), ROWS_A_PART):
        least, span = rng.choice((-3, 0, 0, 1)), rng.choice((0, 1, 500))
        close = rng.random() < 0.7
        for a, b in zip(left[start : start + ROWS_A_PART].to_pylist(), far[start:], strict=False):
            if close and a is not None:
                found.append(a + Decimal(least + rng.randint(0, span)).scaleb(-2))
            else:
                found.append(None if b is None else b.quantize(Decimal("0.01")))
    return pa.array(found, pa.decimal128(12, 2))


def _statistics(rows: pa.Table) -> pa.RecordBatch:
    zeros = pa.array([0] * rows.num_rows, pa.int64())
    columns = [rows[c.name].combine_chunks() for c in _SOME.columns]
    table = pa.Table.from_arrays([*columns, zeros, zeros], schema=updates_schema(_SOME))
    assert table.column_names[0] == child(_SOME.columns[0].id)
    pairs = PairGathering(wanted_pairs(_SOME, StatsSpec(pairs=PAIRS)))
    pairs.add(table)
    return pairs.beside(collect(table, _SOME))


def abstract_pairs(expr: Expr, parts: Parts) -> Spec:
    """Return what the interpreter that knows pairs says about each part."""
    view = PartSpecs(parts.stats, _PAIRED, ()).at(slice(0, parts.stats.num_rows))
    return PairInterpreter(Context(*NOW), lenient=False).evaluate(expr, view)


def pair_signatures() -> Iterator[str]:
    """Yield expressions of two columns that are narrowed by how these differ."""
    for left, right in (*PAIRS, *(pair[::-1] for pair in PAIRS)):
        yield from (f"{left} {sign} {right}" for sign in _SIGNS)
    for a, b in PAIRS[:5]:
        for minus in (f"{a} - {b}", f"{b} - {a}", f"try_subtract({a}, {b})"):
            yield minus
            yield f"{minus} > 1"
        yield from (f"{a} / {b}", f"try_divide({b}, {a})", f"({a} - {b}) / {b}")
    yield from (f"dec - dec2 {sign} 0.01BD" for sign in _SIGNS)
    yield from (f"cast(dec as decimal(14,2)) {sign} dec2" for sign in _SIGNS)
    yield from ("cast(dec as decimal(20,4)) - dec2", "cast(dec - dec2 as decimal(11,1))")
    for a, b in (("i", "i2"), ("l", "l2")):
        yield from (f"{a} + 3 {sign} {b}" for sign in _SIGNS)
        yield f"{a} >= {b} - 2147483647"
    yield from ("datediff(day, day2)", "datediff(day2, day) > 1", "day - day2 < interval '1' day")
    yield from ("date_add(day, 2) <= day2", "date_sub(day2, 2147483647) < day")
    for a, b in PAIRS[6:]:
        yield from (f"{a} - {b} {sign} interval '1' second" for sign in _SIGNS)
        yield from (f"{a} + interval '1' second {sign} {b}" for sign in _SIGNS)
        yield from (f"cast({a} as date) {sign} cast({b} as date)" for sign in _SIGNS)
        for unit in ("microsecond", "second", "minute", "hour", "day", "week", "month"):
            yield f"timestampdiff({unit}, {a}, {b})"
            yield f"timestampdiff({unit}, {b}, {a}) > 0"
    for name in ("unix_seconds", "unix_millis", "unix_micros", "unix_timestamp"):
        yield f"{name}(ts) - {name}(ts2)"
        yield f"{name}(ts2) > {name}(ts)"
