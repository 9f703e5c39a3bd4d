"""Law: PyArrow, Polars and DuckDB find through a shard what they find in a table of all rows.

The shard skips parts for what it understands of their filters. Each filter is drawn once, as a
recipe, and written for each engine. The twins read every row first and never see a shard.
"""

import datetime as dt
import operator
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.plain.conditions import Condition
from strata.plain.of_arrow import arrow_condition
from strata.plain.of_polars import polars_condition
from strata.plain.rows import accepts
from strata.plain.weaker import weaker
from strata.shard import Shard
from tests.support.shards import let_skip
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

TYPES = {
    "id": "int64",
    "h": "int16",
    "i": "int32",
    "u": "uint32",
    "x": "float64",
    "f": "float32",
    "s": "string",
    "dd": "date",
    "ts": "timestamptz",
    "n": "timestamp",
    "m": "numeric(10,2)",
    "w": "numeric(30,8)",
    "bo": "bool",
    "a b": "string",
}
RELATION = Relation(
    0,
    tuple(Column(i, n, parse_type(t), nullable=i > 1) for i, (n, t) in enumerate(TYPES.items(), 1)),
    (1,),
    (1,),
)
EXAMPLES = tries(12, 1000)
BATCHES, ROWS = 12, 24
NAN, INF = float("nan"), float("inf")
FLOATS = (0.0, -0.0, NAN, INF, -INF, 0.1, 5e-324, 1.7976931348623157e308, 1e15 + 0.5, 16777217.0)
TEXTS = (
    "",
    "it's",
    "k%",
    "k_",
    "\\",
    "é",
    "\U00010000",
    "k\n",
    "$" + "{x}",
    "kk",
    "`",
    "K",
    "\x00",
)
DAYS = (dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31))
TIMES = tuple(
    moment.replace(tzinfo=None)
    for moment in (
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    )
)
EDGES = {
    "id": (-(2**63), 2**63 - 1),
    "h": (-(2**15), 2**15 - 1),
    "i": (-(2**31), 2**31 - 1),
    "u": (0, 2**32 - 1),
    "x": FLOATS,
    "f": (0.0, -0.0, NAN, INF, -INF, 16777216.0, 1e-45),
    "s": TEXTS,
    "a b": TEXTS,
    "dd": DAYS,
    "n": TIMES,
    "ts": tuple(t.replace(tzinfo=dt.UTC) for t in TIMES),
    "m": (Decimal("99999999.99"), Decimal("-99999999.99"), Decimal("0.00")),
    "w": (Decimal("9" * 22 + "." + "9" * 8), Decimal("0.00000001")),
    "bo": (True, False),
}


def value(draw: random.Random, name: str, batch: int) -> Any:
    """Return a value of a column, near those of its batch."""
    near = 10 * batch + draw.randrange(10)
    match name:
        case "x" | "f":
            return near + draw.choice((0.0, 0.5, 0.25))
        case "s" | "a b":
            return f"k{chr(97 + batch)}{draw.randrange(5)}"
        case "dd":
            return dt.date(2013, 1, 1) + dt.timedelta(near)
        case "n" | "ts":
            moment = (
                TIMES[2]
                + dt.timedelta(days=15_706)
                + dt.timedelta(hours=near, microseconds=near % 3)
            )
            return moment if name == "n" else moment.replace(tzinfo=dt.UTC)
        case "m":
            return Decimal(near).scaleb(-2) + batch
        case "w":
            return Decimal(near * 10**6 + 1).scaleb(-8)
        case "bo":
            return draw.random() < (batch % 3) / 2
    return near


def cell(draw: random.Random, name: str, batch: int) -> Any:
    if name != "id" and draw.random() < (0.08, 0, 0.3)[batch % 3]:
        return None
    # Half of the batches have no odd values, so that they can be skipped.
    if name != "id" and batch % 2 and draw.random() < 0.06:
        return draw.choice(EDGES[name])
    return value(draw, name, batch)


@pytest.fixture(scope="module")
def shard() -> Shard:
    draw = random.Random(3)
    stores = memory_stores()
    create(stores, RELATION)
    for batch in range(BATCHES):
        rows = [
            (*(cell(draw, name, batch) for name in TYPES), batch, draw.choice((1, 1, 2)))
            for _ in range(ROWS)
        ]
        append(stores, "shard", batch, batch + 1, [table(RELATION, rows)])
    let_skip(stores, "shard")
    return Shard(stores, "shard")


@pytest.fixture(scope="module")
def rows(shard: Shard) -> pa.Table:
    return pa.Table.from_batches(shard.scan())


Recipe = tuple[Any, ...]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compared(draw: random.Random, name: str) -> Any:
    """Return a value to compare a column with: of its type, or nearly."""
    chance = draw.random()
    if chance < 0.15:
        return draw.choice(EDGES[name])
    found = value(draw, name, draw.randrange(-1, BATCHES + 1) % 26)
    if chance < 0.22 and isinstance(found, int) and not isinstance(found, bool):
        return found + draw.choice((0.5, 300, 2**40, 0.0))
    if chance < 0.22 and isinstance(found, float):
        return draw.choice((int(found), 0.1, found + 1e-9))
    if chance < 0.22 and isinstance(found, Decimal):
        return draw.choice((int(found), Decimal("1.5"), Decimal("0.125"), Decimal("7.500")))
    return found


def drawn(draw: random.Random, depth: int) -> Recipe:
    if depth:
        kind = draw.choice(("and", "and", "or", "not"))
        sides = 1 if kind == "not" else 2
        return (kind, *(drawn(draw, draw.randrange(depth)) for _ in range(sides)))
    name = draw.choice(list(TYPES))
    match draw.choice(("compare",) * 8 + ("in", "in", "null", "nan", "begins", "odd", "between")):
        case "in":
            many = draw.choice((1, 2, 5, 150))
            listed = [compared(draw, name) for _ in range(many)]
            same = [v for v in listed if type(v) is type(listed[0])]
            return ("in", name, same, draw.random() < 0.2)
        case "null":
            return ("null", name)
        case "nan":
            return ("nan", draw.choice(("x", "f")))
        case "begins":
            prefix = draw.choice((*TEXTS, f"k{chr(97 + draw.randrange(BATCHES))}", "k"))
            return ("begins", draw.choice(("s", "a b")), prefix)
        case "odd":
            return ("odd", draw.choice(("id", "i", "x")), draw.randrange(100))
        case "between":
            return ("between", name, value(draw, name, 2), value(draw, name, draw.randrange(2, 9)))
    if name == "bo" and draw.random() < 0.5:
        return ("flag", "bo")
    return (
        "compare",
        name,
        draw.choice(list(OPERATORS)),
        compared(draw, name),
        draw.random() < 0.2,
    )


def in_arrow(recipe: Recipe) -> pc.Expression:
    kind, *rest = recipe
    if kind in ("and", "or", "not"):
        sides = [in_arrow(side) for side in rest]
        return (
            ~sides[0]
            if kind == "not"
            else (sides[0] & sides[1] if kind == "and" else sides[0] | sides[1])
        )
    field = pc.field(rest[0])
    match kind:
        case "compare":
            _, op, constant, mirrored = rest
            other = pc.scalar(constant)
            return OPERATORS[op](other, field) if mirrored else OPERATORS[op](field, other)
        case "in":
            return field.isin(pa.array([*rest[1], None] if rest[2] else rest[1]))
        case "null":
            return field.is_null(nan_is_null=rest[0] in ("x", "f"))
        case "nan":
            return field.is_nan()
        case "begins":
            return pc.starts_with(field, rest[1])
        case "odd":
            return pc.add(field, 1) > rest[1]
        case "between":
            return (field >= rest[1]) & (field <= rest[2])
    return field


def in_polars(recipe: Recipe) -> pl.Expr:
    kind, *rest = recipe
    if kind in ("and", "or", "not"):
        sides = [in_polars(side) for side in rest]
        return (
            ~sides[0]
            if kind == "not"
            else (sides[0] & sides[1] if kind == "and" else sides[0] | sides[1])
        )
    column = pl.col(rest[0])
    match kind:
        case "compare":
            _, op, constant, mirrored = rest
            if mirrored and op in ("=", "<>"):
                return column.eq_missing(constant) if op == "=" else column.ne_missing(constant)
            return OPERATORS[op](column, constant)
        case "in":
            return column.is_in([*rest[1], None] if rest[2] else rest[1])
        case "null":
            return column.is_null()
        case "nan":
            return column.is_nan()
        case "begins":
            return column.str.starts_with(rest[1])
        case "odd":
            return column + 1 > rest[1]
        case "between":
            return column.is_between(rest[1], rest[2], closed="left")
    return column


def in_sql(recipe: Recipe) -> str:
    kind, *rest = recipe
    if kind in ("and", "or", "not"):
        sides = [f"({in_sql(side)})" for side in rest]
        return f"not {sides[0]}" if kind == "not" else f" {kind} ".join(sides)
    name = '"' + rest[0] + '"'
    match kind:
        case "compare":
            _, op, constant, mirrored = rest
            other = literal(constant)
            if mirrored and op in ("=", "<>"):
                return f"{name} is {'not' if op == '=' else ''} distinct from {other}"
            return f"{name} {op} {other}"
        case "in":
            return f"{name} in ({', '.join(map(literal, rest[1]))}{', null' if rest[2] else ''})"
        case "null":
            return f"{name} is null"
        case "nan":
            return f"isnan({name})"
        case "begins":
            return f"starts_with({name}, {literal(rest[1])})"
        case "odd":
            return f"{name} + 1 > {rest[1]}"
        case "between":
            return f"{name} between {literal(rest[1])} and {literal(rest[2])}"
    return name


def literal(constant: Any) -> str:
    match constant:
        case bool() | int():
            return str(constant)
        case float():
            return f"'{constant!r}'::double"
        case Decimal():
            return f"{constant:f}"
        case str():
            return "'" + constant.replace("'", "''") + "'" if "\x00" not in constant else "chr(0)"
        case dt.datetime():
            return (
                f"{'timestamptz' if constant.tzinfo else 'timestamp'} '{constant.isoformat(' ')}'"
            )
    return f"date '{constant.isoformat()}'"


def told(rows: pa.Table) -> Counter:
    """Return how often each row occurs; NaN equals itself, and -0.0 is itself."""
    return Counter(zip(*(map(repr, column.to_pylist()) for column in rows.columns), strict=True))


class Arrow:
    """PyArrow over its own dataset in memory, and over the shard's."""

    def __init__(self, shard: Shard, rows: pa.Table) -> None:
        self.through, self.twin = shard.dataset(), ds.dataset(rows)

    def filtered(self, recipe: Recipe, columns: list[str]) -> tuple[pa.Table, pa.Table]:
        wanted = in_arrow(recipe)
        found = self.through.to_table(filter=wanted, columns=columns)
        return found, self.twin.to_table(filter=wanted, columns=columns)

    def understood(self, recipe: Recipe) -> Condition:
        return arrow_condition(in_arrow(recipe))


class Polars:
    def __init__(self, shard: Shard, rows: pa.Table) -> None:
        self.through, self.twin = shard.polars(), pl.DataFrame(rows).lazy()
        self.seen: list[Condition] = []

    def filtered(self, recipe: Recipe, columns: list[str]) -> tuple[pa.Table, pa.Table]:
        wanted = in_polars(recipe)
        plans = [frame.filter(wanted).select(columns) for frame in (self.through, self.twin)]
        return plans[0].collect().to_arrow(), plans[1].collect().to_arrow()

    def understood(self, recipe: Recipe) -> Condition:
        return polars_condition(in_polars(recipe))


class Duck:
    def __init__(self, shard: Shard, rows: pa.Table) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("set timezone = 'UTC'")
        self.through = shard.duckdb(self.connection)
        self.connection.register("all_rows", rows)
        self.connection.execute("create table twin as select * from all_rows")

    def filtered(self, recipe: Recipe, columns: list[str]) -> tuple[pa.Table, pa.Table]:
        wanted, names = in_sql(recipe), ", ".join(f'"{name}"' for name in columns)
        found = self.through.filter(wanted).project(names).to_arrow_table()
        twin = self.connection.table("twin").filter(wanted).project(names).to_arrow_table()
        return found, twin


FAULTS = (pa.ArrowException, pl.exceptions.PolarsError, duckdb.Error, TypeError, ValueError)


@pytest.fixture
def skipped(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Note of each plan how many parts it fetches, and how many it skips."""
    plans: list[tuple[int, int]] = []

    def noted(_: object, __: object, plan: Any, *___: object) -> None:
        plans.append((plan.parts_fetched, plan.parts_skipped))

    monkeypatch.setattr("strata.shard.record", noted)
    return plans


@pytest.mark.parametrize("engine", [Arrow, Polars, Duck])
def test_a_filter_finds_what_it_finds_in_all_rows(
    engine: type, shard: Shard, rows: pa.Table, skipped: list[tuple[int, int]]
) -> None:
    opened = engine(shard, rows)
    draw = random.Random(11)
    compared = hits = 0
    for _ in range(EXAMPLES):
        recipe = drawn(draw, draw.choice((0, 0, 1, 2)))
        columns = draw.sample([*TYPES, "t", "d"], draw.randrange(1, 5))
        try:
            found, wanted = opened.filtered(recipe, columns)
        except FAULTS:
            continue
        assert told(found) == told(wanted), recipe
        assert found.column_names == columns
        compared += 1
        hits += 0 < wanted.num_rows < rows.num_rows
    assert compared > 0.7 * EXAMPLES
    assert hits > 0.4 * EXAMPLES
    fetched, left = (sum(counts) for counts in zip(*skipped, strict=True))
    assert left > (fetched + left) / 5, (fetched, left)


@pytest.mark.parametrize("engine", [Arrow, Polars])
def test_what_is_understood_is_true_of_each_row_that_an_engine_accepts(
    engine: type, shard: Shard, rows: pa.Table
) -> None:
    opened = engine(shard, rows)
    (batch,) = rows.combine_chunks().to_batches()
    draw = random.Random(12)
    understood = 0
    for _ in range(4 * EXAMPLES):
        recipe = drawn(draw, draw.choice((0, 0, 1, 2)))
        try:
            filter = weaker(RELATION, opened.understood(recipe), 0)
            if filter is None:
                continue
            accepted = rows.filter(accepts(batch, filter.expr))
            wanted = accepted_by(engine, rows, recipe)
        except FAULTS:
            continue
        understood += 1
        assert not told(wanted) - told(accepted), (recipe, filter.sql)
    assert understood > 2 * EXAMPLES


def accepted_by(engine: type, rows: pa.Table, recipe: Recipe) -> pa.Table:
    if engine is Arrow:
        return ds.dataset(rows).to_table(filter=in_arrow(recipe))
    found = pl.DataFrame(rows).with_row_index("number").filter(in_polars(recipe))
    return rows.take(pa.array(found["number"].to_list(), pa.int64()))
