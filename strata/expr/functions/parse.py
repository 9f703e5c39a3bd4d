"""Casts from text: constants in the plain formats, and printed JSON values.

A constant in a format that is not listed here is merely unknown: the cast may then yield anything
or fail.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr.entry import UTC_ZONES, Outcome, literal, opened, settle, strict, texts
from strata.expr.functions.formats import moments_read
from strata.expr.functions.points import NotEvaluated, numbers_of
from strata.expr.functions.shapes import (
    decimals_around,
    numbers_by_shape,
    shaped_numbers,
)
from strata.expr.functions.timestamps import widened
from strata.expr.members import whole_members
from strata.expr.nodes import Call
from strata.expr.shapes import shape_of
from strata.expr.sparktype import SparkType, spark_type
from strata.expr.spec import (
    Bools,
    Flags,
    Json,
    Numbers,
    Spec,
    both,
    everything,
    exactly,
    gate,
    hull,
    occupied,
)

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT: Final = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([ T](?P<clock>[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_LONGEST: Final = 64  # characters of a text that is read
_TRUTHS: Final = {"true": True, "false": False}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})


def from_text(call: Call, args: Sequence[Spec]) -> Spec:
    """Return the values that text casts to: known for plain constants and for the kinds of JSON."""
    constant, values = literal(call, 0), args[0].values
    text = None if constant is None else constant.value
    if isinstance(text, str) and (parsed := parse_constant(text, call)) is not None:
        return parsed
    if call.args[0].type == "binary" or call.type == "binary":
        return opened(call, args)
    if call.args[0].type == "string" and call.type in ("date", "timestamp", "timestamp_ntz"):
        return _times(call, args)
    if isinstance(values, Json) and not values.quoted:
        return _from_json(call, args, values)
    shape = shape_of(values)
    if shape is not None and call.args[0].type == "string":
        return strict(args, numbers_by_shape(call, shape))
    return strict(args, Outcome(everything(call.type), *settle(call, np.array([True]))))


def _times(call: Call, args: Sequence[Spec]) -> Spec:
    """Return the dates or timestamps of a range of texts: those of a year, month or day."""
    found, unread = moments_read(call, texts(args[0]), shape_of(args[0].values))
    return strict(args, Outcome(found, *settle(call, unread)))


def parse_constant(text: str, call: Call) -> Spec | None:
    """Return the value that a constant casts to, or None for an unknown format."""
    kind = spark_type(call.type)
    value: object = None
    if kind.name in _INTEGERS and _INTEGER.fullmatch(text):
        value = int(text)
        return exactly(value, call.type) if kind.low <= int(text) <= kind.high else None
    if kind.name == "double" and _DECIMAL.fullmatch(text):
        value = float(text)
    elif kind.family == "decimal" and _DECIMAL.fullmatch(text):
        return _decimal(Decimal(text), call)
    elif kind.family == "bool" and text in _TRUTHS:
        value = _TRUTHS[text]
    elif kind.name == "date" and _DATE.fullmatch(text):
        value = _days(text)
    elif kind.name in ("timestamp", "timestamp_ntz") and (found := _MOMENT.fullmatch(text)):
        return _moment(found, call)
    return None if value is None else exactly(value, call.type)


def _decimal(value: Decimal, call: Call) -> Spec | None:
    """Return a decimal that fits its type as it is."""
    found = exactly(value, call.type)
    fits = isinstance(found.values, Numbers) and found.values.low[0] == found.values.high[0]
    return found if fits else None


def text_as(text: str, call: Call) -> bool | tuple[Any, Any]:
    """Return the truth value, or bounds of a number, that a text casts to. Raises: NotEvaluated."""
    found = parse_constant(text, call) if len(text) <= _LONGEST else None
    if found is None:
        raise NotEvaluated
    if isinstance(found.values, Bools):
        return bool(found.values.true[0])
    return numbers_of(found)


def _days(text: str) -> int | None:
    try:
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    except ValueError:
        return None


def _moment(found: re.Match[str], call: Call) -> Spec | None:
    zone = found["zone"]
    if zone and call.type == "timestamp_ntz":
        return None
    try:
        clock = found["clock"] or "00:00"
        moment = datetime.fromisoformat(f"{found['day']}T{clock}{zone or 'Z'}")
    except ValueError:
        return None
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    spec = exactly(micros, call.type)
    local = call.type == "timestamp" and not zone and call.option("zone", "UTC") not in UTC_ZONES
    if not local or not isinstance(spec.values, Numbers):
        return spec
    return Spec(Numbers(*widened(spec.values.low, spec.values.high)))


def _from_json(call: Call, args: Sequence[Spec], values: Json) -> Spec:
    """Return the values that JSON casts to, kind by kind; a string may hold any text."""
    target, full = spark_type(call.type), everything(call.type)
    strings, some = ~values.strings.empty, occupied(values.numbers)
    neither = values.lists | values.maps
    if isinstance(full, Bools):
        neither = neither | strings
        open_ = strings | some
        return strict(
            args,
            Outcome(
                Bools(values.true | open_, values.false | open_), *settle(call, neither | some)
            ),
        )
    readable = target.family in ("float", "decimal") or target.name in _INTEGERS
    if not isinstance(full, Numbers) or not readable or target.wide:
        return strict(args, Outcome(full, *settle(call, occupied(values))))
    read, failing = _from_numbers(values, target)
    written, unread = shaped_numbers(call.type, shape_of(values.strings))
    failing = failing | neither | values.true | values.false | both(strings, unread)
    found = hull(read, gate(written, strings))
    assert isinstance(found, Numbers)
    found = replace(found, members=whole_members(values, target))
    return strict(args, Outcome(found, *settle(call, failing)))


def _from_numbers(values: Json, target: SparkType) -> tuple[Numbers, Flags]:
    """Return the numbers that JSON numbers cast to, and where the cast may fail."""
    source = values.numbers
    if target.family == "float":
        low, high = source.low, source.high
        if target.single:
            low, high = exact.single(low), exact.single(high)
        return Numbers(low, high, source.empty), np.array([False])
    if target.family == "decimal":
        return decimals_around(source, target)
    low, high = exact.truncated(source.low, target), exact.truncated(source.high, target)
    outside = (source.low < float(target.low)) | (source.high >= float(target.high + 1))
    # "1.5" and "1e3" are no integers to ANSI mode.
    return Numbers(low, high, source.empty), (outside | ~values.integral) & ~source.empty
