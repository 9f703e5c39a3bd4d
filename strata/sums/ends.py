"""The least and greatest values of groups, kept from changes.

A new value that goes beyond the end of its group is the new end. When a retraction may have taken
the end away, only the rows know the next one: then all values of the group are counted, those of
the source before the changes and those of the changes. A value is there if the diffs of the rows
that have it add up to more than 0, as for `Shard.min`; null is no value.

Whether a value that changes add was at less than 0 before is known only where the source had no
retractions (`certain`). Elsewhere a new end makes its group be counted, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Counts: TypeAlias = dict[Any, int]  # the sum of the diffs of each value, by column
Values: TypeAlias = tuple[Counts, ...]  # of each column that has an end


@dataclass(frozen=True, slots=True)
class End:
    """The least or the greatest value of a column."""

    place: int  # of the column among those with an end
    greatest: bool

    def outer(self, values: Iterable[Any]) -> Any:
        """Return the outermost of some values; None if there are none."""
        some = [value for value in values if value is not None]
        return (max if self.greatest else min)(some) if some else None

    def of(self, values: Values) -> Any:
        """Return the end of all values that are there."""
        return self.outer(value for value, count in values[self.place].items() if count > 0)


@dataclass(frozen=True)
class EndsFold:
    """The ends of one group after each of some changes."""

    ends: Sequence[End]
    columns: int  # that have ends

    @property
    def no_values(self) -> Values:
        """Return counts of nothing."""
        return tuple({} for _ in range(self.columns))

    def folded(
        self, before: tuple[Any, ...], changes: Sequence[Values], *, certain: bool
    ) -> list[tuple[Any, ...]] | None:
        """Return the ends after each change; None if the values before have to be counted."""
        counts, found = self.no_values, []
        for some in changes:
            add_values(counts, some)
            after = []
            for end, now in zip(self.ends, before, strict=True):
                column, known = some[end.place], counts[end.place]
                if now is not None and column.get(now, 0) < 0 and known[now] <= 0:
                    return None
                value = end.outer((now, *(v for v, count in column.items() if count > 0)))
                if value != now and (not certain or known[value] <= 0):
                    return None
                after.append(value)
            before = tuple(after)
            found.append(before)
        return found

    def counted(self, counts: Values, changes: Sequence[Values]) -> list[tuple[Any, ...]]:
        """Return the ends after each change to these values, which change along."""
        before = tuple(end.of(counts) for end in self.ends)
        found = []
        for some in changes:
            add_values(counts, some)
            after = []
            for end, now in zip(self.ends, before, strict=True):
                known = counts[end.place]
                if now is not None and known[now] <= 0:
                    after.append(end.of(counts))
                    continue
                after.append(end.outer((now, *(v for v in some[end.place] if known[v] > 0))))
            before = tuple(after)
            found.append(before)
        return found


def add_values(counts: Values, more: Sequence[Mapping[Any, int]]) -> None:
    """Add diffs of values to others."""
    for known, some in zip(counts, more, strict=True):
        for value, diff in some.items():
            known[value] = known.get(value, 0) + diff


def add_value(counts: Values, row: Sequence[Any], diff: int, ends: Sequence[End]) -> None:
    """Add the values of a row; with `ends`, keep only the values that can be one.

    They suffice where no row is ever retracted.
    """
    for place, (known, value) in enumerate(zip(counts, row, strict=True)):
        if value is None:
            continue
        known[value] = known.get(value, 0) + diff
        if ends and len(known) > 1:
            kept = {end.outer(known) for end in ends if end.place == place}
            for other in known.keys() - kept:
                del known[other]
