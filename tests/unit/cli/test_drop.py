"""A shard is dropped by name, unused or by force; what dies is told, and goes after a grace."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.state.generations import register
from strata.store.open import open_stores
from tests.unit.cli.test_commands import Cli


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    found = Cli(tmp_path, capsys)
    found.create()
    found.ingest(0, '{"id": 1}', '{"id": 3}')
    return found


def drop(cli: Cli, *words: str) -> Any:
    return cli.json("drop", "events", "--reason", "a test", "--by", "ann", *words)


def test_a_dry_run_tells_what_dies_and_drops_nothing(cli: Cli) -> None:
    told = drop(cli, "--dry-run")

    assert (told["updates"], told["parts"], told["dropped"]) == (2, 1, None)
    kinds = {one["kind"]: one["blobs"] for one in told["kinds"]}
    assert (kinds["parts"], kinds["manifests"]) == (1, 1)
    assert sum(kinds.values()) == told["blobs"]
    files = [f for f in (cli.root / "blob/shards/events").rglob("*") if f.is_file()]
    assert (len(files), sum(f.stat().st_size for f in files)) == (told["blobs"], told["bytes"])
    assert cli.json("read", "events")["rows"] == 2


@pytest.mark.parametrize("words", [(), ("--yes", "event"), ("--yes", "")])
def test_without_its_name_nothing_is_dropped(cli: Cli, words: tuple[str, ...]) -> None:
    code, _, error = cli.run("drop", "events", "--reason", "a test", *words)

    assert code == 2
    assert "--yes events" in error
    assert cli.json("read", "events")["rows"] == 2


def test_without_a_reason_nothing_is_dropped(cli: Cli) -> None:
    assert cli.run("drop", "events", "--yes", "events")[0] == 2
    assert cli.json("read", "events")["rows"] == 2


def test_a_dropped_shard_is_not_read_and_its_blobs_go_after_the_grace(cli: Cli) -> None:
    done = drop(cli, "--yes", "events")

    assert (done["dropped"]["by"], done["dropped"]["reason"]) == ("ann", "a test")
    assert done["deleted_from_ms"] > done["dropped"]["at_ms"]
    assert cli.run("read", "events")[0] == 2
    assert drop(cli, "--yes", "events")["dropped"] == done["dropped"]  # again: nothing new
    assert cli.json("gc", "run")["deleted"] == 0
    assert cli.json("gc", "run", "--grace-ms", "0")["deleted"] == done["blobs"]
    assert drop(cli, "--dry-run")["blobs"] == 0


def test_the_name_is_free_again_when_asked_for(cli: Cli) -> None:
    drop(cli, "--yes", "events")
    spec = ("--spec", str(cli.root / "events.yaml"))
    assert cli.run("create", "events", *spec)[0] == 2

    assert cli.json("create", "events", *spec, "--revive")["updates"] == 0
    cli.ingest(0, '{"id": 7}')
    assert cli.json("read", "events")["rows"] == 1


def test_a_shard_in_use_is_dropped_by_force_only(cli: Cli) -> None:
    store = StoreSettings(f"file://{cli.root}/blob", f"sqlite:///{cli.root}/consensus.db")
    machine = Machine(open_stores(store))
    machine.apply("events", partial(register, name="compact-1", lease_ms=60_000))

    assert drop(cli, "--dry-run")["held_by"] == ["compact-1"]
    assert cli.run("drop", "events", "--reason", "a test", "--yes", "events")[0] == 2
    assert drop(cli, "--yes", "events", "--force")["dropped"]["by"] == "ann"
