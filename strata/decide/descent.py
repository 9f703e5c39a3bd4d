"""The one way down on which everybody decides: batch, piece of a manifest, part, bloom filter.

Reads, soft evaluation, `explain` and the choice of row groups all go this way, so checks,
explanations and replays see exactly what a read does. A batch that its union rules out is still
yielded as a step: a read passes it by, an audit looks inside.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from strata.decide.blooms import judged
from strata.decide.decision import Decision
from strata.decide.question import GroupVerdict, Question, Verdicts
from strata.errors import InvalidRequest
from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.kernels.arrays import Bools, Ints
from strata.model.time import MIN_TIME, format_time
from strata.parts.fetch import StoredManifest, load_manifest_of
from strata.parts.unions import stats_of
from strata.state.state import Batch, State
from strata.store.open import Stores


@dataclass(frozen=True, slots=True)
class Piece:
    """The parts of one piece of a manifest that hold updates at or before the time of a read.

    Shape: `rows`, `table` and `keep` have one element, or row, a part.
    """

    step: "BatchStep"
    manifest: StoredManifest
    number: int  # of the piece
    rows: Ints  # of the piece, as it is stored
    table: pa.Table  # the requested columns, and those that decide
    keep: Bools  # a read needs the part
    verdict: Verdicts | None  # None: without a filter, or the batch as a whole is ruled out

    def details(self, some: Bools) -> pa.Table:
        """Return everything but the statistics for some of the parts.

        Cost: decodes these columns of the piece.
        """
        whole = self.manifest.read(SCHEMA.names, self.number).select(SCHEMA.names)
        rows = self.rows[some]
        return whole if len(rows) == whole.num_rows else whole.take(pa.array(rows))

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
        found = question.of_groups(details, verdict.stats.take(pa.array(places)))
        return None if found is None else Groups(places[found.known.parts], found)


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

    @property
    def ruled_out(self) -> bool:
        """Return whether no row of the batch can satisfy the filter or make it fail."""
        return self.union is not None and not self.union.keep[0]

    def pieces(self, columns: Collection[str] | None = ()) -> Iterator[Piece]:
        """Yield the pieces of the batch's manifest, with these columns; None means all.

        Raises: Corrupt, naming shard and manifest. Missing parts are noticed at the end.
        """
        manifest = StoredManifest(self.stores.blob, self.shard, self.batch)
        wanted = None if columns is None else {*columns, *self._judged_by()}
        seen = 0
        for number in range(manifest.pieces):
            table = manifest.read(wanted, number)
            seen += table.num_rows
            yield self._judged(manifest, number, table)
        manifest.check_parts(seen)

    def refs(self, piece: int, rows: Ints) -> list[PartRef]:
        """Return some parts of a piece; reads the manifest again."""
        table = StoredManifest(self.stores.blob, self.shard, self.batch).read(SCHEMA.names, piece)
        return part_refs(table.take(pa.array(rows)))

    def _judged_by(self) -> frozenset[str]:
        asked = frozenset() if self.question is None or self.ruled_out else self.question.columns
        return asked | {"t_low"}

    def _judged(self, manifest: StoredManifest, number: int, table: pa.Table) -> Piece:
        rows = np.arange(table.num_rows)
        if self.at is not None:
            rows = np.flatnonzero(table["t_low"].to_numpy() <= self.at)
        some = table if len(rows) == table.num_rows else table.take(pa.array(rows))
        if self.ruled_out:
            return Piece(self, manifest, number, rows, some, np.zeros(len(rows), np.bool_), None)
        if self.question is None:
            return Piece(self, manifest, number, rows, some, np.ones(len(rows), np.bool_), None)
        verdict = judged(self.stores.blob, self.question, some)
        return Piece(self, manifest, number, rows, some, verdict.keep, verdict)


def descend(
    stores: Stores, state: State, question: Question | None, at: int | None = None
) -> Iterator[BatchStep]:
    """Yield each batch that has updates at or before a time, in time order; None means all.

    Without a question nothing is ruled out.
    """
    batches = readable_batches(state, at)
    unions: list[pa.Table | None] = [None] * len(batches)
    if question is not None and not question.names_parts:
        unions = stats_of(stores, state.name, batches)
    for batch, stats in zip(batches, unions, strict=True):
        union = None if question is None else question.of_batch(batch, stats)
        yield BatchStep(stores, state.name, batch, at, question, union)


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
        shard=state.name, as_of=at, since=state.since, upper=state.upper,
        cure=f"choose since {since} <= as_of < upper {upper}",
    )  # fmt: skip


def load_manifest(
    stores: Stores, state: State, batch: Batch, columns: Collection[str] | None = None
) -> pa.Table:
    """Return a batch's manifest, or only some of its columns; see `strata.format.manifest`.

    Raises: Corrupt, naming shard and manifest.
    """
    return load_manifest_of(stores.blob, state.name, batch, columns)
