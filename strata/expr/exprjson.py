"""Convert typed expressions and filters to JSON text and back, for places without a JVM.

A node is a list that begins with its kind. Values that JSON lacks are objects with one key:
{"decimal": "1.50"}, {"bytes": "0aff"}, {"float": "nan"}.
"""

import json
import math
from decimal import Decimal
from typing import Any

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal, Opaque


def dump_filter(filter: Filter) -> str:
    """Return the text that `load_filter` reads back."""
    document = {
        "expr": _dump(filter.expr),
        "sql": filter.sql,
        "now": [filter.now_low, filter.now_high],
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def load_filter(text: str) -> Filter:
    """Return the filter in `text`.

    Raises: InvalidRequest for anything that `dump_filter` has not written.
    """
    try:
        document = json.loads(text)
        low, high = document["now"]
        return Filter(_load(document["expr"]), str(document["sql"]), int(low), int(high))
    except (ValueError, KeyError, TypeError, IndexError, ArithmeticError, RecursionError) as error:
        raise InvalidRequest(
            "not an analysed filter", value=text[:80], cure="make it with strata.spark.where_option"
        ) from error


def _dump(expr: Expr) -> list[Any]:
    match expr:
        case Column():
            return ["column", expr.id, expr.name, expr.type, expr.nullable]
        case Literal():
            return ["literal", _dump_value(expr.value), expr.type]
        case Call():
            options = [list(option) for option in expr.options]
            return ["call", expr.function, [_dump(a) for a in expr.args], expr.type, options]
        case Opaque():
            return ["opaque", expr.reason, expr.type]


def _load(node: list[Any]) -> Expr:
    match node:
        case ["column", int(number), str(name), str(kind), bool(nullable)]:
            return Column(number, name, kind, nullable)
        case ["literal", value, str(kind)]:
            return Literal(_load_value(value), kind)
        case ["call", str(function), list(args), str(kind), list(options)]:
            pairs = tuple((str(name), str(value)) for name, value in options)
            return Call(function, tuple(_load(a) for a in args), kind, pairs)
        case ["opaque", str(reason), str(kind)]:
            return Opaque(reason, kind)
        case _:
            raise ValueError(node)


def _dump_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes | bytearray):
        return {"bytes": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(type(value))


def _load_value(value: Any) -> Any:
    match value:
        case {"decimal": str(text)}:
            return Decimal(text)
        case {"bytes": str(text)}:
            return bytes.fromhex(text)
        case {"float": str(text)}:
            return float(text)
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise ValueError(value)
