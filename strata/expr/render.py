"""Render expressions and ranges as text for people; nothing parses it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from strata.expr.elements import MOST, Elements, Entries, element_type, key_type
from strata.expr.nodes import Call, Column, Expr, Literal, Opaque
from strata.expr.records import field_name
from strata.expr.sparktype import spark_type
from strata.expr.spec import Bools, Json, Numbers, Spec, Texts, occupied

_INFIX: Final[Mapping[str, str]] = MappingProxyType(
    {
        "equal_to": "=",
        "equal_null_safe": "<=>",
        "less_than": "<",
        "less_than_or_equal": "<=",
        "greater_than": ">",
        "greater_than_or_equal": ">=",
        "and": "AND",
        "or": "OR",
        "add": "+",
        "subtract": "-",
        "multiply": "*",
        "divide": "/",
        "remainder": "%",
        "like": "LIKE",
        "timestamp_add_interval": "+",
        "timestamp_add_ym_interval": "+",
    }
)
_TRY: Final = ("", "TRY_")
_LONGEST: Final = 60  # characters of a text shown
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def render(expr: Expr) -> str:
    """Return an expression as text close to SQL."""
    match expr:
        case Column():
            return expr.name
        case Literal():
            return show(expr.value, expr.type)
        case Opaque():
            return f"{{{expr.reason}}}"
        case Call():
            return _call(expr)


def _call(call: Call) -> str:
    args = [render(arg) for arg in call.args]
    if (field := field_name(call)) is not None:
        return f"{args[0]}.{field}"
    if call.function in _INFIX:
        wrapped = [
            f"({text})" if isinstance(arg, Call) and arg.function in _INFIX else text
            for arg, text in zip(call.args, args, strict=True)
        ]
        return f" {_INFIX[call.function]} ".join(wrapped)
    shapes: Mapping[str, Callable[[], str]] = {
        "cast": lambda: f"{_TRY[call.option('ansi') == 'try']}CAST({args[0]} AS {call.type})",
        "not": lambda: f"NOT ({args[0]})",
        "is_null": lambda: f"{args[0]} IS NULL",
        "is_not_null": lambda: f"{args[0]} IS NOT NULL",
        "in": lambda: f"{args[0]} IN ({', '.join(args[1:])})",
        "unary_minus": lambda: f"-({args[0]})",
    }
    shape = shapes.get(call.function)
    return f"{call.function}({', '.join(args)})" if shape is None else shape()


def show(value: object, type_name: str) -> str:
    """Return one value as text: dates and times readable, long texts cut."""
    if value is None:
        return "NULL"
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(value, type_name)
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    return f"'{text}'" if spark_type(type_name).family == "text" else text.lower()


def _number(value: int, type_name: str) -> str:
    kind = spark_type(type_name)
    try:
        if kind.name == "date":
            return (_EPOCH + timedelta(days=value)).date().isoformat()
        if kind.name in ("timestamp", "timestamp_ntz"):
            moment = _EPOCH + timedelta(microseconds=value)
            return moment.isoformat(sep=" ").replace("+00:00", "Z")
        if kind.name.startswith("interval"):
            return _interval(value, months=kind.high < 2**31)
    except OverflowError:
        return str(value)
    if kind.family == "decimal" and kind.scale:
        sign, digits = ("-" if value < 0 else ""), str(abs(value)).rjust(kind.scale + 1, "0")
        return f"{sign}{digits[: -kind.scale]}.{digits[-kind.scale :]}"
    return str(value)


def _interval(value: int, *, months: bool) -> str:
    if months:
        return f"INTERVAL '{value}' MONTH"
    sign, (days, rest) = ("-" if value < 0 else ""), divmod(abs(value), 86_400_000_000)
    clock = f" {timedelta(microseconds=rest)}" if rest else ""
    return f"INTERVAL '{sign}{days}{clock}' DAY{' TO SECOND' if rest else ''}"


def describe(spec: Spec, type_name: str) -> str:
    """Return what an expression may yield in one part, as in `[1, 5] or null`."""
    options = [_values(spec, type_name)] if occupied(spec.values)[0] else []
    options += ["null"] if spec.null[0] else []
    options += ["an error"] if spec.fail[0] else []
    return " or ".join(options) or "nothing"


def _values(spec: Spec, type_name: str) -> str:
    match spec.values:
        case Bools() as values:
            return " or ".join(
                name for name, flag in (("true", values.true), ("false", values.false)) if flag[0]
            )
        case Numbers() as values:
            shown = [] if values.empty[0] else [_range(values, type_name)]
            return " or ".join([*shown, *(["NaN"] if values.nan[0] else [])])
        case Texts() as values:
            low, high = _bound(values.low), _bound(values.high)
            return f"[{low or '…'}, {high or '…'}]" if low or high else "any text"
        case Json() as values:
            return _kinds(values)
        case Elements() as values:
            return _lists(values, element_type(type_name), "lists")
        case Entries() as values:
            held = _lists(
                values.values, type_name[len(key_type(type_name)) + len("map<,") : -1], "maps"
            )
            keys = values.keys.element()
            return held if keys is None else f"{held}, keys {describe(keys, key_type(type_name))}"
        case _:
            return "any value"


def _lists(values: Elements, inner: str, name: str) -> str:
    """Return the lengths and the content of lists or maps, as text."""
    low, high = int(values.shortest[0]), int(values.longest[0])
    lengths = f"{low}" if low == high else f"{low} to {high}" if high < MOST else f"{low} or more"
    element = values.element() if high > 0 else None
    return f"{name} of {lengths}" + ("" if element is None else f": {describe(element, inner)}")


def _range(values: Numbers, type_name: str) -> str:
    kind = spark_type(type_name)
    low, high = values.low[0], values.high[0]
    if kind.family == "float":
        return f"[{low}, {high}]"
    shown_low = "…" if low == kind.low else _number(int(low), type_name)
    shown_high = "…" if high == kind.high else _number(int(high), type_name)
    return "any value" if shown_low == shown_high == "…" else f"[{shown_low}, {shown_high}]"


def _bound(bound: Any) -> str | None:
    if bound is None:
        return None
    value = bound.as_py() if isinstance(bound, pa.Scalar) else bound[0].as_py()
    return None if value is None else show(value, "string")


def _kinds(values: Json) -> str:
    found = [("booleans", (values.true | values.false)[0], "")]
    found.append(("numbers", not values.numbers.empty[0], _range(values.numbers, "double")))
    low, high = _bound(values.strings.low), _bound(values.strings.high)
    found.append(("strings", not values.strings.empty[0], f"[{low or '…'}, {high or '…'}]"))
    found += [("lists", values.lists[0], ""), ("maps", values.maps[0], "")]
    shown = [f"{name} {text}".strip() for name, present, text in found if present]
    return "JSON " + ", ".join(shown)
