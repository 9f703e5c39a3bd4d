"""Credit skipped parts to the statistics that skipped them: that is what a statistic is worth."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from strata.decide.decision import Decision, split_conjuncts
from strata.decide.places import statistics_of
from strata.expr.filter import Filter


def proofs(decision: Decision, conjuncts: int) -> list[int]:
    """Return how many parts each conjunct skipped; the first one to rule a part out gets it."""
    skipped = decision.proof[~decision.keep]
    return [int(n) for n in np.bincount(skipped, minlength=conjuncts)]


def conjuncts(filter: Filter, quarantine: Collection[str] = ()) -> int:
    """Return the number of conjuncts that `decide` splits a filter into."""
    return len(split_conjuncts(filter.expr, quarantine))


def credit(
    filter: Filter, skipped: Sequence[int], quarantine: Collection[str] = ()
) -> Mapping[str, int]:
    """Return the number of parts skipped by each statistics column that the filter reads.

    `skipped`: parts by conjunct, see `proofs`. All columns of a conjunct get all of its parts.
    Columns that skipped nothing are included with 0, since they were read.
    """
    found: dict[str, int] = {}
    for conjunct, parts in zip(split_conjuncts(filter.expr, quarantine), skipped, strict=True):
        for name in set(statistics_of(conjunct)):
            found[name] = found.get(name, 0) + parts
    return found
