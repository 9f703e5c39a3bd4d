"""The small language of the pruning specs: a table of bounds, an expression, the verdicts.

    check(col("n") + 1 > 10, '''
        n        | rows | verdict
        [1, 9]   |      | SKIP
        [1, 10]  |      | KEEP
    ''')

A cell is the statistics of a column in one part: `[low, high]`, with `null` for some nulls
(`[1, 9] null`), `NaN`, `only null`, or `?` for no statistics at all; a bound `…` is unknown.
A column of JSON is written `js$.a.b` and counts `numbers`, `strings`, `missing` and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from strata.decide.decision import decide
from strata.decide.reasons import explain
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.stats.wire import JSON_PATH, column_name, path_name, scalar_type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = "2013-03-31T12:00"
RELATION = Relation(
    0,
    tuple(
        Declared(i, name, parse_type(kind))
        for i, (name, kind) in enumerate(
            {"n": "int32", "m": "int32", "x": "float64", "day": "date", "ts": "timestamptz",
             "name": "string", "flag": "bool", "js": "jsonb"}.items(), 1)
    ),
    (1,),
    (1,),
)  # fmt: skip
_SPARK = {
    "n": "integer",
    "m": "integer",
    "x": "double",
    "day": "date",
    "ts": "timestamp",
    "name": "string",
    "flag": "boolean",
    "js": "string",
}
ROWS = 100


@dataclass(frozen=True, eq=False)
class E:  # noqa: PLW1641 (== builds an expression)
    """An expression with Python's operators."""

    expr: Expr

    def _pair(self, function: str, other: object, kind: str) -> E:
        return call(function, self, constant(other, self.expr.type), kind=kind)

    def __gt__(self, other: object) -> E:
        return self._pair("greater_than", other, "boolean")

    def __ge__(self, other: object) -> E:
        return self._pair("greater_than_or_equal", other, "boolean")

    def __lt__(self, other: object) -> E:
        return self._pair("less_than", other, "boolean")

    def __le__(self, other: object) -> E:
        return self._pair("less_than_or_equal", other, "boolean")

    def __eq__(self, other: object) -> E:  # type: ignore[override]
        return self._pair("equal_to", other, "boolean")

    def __add__(self, other: object) -> E:
        return self._pair("add", other, self.expr.type)

    def __mul__(self, other: object) -> E:
        return self._pair("multiply", other, self.expr.type)

    def __truediv__(self, other: object) -> E:
        return self._pair("divide", other, "double")

    def __mod__(self, other: object) -> E:
        return self._pair("remainder", other, self.expr.type)

    def __and__(self, other: E) -> E:
        return call("and", self, other)

    def __or__(self, other: E) -> E:
        return call("or", self, other)

    def __invert__(self) -> E:
        return call("not", self)

    def cast(self, kind: str, mode: str = "ansi") -> E:
        """Return CAST(self AS kind), or TRY_CAST with mode try."""
        return call("cast", self, kind=kind, ansi=mode)


def col(name: str) -> E:
    """Return a column."""
    return E(Column(RELATION.by_name[name].id, name, _SPARK[name]))


def constant(value: object, kind: str) -> E:
    """Return a constant: dates and times as ISO text."""
    if isinstance(value, E):
        return value
    if kind in ("date", "timestamp") and isinstance(value, str):
        return E(Literal(_physical(value, kind), kind))
    return E(Literal(value, kind))


def call(function: str, *args: E, kind: str = "boolean", **options: str) -> E:
    """Return a call of a registry function."""
    exprs = tuple(arg.expr for arg in args)
    return E(Call(function, exprs, kind, tuple(sorted(options.items()))))


def days(count: int) -> E:
    """Return an interval of days."""
    return E(Literal(count * 86_400_000_000, "interval day to second"))


def path(text: str) -> E:
    """Return get_json_object(js, text)."""
    return call("get_json_object", col("js"), constant(text, "string"), kind="string")


def check(
    expr: E, table: str, quarantine: Sequence[str] = (), span: tuple[str, str] = (NOW, NOW)
) -> None:
    """Assert the verdict of every line of the table; `span`: what the clock may say."""
    lines = [line for line in table.strip().splitlines() if line.strip()]
    header, *cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert header[-1] == "verdict", header
    stats = pa.table({"rows": [ROWS] * len(cells)} | _columns(header[:-1], cells))
    filter = Filter(expr.expr, "", *(_physical(end, "timestamp") for end in span))
    decision = decide(filter, stats, RELATION, quarantine=quarantine)
    found = ["KEEP" if keep else "SKIP" for keep in decision.keep]
    reasons = explain(filter, stats, RELATION, range(len(cells)), quarantine=quarantine)

    for line, verdict, reason in zip(cells, found, reasons, strict=True):
        assert [*line[:-1], verdict] == line, reason
        assert reason.startswith("kept: " if verdict == "KEEP" else "skipped: "), reason


def _columns(names: Sequence[str], cells: Sequence[Sequence[str]]) -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
    for position, name in enumerate(names):
        texts = [line[position] for line in cells]
        if "$" in name:
            found |= _json(name, texts)
        else:
            declared = RELATION.by_name[name]
            kind = scalar_type(declared.type)
            values = [_scalar(text, _SPARK[name]) for text in texts]
            found[column_name(declared.id)] = pa.array(values, kind)
    return found


def _scalar(text: str, kind: str) -> dict[str, Any] | None:
    if text == "?":
        return None
    if text == "only null":
        return {"nulls": ROWS, "nans": 0}
    found: dict[str, Any] = {"nulls": 1 if "null" in text else 0, "nans": int("NaN" in text)}
    if text.startswith("["):
        low, high = text[1 : text.index("]")].split(", ")
        found |= {"low": _bound(low, kind), "high": _bound(high, kind)}
    return found


def _bound(text: str, kind: str) -> object:
    if text == "…":
        return None
    match kind:
        case "integer":
            return int(text)
        case "double":
            return float(text)
        case "boolean":
            return text == "true"
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        case _:
            return text


def _physical(text: str, kind: str) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH
    return moment.days if kind == "date" else moment // timedelta(microseconds=1)


_COUNTS = ("json_nulls", "bools", "trues", "numbers", "strings", "lists", "maps")


def _json(name: str, texts: Sequence[str]) -> dict[str, pa.Array]:
    """Return the statistics of a path and of its ancestors, which are complete maps."""
    keys = tuple(name.split("$.")[1].split("."))
    column_id = RELATION.by_name["js"].id
    found = {column_name(column_id): pa.array([{"nulls": 0}] * len(texts))}
    parent = dict.fromkeys(_COUNTS, 0) | {"present": ROWS, "maps": ROWS, "complete": True}
    for depth in range(len(keys)):
        found[path_name(column_id, keys[:depth])] = pa.array([parent] * len(texts), JSON_PATH)
    if texts != ["absent"] * len(texts):
        values = [_json_path(text) for text in texts]
        found[path_name(column_id, keys)] = pa.array(values, JSON_PATH)
    return found


def _json_path(text: str) -> dict[str, Any] | None:
    if text == "?":
        return None
    if text == "absent":
        return dict.fromkeys(_COUNTS, 0) | {"present": 0, "complete": True}
    counts = {kind: ROWS if kind in text else 0 for kind in _COUNTS}
    found = counts | {"present": ROWS - ("missing" in text), "complete": True}
    if "numbers" in text:
        low, high = text[text.index("[") + 1 : text.index("]")].split(", ")
        found |= {"num_low": float(low), "num_high": float(high)}
    if "strings" in text:
        low, high = text[text.index("[") + 1 : text.index("]")].split(", ")
        found |= {"str_low": low, "str_high": high}
    return found
