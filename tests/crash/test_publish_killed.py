"""A publisher that dies at any write: readers see one of two states, and the next run the rest."""

import functools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from strata.backup.save import back_up
from strata.compact import compact_shard
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.publish.catalogs import CatalogEntry, FilesTable, catalog_table
from strata.store.disk import DiskBlob
from strata.store.sql import SqlConsensus
from tests.faults.clients import close
from tests.support.failing_stores import CrashError
from tests.support.published import DAY, Rows, World, sums
from tests.support.stored import create, settings
from tests.unit.publish.test_tables import RELATION, add

WRITES = [
    *((DiskBlob, name) for name in ("set", "overwrite", "delete", "expunge")),
    (SqlConsensus, "compare_and_set"),
]


@contextmanager
def dying(at: int) -> Iterator[list[str]]:
    """Die before a write; yield the writes that were begun."""
    made: list[str] = []

    def wrapped(owner: type, name: str) -> Any:
        real = vars(owner)[name]

        @functools.wraps(real)
        def write(self: Any, key: str, *rest: Any) -> Any:
            made.append(f"{name} {key}")
            if len(made) == at:
                raise CrashError(name)
            return real(self, key, *rest)

        return write

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in WRITES:
            patch.setattr(owner, name, wrapped(owner, name))
        yield made


def table_of(world: World, kind: str) -> CatalogEntry:
    if kind == "files":
        return FilesTable(world.place)
    return catalog_table(world.place, f"sqlite:///{world.folder}/catalog.db", "db.t")


def seen(world: World, kind: str) -> Rows | None:
    """Return what a reader sees; None if there is no table."""
    if kind == "files":
        there = (world.folder / "iceberg/metadata/version-hint.text").exists()
        return world.read() if there else None
    uri = f"sqlite:///{world.folder}/catalog.db"
    catalog = load_catalog("strata", type="sql", uri=uri, warehouse=world.place.address)
    if not catalog.table_exists("db.t"):
        return None
    table: Table = catalog.load_table("db.t")
    return sums(table.scan().to_arrow())


def prepared(folder: Path, kind: str, *, later: bool) -> int:
    """Fill a folder with a shard to publish, as it is before each kill; return what time it is.

    `later`: it was published twice and merged, and both snapshots expire.
    """
    world = World(folder / "now")
    create(world.stores, RELATION, write_format="both")
    add(world, 0, [(i, f"text {i}", 0, 1) for i in range(20)])
    if later:
        for lower in (10, 20):
            world.publication(table_of(world, kind)).publish()
            add(world, lower, [(100 + lower, "new", lower, 1)])
        compact_shard(world.stores, "shard", settings(), full=True)
        world.now[0] += 8 * DAY
    close(world.stores.consensus)
    (folder / "now").rename(folder / "before")
    return world.now[0]


def restored(folder: Path, now_ms: int) -> World:
    """Return the shard as it was: at the same place, because published tables name theirs."""
    rmtree(folder / "now", ignore_errors=True)
    copytree(folder / "before", folder / "now")
    world = World(folder / "now")
    world.now[0] = now_ms
    return world


def unnamed(world: World, table: CatalogEntry) -> list[str]:
    """Return the lists of files that no snapshot names."""
    base = table.load()
    assert base is not None
    io, named = world.place.io, set()
    for one in base.snapshots:
        named |= {one.manifest_list, *(m.manifest_path for m in one.manifests(io))}
    keys = world.place.keys_with_removed("metadata/")
    return [k for k in keys if k.endswith(".avro") and world.place.location(k) not in named]


@pytest.mark.parametrize("kind", ["files", "catalog"])
@pytest.mark.parametrize("later", [False, True])
def test_a_publisher_dies_before_any_write(tmp_path: Path, kind: str, later: bool) -> None:
    now_ms, at, made = prepared(tmp_path, kind, later=later), 0, [""]
    while at <= len(made):
        at += 1
        world = restored(tmp_path, now_ms)
        before, expected = seen(world, kind), world.expected()
        with dying(at) as made, suppress(CrashError):
            world.publication(table_of(world, kind)).publish()
        assert seen(world, kind) in (before, expected), made[-1]

        world.publication(table_of(world, kind)).publish()
        assert seen(world, kind) == expected, made[-1]
        assert unnamed(world, table_of(world, kind)) == [], made[-1]
        close(world.stores.consensus)
    assert at > 10


def test_a_drop_that_dies_before_any_write_is_ended_by_the_next(tmp_path: Path) -> None:
    now_ms, at, made = prepared(tmp_path, "files", later=True), 0, [""]
    while at <= len(made):
        at += 1
        world = restored(tmp_path, now_ms)
        with dying(at) as made, suppress(CrashError):
            world.publication().drop()
        if Machine(world.stores).load(world.shard).holds:
            world.publication().drop()
        assert world.place.keys_with_removed("") == [], made[-1]
        close(world.stores.consensus)
    assert at > 10


def test_temporary_files_of_killed_writers_go_where_nothing_is_collected(tmp_path: Path) -> None:
    prepared(tmp_path, "files", later=False)
    world = restored(tmp_path, 1_700_000_000_000)
    backup = DiskBlob(tmp_path / "backup")
    for root in (tmp_path / "backup", tmp_path / "now/iceberg"):
        DiskBlob(root).set("metadata/old", b"")
        DiskBlob(root).delete("metadata/old")
        for name, age_s in (("killed", 2 * 86_400), ("written now", 0)):
            left = root / ".tmp" / name
            left.parent.mkdir(exist_ok=True)
            left.write_bytes(b"rows")
            os.utime(left, (time.time() - age_s,) * 2)

    back_up(world.stores, backup, Settings())
    world.publication().publish()

    for root in (tmp_path / "backup", tmp_path / "now/iceberg"):
        assert [path.name for path in (root / ".tmp").iterdir()] == ["written now"]
    assert [info.key for info in backup.set_aside("metadata/")] == ["metadata/old"]
