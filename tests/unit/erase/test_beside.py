"""Statistics are collected and trimmed while rows are erased: nothing of it looks like damage."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from strata.errors import Fenced, Unavailable
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Selection
from strata.maintain.trim import trim_shard
from strata.store.memory import MemoryBlob, MemoryConsensus
from tests.support.erasing import erased
from tests.support.paged import cut
from tests.support.sizes import tries
from tests.unit.erase.test_erase import BOB, COLUMNS, text_of
from tests.unit.ingest.test_engine import World

pytestmark = pytest.mark.slow
WORK: dict[str, Callable[..., Any]] = {
    "backfill": partial(backfill_shard, selection=Selection(again=True)),
    "backfill of sets": partial(
        backfill_shard, selection=Selection(again=True, sets=("name",), blooms=("n",))
    ),
    "trim": partial(trim_shard, budget_bytes=20),
}


def filled(root: Path) -> World:
    root.mkdir()
    world = World(root, columns=COLUMNS, part_bytes=1024, row_group_bytes=1024)
    for day in range(1, 4):
        world.ingest(
            world.put(f"day{day}.csv", text_of(day, f"{100 * day + 70},{BOB},1")),
            lower=10 * day,
            upper=10 * day + 10,
        )
    return world


class Beside:
    """Another program, which erases at the read of this number, in whatever task it is."""

    def __init__(self, world: World, at: int, patch: pytest.MonkeyPatch) -> None:
        kind, reads = type(world.stores.blob), count(1)
        get: Any = kind.get
        self.done = False

        def read(blob: Any, *where: Any) -> bytes | None:
            if next(reads) == at:
                self.done = True
                erased(world.stores, "s", "name", BOB)
            found: bytes | None = get(blob, *where)
            return found

        patch.setattr(kind, "get", read)


@pytest.mark.parametrize("what", WORK)
@pytest.mark.parametrize("paged", [False, True])
def test_an_erasure_beside_it_is_no_damage(tmp_path: Path, what: str, paged: bool) -> None:
    with cut(2 if paged else 10_000, index_rows=2):
        world = filled(tmp_path / "in")
        blob, consensus = world.stores.blob, world.stores.consensus
        assert isinstance(blob, MemoryBlob)
        assert isinstance(consensus, MemoryConsensus)
        whole, log = dict(blob.live), {key: [*found] for key, found in consensus.log.items()}
        for at in count(1, tries(43, 17) if paged else tries(11, 5)):
            blob.live, consensus.log = dict(whole), {key: [*found] for key, found in log.items()}
            with pytest.MonkeyPatch.context() as patch:
                beside = Beside(world, at, patch)
                with suppress(Fenced, Unavailable):
                    WORK[what](world.stores, "s")
            if not beside.done:
                break
            WORK[what](world.stores, "s")
        assert at > 5
