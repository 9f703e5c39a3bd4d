"""Consolidated reads: the key space in stretches; only parts that overlap are merged.

A stretch ends where no part reaches into the next one, so no row has updates in two of them.

    run 1   [--- a ---]                 [- c -]
    run 2               [----- b -----]    [- d -]
    read    a           b               merge of c and d

A stretch of one part whose rows all have one time holds each row once: it is only decoded, and
only in the requested columns. Stretches are read ahead of their turn, several at once.

A plan of very many parts is read one stretch of `strata.read.stretches` after another, and only
the parts of one are held.

Twin: one merge of everything (`tests/laws/test_merged_reads.py`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa

from strata.decide.read_plan import ReadPlan
from strata.format.manifest import PartRef
from strata.model.schema import Relation
from strata.model.settings import ReadSettings
from strata.parts.fetch import PartSource, RowBudget, sorted_runs
from strata.parts.look import Look
from strata.parts.prefetch import Wanted, part_ahead
from strata.parts.turns import in_turn
from strata.read.as_of import as_of_view
from strata.read.stretches import parts_in, stretches_of
from strata.state.state import State
from strata.updates.merge import COPIES, MEMORY_BYTES, batch_rows, merge
from strata.updates.slices import (
    NO_GROUPS,
    WHOLE,
    Groups,
    Slice,
    end_of,
    has_keys_of,
    keeps_order,
    overlapping_groups,
    shared_slice,
)

Runs: TypeAlias = Sequence[Sequence[PartRef]]

IN_ORDER: Final = ReadSettings(fetchers=1)  # nothing is read ahead
TOGETHER_BYTES: Final = 64 * 1024 * 1024  # stored bytes that all runs of a merge fetch together
STRETCH_BYTES: Final = 4 * 1024 * 1024  # stored bytes up to which stretches are merged as one
AHEAD_BYTES: Final = 8 * 1024 * 1024  # stored bytes of a stretch that is merged ahead of its turn
# Of a part that is read by itself: a smaller one is joined with its neighbours.
LEAST_ROWS: Final = 4096
LEAST_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class MergeStretch:
    """The parts of each run between two gaps of the key space."""

    runs: tuple[tuple[PartRef, ...], ...]
    alone: bool = False  # one part that holds each of its rows once

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes of its parts."""
        return sum(ref.size_bytes for run in self.runs for ref in run)


def merged(  # noqa: PLR0913 - what to read, how much of it, and how
    source: PartSource,
    runs: Runs,
    as_of: int,
    within: Slice = WHOLE,
    groups: Groups = NO_GROUPS,
    after: int | None = None,
    *,
    columns: frozenset[int] | None = None,
    settings: ReadSettings = IN_ORDER,
    look: Look | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of `runs` that lie in a slice as of one time, each once, in order.

    `after`: only updates later than that count, so each row comes with what its count grew by.
    `columns`: ids that have to come; a table may have more. `look`: rows that a filter does not
    accept may be missing.

    `groups`, as in a plan: the row groups left out hold only rows on which the filter is neither
    true nor fails. The counts of such rows may be wrong, but the filter drops them. For every other
    row the filter gives the same answer on each of its updates, so all of its updates are read.
    Memory: the heads of the runs, and a row group of each, see `strata.updates.merge`; and what
    `settings` lets be read ahead.
    Raises: Corrupt when a part is missing, damaged, or not sorted among others.
    """
    view = _View(source, as_of, within, groups, after, columns, look)
    ahead = settings.fetchers > 1
    jobs = (
        (one.size_bytes, partial(view.rows, one, ahead=ahead))
        for one in stretches(runs, source.relations, within)
    )
    for tables in in_turn(jobs, settings.fetchers, settings.ahead_bytes):
        yield from tables


def merged_plan(  # noqa: PLR0913 - as `merged`
    source: PartSource,
    state: State,
    plan: ReadPlan,
    within: Slice = WHOLE,
    *,
    columns: frozenset[int] | None = None,
    settings: ReadSettings = IN_ORDER,
    look: Look | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a plan that lie in a slice, each once, in order; see `merged`.

    Memory: the parts of the plan too, or those of a stretch if they are very many.
    Raises: as `merged`.
    """
    for inside, runs in _parts_of(source, state, plan, within):
        yield from merged(
            source,
            runs,
            plan.as_of,
            inside,
            plan.groups,
            columns=columns,
            settings=settings,
            look=look,
        )


def _parts_of(
    source: PartSource, state: State, plan: ReadPlan, within: Slice
) -> Iterator[tuple[Slice, Runs]]:
    """Yield the pieces of a slice that are merged one after the other, with their parts."""
    whole = stretches_of(state, plan)
    if whole is None:
        yield within, overlapping(state, plan, within)
        return
    for stretch in whole.each():
        inside = shared_slice(stretch.within, within)
        if inside is not None:
            runs = stretch.read(source.blob)
            yield inside, parts_in(runs, inside, source.relations, plan.groups)


def overlapping(state: State, plan: ReadPlan, within: Slice) -> tuple[tuple[PartRef, ...], ...]:
    """Return the parts of each run of a plan that may hold rows of a slice."""
    relation, relations = state.relation, state.relations

    def wanted(ref: PartRef) -> bool:
        chosen = plan.groups.get(ref.key)
        inside = overlapping_groups(ref, within, relation, relations)
        if chosen is None or inside is None:
            return inside != [] and chosen != ()
        return not set(chosen).isdisjoint(inside)

    runs = (tuple(filter(wanted, run.parts)) for run in plan.runs)
    return tuple(run for run in runs if run)


@dataclass(frozen=True, slots=True)
class _View:
    """What is read of each stretch; the fields are the arguments of `merged`."""

    source: PartSource
    as_of: int
    within: Slice
    groups: Groups
    after: int | None
    columns: frozenset[int] | None
    look: Look | None

    def rows(self, stretch: MergeStretch, *, ahead: bool) -> Iterable[pa.Table]:
        """Return a stretch's rows; with `ahead` a small one is read at once."""
        rows = self._decoded(stretch.runs[0][0], ahead) if stretch.alone else self._merge(stretch)
        return list(rows) if ahead and stretch.size_bytes <= AHEAD_BYTES else rows

    def _decoded(self, ref: PartRef, ahead: bool) -> Iterator[pa.Table]:
        wanted = Wanted(self.columns, self.groups, self.look)
        _, batches = part_ahead(self.source, ref, wanted, threads=False, decode=ahead)
        for batch in batches:
            rows = as_of_view(_table(batch), self.as_of, ref.t_high, self.after)
            if rows.num_rows:
                yield rows

    def _merge(self, stretch: MergeStretch) -> Iterator[pa.Table]:
        count = max(len(stretch.runs), 1)
        fetch = partial(
            sorted_runs,
            self.source,
            within=self.within,
            groups=self.groups,
            batches=RowBudget(batch_rows(count), MEMORY_BYTES // (COPIES * count)),
            together_bytes=TOGETHER_BYTES // count,
        )
        heads = [
            (as_of_view(_table(rows), self.as_of, after=self.after) for rows in run)
            for parts in stretch.runs
            for run in fetch(parts)
        ]
        return merge(heads, self.source.relation)


def stretches(
    runs: Runs, relations: Sequence[Relation], within: Slice = WHOLE
) -> list[MergeStretch]:
    """Return the stretches of some runs, in the order of their keys.

    Neighbours that have to be merged are joined up to STRETCH_BYTES. Where the keys of one part
    cannot be compared, all is one stretch.
    """
    relation = relations[-1]
    every = [(ref, number) for number, parts in enumerate(runs) for ref in parts]
    if not all(_is_comparable(ref, relation, relations) for ref, _ in every):
        return [MergeStretch(tuple(map(tuple, runs)))]
    every.sort(key=lambda placed: placed[0].key_low)  # parts of a run stay in order
    made: list[MergeStretch] = []
    waiting: list[tuple[PartRef, int]] = []  # to be merged together
    size = 0
    for piece in _pieces(every):
        ref = piece[0][0]
        if len(piece) == 1 and _is_alone(ref, within):
            made += _joined(waiting)
            made.append(MergeStretch(((ref,),), alone=True))
            waiting, size = [], 0
            continue
        more = sum(ref.size_bytes for ref, _ in piece)
        if waiting and size + more > STRETCH_BYTES:
            made += _joined(waiting)
            waiting, size = [], 0
        waiting += piece
        size += more
    return made + _joined(waiting)


def _pieces(every: Sequence[tuple[PartRef, int]]) -> Iterator[list[tuple[PartRef, int]]]:
    """Yield the parts between two gaps; they come in the order of their least keys."""
    piece: list[tuple[PartRef, int]] = []
    reached: bytes | None = b""  # bytes after all rows so far; None: unknown
    for placed in every:
        ref = placed[0]
        if piece and reached is not None and reached <= ref.key_low:
            yield piece
            piece = []
        piece.append(placed)
        end = end_of(ref.key_high)
        reached = None if reached is None or end is None else max(reached, end)
    if piece:
        yield piece


def _joined(parts: Sequence[tuple[PartRef, int]]) -> list[MergeStretch]:
    runs: dict[int, list[PartRef]] = {}
    for ref, number in parts:
        runs.setdefault(number, []).append(ref)
    return [MergeStretch(tuple(map(tuple, runs.values())))] if runs else []


def _is_comparable(ref: PartRef, relation: Relation, relations: Sequence[Relation]) -> bool:
    """Return whether a part is sorted by all columns of `relation` that it was written with.

    So it was written with no column that was dropped since, and its rows still differ.
    """
    return has_keys_of(ref, relation, relations) and keeps_order(ref, relation, relations)


def _is_alone(ref: PartRef, within: Slice) -> bool:
    """Return whether a part that overlaps no other holds each row once, all in a slice."""
    end = end_of(ref.key_high)
    inside = within.low <= ref.key_low and (
        within.high is None or (end is not None and end <= within.high)
    )
    large = ref.rows >= LEAST_ROWS or ref.size_bytes >= LEAST_BYTES
    return inside and large and ref.t_low == ref.t_high


def _table(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
