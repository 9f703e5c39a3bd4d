"""Keep what the first tasks of a long merge have written, so that a kill costs little.

After every `chunk_bytes` of input, the parts written so far get a manifest, and the state gets a
`Progress` that names it, in one compare-and-set. A later run with exactly the same tasks finds the
progress and continues after it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from hashlib import blake2b

from strata import __version__
from strata.compact.tasks import MergeTask
from strata.format.manifest import part_refs, stats_rows
from strata.machine.machine import Machine
from strata.parts.batch import BatchWriter
from strata.parts.manifests import StoredManifest
from strata.parts.relation_change import crosses
from strata.parts.write import WrittenPart
from strata.state.merging import keep_progress
from strata.state.spine import Applied, MergeRequest, NotApplied
from strata.state.state import Progress, State
from strata.store.open import Stores
from strata.updates.slices import Slice


def work_of(request: MergeRequest, tasks: Sequence[MergeTask]) -> str:
    """Return a fingerprint of everything that the output of some tasks depends on.

    Equal fingerprints mean equal parts, byte for byte. The place of storage does not count.
    """
    digest = _begun(request)
    unseen = ("store", "runs", "generation", "worth")  # they change keys or statistics, not bytes
    for task in tasks:
        values = [getattr(task, f.name) for f in fields(task) if f.name not in unseen]
        digest.update(repr(values).encode())
        digest.update(repr([[ref.key for ref in run] for run in task.runs]).encode())
    return digest.hexdigest()


def work_cut_later(
    request: MergeRequest, state: State, memory_bytes: int, places: Sequence[Slice] | int
) -> str:
    """Return the fingerprint of a merge whose tasks are cut when their turn comes.

    They follow from the manifests, which are named by their content, and from what is hashed here.
    `places`: the stretches of the key space, or the bytes of a task that rewrites its parts.
    """
    digest = _begun(request)
    cut = (request.lower, request.upper, state.spec, state.relations, memory_bytes, places)
    digest.update(repr(cut).encode())
    return digest.hexdigest()


def _begun(request: MergeRequest) -> blake2b:
    begun = f"{__version__} {request.manifests} {request.since}"
    return blake2b(begun.encode(), digest_size=16)


def resumed(stores: Stores, shard: str, progress: Progress | None) -> Iterator[WrittenPart]:
    """Yield the parts that an earlier run has written.

    Raises: Corrupt when their manifest is gone or damaged.
    """
    if progress is None or progress.manifest is None:
        return
    manifest = StoredManifest.by_key(stores.blob, shard, progress.manifest)
    for piece in manifest.pieces():
        table = piece.read()
        yield from map(WrittenPart, part_refs(table), stats_rows(table))


class Chunks:
    """Keeps what the tasks of one request have written, chunk by chunk."""

    def __init__(  # noqa: PLR0913, PLR0917  whose progress of what is kept where
        self,
        machine: Machine,
        state: State,
        request: MergeRequest,
        work: tuple[str, int],
        chunk_bytes: int,
        resumed: str | None = None,
        writer: str | None = None,
        *,
        alone: bool = False,
    ) -> None:
        """Start with an empty chunk. `work`: the fingerprint of the tasks, and their number.

        `alone`: each task reads its parts alone, and compares their digests itself.
        """
        self._writer = writer
        self._machine, self._state, self._request = machine, state, request
        self.resumed = resumed  # the manifest that keeps the parts of earlier runs
        (self._work, self._tasks), self._chunk_bytes, self._unkept = work, chunk_bytes, 0.0
        # Slices hold about the same amount; a slice that cancels completely is work, too.
        self._task_bytes = sum(b.size_bytes for b in request.batches) / max(self._tasks, 1)
        # The digest shift into a newer relation is known only for whole parts. If several tasks
        # share these, all must be done: such a merge keeps no progress, and a killed one starts
        # anew.
        self._able = alone or not any(
            crosses(version, state.relations) for b in request.batches for version in b.versions
        )

    def keep(self, done: int, output: BatchWriter) -> None:
        """Keep the whole output of the first `done` tasks, if this fills the chunk.

        The last chunk is not kept: the merge itself follows at once.
        """
        self._unkept += self._task_bytes
        if not self._able or self._unkept < self._chunk_bytes or done == self._tasks:
            return
        request, name = self._request, self._state.name
        written = output.finish(request.lower, request.upper, request.since)
        progress = Progress(
            request.manifests,
            request.lower,
            request.upper,
            request.since,
            self._work,
            max(self._tasks, done),  # of a merge in stretches it is an estimate
            done,
            written.manifest,
            written.size_bytes,
            0,
        )
        move = partial(keep_progress, progress=progress, resumed=self.resumed, writer=self._writer)
        kept: Applied | NotApplied = self._machine.apply(name, move)
        if kept == Applied(already=False):
            self.resumed = written.manifest
        self._unkept = 0.0
