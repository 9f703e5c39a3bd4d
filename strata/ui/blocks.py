"""The spine of one state as blocks: a batch is a block, a run a strip of it, parts are its cells.

Where a state has more parts than a page can hold, neighbours of a run share a cell. So a page stays
small for any number of parts; one block alone is drawn in detail. Of very many parts a page opens
no manifest: blocks have no cells then.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from strata.errors import Corrupt
from strata.kernels.arrays import Bools, Ints
from strata.maintain.exchange import manifest_of
from strata.model.time import MIN_TIME
from strata.state.spine import level_of
from strata.state.state import Batch, State
from strata.store.open import Stores

CELLS: Final = 1_200  # in one picture
DRAWN_PARTS: Final = 1 << 19  # at most: each costs a server 300 bytes and a microsecond
_COLUMNS: Final = ("key", "run", "size_bytes", "rows", "layout", "stats_version", "t_low", "t_high")


@dataclass(frozen=True, slots=True)
class Cell:
    """Neighbouring parts of one run."""

    keys: tuple[str, ...]
    size_bytes: int
    rows: int
    t_low: int
    t_high: int
    row_format: bool  # some part is in the row format alone
    bare: int  # parts without statistics


@dataclass(frozen=True, slots=True)
class Strip:
    """One run: parts that together are sorted."""

    size_bytes: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """One batch."""

    number: int  # of the batch in the state
    lower: int  # MIN_TIME for the first one
    upper: int
    updates: int
    size_bytes: int
    runs: int
    parts: int
    bare: int  # parts without statistics
    strips: tuple[Strip, ...]
    known: bool = True  # its manifest is still stored


@dataclass(frozen=True, slots=True)
class Slot:
    """Batches that are to become one; with one batch there is nothing to do."""

    level: int
    blocks: tuple[Box, ...]

    @property
    def due(self) -> bool:
        """Return whether a merge is due."""
        return sum(1 for block in self.blocks if block.parts) > 1


@dataclass(frozen=True)
class Picture:
    """A spine, from its oldest slot on."""

    shard: str
    seqno: int
    at_ms: int
    since: int
    upper: int
    first: int  # the earliest time worth showing
    slots: tuple[Slot, ...]
    whole: int = 0  # parts in the state
    chosen: int | None = None  # the only block that is drawn
    sizes: Mapping[str, int] = field(default_factory=dict)  # by part, of the drawn blocks

    @property
    def blocks(self) -> list[Box]:
        """Return all blocks in time order."""
        return [block for slot in self.slots for block in slot.blocks]

    @property
    def drawn(self) -> bool:
        """Return whether the parts of its blocks are drawn."""
        return sum(block.parts for block in self.blocks) <= DRAWN_PARTS


def picture_of(
    stores: Stores, state: State, *, chosen: int | None = None, cells: int = CELLS
) -> Picture:
    """Return the picture of a state; `chosen`: of one batch only, by its number.

    A manifest that an old state names and that was swept leaves its block without cells.
    Cost: the manifests of up to `DRAWN_PARTS` parts; none if there are more.
    """
    total = sum(batch.parts for batch in state.batches) or 1
    slots, number, first = [], 0, state.upper
    sizes: dict[str, int] = {}
    for slot in state.spine.slots:
        blocks = []
        for batch in slot.batches:
            if chosen is None or chosen == number:
                drawn = total if chosen is None else batch.parts
                share = max(1, round(cells * batch.parts / max(drawn, 1)))
                share = share if drawn <= DRAWN_PARTS else 0
                block, low, of_parts = _block(stores, state, batch, number, share)
                blocks.append(block)
                sizes |= of_parts
                first = min(first, low)
            number += 1
        updates = sum(batch.updates for batch in slot.batches)
        if blocks:
            slots.append(Slot(level_of(updates), tuple(blocks)))
    bounded = [b.lower for s in slots for b in s.blocks if b.lower > MIN_TIME]
    return Picture(
        state.name,
        state.seqno,
        state.walltime_ms,
        state.since,
        state.upper,
        min([first, *bounded]),
        tuple(slots),
        sum(b.parts for b in state.batches),
        chosen,
        sizes,
    )


def _block(
    stores: Stores, state: State, batch: Batch, number: int, share: int
) -> tuple[Box, int, dict[str, int]]:
    """Return a batch as a block, its earliest time, and the sizes of its parts; `share`: cells."""
    table = None
    if batch.manifest is not None and share:
        try:
            table = manifest_of(stores, state.name, batch, _COLUMNS)
        except Corrupt:
            if state.seqno == _newest(stores, state.name):
                raise
    strips: tuple[Strip, ...] = ()
    low = batch.upper
    sizes: dict[str, int] = {}
    if table is not None:
        keys = table["key"].to_pylist()
        strips = tuple(_strips(table, keys, share))
        sizes = dict(zip(keys, table["size_bytes"].to_pylist(), strict=True))
        times = table["t_low"].to_numpy()
        real = times[times > MIN_TIME]
        low = int(real.min()) if len(real) else low
    block = Box(
        number,
        batch.lower,
        batch.upper,
        batch.updates,
        batch.size_bytes,
        len(batch.runs),
        batch.parts,
        batch.parts - batch.stats_parts,
        strips,
        table is not None or batch.manifest is None or not share,
    )
    return block, low, sizes


def _newest(stores: Stores, shard: str) -> int:
    from strata.machine.machine import Machine

    return Machine(stores).load(shard).seqno


def _strips(table: pa.Table, keys: list[str], share: int) -> Iterator[Strip]:
    runs = table["run"].to_numpy()
    sizes, rows = table["size_bytes"].to_numpy(), table["rows"].to_numpy()
    lows, highs = table["t_low"].to_numpy(), table["t_high"].to_numpy()
    plain = np.array([layout == "row" for layout in table["layout"].to_pylist()], bool)
    bare = table["stats_version"].is_null().to_numpy(zero_copy_only=False)
    for run in np.unique(runs):
        places = np.flatnonzero(runs == run)
        most = max(1, round(share * len(places) / len(runs)))
        cells = tuple(
            Cell(
                tuple(keys[i] for i in some),
                int(sizes[some].sum()),
                int(rows[some].sum()),
                int(lows[some].min()),
                int(highs[some].max()),
                _any(plain, some),
                int(bare[some].sum()),
            )
            for some in np.array_split(places, min(most, len(places)))
        )
        yield Strip(int(sizes[places].sum()), cells)


def _any(flags: Bools, places: Ints) -> bool:
    return bool(flags[places].any())
