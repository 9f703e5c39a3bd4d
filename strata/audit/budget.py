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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from strata.audit.batches import Looked
from strata.audit.soft import stratum
from strata.decide.draw import draws
from strata.decide.skips import Numbers, Skips
from strata.expr.filter import Filter
from strata.kernels.arrays import Bools
from strata.state.state import Evidence

FORMAT_SHARE: Final = 4  # one byte in four, at least, is for the format check
CHUNK_BYTES: Final = 256 << 20  # evaluated between two looks at the clock
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
    """The parts that one check would look at."""

    skips: Skips
    numbers: Numbers  # of these, in `skips`
    known: Bools  # which of `numbers` were judged with this filter before
    evidence: int  # parts that were judged of this kind

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """Return the places in `numbers` in the order of what is worth most."""
        newest = -self.skips.uppers[self.numbers].astype(np.float64)
        return np.lexsort((newest, self.known))


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


def affordable(piles: Sequence[Pile], size_bytes: int) -> list[Numbers]:
    """Return what to look at of each pile within a number of bytes, the most worthwhile first.

    0: no limit. One part is always affordable.
    """
    orders = [pile.order for pile in piles]
    ranked = [pile.numbers[order] for pile, order in zip(piles, orders, strict=True)]
    if not size_bytes or not any(len(numbers) for numbers in ranked):
        return ranked
    worth, sizes, owners = [], [], []
    for owner, (pile, order) in enumerate(zip(piles, orders, strict=True)):
        rank = np.arange(len(order)) + pile.evidence
        worth.append(np.where(pile.known[order], rank + _LAST, rank))
        sizes.append(pile.skips.sizes[pile.numbers[order]])
        owners.append(np.full(len(order), owner))
    first = np.argsort(np.concatenate(worth), kind="stable")
    total = np.cumsum(np.concatenate(sizes)[first])
    taken = np.concatenate(owners)[
        first[: max(1, int(np.searchsorted(total, size_bytes, "right")))]
    ]
    counts = np.bincount(taken, minlength=len(piles))
    return [numbers[:count] for numbers, count in zip(ranked, counts.tolist(), strict=True)]


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


def in_chunks(skips: Skips, numbers: Numbers, until: float | None) -> Iterator[Numbers]:
    """Yield numbers, ascending, in chunks until the time has come; without a limit all at once."""
    if until is None:
        if len(numbers):
            yield np.sort(numbers)
        return
    ends = np.cumsum(skips.sizes[numbers])
    start = 0
    while start < len(numbers) and not over(until):
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + CHUNK_BYTES, "right")))
        yield np.sort(numbers[start:end])
        start = end


def affordable_parts(
    looked: Sequence[Looked], keys: frozenset[str] | None, run: str, size_bytes: int
) -> frozenset[str]:
    """Return the parts whose format is checked within a number of bytes, at least one.

    `keys`: choose among these; None: among all. Cost: decodes keys and sizes of every manifest.
    """
    names: list[str] = []
    sizes: list[int] = []
    for one in sorted(looked, key=lambda one: -one.batch.upper):
        if one.manifest is None:
            continue
        table = one.manifest.read(["key", "size_bytes"])
        both = zip(table["key"].to_pylist(), table["size_bytes"].to_pylist(), strict=True)
        for key, size in both:
            if keys is None or key in keys:
                names.append(key)
                sizes.append(size)
    taken = _prefix(sizes, size_bytes // 2)
    spent = sum(sizes[:taken])
    rest, rest_sizes = names[taken:], sizes[taken:]
    drawn = np.argsort(draws(rest, run), kind="stable").tolist()
    more = _prefix([rest_sizes[n] for n in drawn], size_bytes - spent)
    chosen = [*names[:taken], *(rest[n] for n in drawn[:more])]
    return frozenset(chosen or names[:1])


def _prefix(sizes: Sequence[int], size_bytes: int) -> int:
    return int(np.searchsorted(np.cumsum(sizes), size_bytes, "right")) if sizes else 0
