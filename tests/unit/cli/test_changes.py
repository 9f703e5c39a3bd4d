"""The commands about changes, on a small shard."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from strata.cli.app import main
from tests.laws.test_changes import fixed_history
from tests.support.postgres import fresh_database
from tests.support.stored import append, create
from tests.unit.cli.test_noted import Cli


class World(Cli):
    """Updates of times 0 to 19: ids 0, 1 at 0, 5, and 10, 11 at 10, 15."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root)
        self._capsys = capsys
        relation, batches = fixed_history()
        create(self.stores, relation)
        for lower, upper, runs in batches:
            append(self.stores, "shard", lower, upper, runs)

    def said(self, *words: str) -> dict[str, Any]:
        self._capsys.readouterr()
        assert self.run(*words) == 0
        found: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return found

    def refused(self, *words: str) -> str:
        self._capsys.readouterr()
        assert self.run(*words) == 2
        return self._capsys.readouterr().err

    def lines(self, *words: str) -> list[str]:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*words, "--config", str(self.config)])
        assert not end.value.code
        return self._capsys.readouterr().out.splitlines()


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    return World(tmp_path, capsys)


def test_changes_are_shown_as_they_were_written(world: World) -> None:
    assert world.said("changes", "shard")["updates"] == 4
    assert world.said("changes", "shard", "--from", "5", "--to", "15")["updates"] == 2
    assert world.said("changes", "shard", "--where", "id > 10")["updates"] == 1
    assert world.lines("changes", "shard", "--from", "10", "--format", "csv") == [
        "id,t,d",
        "10,1970-01-01T00:00:00.010Z,1",
        "11,1970-01-01T00:00:00.015Z,1",
    ]


def test_a_stretch_that_is_not_complete_is_refused(world: World) -> None:
    assert "end at the shard's upper" in world.refused("changes", "shard", "--to", "30")
    assert "Spark" in world.refused("changes", "shard", "--where", "abs(id) > 10")


def test_a_consumer_gets_what_it_does_not_have(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    words = ("deliver", "shard", "c", "--into", str(folder), "--columns", "id")
    assert world.said(*words)["updates"] == 4
    assert world.said(*words)["updates"] == 0
    [file] = folder.glob("*.parquet")
    assert pq.read_table(file).to_pydict()["id"] == [0, 1, 10, 11]

    [listed] = world.said("consumers")["consumers"]
    assert (listed["consumer"], listed["batches_behind"]) == ("c", 0)
    assert listed["readable"]
    assert world.said("holds")["holds"][0]["kind"] == "consumer"


def test_a_consumer_begins_where_it_is_wished(world: World, tmp_path: Path) -> None:
    words = ("deliver", "shard", "c", "--into", str(tmp_path / "out"))
    assert "not complete" in world.refused(*words, "--from", "30")
    assert world.said(*words, "--from", "15", "--step-ms", "2")["updates"] == 1


def test_a_consumer_is_removed_with_a_reason(world: World, tmp_path: Path) -> None:
    world.said("deliver", "shard", "c", "--into", str(tmp_path / "out"))
    assert "reason" in world.refused("consumers", "shard", "--remove", "c")
    assert "name it" in world.refused("consumers", "--remove", "c", "--reason", "gone")
    wrong = world.refused("consumers", "shard", "--remove", "d", "--reason", "gone")
    assert "no such consumer" in wrong
    assert world.said("consumers", "shard", "--remove", "c", "--reason", "gone") == {
        "shard": "shard",
        "removed": "c",
        "consumers": [],
    }
    assert ("remove a consumer", "done") in {(w, o) for w, o in world.rows("shard")}


def test_a_consumer_ends_in_a_table(world: World) -> None:
    address = fresh_database()
    words = ("deliver", "shard", "c", "--into", address)
    assert "--table" in world.refused(*words)
    said = world.said(*words, "--table", "changes")
    assert (said["updates"], said["into"]) == (4, f"{address} changes")
    assert world.said(*words, "--table", "changes")["updates"] == 0
    assert "not a place" in world.refused("deliver", "shard", "c", "--into", "ftp://x/y")


def test_two_consumers_do_not_share_a_folder(world: World, tmp_path: Path) -> None:
    into = ("--into", str(tmp_path / "out"))
    world.said("deliver", "shard", "c", *into)
    assert "another consumer" in world.refused("deliver", "shard", "e", *into)
    assert [one["consumer"] for one in world.said("consumers")["consumers"]] == ["c"]


def test_a_folder_goes_on_with_the_rows_and_columns_that_it_has(
    world: World, tmp_path: Path
) -> None:
    """Another filter was taken without a word, and the folder became a mixture."""
    words = ("deliver", "shard", "c", "--into", str(tmp_path / "out"))
    wanted = ("--where", "id >= 10", "--columns", "id")
    assert world.said(*words, *wanted)["updates"] == 2
    assert world.said(*words, *wanted)["updates"] == 0
    for other in (("--where", "id >= 11", "--columns", "id"), ("--where", "id >= 10"), wanted[2:]):
        said = world.refused(*words, *other)
        assert "other rows or columns" in said
        assert "there='rows where id >= 10, id'" in said
    world.said("schema", "rename", "shard", "id", "number")
    same = ("--where", "number  >= 10", "--columns", "number")
    assert world.said(*words, *same)["updates"] == 0
