"""Understand a filter of Polars, as `polars.io.plugins.register_io_source` hands it to a source.

It is read from the JSON of the expression. That form may change between releases: a node that is
not known by name is not understood, and Polars filters the rows anyway.
"""

import json
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from strata.plain.conditions import (
    MIRRORED,
    Among,
    And,
    Compare,
    Condition,
    Day,
    Flag,
    IsNan,
    IsNull,
    Moment,
    Not,
    NotUnderstood,
    Or,
    StartsWith,
    Value,
)
from strata.plain.of_arrow import among

if TYPE_CHECKING:
    import polars as pl

_WIDE: Final = Context(prec=76)
_COMPARISONS: Final = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_LOGIC: Final = {"And": "and", "LogicalAnd": "and", "Or": "or", "LogicalOr": "or"}
_CLOSED: Final = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}
_WHOLE: Final = frozenset(f"{sign}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64))
_SHAPES: Final = (LookupError, TypeError, ValueError, AttributeError)


def polars_condition(predicate: "pl.Expr") -> Condition:
    """Return what is understood of a filter."""
    try:
        return _condition(json.loads(predicate.meta.serialize(format="json")))
    except (RecursionError, ValueError):
        return NotUnderstood()


def _condition(node: Any) -> Condition:
    """Return a condition; a node of another shape than known is not understood."""
    try:
        ((kind, detail),) = node.items()
        rule = _RULES.get(kind)
        return NotUnderstood() if rule is None else rule(detail)
    except _SHAPES:
        return NotUnderstood()


def _binary(detail: Mapping[str, Any]) -> Condition:
    operator, left, right = detail["op"], detail["left"], detail["right"]
    if operator in _LOGIC:
        sides = (_condition(left), _condition(right))
        return And(sides) if _LOGIC[operator] == "and" else Or(sides)
    if operator in ("EqValidity", "NotEqValidity"):
        same = _compared(left, "=", right)
        if not isinstance(same, Compare):
            return NotUnderstood()
        both = And((same, Not(IsNull(same.column))))
        return both if operator == "EqValidity" else Not(both)
    return _compared(left, _COMPARISONS[operator], right)


def _compared(left: Any, operator: str, right: Any) -> Condition:
    if "Literal" in left:
        left, right, operator = right, left, MIRRORED[operator]
    value = _value(right)
    return NotUnderstood() if value is None else Compare(_column(left), operator, value)


def _function(detail: Mapping[str, Any]) -> Condition:
    first, *rest = detail["input"]
    function = detail["function"]
    if function == {"StringExpr": "StartsWith"}:
        prefix = _value(rest[0])
        return StartsWith(_column(first), prefix) if isinstance(prefix, str) else NotUnderstood()
    name = function["Boolean"]
    if isinstance(name, str):
        return _BOOLEANS[name](first)
    ((name, options),) = name.items()
    if name == "IsBetween":
        pairs = zip(_CLOSED[options["closed"]], rest, strict=True)
        return And(tuple(_compared(first, operator, end) for operator, end in pairs))
    if name == "IsIn":
        return _listed(_column(first), rest[0]["Literal"]["Scalar"])
    return NotUnderstood()


def _listed(column: str, literal: Mapping[str, Any]) -> Condition:
    """Return IN with a list, which Polars writes as a stream of Arrow with one column."""
    with pa.ipc.open_stream(bytes(literal["List"])) as stream:
        found = stream.read_all()
    (values,) = found.columns
    listed = among(column, values.combine_chunks())
    finer = pa.types.is_timestamp(values.type) and values.type.unit != "us"
    return listed if isinstance(listed, Among) and not finer else NotUnderstood()


def _column(node: Any) -> str:
    """Return the name of a column; raises LookupError for anything else, such as a cast."""
    name = node["Column"]
    if not isinstance(name, str):
        raise LookupError(name)
    return name


def _value(node: Any) -> Value | None:
    """Return the exact value of a literal; None for null and for types that are not compared."""
    literal = node["Literal"]
    if "Dyn" in literal:  # of a type that Polars has not chosen yet
        whole: int | None = literal["Dyn"].get("Int")
        return whole
    ((kind, value),) = literal["Scalar"].items()
    if value is None:  # NaN and infinity, too: JSON has neither
        return None
    if kind in _WHOLE:
        return int(value)
    written = _WRITTEN.get(kind)
    return None if written is None else written(value)


def _datetime(value: Any) -> Moment | None:
    number, unit, zone = value
    # With another unit Polars compares in the coarser of the two.
    return Moment(number, zone is not None) if unit == "Microseconds" else None


def _decimal(value: Any) -> Decimal:
    digits, _, scale = value
    return Decimal(digits).scaleb(-scale, context=_WIDE)


_WRITTEN: Final[Mapping[str, Callable[[Any], Value | None]]] = MappingProxyType(
    {
        "Boolean": bool,
        "Float64": float,
        "Float32": lambda value: float(np.float32(value)),
        "String": str,
        "Date": Day,
        "Datetime": _datetime,
        "Decimal": _decimal,
    }
)
_BOOLEANS: Final[Mapping[str, Callable[[Any], Condition]]] = MappingProxyType(
    {
        "Not": lambda node: Not(_condition(node)),
        "IsNull": lambda node: IsNull(_column(node)),
        "IsNotNull": lambda node: Not(IsNull(_column(node))),
        "IsNan": lambda node: IsNan(_column(node)),
        "IsNotNan": lambda node: Not(IsNan(_column(node))),
    }
)
_RULES: Final[Mapping[str, Callable[[Any], Condition]]] = MappingProxyType(
    {
        "BinaryExpr": _binary,
        "Function": _function,
        "Column": lambda name: Flag(_column({"Column": name})),
    }
)
