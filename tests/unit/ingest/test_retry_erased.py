"""Rows of the quarantine that were read again in vain, beside an erasure: none is lost or left."""

from base64 import b64decode
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.ingest.quarantine import RETRY, moved_key, rejected
from strata.ingest.readers.kept import KEPT
from strata.ingest.retry import retry_rejected
from strata.store.keys import content_hash
from tests.support.erasing import erased, places_of
from tests.unit.ingest.test_engine import World

BOB = "bob-the-builder@example.org"
ROWS = [
    (1, "short", "x"),
    (2, BOB, "x"),  # too long for its column
    (3, "neither-is-this-one", "y"),
    (4, "nor-is-this-one-here", BOB),
]


def world_of(root: Path, kind: str) -> World:
    """Return a shard with a row, and three that were rejected and read again in vain."""
    columns = [{"name": "id", "type": "int64"}, {"name": "name", "type": "varchar(9)"}]
    columns.append({"name": "note", "type": "string"})
    world = World(root, columns=columns, key=["id"], source={"format": kind, "max_rejected": 0.9})
    rows = [dict(zip(("id", "name", "note"), row, strict=True)) for row in ROWS]
    if kind == "parquet":
        (root / "x").parent.mkdir(exist_ok=True, parents=True)
        pq.write_table(pa.Table.from_pylist(rows), root / "x")
    else:
        world.put("x", "".join(orjson.dumps(row).decode() + "\n" for row in rows))
    world.ingest(str(root / "x"), lower=0, upper=1)
    outcomes = retry_rejected(world.stores, world.settings, "s")
    assert [(one.rows, one.taken) for one in outcomes] == [(3, 0)] * len(outcomes)
    return world


def kept(world: World) -> list[int]:
    return sorted(row["number"] for one in rejected(world.stores, "s") for row in one.rows)


def decoded(world: World) -> list[bytes]:
    """Return the rows that files of rejected rows keep exactly."""
    blobs = [world.stores.blob.get(key) for key in world.blobs() if "/quarantine/" in key]
    lines = [orjson.loads(line) for blob in blobs if blob for line in blob.splitlines()]
    headers = [line.get("header") or "" for line in lines if isinstance(line, dict)]
    return [b64decode(one.removeprefix(KEPT)) for one in headers if one.startswith(KEPT)]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_what_is_read_again_in_vain_stays_beside_an_erasure(tmp_path: Path, kind: str) -> None:
    """Rows of Parquet left the quarantine, and were nowhere; the erased one was left in a file."""
    world = world_of(tmp_path, kind)
    assert kept(world) == [0, 1, 2]

    erased(world.stores, "s", "name", BOB, BOB)
    assert places_of(world.stores, BOB) == []
    assert not any(BOB.encode() in one for one in decoded(world))

    for _ in range(2):
        outcomes = retry_rejected(world.stores, world.settings, "s")
        assert [(one.rows, one.taken) for one in outcomes] == [(1, 0)]
        assert kept(world) == [1]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize("name", ["value", "line", "null", "quarantine"])
def test_a_term_that_names_a_field_of_rejected_rows_takes_none_with_it(
    tmp_path: Path, kind: str, name: str
) -> None:
    """All of them counted as rows about Mr. Line, and left the quarantine at the next retry."""
    world = world_of(tmp_path, kind)

    certificate = erased(world.stores, "s", "name", name, name)
    assert certificate["rejected_rows"] == 0

    for _ in range(2):
        outcomes = retry_rejected(world.stores, world.settings, "s")
        assert [(one.rows, one.taken) for one in outcomes] == [(3, 0)] * len(outcomes)
        assert kept(world) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_retry_in_vain_took_nothing_though_its_lines_were_erased(
    tmp_path: Path, kind: str
) -> None:
    """As an erasure of before has left them: the rows counted as taken, and were nowhere."""
    world = world_of(tmp_path, kind)
    blob = world.stores.blob
    for key in [key for key in world.blobs() if f"/{RETRY}" in key and "/index-" not in key]:
        note = orjson.dumps({key: None})
        blob.set(moved_key(key, content_hash(note)), note)
        blob.delete(key)

    outcomes = retry_rejected(world.stores, world.settings, "s")

    assert [(one.rows, one.taken) for one in outcomes] == [(3, 0)] * len(outcomes)
    assert kept(world) == [0, 1, 2]
