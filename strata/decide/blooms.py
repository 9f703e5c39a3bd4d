"""Bloom filters as a step of their own: fetched for the parts that bounds and sets leave.

A filter is fetched only for a part that it might rule out, which shows when it is supposed to hold
nothing. A filter that is missing or damaged says nothing: its part is kept, and `strata validate`
names it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.members import is_bloom
from strata.decide.question import Question, Verdicts
from strata.errors import Corrupt
from strata.kernels.arrays import Bools, Ints
from strata.parts.turns import in_turn
from strata.stats.wire import BITS, BLOOMS
from strata.store.interface import Blob
from strata.store.named import get_named

FETCHERS: Final = 16  # filters that are fetched at a time: most of it is waiting
ROUNDS: Final = 4  # groups of filters for each fetcher: a group is one job, which costs time, too
AHEAD_BYTES: Final = 32 * 1024 * 1024  # of filters fetched and not looked at yet
TOGETHER_BYTES: Final = 64 * 1024 * 1024  # of filters that are looked at together


def judged(
    blob: Blob,
    question: Question,
    manifest: pa.Table,
    stats: pa.Table | None = None,
    more: Callable[[Sequence[str], Bools], pa.Table] | None = None,
) -> Verdicts:
    """Return the verdict on some parts, bloom filters included.

    Shape: as of `Question.of_parts`. `more` reads columns of some of the parts, which `manifest`
    was read without: where filters are stored, which takes more bytes than bounds.
    Cost: a request for each filter that might rule out a part which everything else keeps.
    """
    verdict = question.of_parts(manifest, stats)
    asked = sorted(name for name in question.columns if name.startswith(BLOOMS))
    doubtful = verdict.keep & ~verdict.suspects
    if not asked or not doubtful.any():
        return verdict
    if more is not None and not bloom_names(verdict.stats):
        others = more(asked, doubtful)
        verdict = replace(verdict, stats=_with_columns(verdict.stats, others, doubtful))
    names = [name for name in bloom_names(verdict.stats) if name in asked]
    if not names:
        return verdict
    doubtful &= _has_any(verdict.stats, names)
    rows = np.flatnonzero(doubtful)
    if not len(rows):
        return verdict
    hope = question.of_statistics(verdict.stats.take(pa.array(rows)), hopeful=True)
    found = _Looking(blob, question, verdict, names)
    for some in _together(verdict.stats, rows[~hope.keep], names):
        found.look(some)
    return found.verdict()


def _with_columns(stats: pa.Table, others: pa.Table, doubtful: Bools) -> pa.Table:
    """Return statistics with columns of doubtful parts, null for the other parts."""
    places = pa.array(np.cumsum(doubtful) - 1, mask=~doubtful)
    for name in bloom_names(others):
        stats = stats.append_column(others.schema.field(name), others[name].take(places))
    return stats


def bloom_names(stats: pa.Table | pa.RecordBatch) -> list[str]:
    """Return the names of the statistics columns that are bloom filters."""
    return [n for n in stats.schema.names if n.startswith(BLOOMS) and is_bloom(stats[n].type)]


def with_bits(blob: Blob, stats: pa.Table, names: Sequence[str] | None = None) -> pa.Table:
    """Return statistics with the bits of their bloom filters, null where they cannot be had.

    `names`: those to fetch; None: all. Memory: all of them.
    """
    for name in bloom_names(stats) if names is None else names:
        column = stats[name].combine_chunks()
        bits = pa.array(_fetched(blob, column), pa.binary())
        fields = [f for f in column.type if f.name != BITS]
        children = [column.field(f.name) for f in fields]
        filled = pa.StructArray.from_arrays(
            [*children, bits], fields=[*fields, pa.field(BITS, pa.binary())], mask=column.is_null()
        )
        stats = stats.set_column(stats.schema.get_field_index(name), name, filled)
    return stats


class _Looking:
    """The verdict on the parts of a manifest while their filters are looked at."""

    def __init__(
        self, blob: Blob, question: Question, verdict: Verdicts, names: Sequence[str]
    ) -> None:
        self._blob, self._question, self._before, self._names = blob, question, verdict, names
        self._keep = verdict.keep.copy()
        self._proofs = np.array(verdict.proofs, np.int64)

    def look(self, rows: Ints) -> None:
        """Look at the filters of some parts, place by place while a part is still kept."""
        stats = self._before.stats.take(pa.array(rows))
        for name in self._names:
            stats = with_bits(self._blob, stats, [name])
            decision = self._question.of_statistics(stats)
            gone = ~decision.keep
            self._keep[rows[gone]] = False
            self._proofs += np.bincount(decision.proof[gone], minlength=len(self._proofs))
            rows, stats = rows[decision.keep], stats.filter(pa.array(decision.keep))
            if not len(rows):
                return

    def verdict(self) -> Verdicts:
        """Return the verdict with what was found."""
        looked_up: Bools = self._before.keep & ~self._keep
        proofs = tuple(int(count) for count in self._proofs)
        return replace(self._before, keep=self._keep, proofs=proofs, looked_up=looked_up)


def _has_any(stats: pa.Table, names: Sequence[str]) -> Bools:
    found: Bools = np.zeros(stats.num_rows, np.bool_)
    for name in names:
        found |= np.asarray(pc.is_valid(stats[name]))
    return found


def _together(stats: pa.Table, rows: Ints, names: Sequence[str]) -> Iterator[Ints]:
    """Yield rows in groups whose filters fit the memory."""
    sizes = np.zeros(len(rows), np.int64)
    for name in names:
        some = pc.struct_field(stats[name].take(pa.array(rows)), "size_bytes")
        sizes += np.asarray(pc.fill_null(some, 0), np.int64)
    groups = np.cumsum(sizes) // TOGETHER_BYTES
    for group in np.unique(groups):
        yield rows[groups == group]


def _fetched(blob: Blob, column: pa.StructArray) -> Iterator[bytes | None]:
    """Yield the bits of each filter of a column, None where there are none."""
    keys = column.field("key").to_pylist()
    sizes = pc.fill_null(column.field("size_bytes"), 0).to_pylist()
    valid = column.is_valid().to_pylist()
    asked = [(n, key if there else None) for key, n, there in zip(keys, sizes, valid, strict=True)]
    many = max(1, len(asked) // (ROUNDS * FETCHERS))
    groups = [asked[start : start + many] for start in range(0, len(asked), many)]
    jobs = [(sum(n for n, _ in some), partial(_get_all, blob, some)) for some in groups]
    for some in in_turn(jobs, FETCHERS, AHEAD_BYTES):
        yield from some


def _get_all(blob: Blob, asked: Sequence[tuple[int, str | None]]) -> list[bytes | None]:
    return [_get(blob, key) for _, key in asked]


def _get(blob: Blob, key: str | None) -> bytes | None:
    if key is None:
        return None
    try:
        return get_named(blob, key, "a bloom filter")
    except Corrupt:
        return None
