"""Cut very many parts into stretches of the key space, so that those of one are held at a time.

Only the bounds of neighbouring parts are kept: of a page, or of a piece of a manifest. Stretches
end near these bounds, and each has about as many parts. A part that reaches into two stretches
belongs to both, and each takes the rows that lie in it.

This needs parts whose keys can be compared with those of rows, and are no prefixes of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.kernels.arrays import Bools
from strata.parts.manifests import StoredPiece
from strata.updates.cut import cut_groups
from strata.updates.slices import Slice

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Neighbours(Generic[A]):
    """Some neighbouring parts, and between which keys they lie."""

    found: A  # where the parts are
    low: bytes
    high: bytes | None  # None: no bound
    parts: int

    def reaches(self, within: Slice) -> bool:
        """Return whether some part may have rows in a slice; keys may be prefixes of rows'."""
        begins = within.high is None or self.low < within.high
        return begins and self.reaches_beyond(within.low)

    def reaches_beyond(self, key: bytes) -> bool:
        """Return whether some part may have rows at or after a key; no later key is, if not."""
        return self.high is None or self.high >= key or key.startswith(self.high)


def neighbours(found: A, bounds: pa.Table) -> Neighbours[A]:
    """Return the bounds of some parts.

    Shape: `bounds` has their `key_low` and `key_high`, one row a part and at least one.
    """
    high = None if bounds["key_high"].null_count else pc.max(bounds["key_high"]).as_py()
    return Neighbours(found, pc.min(bounds["key_low"]).as_py(), high, bounds.num_rows)


def cut_stretches(every: Iterable[Neighbours[A]], parts: int) -> list[Slice]:
    """Return the fewest stretches with at most about `parts` parts each, in key order.

    Shape: they cover the key space and share no row, however the parts lie.
    """
    ends = ((one.low, one.high or one.low, float(one.parts)) for one in every)
    return cut_groups(sorted(ends), parts)


def parts_within(piece: StoredPiece, within: Slice) -> list[PartRef]:
    """Return the parts of a piece that may have rows in a slice, in their order.

    Raises: Corrupt.
    """
    rows = np.flatnonzero(reaching(piece.read(["key_low", "key_high"]), within))
    return part_refs(piece.some(rows, SCHEMA.names)) if len(rows) else []


def reaching(bounds: pa.Table, within: Slice) -> Bools:
    """Return which parts may have rows in a slice; their greatest keys may be prefixes of rows'.

    Shape: one element a part; `bounds` has their `key_low` and `key_high`.
    """
    found = np.ones(bounds.num_rows, np.bool_)
    if within.high is not None:
        found &= pc.less(bounds["key_low"], pa.scalar(within.high, pa.binary())).to_numpy()
    if within.low:
        high = bounds["key_high"]
        prefixes = pa.array([within.low[:n] for n in range(len(within.low) + 1)], pa.binary())
        beyond = pc.greater_equal(high, pa.scalar(within.low, pa.binary()))
        reached = pc.or_(pc.fill_null(beyond, True), pc.is_in(high, value_set=prefixes))
        found &= reached.to_numpy()
    return found
