"""`strata sums`: kept from changes, checked against the source, with an exit code of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from strata.sums.table import GroupSums, SumsTable
from tests.unit.cli.test_noted import Cli

WORDS = ("sums", "s", "--into", "kept", "--by", "note", "--sum", "id")


class World(Cli):
    """The shard `s` with two rows."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root)
        self._capsys = capsys
        assert self.run("create", "s", "--spec", str(root / "s.yaml")) == 0
        self.take_in("in", 1000)

    def take_in(self, place: str, lower: int) -> None:
        times = ("--lower", str(lower), "--upper", str(lower + 1000))
        assert self.run("ingest", "s", *times, "--from", place) == 0

    def said(self, *words: str, code: int = 0) -> dict[str, Any]:
        self._capsys.readouterr()
        assert self.run(*words) == code
        found: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return found


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    return World(tmp_path, capsys)


def test_the_second_run_takes_what_is_new_and_the_third_nothing(world: World) -> None:
    assert world.said(*WORDS)["updates"] == 2
    (world.root / "in/b.jsonl").write_text('{"id": 5, "note": "x"}\n')
    world.take_in("in/b.jsonl", 2000)
    again = world.said(*WORDS)
    assert (again["changes"], again["updates"], again["lower"], again["upper"]) == (
        1,
        2,
        2000,
        3000,
    )
    assert world.said(*WORDS)["changes"] == 0
    assert world.said("count", "kept")["count"] == 2
    assert world.said(*WORDS, "--check")["different"] == 0
    assert [what for what, _ in world.rows("kept")].count("sums") == 3


def test_a_false_sum_exits_3_and_names_the_group(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SumsTable.arrow

    def falsely(self: SumsTable, updates: Any, relation: Any) -> Any:
        *rest, (group, tally, t, d) = updates
        return whole(
            self, [*rest, (group, GroupSums(tally.count, (9,), tally.known), t, d)], relation
        )

    with monkeypatch.context() as patch:
        patch.setattr(SumsTable, "arrow", falsely)
        world.said(*WORDS)
    found = world.said(*WORDS, "--check", code=3)
    assert found["different"] == 1
    assert found["first"]["held"]["sum_id"] == 9
    assert found["first"]["right"]["sum_id"] in {1, 2}


def test_a_later_run_needs_no_columns(world: World) -> None:
    world.said(*WORDS, "--min", "id", "--max", "note")
    (world.root / "in/b.jsonl").write_text('{"id": 5, "note": "x"}\n')
    world.take_in("in/b.jsonl", 2000)
    bare = WORDS[:4]
    assert world.said(*bare)["changes"] == 1
    assert world.said(*bare, "--check")["different"] == 0
    assert world.run("sums", "s", "--into", "others") == 2


def test_compaction_brings_sums_up_to_the_shard(world: World) -> None:
    world.said(*WORDS, "--min", "id")
    (world.root / "in/b.jsonl").write_text('{"id": -5, "note": "x"}\n')
    world.take_in("in/b.jsonl", 2000)
    (kept,) = world.said("compact", "s", "--full")["sums"]
    assert (kept["shard"], kept["lower"], kept["upper"], kept["changes"]) == ("kept", 2000, 3000, 1)
    assert world.said("min", "kept", "min_id")["value"] == -5
    assert "sums" not in world.said("compact", "kept", "--full")


def test_without_a_target_the_sums_are_listed(world: World) -> None:
    assert world.said("sums")["sums"] == []
    world.said(*WORDS)
    (world.root / "in/b.jsonl").write_text('{"id": 5, "note": "x"}\n')
    world.take_in("in/b.jsonl", 2000)
    (listed,) = world.said("sums")["sums"]
    assert (listed["source"], listed["shard"], listed["by"]) == ("s", "kept", "note")
    assert (listed["upper"], listed["batches_behind"]) == ("1970-01-01T00:00:02Z", 1)
    assert world.said("sums", "s")["sums"] == [listed]
    assert world.said("sums", "kept")["sums"] == []
    assert world.run("sums", "s", "--rebuild") == 2
    assert world.run("sums", "--into", "kept") == 2


def test_sums_whose_source_was_dropped_leave_the_others_listed(world: World) -> None:
    world.said("create", "gone", "--spec", str(world.root / "s.yaml"))
    world.said("sums", "gone", "--into", "rest", "--by", "note")
    world.said(*WORDS)
    world.said("drop", "gone", "--yes", "gone", "--force", "--reason", "r", "--by", "me")
    rest, kept = world.said("sums")["sums"]
    assert (rest["shard"], rest["batches_behind"]) == ("rest", None)
    assert "dropped" in rest["unreadable_source"]
    assert (kept["batches_behind"], kept["unreadable_source"]) == (0, None)


def test_a_rebuild_needs_new_changes(world: World) -> None:
    world.said(*WORDS)
    assert world.run(*WORDS, "--rebuild") == 2
    assert world.run(*WORDS, "--rebuild", "--check") == 2
    (world.root / "in/b.jsonl").write_text('{"id": 5, "note": "x"}\n')
    world.take_in("in/b.jsonl", 2000)
    assert world.said(*WORDS, "--rebuild")["updates"] == 2
    assert world.said(*WORDS, "--check")["different"] == 0
