"""What a published table says and leaves: each rule by itself."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.time import format_time
from strata.model.types import parse_type
from strata.publish.fields import fields_of
from strata.publish.iceberg import Publication
from strata.publish.manifests import Files
from strata.publish.place import TableFolder
from strata.publish.snapshots import snapshot_summary
from strata.publish.views import DIALECTS, views_of
from strata.state.holds import find_hold
from strata.store.memory import MemoryBlob
from tests.support.published import World
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "id", parse_type("int64")),), (1,), ())


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    create(made.stores, RELATION)
    add(made, 0)
    return made


def add(world: World, day: int) -> None:
    append(world.stores, "shard", day, day + 1, [table(RELATION, [(day, day, 1)])], "both")


def test_snapshots_expire_at_once_only_if_that_is_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(Publication, "_attempt", lambda *_, expire: asked.append(expire))

    world.publication().publish()
    world.publication().publish(expire=True)

    assert asked == [False, True]


def test_a_table_counts_files_that_stay_once_and_is_readable_until_its_hold_ends(
    world: World,
) -> None:
    add(world, 1)
    assert world.publication().publish().files == 2
    world.let_skip()  # the same files, in manifests that say more
    assert world.publication().publish().files == 2
    add(world, 2)

    done = world.publication().publish()

    assert (done.files, done.rows) == (3, 3)
    held = find_hold(Machine(world.stores).load("shard"), done.hold)
    assert held is not None
    assert held.expires_ms
    assert done.readable_until == format_time(held.expires_ms)


def test_a_new_list_of_files_has_none() -> None:
    none = Files()

    assert (none.files, none.rows, none.size_bytes, none.plain) == (0, 0, 0, True)


@pytest.mark.parametrize(
    ("deleted", "operation"), [(0, Operation.APPEND), (1, Operation.OVERWRITE)]
)
def test_a_snapshot_that_lacks_files_of_before_is_no_append(
    deleted: int, operation: Operation
) -> None:
    source: Any = SimpleNamespace(state=SimpleNamespace(since=0, upper=9, seqno=4))
    file: Any = SimpleNamespace(record_count=5, file_size_in_bytes=50)

    said = snapshot_summary(source, Files(added=[file], deleted=[file] * deleted), "content")

    assert said.operation == operation
    assert said.additional_properties["deleted-records"] == str(5 * deleted)


@pytest.mark.parametrize("plain", [None, 7])
def test_a_view_of_a_snapshot_is_made_where_an_engine_can_name_it(plain: int | None) -> None:
    stores = memory_stores()
    create(stores, RELATION)
    pinned = {f"{one.name}.sql" for one in DIALECTS if one.pinned}

    texts = views_of("db.t", "file:///t", fields_of(Machine(stores).load("shard")), plain)

    made = {name for name, text in texts.items() if "t_plain" in text}
    assert pinned < texts.keys()
    assert made == (set() if plain is None else pinned)


def test_files_are_removed_by_their_address_or_as_an_object_and_only_in_the_folder() -> None:
    place = TableFolder(MemoryBlob(), "file:///t")
    for name in ("a", "b"):
        with place.io.new_output(place.location(name)).create() as file:
            file.write(b"x")

    place.io.delete("file:///t/a")
    place.io.delete(place.io.new_input("file:///t/b"))

    assert place.keys("") == []
    with pytest.raises(InvalidRequest, match="lies elsewhere"):
        place.key("file:///other/a")
    with pytest.raises(InvalidRequest, match="lies elsewhere"):
        place.io.delete("file:///t2/a")
