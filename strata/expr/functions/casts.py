"""Casts: monotone between numbers, dates and timestamps; from text only where the text is known.

Known texts are constants, and the JSON numbers and booleans of a path. The range of a text column
says nothing about the numbers or dates written in it ("10" < "9").
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr.calendar import DAY_US, SECOND_US
from strata.expr.entry import (
    Context,
    Entry,
    Outcome,
    abroad,
    bools,
    literal,
    numbers,
    opened,
    settle,
    strict,
    wraps,
)
from strata.expr.functions.arithmetic import filled, whole
from strata.expr.functions.formats import date_text, timestamp_text
from strata.expr.functions.parse import from_text, text_as
from strata.expr.functions.points import NotEvaluated, pointwise
from strata.expr.functions.shapes import decimals_around
from strata.expr.functions.timestamps import widened
from strata.expr.functions.variants import from_variant
from strata.expr.nodes import Call
from strata.expr.sparktype import SparkType, spark_type
from strata.expr.spec import Bools, Bounds, Numbers, Spec, exactly, occupied

_TIMES: Final = frozenset({"timestamp", "timestamp_ntz"})
_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
_FAR_US: Final = 2.0**62  # doubles up to it are no reason to fail
_LAST_DAY: Final = 2**63 // DAY_US  # whole days whose microseconds fit 64 bits


def _cast(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    source, target = spark_type(call.args[0].type), spark_type(call.type)
    if source.name == target.name:
        return args[0]
    if source.family == "void":
        return Spec(exactly(None, call.type).values, args[0].null, args[0].fail)
    if source.family == "text":
        return from_text(call, args)
    if source.name == "variant":
        return from_variant(call, args)
    if target.name == "string":
        return _to_string(call, args)
    if source.family == "bool" or target.family == "bool":
        return _boolean(call, args, source, target)
    if {source.name, target.name} & {"date", *_TIMES}:
        return _temporal(call, args, source, target)
    if {source.family, target.family} <= {"int", "float", "decimal"}:
        return _number(call, args, source, target)
    return opened(call, args)


def _number(call: Call, args: Sequence[Spec], source: SparkType, target: SparkType) -> Spec:
    if source.name.startswith("interval") or target.name.startswith("interval"):
        return opened(call, args)
    a = numbers(args[0], source.name)
    match source.family, target.family:
        case "int", "int" if target.low <= source.low and source.high <= target.high:
            return strict(args, Outcome(a))  # the same numbers
        case "int", "int":
            return whole(call, args, a)
        case "int", "decimal":
            low, high = (exact.rescale(x, target.scale, 19) for x in (a.low, a.high))
            return whole(call, args, Numbers(low, high, a.empty))
        case "decimal", "decimal":
            return _rescaled(call, args, a, target.scale - source.scale)
        case "decimal", "int":
            unit = 10**source.scale
            cut = [_toward_zero(x, unit) for x in (a.low, a.high)]
            return whole(call, args, Numbers(cut[0], cut[1], a.empty))
        case "float", "int":
            return _float_to_int(call, args, a, target)
        case _, "float":
            return _to_float(args, a, source, target)
        case _:
            return _float_to_decimal(call, args, a, target)


def _rescaled(call: Call, args: Sequence[Spec], a: Numbers, shift: int) -> Spec:
    low, high = (exact.rescale(x, shift, 38) for x in (a.low, a.high))
    return whole(call, args, Numbers(low, high, a.empty))


def _toward_zero(bounds: Bounds, unit: int) -> Bounds:
    return exact.truncating(bounds.astype(object) if unit > exact.HIGHEST else bounds, unit)


def _to_float(args: Sequence[Spec], a: Numbers, source: SparkType, target: SparkType) -> Spec:
    low, high = a.low, a.high
    if source.family == "decimal":
        low, high = (x.astype(np.float64) / 10.0**source.scale for x in (low, high))
        for _ in range(4):  # three roundings are less than four units in the last place
            low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    if target.single and low.dtype == np.int64:
        low, high = (x.astype(np.float32).astype(np.float64) for x in (low, high))
    elif target.single:
        low, high = exact.single(low), exact.single(high)
        if source.family == "decimal":
            low, high = _outward_single(low, -np.inf), _outward_single(high, np.inf)
    low, high = low.astype(np.float64), high.astype(np.float64)
    return strict(args, Outcome(Numbers(low, high, a.empty, a.nan)))


def _outward_single(bounds: Bounds, toward: float) -> Bounds:
    near = np.nextafter(bounds.astype(np.float32), np.float32(toward))
    return near.astype(np.float64)


def _float_to_int(call: Call, args: Sequence[Spec], a: Numbers, target: SparkType) -> Spec:
    low, high = exact.truncated(a.low, target), exact.truncated(a.high, target)
    # Java casts double -> int, then int -> short; only ANSI mode looks at the range.
    below, above = np.trunc(a.low) < float(target.low), np.trunc(a.high) >= float(target.high + 1)
    outside = ((below | above) & ~a.empty) | a.nan
    values = Numbers(low, high, a.empty)
    if wraps(call):
        return strict(args, Outcome(filled(values, target, outside)))
    return strict(args, Outcome(values, *settle(call, outside)))


def _float_to_decimal(call: Call, args: Sequence[Spec], a: Numbers, target: SparkType) -> Spec:
    if target.wide or spark_type(call.args[0].type).single:
        return opened(call, args)
    values, outside = decimals_around(a, target)
    null, fail = settle(call, outside)
    # NaN and the infinities have no decimal: null in every mode.
    infinite = (np.isinf(a.low) | np.isinf(a.high)) & ~a.empty
    return strict(args, Outcome(values, null | a.nan | infinite, fail))


def _boolean(call: Call, args: Sequence[Spec], source: SparkType, target: SparkType) -> Spec:
    if source.family == "bool":
        one = 10**target.scale
        if target.family not in ("int", "float", "decimal") or 0 < target.high < one:
            return opened(call, args)
        values = bools(args[0])
        dtype = {"float": np.float64}.get(target.family, object if target.wide else np.int64)
        low = np.where(values.false, 0, one).astype(dtype)
        high = np.where(values.true, one, 0).astype(dtype)
        return strict(args, Outcome(Numbers(low, high, ~occupied(values))))
    if source.name not in (*_INTEGERS, "double", "float"):
        return opened(call, args)
    a = numbers(args[0], source.name)
    zero = (a.low <= 0) & (a.high >= 0) & ~a.empty
    other = (((a.low != 0) | (a.high != 0)) & ~a.empty) | a.nan
    return strict(args, Outcome(Bools(other, zero)))


def _seconds(call: Call, args: Sequence[Spec], source: SparkType) -> Spec:
    """Return the instant some seconds after 1970, cut to microseconds.

    One that 64 bits do not hold fails, is null or saturated, as the mode is.
    """
    a = numbers(args[0], source.name)
    with np.errstate(over="ignore"):
        low, high = a.low * SECOND_US, a.high * SECOND_US
    beyond = a.nan | (((low < -_FAR_US) | (high > _FAR_US)) & ~a.empty)
    ends = [exact.truncated(end, spark_type("long")) for end in (low, high)]
    return strict(args, Outcome(Numbers(ends[0], ends[1], a.empty), *settle(call, beyond)))


def _temporal(call: Call, args: Sequence[Spec], source: SparkType, target: SparkType) -> Spec:
    if source.family == "float" and target.name == "timestamp":
        return _seconds(call, args, source)
    a = numbers(args[0], source.name) if source.family == "int" else None
    # A wall clock (date, timestamp_ntz) meets an instant only through the zone.
    crossing = abroad(call) and "timestamp" in (source.name, target.name)
    match source.name, target.name:
        case _, _ if a is None:
            return opened(call, args)
        case "date", ("timestamp" | "timestamp_ntz"):
            over = (a.low < -_LAST_DAY) | (a.high > _LAST_DAY)
            low, high = (np.clip(x, -_LAST_DAY, _LAST_DAY) * DAY_US for x in (a.low, a.high))
            low, high = widened(low, high) if crossing else (low, high)
            # Within a day of the end a zone may decide whether it still fits.
            over = over | (crossing & ((a.low <= 1 - _LAST_DAY) | (a.high >= _LAST_DAY - 1)))
            low, high = np.where(over, exact.LOWEST, low), np.where(over, exact.HIGHEST, high)
            return strict(args, Outcome(Numbers(low, high, a.empty), fail=over & ~a.empty))
        case (("timestamp" | "timestamp_ntz"), "date"):
            low, high = widened(a.low, a.high) if crossing else (a.low, a.high)
            return strict(args, Outcome(Numbers(low // DAY_US, high // DAY_US, a.empty)))
        case (("timestamp" | "timestamp_ntz"), ("timestamp" | "timestamp_ntz")):
            low, high = widened(a.low, a.high) if crossing else (a.low, a.high)
            edge = crossing & ((low == exact.LOWEST) | (high == exact.HIGHEST))
            return strict(args, Outcome(Numbers(low, high, a.empty), fail=edge & ~a.empty))
        case "timestamp", "long":
            return strict(args, Outcome(Numbers(a.low // SECOND_US, a.high // SECOND_US, a.empty)))
        case "timestamp", ("byte" | "short" | "integer"):
            seconds = Numbers(a.low // SECOND_US, a.high // SECOND_US, a.empty)
            fitting, outside = exact.fit(seconds, target)
            return strict(args, Outcome(fitting, *settle(call, outside)))
        case (("byte" | "short" | "integer" | "long"), "timestamp"):
            # Saturates in every mode.
            low, high = (exact.multiply(x, np.array([SECOND_US]))[0] for x in (a.low, a.high))
            return strict(args, Outcome(Numbers(low, high, a.empty)))
        case _:
            return opened(call, args)


def _to_string(call: Call, args: Sequence[Spec]) -> Spec:
    """Return the text of a constant or of dates and times; all texts for anything else."""
    constant = literal(call, 0)
    kind = call.args[0].type
    if constant is not None and kind in (*_INTEGERS, "boolean") and constant.value is not None:
        text = str(constant.value)
        return exactly(text.lower() if kind == "boolean" else text, "string")
    if kind == "date":
        return date_text(args, numbers(args[0], kind))
    if kind in _TIMES:
        zoned = kind == "timestamp" and abroad(call)
        return timestamp_text(args, numbers(args[0], kind), zoned=zoned)
    known = spark_type(kind).family != "other"
    return opened(call, args, null=not known, fail=not known)


def _exactly(call: Call, args: tuple[Any, ...]) -> Any:
    """Return what a single text, or whole number as a text, is cast to."""
    source, target = spark_type(call.args[0].type), spark_type(call.type)
    if source.name == "string" and target.name not in ("string", "binary"):
        return text_as(args[0], call)
    if source.name in _INTEGERS and target.name == "string":
        return str(args[0])
    raise NotEvaluated


ENTRIES: Final = (
    Entry(
        "cast",
        "x",
        (1, 1),
        pointwise(_cast, _exactly),
        "monotone among numbers, dates and timestamps; constants; JSON numbers and booleans",
        passes=True,
    ),
)
