"""How two places of a row differ, in all parts: the bounds that `strata.stats.pairs` records."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.fields import Rows
from strata.expr.spec import Bounds
from strata.kernels.arrays import Bools, Floats, Ints
from strata.stats.pairs import FLOATS

_WHOLE: Final = 2.0**62  # whole differences beyond it are not used, so that no sum overflows


@dataclass(frozen=True, slots=True)
class PairBounds:
    """Bounds of left - right and of left / right. Shape: one element a part.

    Whole differences are int64, of floats float64. A bound means nothing where it is not known.
    """

    known: Bools  # whether the bounds of the difference are known
    none: Bools  # known, and no row has both values
    low: Bounds
    high: Bounds
    divides: Bools  # whether the bounds of the ratio are known
    ratio_low: Floats
    ratio_high: Floats
    nonzero: Bools  # the right one is zero in no row

    @classmethod
    def decoded(cls, column: pa.StructArray, form: str) -> "PairBounds":
        """Return the bounds that a statistics column has, of places that have this form today."""
        same = pc.fill_null(pc.equal(column.field("form"), form), False)
        there = np.asarray(same, np.bool_) & np.asarray(column.is_valid(), np.bool_)
        both, zeros = (_count(column.field(name)) for name in ("both", "zeros"))
        none = there & (both == 0)
        low: Bounds = _bound(column.field("low"))
        high: Bounds = _bound(column.field("high"))
        ratio = [_bound(column.field(f"ratio_{side}")) for side in ("low", "high")]
        known = there & (low <= high)  # false for NaN
        if form != FLOATS:
            known &= (low >= -_WHOLE) & (high <= _WHOLE)
            low, high = (
                np.where(known, end, 0.0).astype(np.int64) for end in (np.ceil(low), np.floor(high))
            )
        else:
            low, high = (np.where(known, end, 0.0) for end in (low, high))
        divides = there & (ratio[0] <= ratio[1])
        ratio = [np.where(divides, end, 0.0) for end in ratio]
        return cls(
            known | none, none, low, high, divides | none, ratio[0], ratio[1], there & (zeros == 0)
        )

    def at(self, rows: Rows) -> "PairBounds":
        """Return the bounds of some parts."""
        return PairBounds(
            self.known[rows],
            self.none[rows],
            self.low[rows],
            self.high[rows],
            self.divides[rows],
            self.ratio_low[rows],
            self.ratio_high[rows],
            self.nonzero[rows],
        )

    def turned(self) -> "PairBounds":
        """Return the bounds of right - left; nothing is known of right / left."""
        nothing = np.zeros_like(self.known)
        return PairBounds(
            self.known,
            self.none,
            -self.high,
            -self.low,
            nothing,
            self.ratio_low,
            self.ratio_high,
            nothing,
        )


def _count(values: pa.Array) -> Ints:
    return np.asarray(pc.fill_null(values, -1), np.int64)


def _bound(values: pa.Array) -> Floats:
    return np.asarray(pc.fill_null(values, float("nan")), np.float64)
