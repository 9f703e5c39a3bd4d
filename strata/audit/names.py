"""Find the parts that a shard names more than once."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

Named: TypeAlias = tuple[int, int, str]  # a batch by its place, a run of it, a part


def named_again(named: Iterable[Named]) -> Iterator[tuple[str, int, list[int]]]:
    """Yield each part that two batches name, or one run twice: how often, and by which batches.

    Two runs of a batch may name the same part: older versions of ingest gave runs with equal rows
    the same part, and its rows count once for each run.
    """
    times = Counter(named)
    owners: dict[str, list[int]] = {}
    count: Counter[str] = Counter()
    wrong = dict.fromkeys(key for (_, _, key), n in times.items() if n > 1)
    for (batch, _, key), n in times.items():
        count[key] += n
        mine = owners.setdefault(key, [])
        if batch not in mine:
            mine.append(batch)
    for key, mine in owners.items():
        if key in wrong or len(mine) > 1:
            yield key, count[key], mine
