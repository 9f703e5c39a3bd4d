"""The one way down on which everybody decides: batch, page of a manifest, part, bloom filter.

Reads, soft evaluation, `explain` and the choice of row groups all go this way, so checks,
explanations and replays see exactly what a read does. A batch that its union rules out is still
yielded as a step: a read passes it by, an audit looks inside. Pages that their unions rule out are
passed by in the same way.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.blooms import judged
from strata.decide.decision import Decision
from strata.decide.question import GroupVerdict, PageVerdict, Question, Verdicts
from strata.decide.whole import Whole
from strata.errors import InvalidRequest
from strata.format.manifest import PIECE_PARTS, SCHEMA, PartRef, part_refs
from strata.format.pages import INDEX_SCHEMA, Index
from strata.kernels.arrays import Bools, Ints
from strata.model.time import MIN_TIME, format_time
from strata.parts.manifests import PageParts, StoredManifest, StoredPiece, load_manifest_of
from strata.parts.turns import in_turn
from strata.parts.unions import stats_of
from strata.state.state import Batch, State
from strata.stats.wire import BLOOMS, ROWS
from strata.store.open import Stores, is_near

BATCHES_AT_ONCE: Final = 32  # of a remote store
BATCHES_AHEAD_BYTES: Final = 64 * 1024 * 1024  # of their parts as they are planned
FEW_ROWS: Final = 64
PART_BYTES: Final = 2048  # of a part as it is planned: a guess

# What becomes of a page: its parts are asked, it is passed by (or kept) as it is, it is opened
# although it is ruled out, all of its updates are later than the read, or all of them count.
_OPENED, _UNOPENED, _RULED_OUT, _LATER, _COUNTED = range(5)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some neighbouring parts of a manifest with updates at or before the time of a read.

    Shape: `rows`, `table` and `keep` have one element, or row, a part.
    """

    step: "BatchStep"
    stored: StoredPiece
    rows: Ints  # of the piece, as it is stored
    table: pa.Table  # the requested columns, and those that decide
    keep: Bools  # a read needs the part
    verdict: Verdicts | None  # None: without a filter, or batch or page as a whole are ruled out
    page: "PageStats | None" = None  # what is known of the page that is ruled out as a whole
    counted: Bools | None = (
        None  # kept parts on all of whose rows the filter is true; None: unasked
    )

    @property
    def proofs(self) -> tuple[int, ...]:
        """Return how many of the parts each conjunct rules out; () if the batch is ruled out."""
        if self.verdict is not None:
            return self.verdict.proofs
        return () if self.page is None else self.page.proofs(len(self.rows))

    def details(self, some: Bools) -> pa.Table:
        """Return everything but the statistics for some of the parts.

        Cost: decodes these columns of the pages that hold them.
        """
        return self.stored.some(self.rows[some], SCHEMA.names).select(SCHEMA.names)

    @property
    def wants_groups(self) -> bool:
        """Return whether keys may rule out row groups of kept parts."""
        question = self.step.question
        return (
            self.verdict is not None
            and question is not None
            and question.wants_groups
            and bool(self.keep.any())
        )

    def groups(self, kept: Bools, details: pa.Table) -> "Groups | None":
        """Return the verdict on the row groups of kept parts; None if keys bound nothing.

        `kept`: some of `keep`; `details` describes them, as `Piece.details` does.
        """
        question, verdict = self.step.question, self.verdict
        if question is None or verdict is None or not self.wants_groups or not kept.any():
            return None
        places = np.flatnonzero(kept)
        found = question.of_groups(details, _rows_of(verdict.stats, places))
        return None if found is None else Groups(places[found.known.parts], found)


def _rows_of(table: pa.Table, rows: Ints) -> pa.Table:
    """Return some rows of a table; few of them without joining its chunks, as `take` does."""
    if len(rows) > FEW_ROWS:
        return table.take(pa.array(rows))
    return pa.concat_tables([table.slice(row, 1) for row in rows.tolist()]).combine_chunks()


@dataclass(frozen=True, slots=True)
class PageStats:
    """The union that rules out a page."""

    stats: pa.Table  # one row, younger columns included
    conjunct: int  # that rules it out
    conjuncts: int

    def proofs(self, parts: int) -> tuple[int, ...]:
        """Return `parts` for the conjunct that rules the page out, and 0 for the others."""
        return tuple(parts * (n == self.conjunct) for n in range(self.conjuncts))


@dataclass(frozen=True, slots=True)
class WholePages:
    """Neighbouring pages of a manifest that need not be opened: all of their parts, or none."""

    step: "BatchStep"
    manifest: StoredManifest
    index: Index  # the rows of these pages
    keep: bool
    proofs: tuple[int, ...]  # parts that each conjunct rules out
    counted: bool = False  # the filter is true on all rows

    @property
    def parts(self) -> int:
        """Return the number of their parts."""
        return int(pc.sum(self.index.table["parts"]).as_py())

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes of their parts."""
        return int(pc.sum(self.index.table["size_bytes"]).as_py())

    def slice(self, start: int, end: int) -> "WholePages":
        """Return some of these pages; their proofs are not known."""
        index = Index(self.index.level, self.index.table.slice(start, end - start))
        return replace(self, index=index, proofs=())

    def tables(self) -> Iterator[pa.Table]:
        """Yield everything but the statistics of their parts, some pages at a time.

        Raises: Corrupt. Cost: opens every page.
        """
        for pages in self.manifest.leaves(self.index):
            for piece in self.manifest.pieces_of(pages):
                yield piece.read(SCHEMA.names).select(SCHEMA.names)

    def pages(self) -> Iterator[PageParts]:
        """Yield the parts page by page, unread. Raises: Corrupt. Cost: reads the indexes."""
        store, (shard, key) = self.step.stores.settings, self.manifest.where.values()
        for rows in self.manifest.leaves(self.index):
            for number, parts in enumerate(rows["parts"].to_pylist()):
                row = rows.select(INDEX_SCHEMA.names).take([number])  # a copy: it travels alone
                yield PageParts(store, shard, key, row, 0, parts)

    def refs(self) -> list[PartRef]:
        """Return their parts; there may be millions."""
        return [ref for table in self.tables() for ref in part_refs(table)]


@dataclass(frozen=True, slots=True)
class Groups:
    """The row groups of those kept parts whose keys bound something. Shape: `places` one a part."""

    places: Ints  # of the parts, in the piece's `table`
    verdict: GroupVerdict


@dataclass(frozen=True, slots=True)
class BatchStep:
    """One batch on the way down, judged by its union; its manifest is not opened yet."""

    stores: Stores = field(repr=False)
    shard: str
    batch: Batch
    at: int | None
    question: Question | None
    union: Decision | None  # None: nothing is known of the batch as a whole, or there is no filter
    whole: Whole | None = None  # asks what need not be read to count
    counted: bool = False  # the whole batch

    @property
    def ruled_out(self) -> bool:
        """Return whether no row of the batch can satisfy the filter or make it fail."""
        return self.union is not None and not self.union.keep[0]

    def narrowed(
        self, columns: Collection[str] | None = (), *, open_all: bool = False
    ) -> Iterator["Piece | WholePages"]:
        """Yield the parts of the batch's manifest in order, those of needless pages unopened.

        A page is needless if its union rules it out, or if nothing is asked and all of its parts
        are of one run. `open_all` opens it all the same, with the verdict that it has.
        `columns`: those to read; None means all.
        Raises: Corrupt, naming shard and manifest. Missing parts are noticed at the end.
        """
        manifest = StoredManifest(self.stores.blob, self.shard, self.batch)
        wanted = None if columns is None else {*columns, *self._judged_by()}
        if manifest.in_pages:
            yield from _Down(self, manifest, wanted, open_all).found()
            return
        seen = 0
        for stored in manifest.pieces():
            table = stored.read(wanted)
            seen += table.num_rows
            yield self.judged(stored, table)
        manifest.check_parts(seen)

    def judged(self, stored: StoredPiece, table: pa.Table, page: PageStats | None = None) -> Piece:
        """Return a piece with the verdict on its parts; `page` is what has ruled them all out."""
        rows = np.arange(table.num_rows)
        if self.at is not None:
            rows = np.flatnonzero(table["t_low"].to_numpy() <= self.at)
        some = table if len(rows) == table.num_rows else table.take(pa.array(rows))
        if self.ruled_out or page is not None:
            return Piece(self, stored, rows, some, np.zeros(len(rows), np.bool_), None, page)
        if self.question is None:
            every = np.ones(len(rows), np.bool_)
            return Piece(self, stored, rows, some, every, None, counted=self._counted(some, every))

        def more(names: Sequence[str], which: Bools) -> pa.Table:
            if not stored.has_any(BLOOMS):
                return some.select([])
            return stored.some(rows[which], [ROWS, *names])

        verdict = judged(self.stores.blob, self.question, some, more=more)
        counted = self._counted(some, verdict.keep)
        return Piece(self, stored, rows, some, verdict.keep, verdict, counted=counted)

    def _counted(self, table: pa.Table, kept: Bools) -> Bools | None:
        return None if self.whole is None else self.whole.of_parts(table, kept)

    def _judged_by(self) -> frozenset[str]:
        """Return the columns that parts are judged by before any bloom filter is looked at."""
        asked = frozenset() if self.question is None or self.ruled_out else self.question.columns
        counted = frozenset() if self.whole is None else self.whole.columns
        return frozenset(n for n in asked | counted if not n.startswith(BLOOMS)) | {"t_low"}


class _Down:
    """The way down through the pages of one manifest."""

    def __init__(
        self,
        step: BatchStep,
        manifest: StoredManifest,
        wanted: Collection[str] | None,
        open_all: bool,
    ) -> None:
        self._step, self._manifest, self._wanted = step, manifest, wanted
        self._open_all = open_all
        # A batch that is ruled out, and parts in quarantine, leave nothing to ask of pages
        self._question = None if step.ruled_out else step.question
        asked = frozenset() if self._question is None else self._question.columns
        # What is to be opened all the same is not counted whole
        self._whole = None if open_all or step.ruled_out else step.whole
        self._asked = asked if self._whole is None else asked | self._whole.columns

    def found(self) -> Iterator[Piece | WholePages]:
        """Yield pieces of opened pages, and pages that need not be opened, in order."""
        root = self._manifest.root(self._asked)
        self._manifest.check_parts(int(pc.sum(root.table["parts"]).as_py()))
        yield from self._of(root, None)

    def _of(self, index: Index, page: PageStats | None) -> Iterator[Piece | WholePages]:
        """Yield what is below an index; `page` has ruled out all of it."""
        table, verdict = index.table, None
        if self._question is not None and page is None:
            verdict = self._question.of_pages(table)
        fates = self._fates(table, verdict)
        ends = [*(np.flatnonzero(np.diff(fates)) + 1).tolist(), len(fates)]
        start = 0
        for end in ends:
            some = Index(index.level, table.slice(start, end - start))
            if fates[start] == _COUNTED:
                yield WholePages(
                    self._step, self._manifest, some, keep=True, proofs=(), counted=True
                )
            elif fates[start] == _UNOPENED:
                yield self._unopened(some, verdict, start, end)
            elif fates[start] == _OPENED:
                yield from self._opened(some, page)
            elif fates[start] == _RULED_OUT and verdict is not None:
                for row in range(start, end):
                    out = self._page_stats(verdict, row)
                    yield from self._opened(Index(index.level, table.slice(row, 1)), out)
            start = end

    def _fates(self, table: pa.Table, verdict: PageVerdict | None) -> Ints:
        """Return what becomes of each page. Shape: one element a page."""
        at = self._step.at
        fates = np.full(table.num_rows, _OPENED)
        whole = np.ones(table.num_rows, np.bool_)
        if at is not None:
            whole = table["t_last"].to_numpy() <= at
        if verdict is not None:
            fates[~verdict.keep] = _RULED_OUT
            if not self._open_all:
                fates[~verdict.keep & whole] = _UNOPENED
        if self._step.question is None and not self._open_all:
            alike = table["run_low"].to_numpy() == table["run_high"].to_numpy()
            fates[whole & alike] = _UNOPENED
        if self._whole is not None:
            kept = np.ones(table.num_rows, np.bool_) if verdict is None else verdict.keep
            fates[kept & self._whole.of_pages(table)] = _COUNTED
        if at is not None:
            fates[table["t_low"].to_numpy() > at] = _LATER
        return fates

    def _unopened(
        self, index: Index, verdict: PageVerdict | None, start: int, end: int
    ) -> WholePages:
        proofs: tuple[int, ...] = ()
        if verdict is not None and self._question is not None:
            parts = index.table["parts"].to_numpy()
            proofs = verdict.slice(start, end).proofs(parts, self._question.conjuncts)
        return WholePages(self._step, self._manifest, index, verdict is None, proofs)

    def _opened(self, index: Index, page: PageStats | None) -> Iterator[Piece | WholePages]:
        if index.level > 1:
            for lower in self._manifest.below(index, self._asked):
                yield from self._of(lower, page)
            return
        for stored in self._manifest.pieces_of(index.table):
            yield self._step.judged(stored, stored.read(self._wanted, joined=False), page)

    def _page_stats(self, verdict: PageVerdict, row: int) -> PageStats:
        count = 0 if self._question is None else self._question.conjuncts
        return PageStats(verdict.stats.slice(row, 1), int(verdict.proof[row]), count)


def descend(
    stores: Stores,
    state: State,
    question: Question | None,
    at: int | None = None,
    whole: Whole | None = None,
) -> Iterator[BatchStep]:
    """Yield each batch that has updates at or before a time, in time order; None means all.

    Without a question nothing is ruled out. `whole` asks what need not be read to count.
    """
    batches = readable_batches(state, at)
    unions: list[pa.Table | None] = [None] * len(batches)
    if question is not None and not question.names_parts:
        unions = stats_of(stores, state.name, batches)
    for batch, stats in zip(batches, unions, strict=True):
        union = None if question is None else question.of_batch(batch, stats)
        out = union is not None and not union.keep[0]
        counted = whole is not None and not out and whole.of_batch(batch, stats)
        yield BatchStep(stores, state.name, batch, at, question, union, whole, counted)


def narrowed_ahead(
    stores: Stores,
    steps: Iterable[BatchStep],
    columns: Collection[str] | None = (),
    *,
    open_all: bool,
) -> Iterator[tuple[BatchStep, Iterable[Piece | WholePages]]]:
    """Yield each step, as `descend` does, with what `narrowed` yields of it.

    Of a remote store many batches are on their way at once, so that a plan waits for a few round
    trips and not for one a batch; manifests of many parts are opened when their turn comes.
    """
    near = is_near(stores.settings)

    def narrowed(step: BatchStep) -> tuple[BatchStep, Iterable[Piece | WholePages]]:
        found = step.narrowed(columns, open_all=open_all)
        return step, found if near or step.batch.parts > PIECE_PARTS else list(found)

    jobs = (
        (min(step.batch.parts, PIECE_PARTS) * PART_BYTES, partial(narrowed, step)) for step in steps
    )
    yield from in_turn(jobs, 1 if near else BATCHES_AT_ONCE, BATCHES_AHEAD_BYTES)


def readable_batches(state: State, at: int | None = None) -> list[Batch]:
    """Return the batches that have parts and updates at or before a time, in time order."""
    return [b for b in state.batches if b.manifest and (at is None or b.lower <= at)]


def resolve_as_of(state: State, as_of: int | None) -> int | None:
    """Return the time of a read; None only for a shard that holds nothing yet.

    Raises: InvalidRequest for a time that cannot be read, naming since and upper.
    """
    if as_of is None and state.upper == MIN_TIME:
        return None
    at = state.upper - 1 if as_of is None else as_of
    if state.since <= at < state.upper:
        return at
    since, upper = (f"{t} ({format_time(t)})" for t in (state.since, state.upper))
    raise InvalidRequest(
        "no read is possible at this time",
        shard=state.name,
        as_of=at,
        since=state.since,
        upper=state.upper,
        cure=f"choose since {since} <= as_of < upper {upper}",
    )


def load_manifest(
    stores: Stores, state: State, batch: Batch, columns: Collection[str] | None = None
) -> pa.Table:
    """Return a batch's manifest, or only some of its columns; see `strata.format.manifest`.

    Raises: Corrupt, naming shard and manifest.
    """
    return load_manifest_of(stores.blob, state.name, batch, columns)
