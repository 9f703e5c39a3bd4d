"""A published table: what its snapshots show, for how long, and who else may touch it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from pyiceberg.table.update import SetPropertiesUpdate

from strata import gc
from strata.backup import Backup, back_up, restore
from strata.compact import compact_shard
from strata.errors import Conflict, Corrupt, InvalidRequest, Unavailable
from strata.gc.sweep import purge
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import GcSettings, Settings
from strata.model.types import parse_type
from strata.publish.catalogs import FilesTable, LostRaceError, catalog_table
from strata.publish.place import FolderIO
from strata.state.holds import PUBLISHED, find_hold
from strata.store.memory import MemoryBlob
from strata.store.open import open_stores
from tests.support.published import DAY, World, sums
from tests.support.stored import append, create, settings
from tests.support.updates import table

RELATION = Relation(
    0, (Column(1, "id", parse_type("int64")), Column(2, "text", parse_type("string"))), (1,), ()
)
GC = Settings(gc=GcSettings(grace_ms=0, aside_days=0))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    create(made.stores, RELATION, write_format="both")
    add(made, 0, [(i, f"text {i}", 0, 1) for i in range(20)])
    return made


def add(world: World, lower: int, rows: list[tuple[object, ...]], layout: str = "") -> None:
    append(world.stores, "shard", lower, lower + 10, [table(RELATION, rows)], layout)


def merge_and_sweep(world: World) -> int:
    """Merge everything and delete what nobody needs; return how many blobs went."""
    compact_shard(world.stores, "shard", settings(), full=True)
    deleted = 0
    for _ in range(3):
        world.now[0] += 1
        deleted += gc.collect(world.stores, "shard", GC).deleted
    purge(world.stores, GC)
    return deleted


def test_pyiceberg_reads_the_very_same_files(world: World) -> None:
    done = world.publication().publish()
    files = [task.file.file_path for task in world.table().scan().plan_files()]
    blobs = {f"file://{world.folder}/blob/{info.key}" for info in world.stores.blob.list("shards/")}

    assert done.rows == 20
    assert files
    assert set(files) <= blobs
    assert world.read() == world.expected()
    assert not [key for key in world.place.keys("") if key.endswith(".parquet")]


def test_publishing_twice_changes_nothing(world: World) -> None:
    first = world.publication().publish()
    before = sorted(world.place.keys(""))
    second = world.publication().publish()

    assert (first.new, second.new) == (True, False)
    assert second.snapshot == first.snapshot
    assert sorted(world.place.keys("")) == before


def test_a_later_publication_adds_a_snapshot_and_keeps_the_earlier_one(world: World) -> None:
    first = world.publication().publish()
    at_first = world.expected()
    add(world, 10, [(3, "text 3", 11, -1), (99, "new", 12, 1)])
    second = world.publication().publish()
    named = {one.snapshot_id: one for one in world.table().metadata.snapshots}

    assert world.read() == world.expected()
    assert world.read(first.snapshot) == at_first
    assert named[second.snapshot].parent_snapshot_id == first.snapshot
    said = named[second.snapshot].summary
    assert said is not None
    assert (said["strata.upper"], said["operation"].value) == ("20", "append")


def test_unchanged_batches_keep_their_manifests(world: World) -> None:
    world.publication().publish()
    first = {key for key in world.place.keys("metadata/m-")}
    add(world, 10, [(99, "new", 12, 1)])
    world.publication().publish()

    assert first < {key for key in world.place.keys("metadata/m-")}
    assert len(world.place.keys("metadata/m-")) == len(first) + 1


def test_rows_of_an_earlier_time_are_in_the_same_snapshot(world: World) -> None:
    add(world, 10, [(3, "text 3", 11, -1), (99, "new", 12, 1)])
    world.publication().publish()

    assert sums(world.table().scan(row_filter="t <= 9").to_arrow()) == world.expected(as_of=9)


def test_garbage_collection_keeps_what_a_snapshot_names(world: World) -> None:
    first = world.publication().publish()
    at_first = world.expected()
    add(world, 10, [(i, f"text {i}", 11, -1) for i in range(10)])
    second = world.publication().publish()
    add(world, 20, [(50, "third", 21, 1)])
    merge_and_sweep(world)
    third = world.publication().publish()
    merge_and_sweep(world)

    assert world.read(first.snapshot) == at_first
    assert world.read(second.snapshot) == world.expected(as_of=19)
    assert world.read(third.snapshot) == world.expected()


def test_without_the_hold_the_sweep_would_have_deleted_it(world: World) -> None:
    world.publication().publish()
    add(world, 10, [(i, f"text {i}", 11, -1) for i in range(10)])
    state = Machine(world.stores).load("shard")
    held = next(hold for hold in state.holds if hold.name.startswith(PUBLISHED))
    world.now[0] = (held.expires_ms or 0) + 1

    assert merge_and_sweep(world) > 0
    with pytest.raises(FileNotFoundError):
        world.read()


@pytest.mark.parametrize("rewritten", [False, True])
def test_what_compaction_replaced_is_entered_as_deleted(rewritten: bool, world: World) -> None:
    """Parts that it keeps stay the files of the snapshot that brought them."""
    add(world, 10, [(3 if rewritten else 99, "text 3", 12, -1)])
    world.publication().publish()
    old = {task.file.file_path for task in world.table().scan().plan_files()}
    compact_shard(world.stores, "shard", settings(), full=True)
    world.publication().publish()
    metadata = world.table().metadata
    newest = metadata.current_snapshot()
    assert newest is not None
    files = world.place.io
    entries = [
        entry
        for manifest in newest.manifests(files)
        for entry in manifest.fetch_manifest_entry(files, discard_deleted=False)
    ]
    deleted = {e.data_file.file_path for e in entries if e.status.name == "DELETED"}
    there = {e.data_file.file_path: e.status.name for e in entries if e.status.name != "DELETED"}

    assert deleted == old - there.keys()
    assert (not deleted) is not rewritten
    assert {there[path] for path in there.keys() & old} <= {"EXISTING"}
    assert newest.summary is not None
    assert newest.summary["operation"].value == ("overwrite" if rewritten else "append")
    assert world.read() == world.expected()


def test_a_replaced_snapshot_leaves_after_its_time(world: World) -> None:
    first = world.publication().publish()
    add(world, 10, [(99, "new", 12, 1)])
    second = world.publication().publish()
    world.now[0] += 6 * DAY
    assert world.publication().publish().snapshots == 2
    world.now[0] += 2 * DAY
    last = world.publication().publish()

    assert (last.snapshots, last.expired, last.new) == (1, 1, False)
    assert [one.snapshot_id for one in world.table().metadata.snapshots] == [second.snapshot]
    assert world.place.keys(f"metadata/snap-{first.snapshot}") == []
    state = Machine(world.stores).load("shard")
    held = find_hold(state, last.hold)
    assert held is not None
    assert held.seqno >= second.state
    assert world.read() == world.expected()


def test_expire_removes_replaced_snapshots_now(world: World) -> None:
    world.publication().publish()
    add(world, 10, [(99, "new", 12, 1)])
    done = world.publication().publish(expire=True)

    assert (done.snapshots, done.expired, done.new) == (1, 1, True)
    assert len(world.table().metadata.snapshots) == 1
    assert world.read() == world.expected()


def test_after_a_lapse_only_the_new_snapshot_is_left(world: World) -> None:
    first = world.publication().publish()
    add(world, 10, [(99, "new", 12, 1)])
    world.now[0] += 8 * DAY
    merge_and_sweep(world)
    done = world.publication().publish()

    assert done.new
    assert done.snapshots == 1
    assert first.snapshot not in {one.snapshot_id for one in world.table().metadata.snapshots}
    assert world.read() == world.expected()


def test_drop_removes_all_metadata_and_the_hold_but_no_part(world: World) -> None:
    world.publication().publish()
    parts = [info.key for info in world.stores.blob.list("shards/shard/parts")]
    world.publication().drop()

    assert world.place.keys("") == []
    assert not list((world.folder / "iceberg").rglob("*.avro"))  # not even set aside
    assert Machine(world.stores).load("shard").holds == ()
    assert [info.key for info in world.stores.blob.list("shards/shard/parts")] == parts
    with pytest.raises(InvalidRequest, match="no such publication"):
        world.publication().drop()


def test_a_crash_before_the_commit_leaves_the_table_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publication().publish()
    before = world.read()
    add(world, 10, [(99, "new", 12, 1)])

    def crash(*_: object) -> None:
        raise Unavailable("the store is gone", certain=False)

    with monkeypatch.context() as patch:
        patch.setattr(FilesTable, "commit", crash)
        with pytest.raises(Unavailable):
            world.publication().publish()
    merge_and_sweep(world)

    assert world.read() == before
    world.publication().publish()
    assert world.read() == world.expected()


def test_a_crash_after_the_commit_leaves_the_new_snapshot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publication().publish()
    add(world, 10, [(99, "new", 12, 1)])
    commit = FilesTable.commit

    def crash(self: FilesTable, *given: object) -> None:
        commit(self, *given)  # type: ignore[arg-type]
        raise Unavailable("the reply was lost", certain=False)

    with monkeypatch.context() as patch:
        patch.setattr(FilesTable, "commit", crash)
        with pytest.raises(Unavailable):
            world.publication().publish()
    merge_and_sweep(world)

    assert world.read() == world.expected()
    assert not [one for one in world.place.keys("metadata/v") if "v4" in one]
    world.publication().publish()
    assert world.read() == world.expected()


def test_of_two_publishers_at_once_none_loses_a_snapshot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publication().publish()
    add(world, 10, [(99, "new", 12, 1)])
    commit = FilesTable.commit
    other: list[int] = []

    def late(self: FilesTable, *given: object) -> None:
        if not other:  # somebody else publishes a newer state between our look and our commit
            other.append(0)
            add(world, 20, [(100, "newer", 22, 1)])
            other[0] = world.publication().publish().snapshot
        commit(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(FilesTable, "commit", late)
    done = world.publication().publish()

    assert done.snapshot == other[0]
    assert not done.new
    assert len(world.table().metadata.snapshots) == 2
    named = {
        m.manifest_path
        for s in world.table().metadata.snapshots
        for m in s.manifests(world.place.io)
    }
    assert {world.place.location(key) for key in world.place.keys("metadata/m-")} == named
    assert world.read() == world.expected()


def test_a_version_of_the_table_is_written_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publication().publish()
    mine, theirs = FilesTable(world.place), FilesTable(world.place)
    base = mine.load()
    assert base is not None
    assert theirs.load() == base
    theirs.commit(base, [])

    with pytest.raises(LostRaceError):
        mine.commit(base, [])
    listed = FilesTable._versions
    stale = iter([listed(mine)[:-1]])  # mine looked a moment before theirs wrote
    newest = theirs.load()
    monkeypatch.setattr(FilesTable, "_versions", lambda table: next(stale, None) or listed(table))
    with pytest.raises(LostRaceError):
        mine.commit(base, [SetPropertiesUpdate(updates={"a": "b"})])
    assert FilesTable(world.place).load() == newest


def test_a_version_that_another_is_made_from_at_once_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publication().publish()
    mine, theirs = FilesTable(world.place), FilesTable(world.place)
    base = mine.load()
    assert base is not None
    listed = FilesTable._versions
    before = len(listed(mine))

    def late(table: FilesTable) -> list[int]:
        if table is mine and len(listed(mine)) == before + 1:
            newest = theirs.load()
            assert newest is not None
            theirs.commit(newest, [SetPropertiesUpdate(updates={"theirs": "2"})])
        return listed(table)

    monkeypatch.setattr(FilesTable, "_versions", late)
    mine.commit(base, [SetPropertiesUpdate(updates={"mine": "1"})])

    assert len(listed(mine)) == before + 2
    found = FilesTable(world.place).load()
    assert found is not None
    assert (found.properties["mine"], found.properties["theirs"]) == ("1", "2")


def test_what_was_replaced_stays_unless_it_is_to_go_at_once(world: World) -> None:
    for number in range(3):
        done = world.publication().publish()
        assert (done.snapshots, done.expired) == (number + 1, 0)
        add(world, 10 * number + 10, [(100 + number, "new", 10 * number + 12, 1)])

    done = world.publication().publish(expire=True)

    assert (done.snapshots, done.expired) == (1, 3)


def test_the_table_of_a_dropped_shard_can_be_dropped(world: World) -> None:
    world.publication().publish()
    Machine(world.stores).drop("shard", by="ann", reason="old", force=True)

    assert world.publication().drop()["files"] > 0
    assert world.place.keys("") == []


def test_a_publisher_who_always_loses_gives_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> None:
        raise LostRaceError

    world.publication().publish()
    add(world, 10, [(99, "new", 12, 1)])
    monkeypatch.setattr(FilesTable, "commit", lose)

    with pytest.raises(Conflict):
        world.publication().publish()
    assert len(world.place.keys("metadata/snap-")) == 1  # what lost is removed


def test_parts_in_the_row_format_are_refused(world: World) -> None:
    add(world, 10, [(99, "new", 12, 1)], "row")

    with pytest.raises(InvalidRequest, match="row format") as raised:
        world.publication().publish()
    assert "compact SHARD --migrate" in str(raised.value)
    assert world.place.keys("") == []
    assert Machine(world.stores).load("shard").holds == ()
    compact_shard(world.stores, "shard", settings(), migrate=True)
    world.publication().publish()
    assert world.read() == world.expected()


def test_a_store_that_nobody_else_can_read_is_refused(world: World) -> None:
    stores = replace(
        world.stores, settings=replace(world.stores.settings, blob="memory://somewhere")
    )

    with pytest.raises(InvalidRequest, match="other programs cannot find"):
        world.publication(stores=stores).publish()


def test_a_table_of_another_shard_is_refused(world: World) -> None:
    world.publication().publish()
    create(world.stores, RELATION, name="other")
    theirs = replace(world.publication(), shard="other")

    with pytest.raises(InvalidRequest, match="not the publication of this shard"):
        theirs.publish()
    with pytest.raises(InvalidRequest, match="not the publication of this shard"):
        theirs.drop()
    assert world.read() == world.expected()
    # A hold would keep its blobs, and let erasures wait, for a week: no drop could release it.
    assert Machine(world.stores).load("other").holds == ()


def test_a_table_that_others_wrote_to_is_refused(world: World) -> None:
    uri = f"sqlite:///{world.folder}/catalog.db"
    world.publication(catalog_table(world.place, uri, "strata.shard")).publish()
    written = load_catalog("strata", type="sql", uri=uri).load_table("strata.shard")
    number = pa.array([1], pa.int64())
    fields = [pa.field(name, pa.int64(), nullable=False) for name in ("t", "d")]
    written.append(pa.table([number, number], schema=pa.schema(fields)))

    publication = world.publication(catalog_table(world.place, uri, "strata.shard"))
    with pytest.raises(InvalidRequest, match="another program has written"):
        publication.publish()
    publication.drop()
    publication.publish()
    read = load_catalog("strata", type="sql", uri=uri).load_table("strata.shard")
    assert sums(read.scan().to_arrow()) == world.expected()


def test_a_sql_catalog_names_the_table(world: World) -> None:
    uri = f"sqlite:///{world.folder}/catalog.db"
    publication = world.publication(catalog_table(world.place, uri, "strata.shard"))
    first = publication.publish()
    at_first = world.expected()
    add(world, 10, [(99, "new", 12, 1)])
    second = publication.publish()
    read = load_catalog("strata", type="sql", uri=uri).load_table("strata.shard")

    assert (first.table, second.snapshots) == ("strata.shard", 2)
    assert sums(read.scan().to_arrow()) == world.expected()
    assert sums(read.scan(snapshot_id=first.snapshot).to_arrow()) == at_first
    publication.drop()
    assert not load_catalog("strata", type="sql", uri=uri).table_exists("strata.shard")
    assert world.place.keys("") == []


def test_two_publishers_of_a_sql_catalog(world: World) -> None:
    uri = f"sqlite:///{world.folder}/catalog.db"
    mine, theirs = (catalog_table(world.place, uri, "strata.shard") for _ in range(2))
    world.publication(mine).publish()
    base = mine.load()
    assert base is not None
    add(world, 10, [(99, "new", 12, 1)])
    world.publication(theirs).publish()

    with pytest.raises(LostRaceError):
        mine.commit(base, [])
    assert (
        sums(
            load_catalog("strata", type="sql", uri=uri).load_table("strata.shard").scan().to_arrow()
        )
        == world.expected()
    )


def test_each_call_of_a_catalog_has_the_same_levels(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A REST catalog takes ("air.eu",) for another namespace than ("air", "eu")."""
    seen: dict[str, set[Any]] = {}

    def noted(name: str, called: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: SqlCatalog, identifier: Any, *given: Any) -> Any:
            levels = Catalog.identifier_to_tuple(identifier)
            seen.setdefault(name, set()).add(levels)
            return called(self, identifier, *given)

        return call

    for name in ("create_namespace", "load_table", "register_table", "drop_table"):
        monkeypatch.setattr(SqlCatalog, name, noted(name, getattr(SqlCatalog, name)))
    uri = f"sqlite:///{world.folder}/catalog.db"
    publication = world.publication(catalog_table(world.place, uri, "air.eu.flights"))
    publication.publish()
    publication.drop()

    assert seen.pop("create_namespace") == {("air", "eu")}
    assert len(seen) == 3
    assert set().union(*seen.values()) == {("air", "eu", "flights")}
    for bad in ("air..flights", ".air.flights", "air."):
        with pytest.raises(InvalidRequest, match="not a name of a table"):
            catalog_table(world.place, uri, bad)


def test_a_catalog_of_pyicebergs_configuration(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg import catalog as module
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{world.folder}/lake.db")
    monkeypatch.setattr(module, "_ENV_CONFIG", Config())
    world.publication(catalog_table(world.place, "lake", "air.flights")).publish()

    assert sums(load_catalog("lake").load_table("air.flights").scan().to_arrow()) == (
        world.expected()
    )
    with pytest.raises(InvalidRequest, match="cannot open this catalog"):
        catalog_table(world.place, "unknown", "air.flights")
    with pytest.raises(InvalidRequest, match="not a name of a table"):
        catalog_table(world.place, "lake", "flights")


def test_readers_by_path_find_the_newest_version(world: World) -> None:
    for lower in range(10, 60, 10):
        world.publication().publish()
        add(world, lower, [(99, "new", lower, 1)])
    world.publication().publish()
    hint = world.stores.blob.__class__(world.folder / "iceberg").get("metadata/version-hint.text")
    assert hint is not None
    newest = StaticTable.from_metadata(world.place.location(f"metadata/v{int(hint)}.metadata.json"))

    assert newest.metadata == world.table().metadata
    assert world.read() == world.expected()


def test_a_table_of_a_shard_that_was_restored_is_named_with_its_cure(world: World) -> None:
    """The database of states was lost, and a point of before the publication came back."""
    target = MemoryBlob()
    back_up(world.stores, target, Settings())
    for lower in range(10, 60, 10):
        add(world, lower, [(lower, "new", lower, 1)])
    world.publication().publish()
    new = replace(world.stores.settings, consensus=f"sqlite:///{world.folder}/new.db")
    world.stores = open_stores(new, clock=lambda: world.now[0])
    restore(world.stores, Backup(target), by="ann", reason="the disk is gone")

    with pytest.raises(InvalidRequest, match="the shard was restored") as raised:
        world.publication().publish()
    assert "--drop" in str(raised.value)
    assert not Machine(world.stores).load("shard").holds
    world.publication().drop()
    assert world.publication().publish().new
    assert world.read() == world.expected()


def test_a_table_that_is_dropped_meanwhile_is_published_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication, real = world.publication(), FolderIO.new_input
    publication.publish()
    add(world, 10, [(100, "new", 10, 1)])

    def read(io: FolderIO, location: str):  # type: ignore[no-untyped-def]
        monkeypatch.setattr(FolderIO, "new_input", real)
        world.publication().drop()
        return real(io, location)

    monkeypatch.setattr(FolderIO, "new_input", read)
    publication.publish()
    assert FolderIO.new_input is real, "it was dropped"
    assert world.read() == world.expected()
    assert world.place.keys("metadata/table.txt"), "the folder is claimed"
    assert find_hold(Machine(world.stores).load("shard"), publication.hold)


def test_a_table_that_lacks_a_file_is_named_with_its_cure(world: World) -> None:
    world.publication().publish()
    add(world, 10, [(100, "new", 10, 1)])
    for key in world.place.keys("metadata/snap-"):
        world.place.remove(key)
    with pytest.raises(Corrupt, match=r"is gone.*--drop"):
        world.publication().publish()
    world.publication().drop()
    world.publication().publish()
    assert world.read() == world.expected()


def test_a_version_that_goes_while_it_is_loaded_is_a_lost_race(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publication().publish()
    lost = [True, True]

    def load(table: FilesTable, real=FilesTable.load):  # type: ignore[no-untyped-def]
        if lost and lost.pop():
            raise LostRaceError
        return real(table)

    monkeypatch.setattr(FilesTable, "load", load)
    world.publication().publish()
    lost.append(True)
    world.publication().drop()
    assert not world.place.keys("")
