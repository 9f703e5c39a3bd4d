"""Rewrite a batch whose parts no slice can be cut from, task by task, before it is merged.

The keys of parts in another sort order say nothing about today's, so a merge of them cannot be cut
into slices: one task would read all of them. Such a batch is first rewritten as several runs in
today's order and relation. Each task reads some neighbouring parts whole, and nobody else reads
them. The merge behind it is cut as any other. This is a sort in two passes, for rows that are too
many for one:

    parts    [a b c] [d e f] [g h]       in another order, or none
    runs     [-----] [-----] [---]       a task each, sorted
    merged   [---] [---] [---] [---]     slices

A batch of very many parts in an older relation is rewritten as well, because `stretches` cannot cut
its merge. Where its order is still today's, the parts that are written stand apart, and the merge
keeps them by reference.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from strata.compact.outdated import has_keys_of_today, is_of_today, outdated
from strata.compact.stretches import FREED_BYTES, STRETCH_PARTS
from strata.compact.tasks import MergeTask, check_figures, runs_of, slice_bytes_of
from strata.format.layout import Description
from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.kernels.arrays import Bools
from strata.parts.manifests import StoredManifest
from strata.state.spine import MergeRequest
from strata.state.state import Batch, State
from strata.store.open import Stores
from strata.updates.resident import Resident
from strata.updates.slices import WHOLE

MOST_RUNS: Final = 256  # of a rewritten batch: the state lists them, and one merge reads them all
PIECE_PARTS: Final = 4096  # whose references are held at once


@dataclass
class Rewriting:
    """The tasks of a request that rewrites its only batch; parts are read page by page."""

    stores: Stores
    state: State
    request: MergeRequest
    memory_bytes: int
    passed_digest: int = field(init=False, default=0)  # of the parts of tasks that were left out

    @property
    def batch(self) -> Batch:
        """Return the only batch of the request that has parts."""
        (only,) = (batch for batch in self.request.batches if batch.manifest is not None)
        return only

    @property
    def task_bytes(self) -> int:
        """Return the stored bytes that a task reads."""
        total = self.batch.size_bytes
        usual = slice_bytes_of(total, self.state.spec, self.memory_bytes)
        return max(usual, -(-total // MOST_RUNS))

    @property
    def tasks(self) -> int:
        """Return an estimate of the number of tasks."""
        return max(1, -(-self.batch.size_bytes // self.task_bytes))

    def cut(self, done: int = 0) -> Iterator[list[MergeTask]]:
        """Yield the tasks behind the first `done`, those of about `STRETCH_PARTS` parts at a time.

        Raises: Corrupt when the manifest is damaged or does not add up to the state's figures.
        """
        made: list[MergeTask] = []
        parts = 0
        for run, refs in enumerate(self._groups()):
            if run < done:
                self.passed_digest += sum(ref.digest for ref in refs)
                continue
            made.append(self._task(refs, run))
            parts += len(refs)
            if parts >= STRETCH_PARTS:
                yield made
                made, parts = [], 0
        if made:
            yield made

    def are_inputs(self, part_keys: Sequence[str]) -> Bools:
        """Return which parts are inputs: none, all are written anew. Shape: one element a key."""
        return np.zeros(len(part_keys), np.bool_)

    def _task(self, refs: Sequence[PartRef], run: int) -> MergeTask:
        state, request = self.state, self.request
        return MergeTask(
            self.stores.settings,
            state.spec,
            state.relations,
            Description(request.lower, request.upper, request.since),
            runs_of([refs]),
            WHOLE,
            self.memory_bytes,
            state.generation,
            run=run,
            alone=True,
        )

    def _groups(self) -> Iterator[list[PartRef]]:
        """Yield the parts of each task, in the order of the manifest."""
        waiting: list[PartRef] = []
        size = 0
        limit = self.task_bytes
        for ref in self._parts():
            if waiting and size + ref.size_bytes > limit:
                yield waiting
                waiting, size = [], 0
            waiting.append(ref)
            size += ref.size_bytes
        if waiting:
            yield waiting

    def _parts(self) -> Iterator[PartRef]:
        batch = self.batch
        manifest = StoredManifest(self.stores.blob, self.state.name, batch)
        parts = updates = diffs_sum = digest = 0
        for piece in Resident(FREED_BYTES).settled(manifest.pieces(most=PIECE_PARTS)):
            table = piece.read(SCHEMA.names)
            parts += table.num_rows
            updates += sum(table["rows"].to_pylist())
            diffs_sum += sum(table["diffs_sum"].to_pylist())
            digest += sum(table["digest"].to_pylist())
            yield from part_refs(table)
        manifest.check_parts(parts)
        check_figures(batch, updates, diffs_sum, digest)


def rewritten_first(
    state: State, requests: Sequence[MergeRequest], memory_bytes: int
) -> tuple[tuple[MergeRequest, ...], bool]:
    """Return what to merge now, and whether more is due behind it.

    A request that cannot be cut is replaced by requests of its single batches, which write these
    anew. What they write is due, and can be cut, once they are applied.
    """
    made: list[MergeRequest] = []
    more = False
    for request in requests:
        first = _to_rewrite(state, request, memory_bytes)
        more |= bool(first)
        several = len(_filled(request)) > 1
        made += [_alone(state, request, b) for b in first] if first and several else [request]
    return tuple(made), more


def is_rewrite(state: State, request: MergeRequest, memory_bytes: int) -> bool:
    """Return whether a request rewrites its only batch, as several runs."""
    return len(_filled(request)) == 1 and bool(_to_rewrite(state, request, memory_bytes))


def _filled(request: MergeRequest) -> list[Batch]:
    return [batch for batch in request.batches if batch.manifest is not None]


def _alone(state: State, request: MergeRequest, batch: Batch) -> MergeRequest:
    return replace(
        request,
        lower=batch.lower,
        upper=batch.upper,
        batches=(batch,),
        reason=f"written anew before it is merged: {outdated(state, batch)}",
    )


def _to_rewrite(state: State, request: MergeRequest, memory_bytes: int) -> list[Batch]:
    """Return the batches to write anew before the request can be cut; empty: none."""
    filled = _filled(request)
    outside = [batch for batch in filled if not has_keys_of_today(state, batch)]
    total = sum(batch.size_bytes for batch in filled)
    of_task = slice_bytes_of(total, state.spec, memory_bytes)
    if sum(batch.size_bytes for batch in outside) > of_task:
        return outside
    if sum(batch.parts for batch in filled) <= 2 * STRETCH_PARTS:
        return []
    return [batch for batch in filled if not is_of_today(state, batch)]
