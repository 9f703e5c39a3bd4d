"""How much a test tries: least in `make test-unit`, little in `make test`, else a lot."""

import os
from collections.abc import Sequence
from typing import Final, TypeVar

from hypothesis import settings

T = TypeVar("T")
PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE") or "ci"
EXAMPLES: Final = {"loop": 4, "ci": 15, "explore": 200, "long": 2000}  # of Hypothesis, by profile


def tries(few: int, many: int) -> int:
    """Return `few` for a person and for CI, `many` where there is time."""
    return few if PROFILE in ("loop", "ci") else many


def slice_of(some: Sequence[T], number: int, share: int) -> Sequence[T]:
    """Return one of `share` slices of the cases for a person and for CI, all where there is time.

    Tests that differ in `number` alone try all of them together.
    """
    return some if tries(0, 1) else some[number % share :: share]


# A law that is tried for each of some sixty types, which share most of their code.
few_a_type: Final = settings(
    max_examples=min(EXAMPLES[PROFILE], tries(5, 2000)),
    deadline=None,  # this module may be loaded before the profile is
)
