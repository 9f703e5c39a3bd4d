"""Look up the parts of sorted runs that may have rows in a slice, for many slices.

`overlapping_groups` answers for one part and one slice. A merge or a consolidated read of a million
parts is cut into thousands of slices, and calling it for each pair would take hours.

Errs: as `overlapping_groups`, or less, since a part that ends before the slice is left out.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from strata.format.manifest import PartRef
from strata.model.schema import Relation
from strata.updates.slices import (
    NO_GROUPS,
    Groups,
    Slice,
    end_of,
    groups_within,
    has_keys_of,
    overlapping_groups,
)


class Overlaps:
    """The parts of one run, in order."""

    def __init__(
        self,
        run: Sequence[PartRef],
        relations: Sequence[Relation],
        groups: Groups = NO_GROUPS,
    ) -> None:
        """Index the bounds of the parts. If parts of the run overlap, each one is tried.

        `relations` are all versions, the newest last. A part in `groups` has only the rows of these
        row groups.
        """
        self._run, self._relations, self._groups = run, relations, groups
        self._lows = [ref.key_low for ref in run]
        self._ends = [end_of(ref.key_high) for ref in run]
        kinds = {(ref.order, ref.relation_version): ref for ref in run}
        self._comparable = all(has_keys_of(ref, relations[-1], relations) for ref in kinds.values())
        self._sorted = (
            self._comparable
            and all(a <= b for a, b in pairwise(self._lows))
            and all(a is not None and (b is None or a <= b) for a, b in pairwise(self._ends))
        )

    def of(self, within: Slice) -> tuple[PartRef, ...]:
        """Return the parts that may have rows in the slice, in their order."""
        first, last = 0, len(self._run)
        inside = last
        if self._sorted and last:
            # The end of the last part may be unknown, so it is never left out here.
            first = bisect_right(self._ends, within.low, 0, last - 1)  # type: ignore[type-var]
            last = last if within.high is None else bisect_left(self._lows, within.high)
            # From here on, parts begin in the slice.
            inside = bisect_left(self._lows, within.low, first, last)
        before = [ref for ref in self._run[first:inside] if self._has(ref, within)]
        behind = self._run[inside:last]
        if self._groups:
            known = self._groups
            behind = [ref for ref in behind if ref.key not in known or self._has(ref, within)]
        return (*before, *behind)

    def _has(self, ref: PartRef, within: Slice) -> bool:
        """Return whether a part may have rows in a slice."""
        chosen = self._groups.get(ref.key)
        if self._comparable:  # asked once for all parts: a merge asks for most of them
            found: Sequence[int] | None = groups_within(ref, within)
        else:
            found = overlapping_groups(ref, within, self._relations[-1], self._relations)
        if chosen is None:
            return found != []
        return bool(chosen) if found is None else not set(chosen).isdisjoint(found)
