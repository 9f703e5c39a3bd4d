"""Hypothesis strategies: typed expressions, and parts with rows inside ranges.

A part is a range of each column and rows that lie in it: the ends, points in between, null and
NaN apart. Ranges may be looser than the rows or open on a side.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.sparktype import spark_type
from strata.expr.spec import YES, Bools, Numbers, Spec, Texts, everything
from tests.twins.concrete import Value, order

DAY_US = 86_400_000_000
_YEAR_1900, _YEAR_2100 = -25_567, 47_482  # days
TYPES = ("boolean", "integer", "long", "double", "date", "timestamp", "string")
COLUMNS = tuple(Column(i, f"{kind}_{i}", kind) for i, kind in enumerate([*TYPES, *TYPES], 1))
MODES = st.sampled_from(("ansi", "try", "legacy"))
SMALL = st.integers(-5, 5)


def values(kind: str) -> st.SearchStrategy[Value]:
    """Return values of a type, edges often; no null."""
    match kind:
        case "boolean":
            return st.booleans()
        case "integer":
            edges = st.sampled_from((-(2**31), -(2**31) + 1, 2**31 - 1, 46341, -46341))
            return SMALL | edges | st.integers(-(2**31), 2**31 - 1)
        case "long":
            edges = st.sampled_from((-(2**63), -(2**63) + 1, 2**63 - 1, 3037000500, 2**53 + 1))
            return SMALL | edges | st.integers(-(2**63), 2**63 - 1)
        case "double":
            edges = st.sampled_from((0.0, 0.5, 1e308, -1e308, 2.0**31, 2.0**63, -(2.0**63)))
            return SMALL.map(float) | edges | st.floats(allow_nan=False)
        case "date":
            return st.integers(_YEAR_1900, _YEAR_2100)
        case "timestamp":
            exact = st.integers(_YEAR_1900, _YEAR_2100).map(lambda day: day * DAY_US)
            return exact | st.integers(_YEAR_1900 * DAY_US, _YEAR_2100 * DAY_US)
        case _:
            return st.text("ab%_é\uffff", max_size=4)


@dataclass(frozen=True)
class Part:
    """The range and the rows of every column, by column id."""

    specs: dict[int, Spec]  # of one element
    rows: list[dict[int, Value]]


@st.composite
def parts(draw: st.DrawFn, *exprs: Expr) -> Part:
    """Return a part of one to five rows, with the columns that expressions read."""
    count = draw(st.integers(1, 5))
    specs, columns = {}, {}
    for column in sorted({c for expr in exprs for c in read_by(expr)}, key=lambda c: c.id):
        specs[column.id], columns[column.id] = draw(_column(column.type, count))
    return Part(specs, [{i: columns[i][row] for i in columns} for row in range(count)])


def read_by(expr: Expr) -> set[Column]:
    """Return the columns in an expression."""
    if isinstance(expr, Call):
        return {column for arg in expr.args for column in read_by(arg)}
    return {expr} if isinstance(expr, Column) else set()


@st.composite
def _column(draw: st.DrawFn, kind: str, count: int) -> tuple[Spec, list[Value]]:
    ends = sorted((draw(values(kind)), draw(values(kind))), key=order)
    rows = [draw(_between(kind, *ends)) for _ in range(count)]
    null, nan = draw(st.booleans()), kind == "double" and draw(st.booleans())
    if null:
        rows[draw(st.integers(0, count - 1))] = None
    if nan:
        rows[draw(st.integers(0, count - 1))] = float("nan")
    spec = _spec(kind, ends[0], ends[1], open_low=draw(_RARELY), open_high=draw(_RARELY))
    if isinstance(spec, Numbers) and nan:
        spec = Numbers(spec.low, spec.high, spec.empty, YES)
    return Spec(spec, np.array([null])), rows


_RARELY = st.sampled_from((False, False, False, True))


def _between(kind: str, low: Value, high: Value) -> st.SearchStrategy[Value]:
    ends = st.sampled_from((low, high))
    if kind in ("integer", "long", "date", "timestamp"):
        return ends | st.integers(low, high)  # type: ignore[arg-type]
    if kind == "double":
        return ends | st.floats(low, high)  # type: ignore[arg-type]
    return ends


def _spec(
    kind: str, low: Value, high: Value, *, open_low: bool, open_high: bool
) -> Bools | Numbers | Texts:
    full = everything(kind)
    match full:
        case Bools():
            return Bools(np.array([high is True]), np.array([low is False]))
        case Numbers():
            dtype = full.low.dtype
            return Numbers(
                full.low if open_low else np.array([low], dtype),
                full.high if open_high else np.array([high], dtype),
            )
        case _:
            ends = [pa.array([str(end).encode()], pa.binary()) for end in (low, high)]
            return Texts(None if open_low else ends[0], None if open_high else ends[1])


class Enclosed:
    """The environment of one part, as the interpreter asks for it."""

    def __init__(self, part: Part) -> None:
        self.part = part

    def column(self, column: Column) -> Spec:
        """Return the range of a column."""
        return self.part.specs[column.id]


def contains(spec: Spec, kind: str, value: Value) -> bool:
    """Return whether a Spec of one part allows a value or null."""
    if value is None:
        return bool(spec.null[0])
    match spec.values:
        case Bools() as known:
            return bool((known.true if value else known.false)[0])
        case Numbers() as known:
            if isinstance(value, float) and math.isnan(value):
                return bool(known.nan[0])
            return not known.empty[0] and bool(known.low[0] <= value <= known.high[0])
        case Texts() as known:
            ends = [
                None if b is None else (b if isinstance(b, pa.Scalar) else b[0]).as_py()
                for b in (known.low, known.high)
            ]
            data = str(value).encode()
            above = ends[0] is None or ends[0] <= data
            return above and (ends[1] is None or data <= ends[1]) and not known.empty[0]
        case _:
            return spark_type(kind).family == "other"


# Expressions.


@cache  # built once: every type refers to every other one level down
def expressions(kind: str, depth: int = 3) -> st.SearchStrategy[Expr]:
    """Return expressions of a type; at depth 0 a column or a constant."""
    columns = st.sampled_from([c for c in COLUMNS if c.type == kind])
    constants = st.one_of(values(kind), st.none() if depth else values(kind))
    leaves = columns | columns | constants.map(lambda value: Literal(value, kind))
    if depth == 0:
        return leaves
    return st.one_of(leaves, *(_BUILDERS[kind](depth - 1)))


def _call(
    function: str, kind: str, *args: st.SearchStrategy[Expr], modes: bool = False
) -> st.SearchStrategy[Expr]:
    options = MODES.map(lambda mode: (("ansi", mode),)) if modes else st.just(())
    return st.builds(lambda a, o: Call(function, a, kind, o), st.tuples(*args), options)


def _choices(kind: str, depth: int) -> list[st.SearchStrategy[Expr]]:
    same, test = expressions(kind, depth), expressions("boolean", depth)
    return [
        _call("if", kind, test, same, same),
        _call("case_when", kind, test, same, test, same),
        _call("case_when", kind, test, same, same),
        _call("coalesce", kind, same, same),
        _call("greatest", kind, same, same, same),
        _call("least", kind, same, same),
    ]


def _booleans(depth: int) -> list[st.SearchStrategy[Expr]]:
    test = expressions("boolean", depth)
    found = [*_choices("boolean", depth), _call("not", "boolean", test)]
    found += [_call(name, "boolean", test, test, test) for name in ("and", "or")]
    for kind in TYPES:
        same = expressions(kind, depth)
        signs = ("equal_to", "less_than", "less_than_or_equal", "greater_than", "equal_null_safe")
        found += [_call(name, "boolean", same, same) for name in (*signs, "greater_than_or_equal")]
        found += [_call(name, "boolean", same) for name in ("is_null", "is_not_null")]
        found.append(_call("in", "boolean", same, same, same))
    constants = values("integer").map(lambda value: Literal(value, "integer"))
    found.append(_call("in", "boolean", expressions("integer", depth), *[constants] * 9))
    found.append(_call("is_nan", "boolean", expressions("double", depth)))
    text = expressions("string", depth)
    part = values("string").map(lambda value: Literal(value, "string"))
    return [*found, *(_call(name, "boolean", text, part) for name in ("starts_with", "like"))]


def _numbers(kind: str, depth: int) -> list[st.SearchStrategy[Expr]]:
    same = expressions(kind, depth)
    pairs = ("add", "subtract", "multiply", "divide" if kind == "double" else "remainder")
    found = [_call(name, kind, same, same, modes=True) for name in pairs]
    found += [_call(name, kind, same, modes=True) for name in ("unary_minus", "abs")]
    others = [k for k in ("integer", "long", "double") if k != kind]
    found += [_call("cast", kind, expressions(k, depth), modes=True) for k in others]
    return found + _choices(kind, depth)


def _integers(depth: int) -> list[st.SearchStrategy[Expr]]:
    day = expressions("date", depth)
    return [
        *_numbers("integer", depth),
        _call("year", "integer", _plain_dates()),
        _call("month", "integer", _plain_dates()),
        _call("date_diff", "integer", day, day),
    ]


def _plain_dates() -> st.SearchStrategy[Expr]:
    """Return dates that Python's calendar knows: not moved by arithmetic."""
    return expressions("date", 0)


def _dates(depth: int) -> list[st.SearchStrategy[Expr]]:
    few = st.integers(-800, 800).map(lambda value: Literal(value, "integer"))
    return [
        *_choices("date", 0),
        _call("date_add", "date", _plain_dates(), few),
        _call("add_months", "date", _plain_dates(), few),
        _call("cast", "date", expressions("timestamp", 0)),
    ]


def _timestamps(depth: int) -> list[st.SearchStrategy[Expr]]:
    units = st.sampled_from(("year", "MONTH", "week", "day", "hour", "minute"))
    unit = units.map(lambda value: Literal(value, "string"))
    moved = st.integers(-(10**14), 10**14).map(lambda v: Literal(v, "interval day to second"))
    return [
        *_choices("timestamp", 0),
        _call("date_trunc", "timestamp", unit, expressions("timestamp", 0)),
        _call("timestamp_add_interval", "timestamp", expressions("timestamp", 0), moved),
        _call("cast", "timestamp", _plain_dates()),
        st.just(Call("current_timestamp", (), "timestamp")),
    ]


def _strings(depth: int) -> list[st.SearchStrategy[Expr]]:
    text = expressions("string", depth)
    start = st.just(Literal(1, "integer"))
    length = SMALL.map(lambda value: Literal(value, "integer"))
    return [
        *_choices("string", depth),
        _call("substring", "string", text, start, length),
        _call("concat", "string", text, text),
    ]


_BUILDERS = {
    "boolean": _booleans,
    "integer": _integers,
    "long": lambda depth: _numbers("long", depth),
    "double": lambda depth: _numbers("double", depth),
    "date": _dates,
    "timestamp": _timestamps,
    "string": _strings,
}
