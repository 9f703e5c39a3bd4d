"""strata publish: what people type, and what they are asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import PublishSettings, Settings, StoreSettings
from strata.model.types import parse_type
from strata.publish.follow import table_address
from tests.support.published import World
from tests.support.stored import append, create
from tests.support.updates import table
from tests.unit.cli.test_commands import Cli

RELATION = Relation(0, (Column(1, "id", parse_type("int64")),), (1,), ())


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    create(made.stores, RELATION)
    append(made.stores, "shard", 0, 10, [table(RELATION, [(i, 0, 1) for i in range(5)])])
    return made


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, capsys)


def test_publish_list_and_drop(world: World, cli: Cli) -> None:
    done = cli.json("publish", "shard", "--iceberg")
    listed = cli.json("publish", "shard")

    assert done["location"] == f"file://{world.folder}/blob/iceberg/shard"
    assert [one["table"] for one in listed["tables"]] == [done["location"]]
    assert (world.folder / "blob/iceberg/shard/metadata/version-hint.text").exists()
    held = cli.json("holds", "shard")["holds"]
    assert [(one["kind"], one["name"]) for one in held] == [("published", done["hold"])]
    assert cli.json("publish", "shard", "--iceberg", "--drop")["dropped"] == done["location"]
    assert cli.json("publish", "shard")["tables"] == []
    assert Machine(world.stores).load("shard").holds == ()


def test_a_folder_and_a_catalog_of_ones_own(world: World, cli: Cli) -> None:
    where = f"file://{world.folder}/lake"
    catalog = f"sqlite:///{world.folder}/catalog.db"
    by_files = cli.json("publish", "shard", "--iceberg", "--to", f"{where}/files")
    by_name = cli.json(
        "publish",
        "shard",
        "--iceberg",
        "--to",
        f"{where}/sql",
        "--catalog",
        catalog,
        "--as",
        "air.rows",
    )

    assert by_files["table"] == f"{where}/files"
    assert by_name["table"] == "air.rows"
    assert len(cli.json("publish", "shard")["tables"]) == 2
    code, _, said = cli.run("publish", "shard", "--iceberg", "--to", f"{where}/sql")
    assert code == 2
    assert "of another table" in said


@pytest.mark.parametrize(
    "words", [("--expire",), ("--to", "file:///x"), ("--iceberg", "--as", "a.b")]
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], world: World, cli: Cli) -> None:
    code, _, said = cli.run("publish", "shard", *words)

    assert code == 2
    assert "--iceberg" in said or "--catalog" in said


def test_options_of_an_address_stay_behind_it() -> None:
    def address(folder: str, blob: str) -> str:
        settings = Settings(StoreSettings(blob=blob), publish=PublishSettings(folder))
        return table_address(settings, "x")

    assert address("", "s3://b/p?endpoint=e") == "s3://b/p/iceberg/x?endpoint=e"
    assert address("file:///t/", "s3://b") == "file:///t/x"


def test_without_pyiceberg_the_cure_is_named(world: World, cli: Cli) -> None:
    text = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'pyiceberg':\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from strata.cli.app import main\n"
        f"main(['publish', 'shard', '--iceberg', '--config', {str(cli.config)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "pip install 'strata-shards[iceberg]'" in done.stderr
