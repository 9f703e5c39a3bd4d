"""A published shard is published again after compaction, if the settings say so."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from strata.cli.app import main
from strata.compact import compact_shard
from strata.model.settings import PublishSettings, Settings
from strata.publish.catalogs import FilesTable
from strata.publish.follow import publish_again, table_address
from strata.publish.iceberg import Publication
from strata.publish.place import open_folder
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
