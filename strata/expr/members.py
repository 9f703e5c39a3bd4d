"""Which values occur beyond a range: for comparisons with a constant, and for what JSON prints as.

A place knows its members (`strata.expr.spec.Members`); the results of most functions do not. What
JSON values print as, or are read as, follows from their kinds and from the texts that occur.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from strata.expr.sparktype import SparkType
from strata.expr.spec import (
    NO,
    YES,
    Flags,
    Json,
    Members,
    Numbers,
    Texts,
    Values,
    as_texts,
    both,
    either,
    negated,
    occupied,
    text_compare,
)


def may_occur(values: Values, value: int | float | bytes) -> Flags:
    """Return where members allow a constant; everywhere where none are known."""
    members: Members | None = None
    if isinstance(values, Json) and not values.quoted:
        members = _JsonTexts(values) if isinstance(value, bytes) else None
    elif isinstance(values, Texts):
        members = values.members if isinstance(value, bytes) else None
    elif isinstance(values, Numbers) and not isinstance(value, bytes):
        floating = values.low.dtype == np.float64
        members = values.members if floating == isinstance(value, float) else None
    return YES if members is None else members.may_hold(value)


def printed(values: Json) -> Texts:
    """Return the texts that JSON values print as, with their members."""
    found = as_texts(values)
    return found if values.quoted else replace(found, members=_JsonTexts(values))


@dataclass(frozen=True, slots=True)
class _JsonTexts:
    """The texts that JSON values print as, kind by kind: the range of all kinds says less."""

    values: Json

    def may_hold(self, value: int | float | bytes) -> Flags:
        """Return where JSON values may print as a text."""
        assert isinstance(value, bytes)
        kinds, first = self.values, value[:1]
        found = both(negated(kinds.strings.empty), _among(kinds.strings, value))
        for kind, text in ((kinds.true, b"true"), (kinds.false, b"false")):
            found = either(found, kind if value == text else NO)
        for kind, start in ((kinds.lists, b"["), (kinds.maps, b"{")):
            found = either(found, kind if first == start else NO)
        return either(found, self._numbers(value))

    def _numbers(self, value: bytes) -> Flags:
        numbers, members = self.values.numbers, self.values.strings.members
        finite = np.isfinite(numbers.low) & np.isfinite(numbers.high)
        some = occupied(numbers)
        if not _NUMBER.fullmatch(value):
            # Numbers beyond float64 may print as anything
            return both(some, either(negated(finite), numbers.nan))
        if _JSON_NUMBER.fullmatch(value) and abs(number := float(value)) < np.inf:
            within = (numbers.low <= number) & (number <= numbers.high)
            some = both(some, either(negated(finite), within))
        if members is None or not _WHOLE.fullmatch(value):
            return some
        return both(some, either(negated(self.values.integral), members.may_hold(value)))


@dataclass(frozen=True, slots=True)
class _JsonWhole:
    """The numbers that JSON values are read as, where all of them are written as integers."""

    values: Json

    def may_hold(self, value: int | float | bytes) -> Flags:
        """Return where a JSON value may be read as a number."""
        kinds = self.values
        members = kinds.strings.members
        # Zero may be written as -0; a double may stand for several integers
        most = _EXACT if isinstance(value, float) else 10**18
        if members is None or isinstance(value, bytes) or not 0 < abs(value) < most:
            return YES
        if value != int(value):
            return YES
        unclear = either(negated(kinds.strings.empty), negated(kinds.integral))
        unclear = either(unclear, kinds.true if value == 1 else NO)
        return either(unclear, members.may_hold(b"%d" % int(value)))


def whole_members(values: Json, kind: SparkType) -> Members | None:
    """Return what is known of the numbers that JSON values are read as, for a type of numbers."""
    exact = kind.family == "int" or (kind.family == "float" and not kind.single)
    return _JsonWhole(values) if exact and values.strings.members is not None else None


_EXACT: Final = 2**53  # doubles below it are exact
_NUMBER: Final = re.compile(rb"[-0-9].*", re.DOTALL)
_JSON_NUMBER: Final = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WHOLE: Final = re.compile(rb"0|-?[1-9][0-9]{0,17}")  # as it is recorded; -0 is not


def _among(values: Texts, value: bytes) -> Flags:
    """Return where a text may be one of these."""
    point = pa.scalar(value, pa.binary())
    above = text_compare("less_equal", values.low, point)
    within = both(above, text_compare("less_equal", point, values.high))
    return within if values.members is None else both(within, values.members.may_hold(value))


def single(values: Values) -> int | float | bytes | None:
    """Return the value if exactly one is possible in all parts together; None for NaN."""
    if isinstance(values, Numbers):
        alone = values.low.size == values.high.size == 1 and values.low[0] == values.high[0]
        if not alone or values.empty.any() or values.nan.any():
            return None
        found: int | float = values.low[0].item() if values.low.dtype != object else values.low[0]
        return found + 0.0 if isinstance(found, float) else found
    if not isinstance(values, Texts) or values.empty.any():
        return None
    low, high = values.low, values.high
    alone = isinstance(low, pa.Scalar) and isinstance(high, pa.Scalar) and low.is_valid
    return low.as_py() if alone and low.equals(high) else None


def bare(values: Values) -> Values:
    """Return values without their members, which other values than these need not be."""
    if isinstance(values, Numbers | Texts) and values.members is not None:
        return replace(values, members=None)
    return values
