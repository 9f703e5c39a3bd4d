"""`strata catalog`: what there is to read, and how a declaration describes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.test_noted import Cli

ABOUT = """
about: {owner: Events Team, description: One row for each event, tags: [gold, pii]}
"""


class World(Cli):
    """The declared shard `s`, with two updates, and the plain shard `plain`."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root)
        self._capsys = capsys
        plain = (root / "s.yaml").read_text()
        (root / "plain.yaml").write_text(plain)
        (root / "s.yaml").write_text(plain + ABOUT)
        for name in ("s", "plain"):
            assert self.run("create", name, "--spec", str(root / f"{name}.yaml")) == 0
        words = ("--lower", "2026-01-01", "--upper", "2026-01-02", "--from", "in/a.jsonl")
        assert self.run("ingest", "s", *words) == 0

    def said(self, *words: str) -> list[dict[str, Any]]:
        self._capsys.readouterr()
        assert self.run("catalog", *words) == 0
        found: list[dict[str, Any]] = json.loads(self._capsys.readouterr().out)["shards"]
        return found


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    return World(tmp_path, capsys)


def test_a_shard_says_whose_it_is_what_is_in_it_and_how_fresh_it_is(world: World) -> None:
    plain, declared = world.said()
    assert declared["shard"] == "s"
    assert declared["owner"] == "Events Team"
    assert declared["description"] == "One row for each event"
    assert declared["tags"] == ["gold", "pii"]
    assert declared["columns"] == [
        {"column": "id", "type": "int64", "null": True, "key": True},
        {"column": "note", "type": "string", "null": True, "key": False},
    ]
    assert declared["complete_before"] == "2026-01-02T00:00:00Z"
    assert declared["last_commit"].startswith("20")
    assert declared["updates"] == 2
    assert (plain["owner"], plain["tags"], plain["complete_before"]) == ("", [], None)


def test_shards_are_found_by_tag_and_owner(world: World) -> None:
    assert [one["shard"] for one in world.said("--tag", "PII", "--tag", "gold")] == ["s"]
    assert [one["shard"] for one in world.said("--owner", "events team")] == ["s"]
    assert world.said("--tag", "gold", "--tag", "silver") == []
    assert [one["shard"] for one in world.said("plain")] == ["plain"]


def test_a_change_of_the_description_needs_no_migration(world: World) -> None:
    folder = world.root / "shards"
    folder.mkdir()
    text = (world.root / "s.yaml").read_text().replace("gold", "silver")
    (folder / "s.yaml").write_text(f"name: s\n{text}")
    world.config.write_text(f'shards_dir = "{folder}"\n{world.config.read_text()}')
    assert world.run("apply", "--yes") == 0
    assert [one["tags"] for one in world.said("s")] == [["silver", "pii"]]
