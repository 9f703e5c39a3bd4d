"""What a manifest adds up to, part by part; `strata.audit.batches` does it column by column."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from strata.audit.batches import _after
from strata.format.manifest import PartRef


def sums_of(refs: Sequence[PartRef]) -> dict[str, object]:
    """Return the numbers of some parts."""
    return {
        "parts": len(refs),
        "updates": sum(ref.rows for ref in refs),
        "size_bytes": sum(ref.size_bytes for ref in refs),
        "diffs_sum": sum(ref.diffs_sum for ref in refs),
        "digest": sum(ref.digest for ref in refs),
        "stats_parts": sum(ref.stats_version is not None for ref in refs),
        "layouts": Counter(ref.layout for ref in refs),
        "runs": Counter(ref.run for ref in refs),
        "versions": {ref.relation_version for ref in refs},
        "retractions": any(ref.retractions for ref in refs),
    }


def out_of_order(refs: Sequence[PartRef]) -> Iterator[str]:
    """Yield the part that comes after one whose rows come later, in one run."""
    for a, b in pairwise(refs):
        if a.run == b.run and a.order and a.order == b.order and _after(a, b):
            yield b.key


def outside(refs: Sequence[PartRef], lower: int, upper: int) -> Iterator[str]:
    """Yield the parts with times that are not those of their batch."""
    for ref in refs:
        if ref.t_low > ref.t_high or ref.t_low < lower or ref.t_high >= upper:
            yield ref.key
