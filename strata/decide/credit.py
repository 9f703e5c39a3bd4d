"""Which statistics a filter's skipped parts are owed to: what makes a statistic worth its bytes."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from strata.decide.decision import Decision, split
from strata.decide.places import statistics_of
from strata.expr.filter import Filter


def proofs(decision: Decision, conjuncts: int) -> list[int]:
    """Return how many parts each conjunct skipped: those that it was the first to rule out."""
    skipped = decision.proof[~decision.keep]
    return [int(n) for n in np.bincount(skipped, minlength=conjuncts)]


def conjuncts(filter: Filter, quarantine: Collection[str] = ()) -> int:
    """Return into how many conjuncts `decide` splits a filter."""
    return len(split(filter.expr, quarantine))


def credit(
    filter: Filter, skipped: Sequence[int], quarantine: Collection[str] = ()
) -> Mapping[str, int]:
    """Return, for each statistics column the filter is judged by, the parts skipped through it.

    `skipped`: parts by conjunct, see `proofs`. All columns of a conjunct get all of its parts.
    Columns that skipped nothing are there with 0: they were looked at.
    """
    found: dict[str, int] = {}
    for conjunct, parts in zip(split(filter.expr, quarantine), skipped, strict=True):
        for name in set(statistics_of(conjunct)):
            found[name] = found.get(name, 0) + parts
    return found
