"""Rows are judged over the whole span of a filter's clock, not at its two ends alone."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from strata.audit.soft import INSTANTS, judged_instants
from strata.expr.calendar import DAY_US
from strata.expr.filter import Filter
from strata.expr.nodes import Literal


def _instants(low: int, high: int) -> list[int]:
    return judged_instants(Filter(Literal(True, "boolean"), "", low, high))


@given(st.integers(-(10**16), 10**16), st.integers(0, 400 * DAY_US))
def test_the_span_is_judged_at_its_ends_and_inside(low: int, span: int) -> None:
    found = _instants(low, low + span)

    assert (found[0], found[-1]) == (low, low + span)
    assert len(found) <= 4 * INSTANTS + 4
    assert max((b - a for a, b in itertools.pairwise(found)), default=0) <= span // INSTANTS + 1


def test_a_clock_that_stands_still_is_judged_once() -> None:
    assert _instants(7, 7) == [7]


def test_both_sides_of_midnight_are_judged() -> None:
    assert {DAY_US - 1, DAY_US, 2 * DAY_US - 1, 2 * DAY_US} <= set(_instants(5, 2 * DAY_US + 5))
