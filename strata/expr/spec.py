"""The domain: what an expression may yield on the rows of each part.

A `Spec` describes many parts at once. Its fields are arrays over the parts, or arrays of one
element that stand for all parts (constants broadcast). It says whether the result may be null,
whether the evaluation may fail, and which other values are possible:

    Bools     may be true, may be false
    Numbers   every number in [low, high], and NaN apart; dates, timestamps and intervals are
              whole numbers, decimals are whole numbers of 10**-scale
    Texts     every text in [low, high] by UTF-8 bytes; a bound that is null is open. Both may
              know members: which values of the range occur
    Json      the text of a JSON value, with what is known by kind and by path
    Anything  values of a type that is not tracked

Law (tests/laws/test_interpreter.py): the concrete result on every row lies in the Spec.
Errs: may say "possible" too often, never too seldom.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from strata.expr.sparktype import SparkType, spark_type

Flags = NDArray[np.bool_]
Bounds = NDArray[Any]  # int64, float64, or Python ints as objects (wide decimals)
TextBound = Any  # a binary Arrow array or scalar, whose nulls are open; None: open for all


def _constant(value: Any, dtype: Any = None) -> NDArray[Any]:
    array = np.array([value], dtype)
    array.flags.writeable = False
    return array


YES: Final[Flags] = _constant(True)
NO: Final[Flags] = _constant(False)


def no() -> Flags:
    """Return the flag that is set for no part: a default that dataclasses accept."""
    return NO


class Members(Protocol):
    """Which values occur, beyond their range."""

    def may_hold(self, value: int | float | bytes) -> Flags:
        """Return in which parts a value may occur; it is neither NaN nor -0.0."""


@dataclass(frozen=True, slots=True)
class Bools:
    """Truth values."""

    true: Flags
    false: Flags


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of [low, high], both inclusive; `low` and `high` mean nothing where `empty`."""

    low: Bounds
    high: Bounds
    empty: Flags = field(default_factory=no)  # no number but perhaps NaN
    nan: Flags = field(default_factory=no)
    members: Members | None = None  # None: any number of the range may occur


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts (or binaries) of [low, high], both inclusive."""

    low: TextBound
    high: TextBound
    empty: Flags = field(default_factory=no)
    members: Members | None = None  # None: any text of the range may occur


@dataclass(frozen=True, slots=True)
class Json:
    """The text of JSON values; the kinds are independent of each other.

    `quoted`: a JSON string appears with its quotes (a whole document), otherwise without (the
    result of get_json_object). JSON null and a missing path are SQL null, so not in here.
    """

    true: Flags
    false: Flags
    numbers: Numbers  # doubles, rounded outward
    integral: Flags  # every number is written as an integer
    strings: Texts
    lists: Flags
    maps: Flags
    quoted: bool
    child: "Callable[[str], Spec]"  # the value under a key
    whole: "Callable[[], Spec] | None" = None  # of a document: its own kinds, if they are known


@dataclass(frozen=True, slots=True)
class Anything:
    """Values that are not tracked; subclasses for structs, lists and maps know their content."""

    empty: Flags = field(default_factory=no)

    def joined(self, other: "Anything") -> "Anything":
        """Return values that enclose both."""
        return Anything(both(self.empty, other.empty))


Values = Bools | Numbers | Texts | Json | Anything


@dataclass(frozen=True, slots=True)
class Spec:
    """What an expression may yield, per part: values, null, an error."""

    values: Values
    null: Flags = field(default_factory=no)
    fail: Flags = field(default_factory=no)


# NumPy takes 30 times longer for `&` and `|` on flags if one side has one element and the other
# many, and most flags are alike in most parts: these three functions handle both cases.


def both(a: Flags, b: Flags) -> Flags:
    """Return `a & b`."""
    if a.size == 1:
        return b if a[0] else NO
    if b.size == 1:
        return a if b[0] else NO
    return a & b


def either(a: Flags, b: Flags) -> Flags:
    """Return `a | b`."""
    if a.size == 1:
        return YES if a[0] else b
    if b.size == 1:
        return YES if b[0] else a
    return a | b


def negated(flags: Flags) -> Flags:
    """Return `~flags`."""
    if flags.size == 1:
        return NO if flags[0] else YES
    return ~flags


def uniform(flags: Flags) -> Flags:
    """Return the flags, as one element if all are equal, which makes later operations cheap."""
    if flags.size == 1:
        return YES if flags[0] else NO
    if not flags.any():
        return NO
    return YES if flags.all() else flags


@lru_cache(maxsize=1024)
def everything(type_name: str) -> Values:
    """Return all values of a type, of one element."""
    kind = spark_type(type_name)
    match kind.family:
        case "bool":
            return Bools(YES, YES)
        case "int" | "decimal":
            return Numbers(integers(kind.low, kind), integers(kind.high, kind))
        case "float":
            return Numbers(_LEAST, _MOST, NO, YES)
        case "text":
            return Texts(None, None)
        case "void":
            return Anything(YES)
        case _:
            return Anything()


_LEAST: Final = _constant(-np.inf)
_MOST: Final = _constant(np.inf)


def anything(type_name: str) -> Spec:
    """Return the Spec that excludes nothing: any value, null or an error."""
    return Spec(everything(type_name), YES, YES)


def integers(value: int, kind: SparkType) -> Bounds:
    """Return one whole number as an array of the width that a type needs."""
    return _constant(value, object if kind.wide else np.int64)


def exactly(value: object, type_name: str) -> Spec:
    """Return the Spec of a constant; a value that does not fit its type opens the Spec."""
    if value is None:
        return Spec(none_of(everything(type_name)), YES)
    kind = spark_type(type_name)
    match kind.family, value:
        case "bool", bool():
            return Spec(Bools(YES, NO) if value else Bools(NO, YES))
        case "int", int() if kind.low <= value <= kind.high:
            point = np.array([value], np.int64)
            return Spec(Numbers(point, point))
        case "float", int() | float():
            point = np.array([float(value)])
            return Spec(_only_nan() if math.isnan(value) else Numbers(point, point))
        case "decimal", Decimal() | int():
            return _exact_decimal(Decimal(value), kind)
        case "text", str() | bytes():
            data = value.encode() if isinstance(value, str) else value
            bound = pa.scalar(data, pa.binary())
            return Spec(Texts(bound, bound))
        case _:
            return Spec(everything(type_name))


def _only_nan() -> Numbers:
    return Numbers(np.array([0.0]), np.array([0.0]), YES, YES)


def _exact_decimal(value: Decimal, kind: SparkType) -> Spec:
    if not value.is_finite():
        return Spec(everything(kind.name))
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    shift = exponent + kind.scale
    whole, rest = (unscaled * 10**shift, 0) if shift >= 0 else divmod(unscaled, 10**-shift)
    if rest or not kind.low <= whole <= kind.high:
        return Spec(everything(kind.name))
    point = integers(whole, kind)
    return Spec(Numbers(point, point))


def occupied(values: Values) -> Flags:
    """Return where some value other than null is possible."""
    match values:
        case Bools():
            return either(values.true, values.false)
        case Numbers():
            return either(negated(values.empty), values.nan)
        case Json():
            kinds = (values.true, values.false, values.lists, values.maps)
            numbers, strings = occupied(values.numbers), negated(values.strings.empty)
            return reduce(either, kinds, either(numbers, strings))
        case _:
            return negated(values.empty)


def gate(values: Values, where: Flags) -> Values:
    """Return `values` where `where` is set, no values elsewhere."""
    if where is YES:
        return values
    match values:
        case Bools():
            return Bools(both(values.true, where), both(values.false, where))
        case Numbers():
            return _gate_numbers(values, where)
        case Texts():
            return _gate_texts(values, where)
        case Json():
            return Json(
                both(values.true, where),
                both(values.false, where),
                _gate_numbers(values.numbers, where),
                values.integral,
                _gate_texts(values.strings, where),
                both(values.lists, where),
                both(values.maps, where),
                values.quoted,
                values.child,
                values.whole,
            )
        case Anything():
            return replace(values, empty=either(values.empty, negated(where)))


def _gate_numbers(values: Numbers, where: Flags) -> Numbers:
    empty = either(values.empty, negated(where))
    return Numbers(values.low, values.high, empty, both(values.nan, where), values.members)


def _gate_texts(values: Texts, where: Flags) -> Texts:
    return Texts(values.low, values.high, either(values.empty, negated(where)), values.members)


def none_of(values: Values) -> Values:
    """Return no value, of the same kind."""
    return gate(values, NO)


def hull(a: Values, b: Values) -> Values:
    """Return values that enclose both; values of different kinds become untracked."""
    match a, b:
        case Bools(), Bools():
            return Bools(either(a.true, b.true), either(a.false, b.false))
        case Numbers(), Numbers() if (a.low.dtype == np.float64) == (b.low.dtype == np.float64):
            return _hull_numbers(a, b)
        case ((Texts() | Json()), (Texts() | Json())):
            return _hull_texts(as_texts(a), as_texts(b))
        case Anything(), Anything():
            return a.joined(b)
        case _:
            return Anything(negated(either(occupied(a), occupied(b))))


def _hull_numbers(a: Numbers, b: Numbers) -> Numbers:
    low, high = np.minimum(a.low, b.low), np.maximum(a.high, b.high)
    if a.empty.any() or b.empty.any():
        low = np.where(a.empty, b.low, np.where(b.empty, a.low, low))
        high = np.where(a.empty, b.high, np.where(b.empty, a.high, high))
    return Numbers(low, high, both(a.empty, b.empty), either(a.nan, b.nan))


def _hull_texts(a: Texts, b: Texts) -> Texts:
    low = text_least(a.low, b.low)
    high = text_greatest(a.high, b.high)
    if a.empty.any() or b.empty.any():
        low = text_where(a.empty, b.low, text_where(b.empty, a.low, low))
        high = text_where(a.empty, b.high, text_where(b.empty, a.high, high))
    return Texts(low, high, both(a.empty, b.empty))


# Text bounds. A bound that is null is open: on the low side it lies before every text, on the
# high side behind every text.

_OPEN: Final = pa.scalar(None, pa.binary())


def text_least(a: TextBound, b: TextBound, *, open_wins: bool = True) -> TextBound:
    """Return the lesser of two bounds; `open_wins`: null if either is, else the other one."""
    if a is None or b is None:
        return None if open_wins else (b if a is None else a)
    return pc.min_element_wise(a, b, skip_nulls=not open_wins)


def text_greatest(a: TextBound, b: TextBound, *, open_wins: bool = True) -> TextBound:
    """Return the greater of two bounds; `open_wins` as for `text_least`."""
    if a is None or b is None:
        return None if open_wins else (b if a is None else a)
    return pc.max_element_wise(a, b, skip_nulls=not open_wins)


def text_where(where: Flags, a: TextBound, b: TextBound) -> TextBound:
    """Return `a` where the flag is set, otherwise `b`."""
    if where.size == 1:
        return a if where[0] else b
    if a is None and b is None:
        return None
    return pc.if_else(pa.array(where), _OPEN if a is None else a, _OPEN if b is None else b)


def text_compare(operation: str, a: TextBound, b: TextBound, *, unknown: bool = True) -> Flags:
    """Return `a operation b` ("less", "less_equal", "equal"); `unknown` where a bound is open."""
    if a is None or b is None:
        return YES if unknown else NO
    result = pc.call_function(operation, [a, b])
    if isinstance(result, pa.Scalar):
        answer = result.as_py()
        return YES if (unknown if answer is None else answer) else NO
    if result.null_count:
        result = pc.fill_null(result, unknown)
    flags: Flags = result.to_numpy(zero_copy_only=False)
    return flags


def _span(low: bytes, high: bytes, where: Flags) -> Texts:
    return Texts(pa.scalar(low, pa.binary()), pa.scalar(high, pa.binary()), negated(where))


def as_texts(values: Texts | Json) -> Texts:
    """Return the range of the texts that JSON values print as."""
    if isinstance(values, Texts):
        return values
    finite = np.isfinite(values.numbers.low) & np.isfinite(values.numbers.high)
    some = negated(values.numbers.empty)
    parts = [
        _span(b'"', b"#", negated(values.strings.empty)) if values.quoted else values.strings,
        _span(b"true", b"true", values.true),
        _span(b"false", b"false", values.false),
        _span(b"-", b":", both(some, finite)),
        Texts(None, None, negated(either(both(some, negated(finite)), values.numbers.nan))),
        _span(b"[", b"\\", values.lists),
        _span(b"{", b"|", values.maps),
    ]
    total = parts[0]
    for part in parts[1:]:
        if not part.empty.all():
            total = _hull_texts(total, part)
    return total
