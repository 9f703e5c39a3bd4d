"""A rejected row means what it meant in its file, also if columns have other names by now."""

from pathlib import Path
from typing import Any

import pytest

from strata.ingest.quarantine import rejected
from strata.ingest.retry import OTHERS, retry_rejected
from strata.maintain.schema import change_schema
from strata.model.types import parse_type
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from tests.unit.ingest.test_engine import World

WIDER = WidenColumn("id", parse_type("int64"))
RENAMED = [RenameColumn("a", "c")]
EXCHANGED = [RenameColumn("a", "x"), RenameColumn("b", "a"), RenameColumn("x", "b")]
REPLACED = [DropColumn("a"), AddColumn("a", parse_type("string"))]
CSV = '"B",5000000000,A\nBB,1,AA\n'
JSON = '{"b": "B", "id": 5000000000, "a": "A"}\n{"b": "BB", "id": 1, "a": "AA"}\n'


def world_of(root: Path, kind: str, *changes: Change) -> World:
    """Return a shard with a row, a rejected one of the same file, and names that changed since."""
    columns = [{"name": "id", "type": "int32"}]
    columns += [{"name": name, "type": "string"} for name in "ab"]
    source: dict[str, Any] = {"format": kind, "max_rejected": 0.9}
    text = {"jsonl": JSON, "csv": f"b,id,a\n{CSV}", "header": CSV}[kind]
    if kind == "header":
        source |= {"format": "csv", "header": ["b", "id", "a"]}
    world = World(root, columns=columns, key=["id"], source=source)
    world.ingest(world.put("x", text), lower=0, upper=1)
    for change in (*changes, WIDER):
        change_schema(world.machine, "s", change)
    return world


def kept(world: World) -> list[dict[str, Any]]:
    return [row for one in rejected(world.stores, "s") for row in one.rows]


@pytest.mark.parametrize("kind", ["csv", "header"])
@pytest.mark.parametrize("changes", [RENAMED, EXCHANGED, EXCHANGED * 2])
def test_fields_stay_with_their_columns(tmp_path: Path, kind: str, changes: list[Change]) -> None:
    """Where two columns exchanged their names, the row's values exchanged their columns."""
    world = world_of(tmp_path, kind, *changes)

    [outcome] = retry_rejected(world.stores, world.settings, "s")

    assert (outcome.taken, outcome.reason, kept(world)) == (1, "", [])
    assert sorted(row[:-1] for row in world.rows()) == [(1, "AA", "BB"), (5_000_000_000, "A", "B")]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("jsonl", EXCHANGED), ("jsonl", REPLACED), ("csv", REPLACED), ("header", REPLACED)],
)
def test_a_row_with_names_of_other_columns_stays(
    tmp_path: Path, kind: str, changes: list[Change]
) -> None:
    world = world_of(tmp_path, kind, *changes)
    before = kept(world)

    [outcome] = retry_rejected(world.stores, world.settings, "s")

    assert (outcome.taken, outcome.reason) == (0, OTHERS)
    assert kept(world) == before


def test_a_row_that_was_rejected_after_an_exchange_is_taken(tmp_path: Path) -> None:
    world = world_of(tmp_path, "jsonl", *EXCHANGED)
    world.ingest(world.put("y", JSON.replace("5000000000", "6.5")))
    assert len(kept(world)) == 2

    outcomes = retry_rejected(world.stores, world.settings, "s")

    assert sorted(outcome.reason == OTHERS for outcome in outcomes) == [False, True]
