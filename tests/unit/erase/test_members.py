"""No set and no bloom filter that is stored holds what was erased."""

from pathlib import Path

import pyarrow as pa
import pytest

from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Selection
from strata.stats.bloom import hold_all
from tests.support.erasing import erased, places_of
from tests.unit.ingest.test_engine import World

BOB = "bob@example.org"
COLUMNS = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "name", "type": "string"},
    {"name": "doc", "type": "jsonb"},
    {"name": "who", "type": "string"},
]


def text_of(day: int) -> str:
    """Return rows of many people; Bob is one of them, and one of two in the column of few."""
    names = [f"person{day}{i}@example.org" for i in range(90)]
    lines = [f'{100 * day + i},{n},"{{""mail"":""{n}""}}",ann' for i, n in enumerate(names)]
    lines.append(f'{100 * day + 99},{BOB},"{{""mail"":""{BOB}""}}",{BOB}')
    return "\n".join(["id,name,doc,who", *lines]) + "\n"


@pytest.fixture(params=["written", "backfilled"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    places = {"blooms": ["name", "doc.mail"], "sets": ["who"], "bloom_bits": 24}
    stats = places if request.param == "written" else {}
    world = World(tmp_path, columns=COLUMNS, part_bytes=1 << 16, stats=stats)
    for day in range(1, 4):
        file = world.put(f"day{day}.csv", text_of(day))
        world.ingest(file, lower=10 * day, upper=10 * day + 10)
    if not stats:
        selection = Selection(blooms=("name", "doc.mail"), sets=("who",))
        backfill_shard(world.stores, "s", selection)
    return world


def holding(world: World) -> dict[str, bool]:
    """Return each stored bloom filter, and whether Bob may be in it."""
    word = pa.array([BOB.encode()])
    found = {}
    for key in world.blobs():
        if "/blooms/" in key:
            found[key] = bool(hold_all(world.stores.blob.get(key) or b"", word)[0])
    return found


def test_filters_and_sets_lose_what_was_erased(world: World) -> None:
    assert len(holding(world)) == 3, "the same texts at both places: one filter a part"
    assert all(holding(world).values())
    assert [key for key in places_of(world.stores, BOB) if "/manifests/" in key]

    report = erased(world.stores, "s", "name", BOB)

    assert report["complete"]
    assert report["rows"] == 3
    assert places_of(world.stores, BOB) == []
    assert not any(holding(world).values())


def test_parts_that_are_written_again_keep_sets_and_filters(world: World) -> None:
    declared = bool(world.state.spec.stats.blooms)

    erased(world.stores, "s", "name", BOB)

    assert len(holding(world)) == (3 if declared else 0)
