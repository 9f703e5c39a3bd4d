"""What texts of a known shape are cast to, or read as: their numbers and moments, without failure.

The shape of a place says what all of its texts are written like (`strata.stats.shapes`). Only a
function that reads the place itself knows it: any other text may be written otherwise.
"""

from functools import lru_cache
from typing import Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr.entry import Outcome, abroad, settle
from strata.expr.functions.patterns import Pattern, as_chars, parse_pattern, read
from strata.expr.functions.timestamps import widened
from strata.expr.nodes import Call
from strata.expr.shapes import Shape
from strata.expr.sparktype import SparkType, spark_type
from strata.expr.spec import (
    NO,
    YES,
    Flags,
    Numbers,
    Texts,
    Values,
    both,
    either,
    everything,
    negated,
)
from strata.kernels.arrays import Bytes

Letters = tuple[tuple[int, str, str], ...]  # a place in a text, a letter, the sign for it

_DIGITS: Final = 18  # of whole numbers
_HALF: Final = 0.5 + 1e-6  # half a unit: decimals are rounded HALF_UP
_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
_SIGNS: Final = {"T": " ", "Z": "_"}


def numbers_by_shape(call: Call, shape: Shape) -> Outcome:
    """Return the numbers that texts cast to; elsewhere anything, or a failure."""
    found, failing = shaped_numbers(call.type, shape)
    return Outcome(found, *settle(call, failing))


def shaped_numbers(type_name: str, shape: Shape | None) -> tuple[Values, Flags]:
    """Return the numbers that texts of a shape are read as, and where some may not be read."""
    full, target = everything(type_name), spark_type(type_name)
    readable = target.family in ("float", "decimal") or target.name in _INTEGERS
    if shape is None or not isinstance(full, Numbers) or not readable:
        return full, YES
    known, read_as, outside = _numbers(shape, target)
    low = np.where(known, read_as.low, full.low)
    high = np.where(known, read_as.high, full.high)
    empty, nan = both(known, read_as.empty), both(negated(known), full.nan)
    return Numbers(low, high, empty, nan), either(negated(known), outside)


def _numbers(shape: Shape, target: SparkType) -> tuple[Flags, Numbers, Flags]:
    """Return where texts are known to be numbers of a type, these, and where some do not fit it."""
    if target.family == "int":  # "1.5" is no integer to ANSI mode
        return shape.whole, *exact.fit(Numbers(shape.low, shape.high), target)
    if target.family == "float":
        low, high = shape.num_low, shape.num_high
        if target.single:  # a text is rounded once, these were rounded before
            low, high = exact.single(low), exact.single(high)
            low = np.nextafter(low.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
            high = np.nextafter(high.astype(np.float32), np.float32(np.inf)).astype(np.float64)
        return shape.number, Numbers(low, high), NO
    if target.wide:
        return shape.whole, *_rescaled(shape, target)
    around, over = decimals_around(Numbers(shape.num_low, shape.num_high), target)
    fitting, outside = _rescaled(shape, target)
    found = in_parts(around, fitting, shape.whole)
    return shape.number, found, np.where(shape.whole, outside, over)


def _rescaled(shape: Shape, target: SparkType) -> tuple[Numbers, Flags]:
    """Return whole numbers as decimals, and where some do not fit."""
    low, high = (exact.rescale(end, target.scale, _DIGITS) for end in (shape.low, shape.high))
    return exact.fit(Numbers(low, high), target)


def moments_by_shape(
    call: Call, values: Texts, otherwise: Numbers | None, shape: Shape
) -> tuple[Numbers, Flags]:
    """Return the microseconds that texts cast to, and where all of them are known to have some."""
    full = everything("timestamp")
    assert isinstance(full, Numbers)
    found = full if otherwise is None else otherwise
    sure = NO
    for pattern, fits in shape.patterns.items():
        zoned = pattern.endswith("'Z'")
        if not _is_cast(pattern) or (zoned and call.type == "timestamp_ntz"):
            continue
        local = call.type == "timestamp" and not zoned and abroad(call)
        found, sure = (
            in_parts(found, moments_of(values, pattern, local=local), fits),
            either(sure, fits),
        )
    return found, sure


def _is_cast(pattern: str) -> bool:
    """Return whether a cast reads the texts of a pattern."""
    return pattern.startswith("yyyy-MM-dd")


def in_parts(old: Numbers, new: Numbers, where: Flags) -> Numbers:
    """Return the new numbers in some parts, the old ones elsewhere."""
    return Numbers(
        np.where(where, new.low, old.low),
        np.where(where, new.high, old.high),
        np.where(where, new.empty, old.empty),
        old.nan,
    )


def moments_of(values: Texts, pattern: str, *, local: bool) -> Numbers:
    """Return the microseconds of texts of a known pattern, by their range.

    `local`: the texts are of a zone's clock, which is not UTC.
    """
    meaning, letters = _plain(pattern)
    full = everything("timestamp")
    assert isinstance(full, Numbers)
    if not meaning.ordered or values.low is None or values.high is None:
        return Numbers(full.low, full.high, values.empty)
    width = len(meaning.template)
    low, high = (_signed(as_chars(end, width), letters) for end in (values.low, values.high))
    first, last = read(meaning, low, upward=False), read(meaning, high, upward=True)
    first, last = widened(first, last) if local else (first, last)
    open_ = first > last  # the range contradicts the shape
    return Numbers(
        np.where(open_, exact.LOWEST, first), np.where(open_, exact.HIGHEST, last), values.empty
    )


def _signed(chars: Bytes, letters: Letters) -> Bytes:
    """Return texts with signs in place of the letters, which patterns read in either case."""
    for place, letter, sign in letters:
        chars[:, place] = np.where(chars[:, place] == ord(letter), ord(sign), 0)
    return chars


@lru_cache(maxsize=1024)
def _plain(pattern: str) -> tuple[Pattern, Letters]:
    """Return a pattern of `strata.stats.shapes` with signs in place of its letters, and these."""
    written = pattern.replace("'T'", "T").replace("'Z'", "Z")
    letters = tuple((at, char, _SIGNS[char]) for at, char in enumerate(written) if char in _SIGNS)
    found = parse_pattern("".join(_SIGNS.get(char, char) for char in written))
    assert found is not None, pattern
    return found, letters


def pattern_fits(shape: Shape, pattern: Pattern) -> tuple[Flags, str | None]:
    """Return where texts are those of a pattern, and the pattern as shapes write it."""
    for name, fits in shape.patterns.items():
        same = parse_pattern(name)
        if same is not None and (same.template, same.fields) == (pattern.template, pattern.fields):
            return fits, name
    return NO, None


def decimals_around(source: Numbers, target: SparkType) -> tuple[Numbers, Flags]:
    """Return narrow decimals that doubles, or the numbers that they stand for, are rounded to.

    Second: where some overflow. A number and its double differ by far less than the margin.
    """
    low, high = (np.clip(x, -1e18, 1e18) * 10.0**target.scale for x in (source.low, source.high))
    low = np.ceil(low - np.abs(low) * 1e-14 - _HALF)
    high = np.floor(high + np.abs(high) * 1e-14 + _HALF)
    outside = ((low < target.low) | (high > target.high)) & ~source.empty
    # Clipped twice: as a double the type's limit may be rounded up.
    low, high = (
        np.clip(x, target.low, target.high).astype(np.int64).clip(target.low, target.high)
        for x in (low, high)
    )
    return Numbers(low, high, source.empty), outside
