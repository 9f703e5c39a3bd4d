"""A dry run over several days of a change stream says what the run would say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from strata.errors import InvalidRequest
from strata.state.schema import AddColumn, DropColumn
from tests.unit.ingest.changes.test_altered import TEXT, change, event, mysql, postgres, world_of
from tests.unit.ingest.changes.test_tasks import put, run
from tests.unit.ingest.changes.test_tasks import world_of as stream_of
from tests.unit.ingest.readers import test_position as places
from tests.unit.ingest.test_engine import World


def lost_again(root: Path) -> World:
    world = world_of(root)
    change(world, AddColumn("c", TEXT, default="d"))
    put(world, 1, [event("c", 1, 10, a="x", b="y")])
    put(world, 2, [event("u", 1, 20, a="x", b="y", c="set")])
    put(world, 3, [event("u", 1, 30, a="x", b="z")])
    return world


def lost_again_without_places(root: Path) -> World:
    world = world_of(root)
    change(world, AddColumn("c", TEXT, default="d"))
    put(world, 1, [event("c", 1, 10, mysql, a="x", b="y")])
    put(world, 2, [event("u", 1, 20, mysql, a="x", b="y", c="set")])
    put(world, 3, [event("u", 1, 30, mysql, a="x", b="z")])
    return world


def come_again(root: Path) -> World:
    world = world_of(root)
    change(world, DropColumn("a"))
    put(world, 1, [event("c", 1, 10, a="old", b="y"), event("c", 2, 20, postgres, b="y")])
    put(world, 3, [event("u", 1, 30, b="y", a="new")])
    return world


def another_snapshot(root: Path) -> World:
    world = stream_of(root, "debezium")
    put(world, 1, places.FIRST)
    put(world, 2, places.THEN)
    put(world, 3, places.AGAIN)
    return world


@pytest.mark.parametrize(
    "made", [lost_again, lost_again_without_places, come_again, another_snapshot]
)
def test_a_day_is_refused_that_does_not_follow_the_days_before(
    tmp_path: Path, made: Callable[[Path], World]
) -> None:
    """The days before are not in the shard yet, and the dry run passed all of them."""
    world = made(tmp_path)
    before = world.state

    with pytest.raises(InvalidRequest) as foreseen:
        run(world, 1, 3, dry_run=True)
    assert world.state == before
    assert len(run(world, 1, 2, dry_run=True)) == 2
    with pytest.raises(InvalidRequest) as refused:
        run(world, 1, 3)

    assert str(foreseen.value) == str(refused.value)


@pytest.mark.parametrize("policy", ["replace", "merge"])
def test_a_snapshot_that_is_declared_passes(tmp_path: Path, policy: str) -> None:
    world = stream_of(tmp_path, "debezium", snapshots=policy)
    put(world, 1, places.FIRST)
    put(world, 3, places.AGAIN)

    dry = run(world, 1, 3, dry_run=True)

    assert [r.counts.rejected for r in dry] == [r.counts.rejected for r in run(world, 1, 3)]
