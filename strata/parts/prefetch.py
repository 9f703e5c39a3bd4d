"""Fetch and decode parts ahead of their turn, within a budget of bytes.

A store answers slowly, but many requests at once; decoding does not hold Python's lock. The rows
still come in the order of the parts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Final

import pyarrow as pa

from strata.format.manifest import PartRef
from strata.model.settings import ReadSettings
from strata.parts.fetch import PartSource, part_batches, part_bytes
from strata.parts.look import Look
from strata.parts.turns import in_turn

SMALL_BYTES: Final = 256 * 1024  # a part up to this size is always fetched in one request
DECODE_BYTES: Final = 16 * 1024 * 1024  # a part up to this size is decoded ahead, not only fetched
STEP_BYTES: Final = 32 * 1024 * 1024  # stored bytes of row groups that are fetched together


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns and row groups that a reader requests of each part."""

    columns: frozenset[int] | None = None  # by id; None: all
    # Part -> row groups; missing: all
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    look: Look | None = None  # leaves out row groups without a row that a filter accepts

    def whole(self, ref: PartRef) -> bool:
        """Return whether it is best to fetch a whole part in one request."""
        everything = self.columns is None and ref.key not in self.groups
        return everything or ref.size_bytes <= SMALL_BYTES


def parts_ahead(
    source: PartSource,
    parts: Iterable[PartRef],
    wanted: Wanted,
    settings: ReadSettings,
    *,
    threads: bool = True,
) -> Iterator[tuple[PartRef, Iterable[pa.RecordBatch]]]:
    """Yield each part, in order, with its rows, while others are fetched and decoded.

    A part of at most DECODE_BYTES is decoded ahead. Of a larger part the bytes are fetched ahead if
    all of its rows are requested, otherwise nothing. With one fetcher nothing is done ahead.
    `threads` allows parallel decoding of the columns of a part that comes alone.
    Raises: Corrupt, Unavailable, when the turn of the part has come.
    """
    rest = iter(parts)
    first = list(islice(rest, 2))
    alone = threads and len(first) == 1  # otherwise parts are decoded in parallel
    jobs = (
        (
            ref.size_bytes,
            partial(part_ahead, source, ref, wanted, threads=alone, decode=settings.fetchers > 1),
        )
        for ref in chain(first, rest)
    )
    yield from in_turn(jobs, settings.fetchers, settings.ahead_bytes)


def part_ahead(
    source: PartSource, ref: PartRef, wanted: Wanted, *, threads: bool, decode: bool
) -> tuple[PartRef, Iterable[pa.RecordBatch]]:
    """Return a part and its rows; with `decode`, those of a part up to DECODE_BYTES at once.

    The bytes of a part are fetched now if that is best done in one request.
    """
    groups = wanted.groups.get(ref.key)
    if groups is not None and not groups:
        return ref, []
    data = part_bytes(source, ref) if wanted.whole(ref) else None
    if data is not None and wanted.look is not None:
        groups = wanted.look.groups(source, ref, data, groups)
        if groups is not None and not groups:
            return ref, []
    batches = part_batches(
        source,
        ref,
        data=data,
        columns=wanted.columns,
        groups=groups,
        threads=threads,
        together_bytes=STEP_BYTES,
    )
    return ref, list(batches) if decode and ref.size_bytes <= DECODE_BYTES else batches
