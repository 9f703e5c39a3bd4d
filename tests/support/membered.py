"""A shard whose columns are not sorted, with sets and bloom filters, and filters that ask it."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.nodes import Column as Field
from strata.format.columns import updates_schema
from strata.format.values.view import from_view, view_type
from strata.model.spec import ShardSpec, parse_spec
from strata.store.open import Stores
from tests.support.stored import append

COLUMNS: Final = {
    "id": "int64", "name": "string", "few": "string", "tags": "list<string>",
    "attrs": "map<int64>", "doc": "jsonb", "price": "numeric(12,2)", "x": "float64", "u": "uuid",
    "n": "uint64", "place": "record<lat: int32, at: string>", "day": "date", "short": "int16",
}  # fmt: skip
SPARK: Final = {
    "id": "long",
    "name": "string",
    "few": "string",
    "tags": "array<string>",
    "attrs": "map<string,bigint>",
    "doc": "string",
    "price": "decimal(12,2)",
    "x": "double",
    "u": "string",
    "n": "decimal(20,0)",
    "place": "struct<lat:int,at:string>",
    "day": "date",
    "short": "short",
}
PLACES: Final = (
    "name", "tags", "attrs", "doc.id", "doc.user.n", "price", "x", "u", "n", "place.lat", "day",
    "short",
)  # fmt: skip
FIELDS: Final = {name: Field(number, name, SPARK[name]) for number, name in enumerate(COLUMNS, 1)}
Row = dict[str, Any]  # values as readers see them


def spec(**stats: Any) -> ShardSpec:
    """Return the declaration of the shard; parts of about 400 rows."""
    return parse_spec(
        {
            "name": "shard",
            "columns": [{"name": n, "type": t, "nullable": n != "id"} for n, t in COLUMNS.items()],
            "key": ["id"],
            "part_bytes": 1 << 20,
            "row_group_bytes": 1 << 16,
            "stats": {"budget_bytes": 1 << 16, **stats},
        }
    )


def rows(part: int, many: int, seed: int = 7) -> list[Row]:
    """Return the rows of one part: values are anywhere, so that bounds say nothing of equality."""
    draw = random.Random(seed * 1000 + part)

    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.05 else value

    return [
        {
            "id": 10 * many * part + i,
            "name": maybe(f"n{draw.randrange(10**6):06}"),
            "few": maybe(f"kind{draw.choice([part, part + 3, 99])}"),
            "tags": maybe([f"t{draw.randrange(10**5)}" for _ in range(draw.randrange(3))]),
            "attrs": maybe([(f"k{draw.choice([part, 50])}", draw.randrange(10**6))]),
            "doc": maybe(json.dumps(document(draw), sort_keys=True, separators=(",", ":"))),
            "price": maybe(Decimal(draw.randrange(10**7)) / 100),
            "x": maybe(draw.choice([0.0, float("nan"), draw.randrange(10**6) / 8])),
            "u": maybe(str(UUID(int=draw.getrandbits(128)))),
            "n": maybe(Decimal(draw.getrandbits(64))),
            "place": maybe({"lat": maybe(draw.randrange(10**5)), "at": "here"}),
            "day": maybe(draw.randrange(40_000)),
            "short": maybe(draw.randrange(-(2**15), 2**15)),
        }
        for i in range(many)
    ]


def document(draw: random.Random) -> Row:
    """Return a JSON value with ids that are texts or numbers, and some of other kinds."""
    number: Any = draw.randrange(10**6)
    found: Row = {"id": f"d{draw.randrange(10**6)}", "user": {"n": number}}
    if draw.random() < 0.1:
        found["id"] = draw.choice([True, None, [1], {"a": 1}, "true", "é"])
    return found


def updates(some: list[Row], declared: ShardSpec) -> pa.Table:
    """Return rows as updates that add each once."""
    relation = declared.relation()
    columns = {}
    for column in relation.columns:
        seen = pa.array([row[column.name] for row in some], view_type(column.type))
        columns[str(column.id)] = from_view(seen, column.type)
    return pa.table(
        {**columns, "t": [0] * len(some), "d": [1] * len(some)}, schema=updates_schema(relation)
    )


def fill(stores: Stores, declared: ShardSpec, parts: int, many: int, layout: str = "") -> None:
    """Append one batch of several runs, each one part."""
    tables = [updates(rows(part, many), declared) for part in range(parts)]
    append(stores, "shard", 0, 1, tables, layout)


@dataclass(frozen=True)
class Lookup:
    """A filter, and the place and value that it looks for."""

    place: str
    value: Any  # as readers see it
    filter: Filter


def lookups(place: str, value: Any) -> Iterator[Lookup]:
    """Yield filters that are true where a place holds a value: `=`, `<=>`, `IN`, and its own."""
    column = FIELDS[place.partition(".")[0]]
    accessed, kind = access(place, column)
    literal = Literal(value, kind)
    if column.name == "tags":
        yield _lookup(place, value, Call("array_contains", (column, literal), "boolean"))
        return
    if column.name == "attrs":
        found = Call("get_map_value", (column, literal), "long")
        yield _lookup(place, value, Call("is_not_null", (found,), "boolean"))
        return
    yield _lookup(place, value, Call("equal_to", (accessed, literal), "boolean"))
    yield _lookup(place, value, Call("equal_null_safe", (literal, accessed), "boolean"))
    yield _lookup(place, value, Call("in", (accessed, literal, literal), "boolean"))


def _lookup(place: str, value: Any, expr: Expr) -> Lookup:
    return Lookup(place, value, Filter(expr, f"{expr.function} {place} {value!r}", 0, 0))  # type: ignore[union-attr]


def access(place: str, column: Field) -> tuple[Expr, str]:
    """Return the expression that reads a place, and its type."""
    if column.name == "doc":
        path = Literal("$." + place.partition(".")[2], "string")
        return Call("get_json_object", (column, path), "string"), "string"
    if column.name == "place":
        return Call("get_struct_field", (column, Literal(0, "integer")), "integer"), "integer"
    return column, "string" if column.name in ("tags", "attrs") else column.type


def held(row: Row, place: str) -> set[Any]:
    """Return the values that a row has at a place, as a filter sees them."""
    value = row[place.partition(".")[0]]
    if value is None:
        return set()
    match place:
        case "tags":
            return set(value)
        case "attrs":
            return {key for key, _ in value}
        case "place.lat":
            return {value["lat"]} - {None}
        case "doc.id" | "doc.user.n":
            found = json.loads(value)
            for key in place.split(".")[1:]:
                found = found.get(key)
            return set() if found is None else {_printed(found)}
    return set() if isinstance(value, float) and math.isnan(value) else {value}


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
