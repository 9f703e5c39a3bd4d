"""A dry run over several days of a change stream says what the run would say."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.ingest import engine
from strata.ingest.changes import foreseen
from strata.state.schema import AddColumn, DropColumn
from tests.support.erasing import erased
from tests.support.sizes import tries
from tests.unit.ingest.changes.test_altered import (
    TEXT,
    Origin,
    change,
    event,
    mysql,
    postgres,
    world_of,
)
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


def seen(reports: list[Any]) -> list[tuple[int, ...]]:
    """Return what reports say of the changes."""
    counts = [report.counts for report in reports]
    return [(c.rows, c.rejected, c.contradictions, c.repeated, c.suppressed) for c in counts]


def drawn(draw: random.Random, day: int, origin: Origin) -> list[dict[str, Any]]:
    """Return the events of a day, some of which contradict what is there, or came before."""
    found = []
    for number in range(draw.randrange(1, 9)):
        lsn = 1000 * day + 10 * number - (draw.random() < 0.2) * 1000
        op = draw.choice("cccuuudr" if origin is mysql else "cccuuud")
        found.append(event(op, draw.randrange(4), lsn, origin, a=f"{day}-{number}", b="y"))
    return found


@pytest.mark.parametrize("seed", range(tries(12, 400)))
@pytest.mark.parametrize("policy", ["fail", "quarantine", "count"])
def test_contradictions_are_foreseen(tmp_path: Path, policy: str, seed: int) -> None:
    """A dry run passed a change that the run refused, and did not count those that it left out."""
    draw = random.Random(seed)
    origin = draw.choice([postgres, mysql])
    world = world_of(tmp_path, contradictions=policy, max_rejected=1.0, snapshots="merge")
    for day in range(1, 5):
        put(world, day, drawn(draw, day, origin))
    first = draw.randrange(1, 3)
    with suppress(InvalidRequest):
        run(world, 1, first - 1) if first > 1 else None
    before = world.state

    outcomes = []
    for dry in (True, False):
        try:
            outcomes.append(seen(run(world, 1, 4, dry_run=dry)))
        except InvalidRequest as error:
            outcomes.append([(error.message, error.details["reason"], error.details["line"])])
        if dry:
            assert world.state == before

    assert outcomes[0] == outcomes[1]


def test_the_rows_of_the_days_before_are_replaced_by_a_truncation(tmp_path: Path) -> None:
    world = world_of(tmp_path, contradictions="count")
    put(world, 1, [event("c", 1, 10, a="x", b="y")])
    put(world, 2, [event("t", 1, 20), event("c", 1, 30, a="x", b="z")])
    put(world, 3, [event("c", 1, 40, a="x", b="z")])

    assert [c for _, _, c, *_ in seen(run(world, 1, 3, dry_run=True))] == [0, 0, 1]
    assert [c for _, _, c, *_ in seen(run(world, 1, 3))] == [0, 0, 1]


def test_changes_beyond_memory_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "HERE_BYTES", 1)
    world = world_of(tmp_path)
    put(world, 1, [event("u", 1, 10, a="x", b="y")])

    assert seen(run(world, 1, 1, dry_run=True)) == [(1, 0, 0, 0, 0)]
    with pytest.raises(InvalidRequest, match="contradicts"):
        run(world, 1, 1)


def test_a_large_shard_is_not_read_whole_for_a_truncation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, contradictions="count")
    put(world, 1, [event("c", 1, 10, a="x", b="y")])
    run(world, 1, 1)
    put(world, 2, [event("t", 1, 20), event("c", 1, 30, a="x", b="z")])
    put(world, 3, [event("c", 1, 40, a="x", b="z")])

    assert [c for _, _, c, *_ in seen(run(world, 2, 3, dry_run=True))] == [0, 1]
    monkeypatch.setattr(foreseen, "WHOLE_BYTES", 0)
    monkeypatch.setattr(foreseen, "rows_of_slice", None)  # nobody may ask for it
    assert [c for _, _, c, *_ in seen(run(world, 2, 3, dry_run=True))] == [0, 0]


def test_changes_of_erased_keys_contradict_nothing(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    put(world, 1, [event("c", 1, 10, a="bobby", b="y"), event("c", 2, 11, a="eve", b="y")])
    run(world, 1, 1)
    world.now += 100_000
    erased(world.stores, "s", "a", "bobby", "bobby")
    put(world, 2, [event("u", 1, 20, a="bobby", b="z"), event("u", 2, 21, a="eve", b="z")])

    dry = seen(run(world, 2, 2, dry_run=True))

    assert dry == seen(run(world, 2, 2)) == [(2, 0, 0, 0, 1)]


@pytest.mark.parametrize("left_out", [True, False])
def test_a_snapshot_behind_changes_that_add_up_to_nothing_is_the_first(
    tmp_path: Path, left_out: bool
) -> None:
    """The dry run refused it: rows were read before, and the shard was none the fuller for it."""
    world = stream_of(tmp_path, "debezium", contradictions="quarantine", max_rejected=1.0)
    one = places.message("d" if left_out else "c", 1, "a", (1, 2))
    put(world, 1, [one] if left_out else [one, places.message("d", 1, "a", (1, 3))])
    put(world, 2, places.later(places.FIRST, 1))

    assert seen(run(world, 1, 2, dry_run=True)) == seen(run(world, 1, 2))
