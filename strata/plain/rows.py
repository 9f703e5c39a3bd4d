"""Evaluate a plain filter on rows: null, false or true as in Spark, with Arrow's own functions.

It evaluates the calls that `strata.plain.parse` makes and no others. Spark's order of doubles is
kept: NaN equals NaN and lies above all numbers.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.nodes import Call, Column, Expr, Literal
from strata.plain.dates import DATE_PARTS, day_of

_COMPARISONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "equal_to": "equal",
        "greater_than": "greater",
        "greater_than_or_equal": "greater_equal",
        "less_than": "less",
        "less_than_or_equal": "less_equal",
    }
)
_NAN_ON_LEFT: Final = frozenset({"greater_than", "greater_than_or_equal"})
_NAN_ON_RIGHT: Final = frozenset({"less_than", "less_than_or_equal"})
# Arrow's types that compare as whole numbers do.
_AS_WHOLE: Final = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}
_ARROW: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),  # a null beside a column
        "double": pa.float64(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        **_AS_WHOLE,
    }
)
_DAY_US: Final = 86_400_000_000
_LIKE: Final = re.compile(r"(%*)([^%_]*)(%*)")


def accepted_rows(
    batches: Iterable[pa.RecordBatch], expr: Expr, names: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows on which a plain filter is true, with the columns `names` of each batch.

    Shape: batches have the columns that the filter reads, by name, as `strata.read.scan` yields
    them. Empty batches are left out.
    """
    for batch in batches:
        kept = batch.filter(accepts(batch, expr)).select(names)
        if kept.num_rows:
            yield kept


def accepts(batch: pa.RecordBatch, expr: Expr) -> pa.BooleanArray:
    """Return for each row whether a plain filter is true; null counts as false."""
    found = _value(batch, expr)
    if isinstance(found, pa.Scalar):
        found = pa.repeat(found, batch.num_rows)
    return pc.fill_null(found, False)


def filter_columns(expr: Expr) -> Iterator[Column]:
    """Yield the columns that an expression reads, once for each place."""
    if isinstance(expr, Column):
        yield expr
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from filter_columns(arg)


def _value(batch: pa.RecordBatch, expr: Expr) -> Any:
    """Return an array, or a scalar for a constant."""
    match expr:
        case Column():
            array = batch.column(expr.name)
            return array.cast(_AS_WHOLE[expr.type]) if expr.type in _AS_WHOLE else array
        case Literal():
            return pa.scalar(expr.value, _arrow(expr.type))
        case Call():
            return _CALLS[expr.function](batch, expr)
    raise AssertionError(f"not plain: {expr}")


def _arrow(name: str) -> pa.DataType:
    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[name]


def _with_text(batch: pa.RecordBatch, call: Call) -> tuple[Any, str]:
    value, text = _args(batch, call)
    return value, text.as_py()


def _args(batch: pa.RecordBatch, call: Call) -> list[Any]:
    return [_value(batch, arg) for arg in call.args]


def _compared(batch: pa.RecordBatch, call: Call) -> Any:
    left, right = _args(batch, call)
    found = getattr(pc, _COMPARISONS[call.function])(left, right)
    nulls = any(isinstance(one, pa.Scalar) and not one.is_valid for one in (left, right))
    if call.args[0].type != "double" or nulls:
        return found
    # A plain constant is a number, so only one side can be NaN.
    if isinstance(left, pa.Array) and call.function in _NAN_ON_LEFT:
        return pc.or_kleene(found, pc.is_nan(left))
    if isinstance(right, pa.Array) and call.function in _NAN_ON_RIGHT:
        return pc.or_kleene(found, pc.is_nan(right))
    return found


def _same(batch: pa.RecordBatch, call: Call) -> Any:
    """Return whether two values are equal or both null; never null."""
    left, right = _args(batch, call)
    equal = pc.fill_null(pc.equal(left, right), False)
    return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))


def _member(batch: pa.RecordBatch, call: Call) -> Any:
    value, *listed = _args(batch, call)
    wanted = pa.array([one.as_py() for one in listed], value.type)
    if pa.types.is_floating(value.type):  # Arrow looks up bits, and -0.0 has others than 0.0
        value, wanted = (pc.add(some, pa.scalar(0.0, value.type)) for some in (value, wanted))
    found = pc.is_in(value, value_set=wanted.drop_null())
    if wanted.null_count:  # what is not found may be the unknown value
        found = pc.if_else(found, True, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))


def _like(batch: pa.RecordBatch, call: Call) -> Any:
    """Return whether texts match a pattern; the common patterns need no regular expression."""
    value, pattern = _args(batch, call)
    text = pattern.as_py()
    simple = _LIKE.fullmatch(text)
    if simple is None:
        return pc.match_like(value, text)
    before, inner, after = simple.groups()
    if before and after:
        return pc.match_substring(value, inner)
    if before or after:
        return pc.ends_with(value, inner) if before else pc.starts_with(value, inner)
    return pc.equal(value, inner)


def _coalesced(batch: pa.RecordBatch, call: Call) -> Any:
    return pc.coalesce(*_args(batch, call))


def _remainder(batch: pa.RecordBatch, call: Call) -> Any:
    """Return remainders with the sign of the dividend."""
    value, divisor = _args(batch, call)
    found = np.fmod(value.fill_null(0).to_numpy(zero_copy_only=False), divisor.as_py())
    return pa.array(found, value.type, mask=pc.is_null(value).to_numpy(zero_copy_only=False))


def _cast(batch: pa.RecordBatch, call: Call) -> Any:
    value, kind = _value(batch, call.args[0]), call.args[0].type
    if call.type == "date" and kind != "date":
        return day_of(value)
    if kind == "date" and call.type != "date":
        return pc.multiply(value.cast(pa.int64()), _DAY_US)
    # A double may hold a whole number only nearly, as Java rounds it.
    return value.cast(_arrow(call.type), safe=call.type != "double")


def _cased(batch: pa.RecordBatch, call: Call) -> Any:
    """Return texts in small or capital letters.

    Errs: among letters beyond ASCII, as Python's Unicode is not Java's; plain filters compare the
    result with ASCII alone, and both know the letters whose other case that is.
    """
    value = _value(batch, call.args[0])
    if pc.all(pc.string_is_ascii(value)).as_py() is not False:
        return (pc.ascii_lower if call.function == "lower" else pc.ascii_upper)(value)
    change = str.lower if call.function == "lower" else str.upper
    return pa.array([text and change(text) for text in value.to_pylist()], value.type)


def _part_of_date(
    batch: pa.RecordBatch, call: Call, part: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    return part(_value(batch, call.args[0]))


def _logic(batch: pa.RecordBatch, call: Call) -> Any:
    joined = pc.and_kleene if call.function == "and" else pc.or_kleene
    first, *rest = _args(batch, call)
    for one in rest:
        first = joined(first, one)
    return first


_CALLS: Final[Mapping[str, Callable[[pa.RecordBatch, Call], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(_COMPARISONS, _compared),
        "equal_null_safe": _same,
        "in": _member,
        "like": _like,
        "and": _logic,
        "or": _logic,
        "not": lambda batch, call: pc.invert(_value(batch, call.args[0])),
        "is_not_null": lambda batch, call: pc.is_valid(_value(batch, call.args[0])),
        "is_null": lambda batch, call: pc.is_null(_value(batch, call.args[0])),
        "cast": _cast,
        "coalesce": _coalesced,
        "remainder": _remainder,
        "lower": _cased,
        "upper": _cased,
        "length": lambda batch, call: pc.utf8_length(_value(batch, call.args[0])),
        "starts_with": lambda batch, call: pc.starts_with(*_with_text(batch, call)),
        "ends_with": lambda batch, call: pc.ends_with(*_with_text(batch, call)),
        "contains": lambda batch, call: pc.match_substring(*_with_text(batch, call)),
        "is_nan": lambda batch, call: pc.fill_null(pc.is_nan(_value(batch, call.args[0])), False),
        **{name: partial(_part_of_date, part=part) for name, part in DATE_PARTS.items()},
    }
)
