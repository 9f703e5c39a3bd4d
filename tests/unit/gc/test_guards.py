"""What a sweep does when it is done: whoever named a deleted blob meanwhile has it again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from strata import gc
from strata.errors import Corrupt
from strata.gc.drop import deleted_from
from strata.gc.sweep import LOOKS, SHOWN_MAX, of_newest, purge
from strata.gc.verdicts import Fate
from strata.model.settings import GcSettings, Settings
from strata.state.state import State
from strata.state.step import step
from strata.store import keys
from strata.store.memory import MemoryBlob
from tests.support.garbage import HOUR, SETTINGS, SPEC, World


def naming(state: State, now_ms: int, *, key: str) -> tuple[State, None]:
    """Commit a state that names a blob, as no program of today does: nothing asks for the fence."""
    return step(state, now_ms, verdicts=(*state.verdicts, key)), None


def meanwhile(event: Callable[[], Any]) -> Any:
    """Return a runner that deletes everything, and then lets something happen."""

    def run(work: Callable[[str], Any], each: Sequence[str]) -> list[Any]:
        done = [work(one) for one in each]
        event()
        return done

    return run


def dead_batch() -> tuple[World, str]:
    """Return a shard with a batch that the next sweep deletes, and the key of its manifest."""
    world = World()
    world.append(1)
    orphan = world.write([3]).manifest
    assert orphan is not None
    world.sweep()
    world.now_ms += HOUR
    return world, orphan


def test_blobs_that_a_state_names_after_all_are_restored_and_the_sweep_says_so() -> None:
    world, orphan = dead_batch()
    stored = world.stored()
    name_it = partial(world.machine.apply, "s", partial(naming, key=orphan))

    with pytest.raises(Corrupt, match="they were restored") as wrong:
        gc.collect(world.stores, "s", SETTINGS, meanwhile(name_it))

    assert world.stored() == stored
    assert wrong.value.details["blobs"] == 2  # the manifest, and the part that it names
    assert wrong.value.details["first"] == orphan


def test_a_commit_that_names_no_deleted_blob_changes_nothing_about_a_sweep() -> None:
    world, orphan = dead_batch()

    report = gc.collect(world.stores, "s", SETTINGS, meanwhile(lambda: world.append(4)))

    assert (report.deleted, report.dry_run, report.idle_reason) == (2, False, "")
    assert orphan not in world.stored()
    world.check()


def test_a_manifest_that_nobody_has_deleted_is_not_looked_for() -> None:
    world, orphan = dead_batch()
    nowhere = keys.manifest_key("s", "0f" * 16)
    name_it = partial(world.machine.apply, "s", partial(naming, key=nowhere))

    assert gc.collect(world.stores, "s", SETTINGS, meanwhile(name_it)).deleted == 2
    assert orphan not in world.stored()


def test_a_shard_that_comes_back_during_its_sweep_has_all_again() -> None:
    world, _ = dead_batch()
    stored = world.stored()
    world.machine.drop("s", by="ann", reason="a trial")
    world.now_ms += HOUR

    report = gc.collect(
        world.stores, "s", SETTINGS, meanwhile(lambda: world.machine.create(SPEC, revive=True))
    )

    assert world.stored() == stored
    assert (report.deleted, report.dry_run) == (0, False)
    assert "came back from its drop" in report.idle_reason


def test_of_a_shard_that_comes_back_between_two_deletes_only_the_first_is_touched() -> None:
    world, _ = dead_batch()
    world.machine.drop("s", by="ann", reason="a trial")
    world.now_ms += HOUR
    touched: list[Any] = []

    def run(work: Callable[[str], Any], each: Sequence[str]) -> list[Any]:
        touched.append(work(each[0]))
        world.machine.create(SPEC, revive=True)
        touched.extend(work(key) for key in each[1:])
        return touched

    gc.collect(world.stores, "s", SETTINGS, run)

    assert touched[0] > 0
    assert touched[1:] == [None] * 3


def test_bytes_that_are_deleted_are_counted() -> None:
    world, _ = dead_batch()
    before = {info.key: info.size_bytes for info in world.blob.list("")}

    report = world.sweep(hours=0)

    gone = {key for key in before if key not in world.stored()}
    assert report.deleted_bytes == sum(before[key] for key in gone) > 0
    assert report.to_json()["dead"] == len(gone) == report.deleted


def test_a_report_counts_by_fate_and_shows_the_first_blobs() -> None:
    world = World()
    for number in range(SHOWN_MAX // 2 + 1):  # two blobs each
        world.write([number])
    world.sweep()
    world.now_ms += HOUR

    plan = gc.plan(world.stores, "s", SETTINGS)
    document, lines = plan.to_json(), plan.lines()

    dead = SHOWN_MAX + 2
    assert (plan.deleted, plan.deleted_bytes, plan.restored) == (0, 0, 0)
    assert plan.counts[Fate.DEAD] == (dead, sum(one.size_bytes for one in plan.dead))
    assert {fate: (document[fate], document[f"{fate}_bytes"]) for fate in Fate} == {
        fate: plan.counts.get(fate, (0, 0)) for fate in Fate
    }
    assert "counts" not in document
    assert len(document["dead_blobs"]) == dead
    assert lines[-1] == "  and 2 more"
    assert len(lines) == 1 + SHOWN_MAX + 1
    assert "would be deleted" in lines[0]
    world.sweep(hours=0)
    world.write([99])
    assert gc.plan(world.stores, "s", SETTINGS).lines()[1:] == []


def test_a_report_of_just_as_many_blobs_as_it_shows_tells_of_no_more() -> None:
    world = World()
    for number in range(SHOWN_MAX // 2):
        world.write([number])
    world.sweep()
    world.now_ms += HOUR

    assert len(gc.plan(world.stores, "s", SETTINGS).lines()) == 1 + SHOWN_MAX


def test_a_sweep_that_judges_nothing_says_why() -> None:
    world = World()
    world.append(1)
    world.machine.drop("s", by="ann", reason="a trial")

    [line] = world.sweep(hours=0).lines()

    assert "nothing to do: it was dropped so lately" in line


# Which state is believed.


def test_a_look_is_believed_where_nothing_changed_and_taken_again_where_it_did() -> None:
    world = World()
    looks: list[int] = []

    def look(changes: int, fails: bool = False) -> int:
        looks.append(world.state.seqno)
        if len(looks) <= changes:
            world.append(len(looks))
        if fails and len(looks) <= changes:
            raise Corrupt("what an erasure took")
        return len(looks)

    def found(changes: int, **more: Any) -> tuple[int, int]:
        looks.clear()
        doubtful = more.pop("doubtful", lambda _: True)
        return of_newest(world.machine, "s", partial(look, changes, **more), doubtful), len(looks)

    assert found(0) == (1, 1)
    assert found(2) == (3, 3)
    assert found(2, doubtful=lambda _: False) == (1, 1)
    assert found(2, fails=True) == (3, 3)
    assert found(99) == (LOOKS + 1, LOOKS + 1)
    looks.clear()
    assert of_newest(world.machine, "s", partial(look, 2)) == 1


def test_what_is_damaged_in_the_newest_state_is_damaged() -> None:
    world = World()
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        raise Corrupt("a manifest is missing")

    for number in (1, 2):
        with pytest.raises(Corrupt, match="a manifest is missing"):
            of_newest(world.machine, "s", look)
        assert len(looks) == number
        world.machine.drop("s", by="ann", reason="a trial")  # so is a dropped one


# What was set aside.


def test_a_manifest_that_was_set_aside_comes_back_before_blobs_are_judged() -> None:
    world = World()
    manifest = world.append(1).manifest
    part = world.state_parts()[0]
    assert manifest is not None
    world.blob.delete(manifest)
    world.blob.delete(part)

    report = world.sweep()

    assert report.restored == 2
    assert "2 named by the state restored" in report.lines()[0]
    world.check()
    assert world.sweep().restored == 0


def test_a_part_that_was_set_aside_comes_back_though_its_manifest_is_there() -> None:
    world = World()
    world.append(1)
    world.blob.delete(world.state_parts()[0])

    assert world.sweep().restored == 1
    world.check()


class Purging(MemoryBlob):
    """A store that keeps what was deleted until it is purged."""

    def purge(self, before_ms: int) -> int:
        self.before_ms = before_ms
        return 7


def test_what_was_set_aside_is_purged_after_its_days() -> None:
    world, blob = World(), Purging()
    settings = Settings(gc=GcSettings(aside_days=3))

    purged = purge(replace(world.stores, blob=blob), settings)

    assert (purged, blob.before_ms) == (7, world.now_ms - 3 * 24 * HOUR)


@pytest.mark.parametrize(("before_ms", "idle"), [(1, True), (0, False)])
def test_a_dropped_shard_is_swept_as_soon_as_its_grace_is_over(before_ms: int, idle: bool) -> None:
    world = World()
    world.append(1)
    world.machine.drop("s", by="ann", reason="a trial")
    dropped = world.machine.load("s", dropped=True)
    begins = deleted_from(dropped, SETTINGS)
    assert begins == world.now_ms + SETTINGS.gc.grace_ms
    assert deleted_from(World().state, SETTINGS) is None

    world.now_ms = begins - before_ms
    report = world.sweep(hours=0)

    assert bool(report.idle_reason) == idle
    assert (world.stored() == []) != idle


def test_history_of_a_dropped_shard_is_counted_in_a_plan() -> None:
    world = World()
    world.append(1)
    world.blob.set(keys.verdict_key("s", "run"), b"table")
    world.machine.drop("s", by="ann", reason="a trial")
    world.now_ms += HOUR
    seqno = world.machine.load("s", dropped=True).seqno

    assert gc.plan(world.stores, "s", SETTINGS).counts[Fate.DEAD][0] == 3
    assert world.machine.load("s", dropped=True).seqno == seqno
