"""A budget for one validation of one shard: bytes, or seconds, and what they are spent on.

Soft evaluation at 100 % reads all that reads skip, times the filters; the format check reads all.
Where that is more than the budget, parts are left out. A part that is left out has no verdict: it
is neither a pass nor evidence, and the report says how many there are.

Soft evaluation spends where evidence is thinnest. Each check has a pile of parts, those not yet
judged with its filter first, the newest first. The next part comes from the pile whose evidence,
with what is taken already, is smallest. The format check, which keeps no evidence, takes the newest
parts for one half, and for the other a draw that every run makes anew.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

import numpy as np

from strata.audit.batches import Looked
from strata.audit.soft import stratum
from strata.decide.draw import draws
from strata.decide.skips import Drawn, Numbers, Skips
from strata.expr.filter import Filter
from strata.kernels.arrays import Bools
from strata.state.state import Evidence

FORMAT_SHARE: Final = 4  # one byte in four, at least, is for the format check
CHUNK_BYTES: Final = 256 << 20  # evaluated between two looks at the clock
CHUNK_PARTS: Final = 2048  # evaluated together: what is known of each is in memory
DRAWN_PARTS: Final = 65_536  # of a draw that are held until those that are too many are dropped
_LAST: Final = 1 << 40  # more than any evidence: what was judged before comes last
GROUPS: Final = "row groups"  # the kind of evidence about kept parts that lose row groups


@dataclass(frozen=True, slots=True)
class Budget:
    """What one validation of a shard may spend; 0: no limit."""

    size_bytes: int = 0  # stored bytes of parts, each time that one is read
    seconds: float = 0.0

    @property
    def limited(self) -> bool:
        """Return whether there is any limit."""
        return bool(self.size_bytes or self.seconds)


NO_LIMIT: Final = Budget()


@dataclass(frozen=True)
class Pile:
    """The parts that one check would look at, those first that are worth most.

    Shape: `parts` and `known` have one element a part.
    """

    skips: Skips
    parts: Drawn  # not ascending; without those that no budget reaches
    known: Bools  # which of them were judged with this filter before
    evidence: int  # parts that were judged of this kind
    wanted_parts: int
    wanted_bytes: int


def pile_of(
    skips: Skips, drawn: Drawn, known: Bools | None, evidence: int, size_bytes: int = 0
) -> Pile:
    """Return the pile of a draw, cut off where these bytes end; 0: nowhere.

    `known`: which parts were judged before; these come last, and the newest first. None: the order
    does not matter.
    """
    wanted = (len(drawn.numbers), int(drawn.sizes.sum()))
    if known is None:
        return Pile(skips, drawn, np.zeros(len(drawn.numbers), np.bool_), evidence, *wanted)
    order = _worthy(skips, drawn, known, size_bytes)
    parts = Drawn(drawn.numbers[order], drawn.sizes[order])
    return Pile(skips, parts, known[order], evidence, *wanted)


def _worthy(skips: Skips, drawn: Drawn, known: Bools, size_bytes: int) -> Numbers:
    """Return the places of a draw in the order of what is worth most, as far as bytes reach."""
    spans = sorted(skips.spans(drawn.numbers), key=lambda span: -span[0])  # stable
    found, spent = [np.zeros(0, np.int64)], 0
    for before in (False, True):
        for _, start, stop in spans:
            if size_bytes and spent > size_bytes:
                break
            places = start + np.flatnonzero(known[start:stop] == before)
            found.append(places)
            spent += int(drawn.sizes[places].sum())
    return np.concatenate(found)


def evidence_of(evidence: Evidence, filter: Filter, *, groups: bool) -> int:
    """Return how many parts were judged of a filter's kind: types × functions, any layout.

    `groups`: of row groups that are left out, instead of parts.
    """
    kind = stratum(filter.expr, "")
    return sum(
        one.parts
        for one in evidence.strata
        if one.name.startswith(kind) and one.name.endswith(GROUPS) == groups
    )


def affordable(piles: Sequence[Pile], size_bytes: int) -> list[Drawn]:
    """Return what to look at of each pile within a number of bytes, the most worthwhile first.

    0: no limit. One part is always affordable.
    """
    if not size_bytes or not any(len(pile.known) for pile in piles):
        return [pile.parts for pile in piles]
    worth, owners = [], []
    for owner, pile in enumerate(piles):
        rank = np.arange(len(pile.known)) + pile.evidence
        worth.append(np.where(pile.known, rank + _LAST, rank))
        owners.append(np.full(len(rank), owner))
    first = np.argsort(np.concatenate(worth), kind="stable")
    total = np.cumsum(np.concatenate([pile.parts.sizes for pile in piles])[first])
    taken = np.concatenate(owners)[
        first[: max(1, int(np.searchsorted(total, size_bytes, "right")))]
    ]
    counts = np.bincount(taken, minlength=len(piles)).tolist()
    return [
        Drawn(pile.parts.numbers[:count], pile.parts.sizes[:count])
        for pile, count in zip(piles, counts, strict=True)
    ]


class Clock:
    """The time that is left of a budget, shared by the steps of a validation."""

    def __init__(self, seconds: float, steps: int) -> None:
        """Begin; 0 seconds: no limit."""
        self._until = time.monotonic() + seconds if seconds else None
        self._steps = steps

    def begin(self) -> float | None:
        """Begin the next step, and return when it has to end: its share of what is left."""
        left, self._steps = max(self._steps, 1), self._steps - 1
        if self._until is None:
            return None
        now = time.monotonic()
        return now + max(self._until - now, 0.0) / left

    @property
    def until(self) -> float | None:
        """Return when the whole budget ends; None: never."""
        return self._until


def over(until: float | None) -> bool:
    """Return whether a time has come."""
    return until is not None and time.monotonic() >= until


def in_chunks(some: Drawn, until: float | None) -> Iterator[Numbers]:
    """Yield numbers in chunks until the time has come, each ascending; without a limit, all."""
    if until is None:
        numbers = np.sort(some.numbers)
        yield from (numbers[n : n + CHUNK_PARTS] for n in range(0, len(numbers), CHUNK_PARTS))
        return
    ends = np.cumsum(some.sizes)
    start = 0
    while start < len(ends) and not over(until):
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + CHUNK_BYTES, "right")))
        end = min(end, start + CHUNK_PARTS)
        yield np.sort(some.numbers[start:end])
        start = end


def affordable_parts(
    looked: Sequence[Looked],
    wanted: Callable[[Sequence[str]], Bools],
    run: str,
    size_bytes: int,
) -> frozenset[str]:
    """Return the parts whose format is checked within a number of bytes, at least one.

    `wanted`: choose among these. Cost: decodes keys and sizes of every manifest. Memory: the parts
    that are chosen.
    """
    newest, rest = _Newest(size_bytes // 2), _Smallest(run)
    for one in sorted(looked, key=lambda one: -one.batch.upper):
        for table in one.slices(["key", "size_bytes"]):
            names = table["key"].to_pylist()
            mine = wanted(names)
            sizes = table["size_bytes"].to_numpy()[mine]
            left, left_sizes = newest.add([*compress(names, mine)], sizes)
            rest.add(left, left_sizes, size_bytes - newest.spent)
    within = rest.within(size_bytes - newest.spent)
    return frozenset([*newest.names, *within] or newest.first)


class _Newest:
    """The first parts within some bytes."""

    def __init__(self, size_bytes: int) -> None:
        self._most, self._full = size_bytes, False
        self.names: list[str] = []
        self.spent = 0
        self.first: list[str] = []

    def add(self, names: list[str], sizes: Numbers) -> tuple[list[str], Numbers]:
        """Add the next parts; return those that are beyond the bytes."""
        self.first = self.first or names[:1]
        if self._full:
            return names, sizes
        taken = _prefix(sizes, self._most - self.spent)
        self.names += names[:taken]
        self.spent += int(sizes[:taken].sum())
        self._full = taken < len(names)
        return names[taken:], sizes[taken:]


class _Smallest:
    """The parts with the smallest draws within some bytes."""

    def __init__(self, salt: str) -> None:
        self._salt = salt
        self._names: list[str] = []
        self._sizes = np.zeros(0, np.int64)
        self._held = 0

    def add(self, names: list[str], sizes: Numbers, size_bytes: int) -> None:
        """Add parts, and drop now and then what these bytes do not reach."""
        self._names += names
        self._sizes = np.concatenate([self._sizes, sizes])
        if len(self._names) > 2 * self._held + DRAWN_PARTS:
            self._held = self._drop(size_bytes)

    def within(self, size_bytes: int) -> list[str]:
        """Return the parts before the first one, by their draws, that is too much."""
        count = self._drop(size_bytes)
        return self._names[:count]

    def _drop(self, size_bytes: int) -> int:
        """Drop the parts behind the first one that is too much; return how many are before it."""
        order = np.argsort(draws(self._names, self._salt), kind="stable")
        count = _prefix(self._sizes[order], size_bytes)
        order = order[: count + 1]  # with the first one, no part with a larger draw comes in
        self._names = [self._names[n] for n in order.tolist()]
        self._sizes = self._sizes[order]
        return count


def _prefix(sizes: Numbers, size_bytes: int) -> int:
    return int(np.searchsorted(np.cumsum(sizes), size_bytes, "right"))
