"""Take rows out of all batches of one shard, until no state to come can lead to one of them.

    find      rows in parts that statistics do not rule out, then by reading
    suppress  their hashes, so that no ingest brings them back; a commit
    rewrite   the parts that hold some; a commit for each batch
    close     when every batch is clean, and nobody is at work who began before

Every step may be repeated, and what is done stays: a killed run is run again.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from strata.decide.descent import Piece, descend
from strata.decide.question import Question
from strata.erase.notes import forget_undone, remove_blob, store_note
from strata.erase.parts import (
    Finder,
    Rewritten,
    hash_rows,
    others_of_keys,
    rewrite_part,
    tasks_of,
)
from strata.errors import Conflict, Unavailable
from strata.expr.filter import Filter
from strata.format.manifest import PartRef, part_refs, stats_rows
from strata.kernels.arrays import Ints
from strata.machine.machine import Machine
from strata.machine.replaced import noticed
from strata.machine.writer_lease import Lease
from strata.model.runner import Runner, serial
from strata.model.sums import MODULUS, wrapped
from strata.parts.manifests import load_manifest_of
from strata.parts.suppressed import Suppressed, empty, load_suppressed, store_suppressed
from strata.parts.write import WrittenPart, write_batch
from strata.rollout.obey import SKIPPING, mode_of, obeyed
from strata.state import erasing
from strata.state.erasing import Closing, Removed
from strata.state.state import Batch, Erasure, State
from strata.store.open import Stores
from strata.store.retry import Sleep

ROUNDS: Final = 64  # over the shard, while others append and merge
POLL_S: Final = 1.0
Log = Callable[[str], None]


@dataclass(frozen=True)
class Waiting:
    """How long to wait for others, and how."""

    seconds: float = 900.0
    sleep: Sleep = time.sleep

    def until(self, look: Callable[[], str]) -> None:
        """Wait until `look` returns ""; it returns what is waited for.

        Raises: Unavailable when the time is over.
        """
        waited = 0.0
        while what := look():
            if waited >= self.seconds:
                raise Unavailable(
                    "the erasure goes on when others have ended",
                    certain=True,
                    waits_for=what,
                    seconds=self.seconds,
                    cure="run the same command again; what is done stays",
                )
            self.sleep(POLL_S)
            waited += POLL_S


@dataclass(frozen=True, slots=True)
class Found:
    """One batch that holds rows to erase."""

    batch: Batch
    refs: tuple[PartRef, ...]  # the parts that hold some

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes of these parts."""
        return sum(ref.size_bytes for ref in self.refs)


@dataclass(frozen=True)
class Removal:
    """The rows of one shard that a finder names; `filter` lets statistics rule parts out."""

    stores: Stores
    shard: str
    finder: Finder
    filter: Filter | None
    suppresses: bool  # whether ingest is to leave the rows out from now on
    runner: Runner = serial
    patience: Waiting = field(default_factory=Waiting)
    log: Log = lambda _: None

    @property
    def machine(self) -> Machine:
        """Return the machine of the stores."""
        return Machine(self.stores)

    def find(self, state: State, but: Collection[str] = ()) -> tuple[list[Found], dict[str, Ints]]:
        """Return the batches that hold rows to erase, and the rows by part.

        `but` are manifests of batches to pass by. Statistics rule parts out only where readers may
        skip by them.
        """
        question = None
        if self.filter is not None and obeyed(self.stores, mode_of(state)) in SKIPPING:
            question = Question.about(state, self.filter)
        refs: dict[str, list[PartRef]] = {}
        batches = {}
        for one in descend(self.stores, state, question):
            manifest = one.batch.manifest or ""
            if manifest in but or one.ruled_out:
                continue
            batches[manifest] = one.batch
            mine = refs.setdefault(manifest, [])
            for some in one.narrowed():
                if isinstance(some, Piece):
                    mine += part_refs(some.details(some.keep))
                elif some.keep:
                    mine += some.refs()
        every = {ref.key: ref for some in refs.values() for ref in some}
        rows = {
            key: found for key, found in self.finder(state, [*every.values()]).items() if len(found)
        }
        found = [
            Found(batches[manifest], tuple(ref for ref in some if ref.key in rows))
            for manifest, some in refs.items()
            if any(ref.key in rows for ref in some)
        ]
        return found, rows

    def close(self, erasure: Erasure) -> int:
        """Remove the rows and close the erasure; return the first seqno without any.

        Raises: Unavailable when writers stay at work for too long; Conflict when others are faster
        again and again; Fenced when another run of the erasure is; Corrupt.
        """
        clean: set[str] = set()
        forget_undone(self.stores, self.shard, erasure.id)
        for _ in range(ROUNDS):
            with (
                Lease(self.machine, self.shard, erasing.ERASER) as lease,
                noticed(self.machine, self.shard, "cleaned"),  # by another run of the erasure
            ):
                self._round(erasure, clean, lease.name)
            closing = self._closed(clean)
            if closing.erasure.closed and not closing.unseen:
                return closing.erasure.closed
        raise Conflict(
            "others append and merge faster than rows are erased",
            shard=self.shard,
            rounds=ROUNDS,
            cure="run the same command again while less goes on",
        )

    def _closed(self, clean: Collection[str]) -> Closing:
        last: list[Closing] = []

        def look() -> str:
            # A whole document, so that the earlier ones can go.
            move = partial(erasing.close, clean=clean)
            last.append(self.machine.apply(self.shard, move, whole=True))
            return ", ".join(last[-1].writers)

        self.patience.until(look)
        if not last[-1].erasure.closed and not last[-1].unseen:
            look()
        return last[-1]

    def _round(self, erasure: Erasure, clean: set[str], writer: str) -> None:
        """Examine all batches that are not known to be clean, and rewrite those that are not."""
        state = self.machine.load(self.shard)
        found, rows = self.find(state, clean)
        dirty = {one.batch.manifest for one in found}
        clean |= {b.manifest for b in state.batches if b.manifest and b.manifest not in dirty}
        if not found:
            return
        if self.suppresses:
            self._suppress(erasure, state, found, rows)
        for one in found:
            new = self._rewrite(erasure, one, rows, writer)
            if new is not None:
                clean.add(new)

    def _suppress(
        self, erasure: Erasure, state: State, found: Sequence[Found], rows: Mapping[str, Ints]
    ) -> None:
        """Name the hashes of the rows; a key with other rows suppresses only its erased rows."""
        known = known_suppressed(self.stores, state)
        refs = [*{ref.key: ref for one in found for ref in one.refs}.values()]
        hashed = [*self.runner(hash_rows, tasks_of(self.stores, state, refs, rows, known))]
        none = np.zeros(0, np.uint64)
        words = np.concatenate([none, *(one.keys for one in hashed)])
        whole = np.concatenate([none, *(one.rows for one in hashed)])
        every = [*parts_of(self.stores, state).values()]
        tasks = tasks_of(self.stores, state, every, rows, known)
        look = partial(others_of_keys, np.unique(words))
        shared = np.unique(np.concatenate([none, *self.runner(look, tasks)]))
        alone = ~np.isin(words, shared)
        new = known.plus(erasure.id, "key", np.unique(words[alone]))
        new = new.plus(erasure.id, "row", np.unique(whole[~alone]))
        add_suppressed(self.machine, self.shard, state.suppressed, new)

    def _rewrite(
        self, erasure: Erasure, one: Found, rows: Mapping[str, Ints], writer: str
    ) -> str | None:
        """Commit a batch without the rows; return its manifest, None if it has none or is gone."""
        state, manifest = self.machine.load(self.shard), one.batch.manifest
        if manifest is None or all(b.manifest != manifest for b in state.batches):
            return None
        tasks = tasks_of(self.stores, state, one.refs, rows, empty())
        done = {new.old.key: new for new in self.runner(rewrite_part, tasks)}
        batch, removed = self._batch(state, one.batch, done)
        note = note_step(self.stores, erasure, self.shard, one.batch, batch, done)
        move = partial(
            erasing.remove, manifest=manifest, batch=batch, removed=removed, writer=writer
        )
        if not self.machine.apply(self.shard, move):
            remove_blob(self.stores, note)
            return None
        self.log(f"{self.shard}: {removed.updates:,} rows are out of {len(done):,} parts")
        return batch.manifest

    def _batch(
        self, state: State, old: Batch, done: Mapping[str, Rewritten]
    ) -> tuple[Batch, Removed]:
        table = load_manifest_of(self.stores.blob, self.shard, old)
        parts: list[WrittenPart] = []
        removed: list[Removed] = []
        for ref, stats in zip(part_refs(table), stats_rows(table), strict=True):
            if ref.key in done:
                parts += done[ref.key].parts
                removed.append(done[ref.key].removed)
            else:
                parts.append(WrittenPart(ref, stats))
        batch = write_batch(
            self.stores.blob,
            self.shard,
            parts,
            old.lower,
            old.upper,
            old.since,
            state.generation,
        )
        return batch, Removed(
            sum(one.updates for one in removed),
            wrapped(sum(one.diffs_sum for one in removed)),
            sum(one.digest for one in removed) % MODULUS,
        )


def parts_of(stores: Stores, state: State) -> dict[str, PartRef]:
    """Return all parts of a state by key."""
    return {
        ref.key: ref
        for batch in state.batches
        if batch.manifest is not None
        for ref in part_refs(load_manifest_of(stores.blob, state.name, batch))
    }


def known_suppressed(stores: Stores, state: State) -> Suppressed:
    """Return the suppressed rows of a shard."""
    return empty() if state.suppressed is None else load_suppressed(stores.blob, state.suppressed)


def add_suppressed(machine: Machine, shard: str, expected: str | None, new: Suppressed) -> None:
    """Name a list of suppressed rows in the place of the expected one. Raises: Conflict; Fenced."""
    state = machine.load(shard)
    key = store_suppressed(machine.stores.blob, shard, new, state.generation)
    move = partial(erasing.suppress, expected=expected, key=key, generation=state.generation)
    machine.apply(shard, move)


def note_step(
    stores: Stores,
    erasure: Erasure,
    shard: str,
    old: Batch,
    new: Batch,
    done: Mapping[str, Rewritten],
) -> str:
    """Note what a commit is about to do, and return the key of the note."""
    document = {
        "shard": shard,
        "lower": old.lower,
        "upper": old.upper,
        "manifest": old.manifest,
        "instead": new.manifest,
        "parts": [
            {
                "part": key,
                "bytes": one.old.size_bytes,
                "rows": one.removed.updates,
                "instead": [part.ref.key for part in one.parts],
            }
            for key, one in sorted(done.items())
        ],
    }
    return store_note(stores, shard, erasure.id, document)
