"""Plan what to drop and what to shorten, part by part, on plain numbers.

Costs and flags are computed once for all parts, by column; for each part only arithmetic on small
lists remains. `strata.stats.trim` has the rules and applies the plans.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.kernels.arrays import Bools
from strata.stats.bounds import common_prefix_bytes, cut_high, cut_low
from strata.stats.size import LENGTH_BITS, column_bits
from strata.stats.wire import JSON_PATH, parent_name

# Bytes kept after the common prefix of low and high, tried in turn. The prefix that all values of
# a part share says most; the first byte in which they differ says most of the rest.
BEHIND_PREFIX: Final = (32, 16, 8, 4, 1)

_SCALAR_KINDS: Final = ("bools", "numbers", "strings", "lists", "maps")
_BOUNDS: Final = (("low", "high"), ("str_low", "str_high"))

Text = str | bytes
S = TypeVar("S", str, bytes)


@dataclass(frozen=True)
class StatsColumn:
    """One statistics column of all parts, in the form that planning needs."""

    name: str
    array: pa.StructArray
    above: tuple[int, ...]  # the indexes of its ancestors among the columns, nearest first
    kept: bool
    rank: float  # its usefulness

    @cached_property
    def bits(self) -> list[int]:
        """Return the cost of the column in each part, in bits."""
        return list(column_bits(self.array).tolist())

    @cached_property
    def is_path(self) -> bool:
        """Return whether this is a path of a JSON column."""
        return bool(self.array.type == JSON_PATH)

    @cached_property
    def mixed(self) -> Bools:
        """Return where a JSON path holds values of several kinds."""
        several = np.zeros(len(self.array), np.int64)
        if self.is_path:
            for kind in _SCALAR_KINDS:
                counts = pc.fill_null(pc.struct_field(self.array, kind), 0)
                several += counts.to_numpy() != 0
        return several > 1

    @cached_property
    def bounds(self) -> tuple[str, str] | None:
        """Return the names of the fields that hold texts, if any do."""
        for names in _BOUNDS:
            place = self.array.type.get_field_index(names[0])
            if place >= 0 and _is_text(self.array.type.field(place).type):
                return names
        return None

    @cached_property
    def texts(self) -> tuple[list[Text | None], list[Text | None]]:
        """Return the low and the high texts of each part."""
        low, high = (pc.struct_field(self.array, name) for name in self.bounds or ())
        return low.to_pylist(), high.to_pylist()

    @cached_property
    def says_complete(self) -> list[bool]:
        """Return where a path says whether its keys are complete."""
        return list(pc.is_valid(pc.struct_field(self.array, "complete")).to_pylist())


@dataclass
class PartPlan:
    """What happens to one part, by the indexes of its statistics columns."""

    bits: dict[int, int]  # cost of each present column
    below: list[int]  # number of present columns below each
    dropped: list[int] = field(default_factory=list)
    shortened: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    incomplete: set[int] = field(default_factory=set)

    @cached_property
    def before(self) -> int:
        """Return the cost of the part before trimming, in bits."""
        return sum(self.bits.values())


def make_plan(
    sources: Sequence[StatsColumn], part: int, present: Bools, limit_bytes: int
) -> PartPlan:
    """Return the plan for a part; `present` says which of the columns it has."""
    there = np.flatnonzero(present).tolist()
    plan = PartPlan({place: sources[place].bits[part] for place in there}, [0] * len(sources))
    total = plan.before
    if total <= 8 * limit_bytes:
        return plan
    for place in there:
        for above in sources[place].above:
            plan.below[above] += 1
    budget = _Budget(sources, part, plan, 8 * limit_bytes, total)
    budget.drop_mixed()
    budget.shorten()
    budget.drop()
    return plan


class _Budget:
    """The state of one part during trimming."""

    def __init__(
        self, sources: Sequence[StatsColumn], part: int, plan: PartPlan, limit: int, total: int
    ) -> None:
        self._sources, self._part, self._plan = sources, part, plan
        self._limit, self._total = limit, total

    def drop_mixed(self) -> None:
        """Drop paths with values of several kinds, children before their parents."""
        for place in reversed(list(self._plan.bits)):
            if self._total <= self._limit:
                return
            if self._is_free(place) and self._sources[place].mixed[self._part]:
                self._drop(place)

    def shorten(self) -> None:
        """Shorten texts, all of them a little before any of them a lot."""
        plan = self._plan
        texts = [p for p in plan.bits if self._sources[p].bounds and not self._sources[p].kept]
        for behind in BEHIND_PREFIX:
            for place in texts:
                if self._total <= self._limit:
                    return
                low, high = plan.shortened.get(place) or self._texts(place)
                if low is None or high is None:
                    continue
                cut = _cut_pair(low, high, behind)
                gain = sum(map(_text_bits, (low, high))) - sum(map(_text_bits, cut))
                if gain > 0:
                    plan.shortened[place] = cut
                    self._spend(place, -gain)

    def drop(self) -> None:
        """Drop columns: least useful, then most expensive first; children before parents."""
        leaves = [self._order(place) for place in self._plan.bits if self._is_free(place)]
        heapify(leaves)
        while leaves and self._total > self._limit:
            place = heappop(leaves)[-1]
            self._drop(place)
            for above in self._sources[place].above[:1]:
                if above in self._plan.bits and self._is_free(above):
                    heappush(leaves, self._order(above))

    def _order(self, place: int) -> tuple[float, int, str, int]:
        source = self._sources[place]
        return source.rank, -self._plan.bits[place], source.name, place

    def _is_free(self, place: int) -> bool:
        return not self._sources[place].kept and not self._plan.below[place]

    def _texts(self, place: int) -> tuple[Any, Any]:
        low, high = self._sources[place].texts
        return low[self._part], high[self._part]

    def _drop(self, place: int) -> None:
        plan = self._plan
        self._total -= plan.bits.pop(place)
        plan.dropped.append(place)
        for above in self._sources[place].above:
            plan.below[above] -= 1
        # A dropped path must not count as absent.
        for above in self._sources[place].above[:1]:
            if above in plan.bits and self._sources[above].is_path:
                if above not in plan.incomplete:
                    self._spend(above, 0 if self._sources[above].says_complete[self._part] else 1)
                plan.incomplete.add(above)

    def _spend(self, place: int, bits: int) -> None:
        self._plan.bits[place] += bits
        self._total += bits


def ancestors(name: str) -> Iterator[str]:
    """Yield the names of a statistics column's ancestors, nearest first."""
    parent = parent_name(name)
    while parent is not None:
        yield parent
        parent = parent_name(parent)


def sources_of(
    columns: Mapping[str, pa.StructArray], kept: frozenset[str], rank: Callable[[str], float]
) -> list[StatsColumn]:
    """Return statistics columns in the form that planning needs, in their order."""
    places = {name: place for place, name in enumerate(columns)}
    return [
        StatsColumn(
            name,
            array,
            tuple(places[above] for above in ancestors(name) if above in places),
            name in kept,
            rank(name),
        )
        for name, array in columns.items()
    ]


def _cut_pair(low: S, high: S, behind: int) -> tuple[S, S]:
    limit = common_prefix_bytes(low, high) + behind
    cut = cut_high(high, limit)
    return cut_low(low, limit), high if cut is None else cut


def _text_bits(text: Text) -> int:
    size = len(text if isinstance(text, bytes) else text.encode())
    return 8 * size + LENGTH_BITS if size else 0


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
