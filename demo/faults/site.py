"""Where a fault is injected: one shard, past every check that stands in the way of one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from strata.decide.descent import load_manifest
from strata.format.manifest import PartRef, encode_manifest, part_refs
from strata.machine.machine import Machine
from strata.state.state import Batch, State
from strata.state.step import successor
from strata.store import keys
from strata.store.open import Stores


@dataclass(frozen=True, slots=True)
class Injected:
    """What was broken, and what a report must name."""

    place: str  # blob key of the part, or of the manifest, at fault
    names: str  # stands in the verdict's column, bound or error
    what: str  # for people


@dataclass(frozen=True, slots=True)
class Place:
    """One part, and where it stands."""

    batch: Batch
    row: int  # of the manifest
    ref: PartRef


@dataclass(frozen=True)
class Site:
    """One shard that is going to be broken."""

    stores: Stores
    shard: str
    avoid: frozenset[str] = frozenset()  # parts that are left as they are

    @property
    def state(self) -> State:
        """Return the newest state."""
        return Machine(self.stores).load(self.shard)

    def batches(self) -> list[Batch]:
        """Return the batches that have parts."""
        return [batch for batch in self.state.batches if batch.manifest]

    def manifest(self, batch: Batch) -> pa.Table:
        """Return the manifest of a batch."""
        return load_manifest(self.stores, self.state, batch)

    def places(self, draw: Random, layout: str | None = None) -> list[Place]:
        """Return all parts, or those of a layout, in a random order."""
        found = [place for batch in self.batches() for place in self._of(batch)]
        fits = [p for p in found if layout is None or p.ref.layout == layout]
        chosen = [p for p in fits if p.ref.key not in self.avoid]
        draw.shuffle(chosen)
        return chosen

    def _of(self, batch: Batch) -> Iterator[Place]:
        for row, ref in enumerate(part_refs(self.manifest(batch))):
            yield Place(batch, row, ref)

    def data(self, key: str) -> bytes:
        """Return a stored blob."""
        found = self.stores.blob.get(key)
        assert found is not None, key
        return found

    def overwrite(self, key: str, data: bytes) -> None:
        """Put other bytes in the place of a blob, which no program of ours can."""
        self.stores.blob.delete(key)
        self.stores.blob.set(key, data)

    def record(self, batch: Batch, table: pa.Table, **changes: Any) -> str:
        """Commit another manifest, and other figures, for a batch; return the manifest's key."""
        data = encode_manifest(table)
        generation = keys.generation_of(batch.manifest or "")
        key = keys.manifest_key(self.shard, keys.content_hash(data), generation)
        if self.stores.blob.get(key, 0, 1) is None:
            self.stores.blob.set(key, data)
        self.exchange({batch.manifest or "": replace(batch, manifest=key, **changes)})
        return key

    def exchange(self, batches: Mapping[str, Batch]) -> None:
        """Commit other batches in the place of those with these manifests, unchecked."""

        def move(state: State, now_ms: int) -> tuple[State, None]:
            slots = tuple(
                replace(
                    slot, batches=tuple(batches.get(b.manifest or "-", b) for b in slot.batches)
                )
                for slot in state.spine.slots
            )
            return successor(state, now_ms, spine=replace(state.spine, slots=slots)), None

        Machine(self.stores).apply(self.shard, move)

    def set_cells(self, place: Place, cells: Mapping[str, Any]) -> str:
        """Commit other values in the row of a part; return the manifest's key."""
        table = self.manifest(place.batch)
        for name, value in cells.items():
            table = with_cell(table, name, place.row, value)
        return self.record(place.batch, table)


def with_cell(table: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    """Return a table with one cell replaced."""
    index = table.column_names.index(name)
    kind = table.schema.field(index)
    values = table.column(index).to_pylist()
    values[row] = value
    return table.set_column(index, kind, pa.array(values, kind.type))


def changed(value: Mapping[str, Any], change: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Return a struct with some fields replaced; None where the change does not apply."""
    fields = change(value)
    return None if fields is None else {**value, **fields}
