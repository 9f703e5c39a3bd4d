"""Operations on the bits of integers, as two's complement numbers. None fails."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr.entry import Context, Entry, Outcome, literal, numbers, opened, strict
from strata.expr.functions.arithmetic import filled, sides
from strata.expr.nodes import Call
from strata.expr.sparktype import spark_type
from strata.expr.spec import Bounds, Numbers, Spec


def _whole_numbers(call: Call) -> bool:
    return all(spark_type(arg.type).family == "int" for arg in call.args)


def _and(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the range of numbers with only bits that both sides have."""
    if not _whole_numbers(call):
        return opened(call, args)
    a, b = sides(call, args)
    left, right = a.low >= 0, b.low >= 0
    low = np.where(left | right, 0, spark_type(call.type).low)
    high = np.where(left & right, np.minimum(a.high, b.high), np.maximum(a.high, b.high))
    high = np.where(left & ~right, a.high, np.where(right & ~left, b.high, high))
    return strict(args, Outcome(Numbers(low, high, a.empty | b.empty)))


def _or(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the range of numbers with all bits of both sides."""
    if not _whole_numbers(call):
        return opened(call, args)
    a, b = sides(call, args)
    positive, negative = (a.low >= 0) & (b.low >= 0), (a.high < 0) | (b.high < 0)
    low = np.where(positive, np.maximum(a.low, b.low), np.minimum(a.low, b.low))
    most = _filled_below(np.maximum(np.maximum(a.high, b.high), 0))
    return strict(args, Outcome(Numbers(low, np.where(negative, -1, most), a.empty | b.empty)))


def _xor(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    if not _whole_numbers(call):
        return opened(call, args)
    a, b = sides(call, args)
    positive, kind = (a.low >= 0) & (b.low >= 0), spark_type(call.type)
    most = _filled_below(np.maximum(np.maximum(a.high, b.high), 0))
    low, high = np.where(positive, 0, kind.low), np.where(positive, most, kind.high)
    return strict(args, Outcome(Numbers(low, high, a.empty | b.empty)))


def _filled_below(numbers: Bounds) -> Bounds:
    """Return numbers that are not negative with every bit below their highest one set."""
    for shift in (1, 2, 4, 8, 16, 32):
        numbers = numbers | (numbers >> shift)
    return numbers


def _not(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    if not _whole_numbers(call):
        return opened(call, args)
    a = numbers(args[0], call.args[0].type)
    return strict(args, Outcome(Numbers(~a.high, ~a.low, a.empty)))


def _places(call: Call) -> int | None:
    """Return the number of bits that a constant shifts by, as Java counts them."""
    constant = literal(call, 1)
    if constant is None or not isinstance(constant.value, int):
        return None
    if call.type not in ("integer", "long") or call.args[0].type != call.type:
        return None
    return constant.value & (31 if call.type == "integer" else 63)


def _shift_left(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return x times a power of two; values that leave the type wrap to anywhere."""
    places = _places(call)
    if places is None or places == 63:
        return opened(call, args, null=False, fail=False)
    a, unit, kind = numbers(args[0], call.type), np.array([2**places]), spark_type(call.type)
    (low, under), (high, over) = exact.multiply(a.low, unit), exact.multiply(a.high, unit)
    values, outside = exact.fit(Numbers(low, high, a.empty), kind, under | over)
    return strict(args, Outcome(filled(values, kind, outside) if outside.any() else values))


def _shift_right(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    places = _places(call)
    if places is None:
        return opened(call, args, null=False, fail=False)
    a = numbers(args[0], call.type)
    return strict(args, Outcome(Numbers(a.low >> places, a.high >> places, a.empty)))


def _shift_right_unsigned(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return x shifted with zeros from the left; the result falls once, where x changes sign."""
    places = _places(call)
    if places is None:
        return opened(call, args, null=False, fail=False)
    a, kind = numbers(args[0], call.type), spark_type(call.type)
    plain = a.low >= 0
    low = np.where(plain, a.low >> places, 0 if places else kind.low)
    high = np.where(plain, a.high >> places, (kind.high >> (places - 1)) if places else kind.high)
    return strict(args, Outcome(Numbers(low, high, a.empty)))


_TWO: Final = (2, 2)
ENTRIES: Final = (
    Entry("bitwise_and", "left, right", _TWO, _and, "no more than a side that is not negative"),
    Entry("bitwise_or", "left, right", _TWO, _or, "no less than a side, no more bits than both"),
    Entry("bitwise_xor", "left, right", _TWO, _xor, "no more bits than both, if not negative"),
    Entry("bitwise_not", "x", (1, 1), _not, "falling"),
    Entry("shift_left", "x, places", _TWO, _shift_left, "monotone for constant places; wraps"),
    Entry("shift_right", "x, places", _TWO, _shift_right, "monotone for constant places"),
    Entry("shift_right_unsigned", "x, places", _TWO, _shift_right_unsigned, "as shift_right"),
)
