"""Parts fetched and decoded ahead of their turn, within a budget of bytes.

A store answers slowly and many at once; decoding leaves Python's lock alone. Rows come in the
order of the parts all the same.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa

from strata.format.manifest import PartRef
from strata.model.settings import ReadSettings
from strata.parts.fetch import Source, part_batches, part_bytes

SMALL_BYTES: Final = 256 * 1024  # a part so small is fetched in one request, whatever is wanted
DECODE_BYTES: Final = 16 * 1024 * 1024  # a part so small is decoded ahead, not only fetched
STEP_BYTES: Final = 32 * 1024 * 1024  # stored bytes of the row groups that are fetched together

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of each part a reader wants."""

    columns: frozenset[int] | None = None  # by id; None: all
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)  # part -> row groups; or all

    def whole(self, ref: PartRef) -> bool:
        """Tell whether all of a part is best fetched in one request."""
        everything = self.columns is None and ref.key not in self.groups
        return everything or ref.size_bytes <= SMALL_BYTES


def parts_ahead(
    source: Source,
    parts: Sequence[PartRef],
    wanted: Wanted,
    settings: ReadSettings,
    *,
    threads: bool = True,
) -> Iterator[tuple[PartRef, Iterable[pa.RecordBatch]]]:
    """Yield each part, in order, with its rows, while others are fetched and decoded.

    A part of no more than DECODE_BYTES is decoded ahead; of a larger one whose rows are all
    wanted the bytes are fetched, of another nothing. With one fetcher nothing is done ahead.
    `threads` allows the columns of a part that comes alone to be decoded beside one another.
    Raises: Corrupt, Unavailable: when its part's turn has come.
    """
    alone = threads and len(parts) == 1  # else it is parts that are decoded beside one another
    jobs = [
        (ref.size_bytes, partial(_ahead, source, ref, wanted, alone, settings.fetchers > 1))
        for ref in parts
    ]
    results = in_turn(jobs, settings.fetchers, settings.ahead_bytes)
    yield from zip(parts, results, strict=True)


def _ahead(
    source: Source, ref: PartRef, wanted: Wanted, threads: bool, decode: bool
) -> Iterable[pa.RecordBatch]:
    groups = wanted.groups.get(ref.key)
    if groups is not None and not groups:
        return []
    data = part_bytes(source, ref) if wanted.whole(ref) else None
    batches = part_batches(
        source,
        ref,
        data=data,
        columns=wanted.columns,
        groups=groups,
        threads=threads,
        together_bytes=STEP_BYTES,
    )
    return list(batches) if decode and ref.size_bytes <= DECODE_BYTES else batches


def in_turn(
    jobs: Sequence[tuple[int, Callable[[], R]]], workers: int, budget_bytes: int
) -> Iterator[R]:
    """Yield the result of each job in order, `workers` others being under way meanwhile.

    Each job comes with its bytes: those begun and not yet handed out stay within the budget, but
    for one that is larger by itself. One worker: each job is run when its turn comes.
    """
    if workers <= 1 or len(jobs) == 1:
        yield from (job() for _, job in jobs)
        return
    waiting: deque[tuple[int, Future[R]]] = deque()
    ahead, position = 0, 0
    with ThreadPoolExecutor(workers, thread_name_prefix="strata-fetch") as pool:
        try:
            while position < len(jobs) or waiting:
                while position < len(jobs) and (
                    not waiting or ahead + jobs[position][0] <= budget_bytes
                ):
                    size, job = jobs[position]
                    waiting.append((size, pool.submit(job)))
                    ahead, position = ahead + size, position + 1
                size, future = waiting.popleft()
                yield future.result()
                ahead -= size
        finally:
            for _, future in waiting:  # an abandoned scan starts nothing more
                future.cancel()
