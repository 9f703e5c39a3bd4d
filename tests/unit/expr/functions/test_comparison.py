"""Comparisons of ranges of texts, which look at no more than the answer needs."""

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata.expr.functions.comparison import may_be_equal, may_differ
from strata.expr.spec import Flags, Spec, Texts

WORDS = [None, b"", b"a", b"ab", b"b"]
RANGES = [(a, b) for a, b in product(WORDS, WORDS) if a is None or b is None or a <= b]


def meeting(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[bool, bool]:
    """Return whether texts of two ranges may be equal, and may differ: the slow twin."""
    (low, high), (first, last) = a, b
    apart = (high is not None and first is not None and high < first) or (
        low is not None and last is not None and last < low
    )
    single = None not in (low, high, first, last) and low == high == first == last
    return not apart, not single


def texts(ranges: list[tuple[Any, Any]], none: list[bool], *, alike: bool) -> Spec:
    low = pa.array([a for a, _ in ranges], pa.binary())
    high = low if alike else pa.array([b for _, b in ranges], pa.binary())
    return Spec(Texts(low, high, np.array(none)))


def flags(found: Flags, parts: int) -> list[bool]:
    return [bool(flag) for flag in np.broadcast_to(found, parts)]


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("other", RANGES)
def test_texts_of_many_parts_meet_as_those_of_each_do(
    other: tuple[Any, Any], *, alike: bool
) -> None:
    """Also where few of the parts may hold the other text, or none of them."""
    ranges = [(a, a) for a, _ in RANGES] if alike else RANGES
    single = other[0] is not None and other[0] == other[1]
    bound = pa.scalar(other[0], pa.binary())
    constant = Texts(bound, bound if single else pa.scalar(other[1], pa.binary()))
    for chosen in (ranges, [r for r in ranges if not meeting(r, other)[0]], ranges[-3:] + ranges):
        if not chosen:
            continue
        none = [number % 4 == 3 for number in range(len(chosen))]
        left, right = texts(chosen, none, alike=alike), Spec(constant)
        for a, b in ((left, right), (right, left)):
            meet = may_be_equal(a, b)
            wanted = [meeting(one, other) for one in chosen]

            assert flags(meet, len(chosen)) == [
                same and not gone for (same, _), gone in zip(wanted, none, strict=True)
            ]
            for known in (meet, np.array([True])):
                assert flags(may_differ(a, b, known), len(chosen)) == [
                    differ and not gone for (_, differ), gone in zip(wanted, none, strict=True)
                ]
