"""A published shard is published again after compaction, if the settings say so."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

from strata.cli.app import main
from strata.cli.erase import _expired
from strata.compact import compact_shard
from strata.errors import InvalidRequest, Unavailable
from strata.model.settings import PublishSettings, Settings
from strata.publish.catalogs import FilesTable
from strata.publish.follow import (
    expire_published,
    own_publication,
    publish_again,
    table_address,
)
from strata.publish.iceberg import Publication
from strata.publish.place import open_folder
from tests.support.erasing import WHO, eraser
from tests.support.published import DAY, World
from tests.support.stored import create, settings
from tests.unit.publish.test_tables import RELATION, add


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    create(made.stores, RELATION, write_format="both")
    add(made, 0, [(i, f"text {i}", 0, 1) for i in range(20)])
    return made


def said(world: World, *, follow: bool = True) -> Settings:
    publish = PublishSettings(f"file://{world.folder}/tables", follow=follow)
    return Settings(world.stores.settings, publish=publish)


def publish(world: World) -> StaticTable:
    place = open_folder(table_address(said(world), world.shard))
    Publication(world.stores, world.shard, place, FilesTable(place), 7 * DAY).publish()
    return StaticTable.from_metadata(place.address)


def test_snapshots_are_kept_for_the_days_of_the_settings(world: World) -> None:
    publish = PublishSettings(f"file://{world.folder}/tables", keep_days=3)
    wanted = Settings(world.stores.settings, publish=publish)

    assert own_publication(world.stores, wanted, world.shard).keep_ms == 3 * DAY


def test_the_table_shows_what_compaction_left(world: World) -> None:
    before = publish(world)
    add(world, 10, [(99, "new", 12, 1)])
    compact_shard(world.stores, world.shard, settings(), full=True)
    world.now[0] += 1

    done = publish_again(world.stores, said(world), world.shard)

    assert done is not None
    assert done["rows"] == 21
    after = StaticTable.from_metadata(f"file://{world.folder}/tables/{world.shard}")
    assert after.scan().to_arrow().num_rows == 21
    assert before.scan().to_arrow().num_rows == 20


def test_a_table_of_a_catalog_follows_too(world: World) -> None:
    catalog = f"sqlite:///{world.folder}/catalog.db"
    publish = PublishSettings(
        f"file://{world.folder}/tables", catalog=catalog, namespace="air", follow=True
    )
    chosen = Settings(world.stores.settings, publish=publish)
    assert publish_again(world.stores, chosen, world.shard) is None
    own_publication(world.stores, chosen, world.shard).publish()
    add(world, 10, [(99, "new", 12, 1)])
    world.now[0] += 1

    done = publish_again(world.stores, chosen, world.shard)

    assert done is not None
    assert (done["table"], done["rows"]) == ("air.shard", 21)
    table = load_catalog("strata", type="sql", uri=catalog).load_table(("air", "shard"))
    assert table.scan().to_arrow().num_rows == 21
    assert publish_again(world.stores, said(world), world.shard) is None  # no catalog of files


def test_a_table_elsewhere_is_in_no_catalog_unless_it_has_a_name(world: World) -> None:
    publish = PublishSettings(catalog=f"sqlite:///{world.folder}/catalog.db")
    chosen = Settings(world.stores.settings, publish=publish)
    own = partial(own_publication, world.stores, chosen, world.shard)
    elsewhere = f"file://{world.folder}/elsewhere"

    assert own().table.name == "strata.shard"
    assert own(to=elsewhere).table.name == elsewhere
    assert own(to=elsewhere, name="a.b").table.name == "a.b"
    with pytest.raises(InvalidRequest, match="not a name"):
        own(name="b")


def test_an_erasure_does_not_wait_for_a_table_that_it_can_let_go(world: World) -> None:
    publish(world)
    assert expire_published(world.stores, said(world), "shard")
    with pytest.raises(Unavailable, match="goes on when others have ended"):
        eraser(world.stores, "shard", "id", 5).erase(at_ms=world.now[0], **WHO)

    let_go = partial(expire_published, world.stores, said(world))
    found = eraser(world.stores, "shard", "id", 5, let_go=let_go).erase(at_ms=world.now[0], **WHO)

    assert found["complete"]
    table = StaticTable.from_metadata(f"file://{world.folder}/tables/{world.shard}")
    assert sorted(row["key"]["id"] for row in table.scan().to_arrow().to_pylist()) == [
        i for i in range(20) if i != 5
    ]
    assert len(table.snapshots()) == 1


def test_an_erasure_does_not_wait_for_a_table_from_which_nothing_goes(world: World) -> None:
    """Its snapshot shows all that the newest state has, of a state of before."""
    publish(world)
    let_go = partial(expire_published, world.stores, said(world))
    elsewhere = world.publication()
    elsewhere.publish()
    with pytest.raises(Unavailable, match="goes on when others have ended") as caught:
        eraser(world.stores, "shard", "id", 99, let_go=let_go).erase(at_ms=world.now[0], **WHO)
    assert caught.value.details["waits_for"] == elsewhere.hold

    assert elsewhere.publish().new
    found = eraser(world.stores, "shard", "id", 99, let_go=let_go).erase(at_ms=world.now[0], **WHO)
    assert found["complete"]
    assert not elsewhere.publish().new
    assert world.read() == world.expected()


def test_a_damaged_table_does_not_end_an_erasure(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(world)
    for version in (world.folder / "tables").rglob("v*.metadata.json"):
        version.write_bytes(b"{")
    context = SimpleNamespace(stores=world.stores, settings=said(world))
    _expired(context, world.shard)  # type: ignore[arg-type]
    assert "published table stays as it is" in capsys.readouterr().err


def test_a_shard_that_nobody_published_stays_so(world: World) -> None:
    assert publish_again(world.stores, said(world), world.shard) is None
    world.publication().publish()  # elsewhere
    assert publish_again(world.stores, said(world), world.shard) is None
    assert not (world.folder / "tables").exists()


def test_without_the_setting_nothing_follows(world: World) -> None:
    publish(world)
    add(world, 10, [(99, "new", 12, 1)])
    assert publish_again(world.stores, said(world, follow=False), world.shard) is None


def test_the_command_publishes_after_its_merge(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(world)
    add(world, 10, [(99, "new", 12, 1)])
    config = world.folder / "strata.toml"
    config.write_text(
        f'[store]\nblob = "file://{world.folder}/blob"\n'
        f'consensus = "sqlite:///{world.folder}/consensus.db"\n'
        f'[publish]\niceberg = "file://{world.folder}/tables"\nfollow = true\n'
    )
    with pytest.raises(SystemExit) as end:
        main(["compact", world.shard, "--full", "--json", "--config", str(config)])
    assert not end.value.code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["published"]["rows"] == 21
