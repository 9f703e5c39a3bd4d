"""Functions of one column that a plain filter may compare: total ones, evaluated as in Spark.

None of them can fail on a value that a column holds. SQLGlot has one node for several names of a
function; names that are not Spark's are refused by `NAMES` before.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from strata.errors import InvalidRequest
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.plain.constants import coerced
from strata.plain.numbers import CAST, Constant, Spelling, needs_spark
from strata.plain.types import WHOLE

DATES: Final = ("date", "timestamp", "timestamp_ntz")
# Names that may stand before a bracket.
NAMES: Final = frozenset(
    {
        "year", "month", "day", "dayofmonth", "dayofyear", "dayofweek", "weekofyear", "quarter",
        "hour", "minute", "second", "extract", "date", "to_date", "cast", "length", "char_length",
        "character_length", "len", "contains", "startswith", "endswith", "isnan", "coalesce", "nvl",
        "ifnull", "mod", "now", "current_timestamp", "current_date", "curdate", "date_add",
        "date_sub", "isnull", "isnotnull", "lower", "lcase", "upper", "ucase",
    }
)  # fmt: skip
_ZONE: Final = (("zone", "UTC"),)
_ANSI: Final = (("ansi", "ansi"),)
_PARTS: Final[Mapping[type[exp.Expr], str]] = MappingProxyType(
    {
        exp.Year: "year",
        exp.Quarter: "quarter",
        exp.Month: "month",
        exp.Day: "day_of_month",
        exp.DayOfMonth: "day_of_month",
        exp.DayOfYear: "day_of_year",
        exp.DayOfWeek: "day_of_week",
        exp.WeekOfYear: "week_of_year",
    }
)
_CLOCK_PARTS: Final[Mapping[type[exp.Expr], str]] = MappingProxyType(
    {exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second"}
)
_EXTRACTED: Final[Mapping[str, type[exp.Expr]]] = MappingProxyType(
    {
        "YEAR": exp.Year,
        "QUARTER": exp.Quarter,
        "MONTH": exp.Month,
        "DAY": exp.Day,
        "HOUR": exp.Hour,
        "MINUTE": exp.Minute,
    }
)
Read = Callable[[exp.Expr], Column]
Written = Callable[[exp.Expr], Constant]


def _part(node: exp.Expr, column: Read, _: Written) -> Expr:
    """Return a part of a date."""
    inner = _single(node)
    if isinstance(inner, exp.TsOrDsToDate) and not isinstance(node, exp.Quarter):
        inner = _single(inner)  # SQLGlot's own
    return _part_of(type(node), column(inner), node)


def _part_of(kind: type[exp.Expr], column: Column, node: exp.Expr) -> Expr:
    if kind in _CLOCK_PARTS:
        if column.type not in ("timestamp", "timestamp_ntz"):
            raise refused(node)
        return Call(_CLOCK_PARTS[kind], (column,), "integer", _ZONE)
    return Call(_PARTS[kind], (_day(column, node),), "integer")


def _extracted(node: exp.Expr, column: Read, _: Written) -> Expr:
    name = node.this.name.upper()
    if name not in _EXTRACTED or set(node.args) - {"this", "expression"}:
        raise refused(node)
    return _part_of(_EXTRACTED[name], column(unbracketed(node.args.get("expression"))), node)


def _to_date(node: exp.Expr, column: Read, _: Written) -> Expr:
    return _day(column(_single(node)), node)


def _cast(node: exp.Expr, column: Read, _: Written) -> Expr:
    """Return a cast that loses no value: of a time to its day, or to the moment in UTC."""
    target = only(node, "this", "to").args["to"]
    found = column(unbracketed(node.args.get("this")))
    if target.this == exp.DataType.Type.DATE and not target.expressions:
        return _day(found, node)
    zoned = target.this == exp.DataType.Type.TIMESTAMPTZ and not target.expressions
    if zoned and found.type == "timestamp_ntz":
        return Call("cast", (found,), "timestamp", CAST)
    if zoned and found.type == "timestamp":
        return found
    raise refused(node)


def _day(column: Column, node: exp.Expr) -> Expr:
    if column.type not in DATES:
        raise refused(node)
    return column if column.type == "date" else Call("cast", (column,), "date", CAST)


def _length(node: exp.Expr, column: Read, _: Written) -> Expr:
    found = column(_single(node))
    if found.type != "string":
        raise refused(node)
    return Call("length", (found,), "integer")


def _cased(node: exp.Expr, column: Read, _: Written) -> Expr:
    """Return a text in small or capital letters."""
    found = column(_single(node))
    if found.type != "string":
        raise refused(node)
    return Call("lower" if isinstance(node, exp.Lower) else "upper", (found,), "string")


def _coalesced(node: exp.Expr, column: Read, constant: Written) -> Expr:
    """Return a column, with a constant where it is null."""
    if len(node.expressions) != 1:
        raise refused(node)
    found = column(unbracketed(node.args.get("this")))
    written = constant(unbracketed(node.expressions[0]))
    if found.type not in (*WHOLE, "double", "string", "boolean"):
        raise refused(node)
    value, (other,) = coerced(found, [written])
    return Call("coalesce", (value, other), value.type)


def _remainder(node: exp.Expr, column: Read, constant: Written) -> Expr:
    """Return the remainder of a division by a number above zero, with the sign of the column."""
    if set(node.args) - {"this", "expression"}:
        raise refused(node)
    found = column(unbracketed(node.args.get("this")))
    written = constant(unbracketed(node.expression))
    if found.type not in WHOLE or written.kind is not Spelling.NUMBER:
        raise refused(node)
    value, (divisor,) = coerced(found, [written])
    if not (isinstance(divisor, Literal) and isinstance(divisor.value, int) and divisor.value > 0):
        raise refused(node)
    return Call("remainder", (value, divisor), value.type, _ANSI)


def _single(node: exp.Expr) -> exp.Expr:
    return unbracketed(only(node, "this", "safe").args.get("this"))


def unbracketed(node: exp.Expr | None) -> exp.Expr:
    """Return what stands in brackets. Raises: InvalidRequest if there is nothing."""
    while isinstance(node, exp.Paren):
        node = only(node, "this").this
    if node is None:
        raise needs_spark("a function without its argument")
    return node


def only(node: exp.Expr, *names: str) -> exp.Expr:
    """Return a node that has no arguments but those named; others would change its meaning."""
    if any(value for name, value in node.args.items() if name not in names):
        raise refused(node)
    return node


def refused(node: exp.Expr) -> InvalidRequest:
    """Return the refusal of a part of a filter, which the library may have no text for."""
    try:
        return needs_spark(node.sql(dialect="spark"))
    except Exception:
        return needs_spark(node.key)


_Rule = Callable[[exp.Expr, Read, Written], Expr]
VALUES: Final[Mapping[type[exp.Expr], _Rule]] = MappingProxyType(
    {
        **dict.fromkeys((*_PARTS, *_CLOCK_PARTS), _part),
        exp.Extract: _extracted,
        exp.TsOrDsToDate: _to_date,
        exp.Cast: _cast,
        exp.TryCast: _cast,
        exp.Length: _length,
        exp.Lower: _cased,
        exp.Upper: _cased,
        exp.Coalesce: _coalesced,
        exp.Mod: _remainder,
    }
)
