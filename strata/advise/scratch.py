"""A copy of some parts of a shard in memory, on which advice is tried.

A shard that is small enough is copied whole, and what is measured on the copy is what the shard
will do. Of a larger one the parts are spread evenly over the manifests, and the sample says how
much of the shard it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Final

import numpy as np
import pyarrow as pa

from strata.format.manifest import blobs_of, part_refs, stats_rows
from strata.kernels.arrays import Bools, Ints
from strata.machine.machine import Machine
from strata.maintain.exchange import manifest_of
from strata.model.settings import StoreSettings
from strata.parts.batch import BatchWriter
from strata.state.spine import insert
from strata.state.state import Batch, Spine, State
from strata.store.open import Stores, forget_memory, open_stores
from strata.store.retry import retry

_NUMBERS: Final = count()


@dataclass(frozen=True, slots=True)
class Sample:
    """How much of a shard was copied. Units: stored bytes of parts."""

    parts: int
    parts_total: int
    size_bytes: int
    bytes_total: int

    @property
    def whole(self) -> bool:
        """Return whether the copy is the whole shard."""
        return self.parts == self.parts_total


class Scratch:
    """Parts of a shard in memory. Memory: their bytes, until `close`."""

    def __init__(self, stores: Stores, state: State, bytes_max: int) -> None:
        """Copy at most `bytes_max` bytes of parts, but at least one part.

        Parts that a merge has replaced meanwhile are left out.
        Raises: Corrupt for a damaged manifest. Cost: reads each manifest, and the parts copied.
        """
        self._clock = stores.clock
        self._base = _memory(stores)
        tables = [manifest_of(stores, state.name, b) if b.manifest else None for b in state.batches]
        sizes = [np.zeros(0, np.int64) if t is None else t["size_bytes"].to_numpy() for t in tables]
        every = np.concatenate([*sizes, np.zeros(0, np.int64)])
        picked, ends = _spread(every, bytes_max), np.cumsum([len(s) for s in sizes], dtype=int)
        chosen = [picked[end - len(s) : end] for s, end in zip(sizes, ends.tolist(), strict=True)]
        copied = [
            self._copied(stores, state, batch, table, mask)
            for batch, table, mask in zip(state.batches, tables, chosen, strict=True)
        ]
        self.sample = Sample(
            sum(batch.parts for batch in copied),
            len(every),
            sum(batch.size_bytes for batch in copied),
            int(every.sum()),
        )
        self.complete = _complete(tables)
        self.versions = {
            version for t in tables if t is not None for version in t["stats_version"].to_pylist()
        }
        self._state = replace(
            state,
            spine=_spine(state, copied, whole=self.sample.whole),
            commits=(),
            ledger=(),
            verdicts=(),
            merges=(),
            merging=(),
            catalog=None,
            consumed=None,
            suppressed=None,
        )

    def _copied(
        self, stores: Stores, state: State, batch: Batch, table: pa.Table | None, picked: Bools
    ) -> Batch:
        """Copy the picked parts of a batch; return the batch that they make."""
        if table is None:
            return Batch(batch.lower, batch.upper, batch.since)
        some = table.filter(pa.array(picked))
        writer = BatchWriter(self._base.blob, state.name, state.generation)
        for row, (ref, stats) in enumerate(zip(part_refs(some), stats_rows(some), strict=True)):
            found = {
                key: retry(partial(stores.blob.get, key)) for key in blobs_of(some.slice(row, 1))
            }
            if found[ref.key] is None:
                continue
            for key, data in found.items():
                if data is not None:
                    self._base.blob.set(key, data)
            writer.add(ref, stats)
        return writer.finish(batch.lower, batch.upper, batch.since)

    @contextmanager
    def copy(self) -> Iterator[tuple[Stores, State]]:
        """Yield stores of their own that hold the copied shard, and its state there.

        They are gone when the block ends. Cost: no bytes of parts are copied.
        """
        stores = _memory(self._base)
        try:
            for info in self._base.blob.list("shards/"):
                data = self._base.blob.get(info.key)
                assert data is not None
                stores.blob.set(info.key, data)
            yield (
                stores,
                Machine(stores).bring_back(
                    self._state, generation=self._state.generation + 1, by="advise", reason="a copy"
                ),
            )
        finally:
            forget_memory(stores.settings)

    def close(self) -> None:
        """Give the memory back."""
        forget_memory(self._base.settings)


def _memory(like: Stores) -> Stores:
    name = f"memory://advise-{next(_NUMBERS)}"
    return open_stores(StoreSettings(blob=name, consensus=name), clock=like.clock)


def _spread(sizes: Ints, bytes_max: int) -> Bools:
    """Return which parts are copied: all, or some that are spread evenly. Shape: a mask."""
    chosen = np.zeros(len(sizes), np.bool_)
    wanted = len(sizes)
    if sizes.sum() > bytes_max:
        wanted = max(1, int(len(sizes) * bytes_max / sizes.sum()))
    places = np.unique(np.linspace(0, max(len(sizes) - 1, 0), wanted).astype(np.int64))
    if not len(sizes):
        return chosen
    fits = np.cumsum(sizes[places]) <= bytes_max
    fits[0] = True
    chosen[places[fits]] = True
    return chosen


def _spine(state: State, copied: list[Batch], *, whole: bool) -> Spine:
    """Return the spine of the copy: the shard's own, or one that grows batch by batch."""
    if whole:
        batches = iter(copied)
        slots = tuple(
            replace(slot, batches=tuple(next(batches) for _ in slot.batches))
            for slot in state.spine.slots
        )
        return replace(state.spine, slots=slots)
    spine = Spine()
    for batch in copied:
        spine = insert(spine, batch)
    return spine


def _complete(tables: list[pa.Table | None]) -> frozenset[str]:
    """Return the statistics columns that every part has."""
    known = [table for table in tables if table is not None]
    names = [{n for n in t.column_names if not t[n].null_count} for t in known]
    return frozenset(set.intersection(*names) if names else ())
