"""An adoption happens once: killed at any step, twice at once, behind others, on strange shards."""

import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from strata.adopt.in_place import InPlace
from strata.adopt.run import adopt_table
from strata.compact import compact_shard
from strata.errors import InvalidRequest
from strata.ingest.engine import ingest
from strata.ingest.write import write
from strata.machine.machine import Machine
from strata.maintain.revert import revert_interval
from strata.model.settings import Settings
from tests.support.adopted import NAME, DeltaWorld, IcebergWorld, Mirror, made
from tests.support.failing_stores import (
    CrashError,
    Faults,
    FaultyBlob,
    FaultyConsensus,
    Outcome,
)
from tests.support.stored import memory_stores, settings


@pytest.fixture
def world(tmp_path: Path) -> DeltaWorld:
    return DeltaWorld(tmp_path, feed=True, parted=False)


@pytest.fixture
def mirror() -> Mirror:
    made_one = Mirror()
    made_one.create()
    return made_one


def on(mirror: Mirror, faults: Faults) -> Mirror:
    """Return the mirror as a process sees it whose stores fail."""
    stores = replace(
        mirror.stores,
        blob=FaultyBlob(mirror.stores.blob, faults),
        consensus=FaultyConsensus(mirror.stores.consensus, faults),
    )
    return Mirror(stores)


def strange_rows(mirror: Mirror) -> None:
    """Write a row that no table has, at the shard's upper."""
    upper, config = Machine(mirror.stores).load(NAME).upper, Settings(mirror.stores.settings)
    write(made([(9, "z")], ()), NAME, lower=upper, upper=upper + 1, config=config)


@pytest.mark.parametrize("outcome", [Outcome.CRASH_BEFORE, Outcome.CRASH_AFTER])
@pytest.mark.parametrize("anew", [False, True])
def test_killed_at_any_step_it_is_in_once(outcome: Outcome, anew: bool, world: DeltaWorld) -> None:
    world.update([], 1)
    for steps in range(200):
        mirror = Mirror()
        mirror.create()
        mirror.adopt(world.peer(), wanted=0)
        faults = Faults([Outcome.WORKS] * steps + [outcome])
        try:
            on(mirror, faults).adopt(world.peer(), all_anew=anew)
        except CrashError:
            mirror.adopt(world.peer())
            assert mirror.read() == world.rows()
        else:
            break

    assert 12 < steps < 199
    assert mirror.read() == world.rows()


@pytest.mark.parametrize("outcome", [Outcome.CRASH_BEFORE, Outcome.CRASH_AFTER])
def test_killed_at_any_step_files_in_place_are_in_once(outcome: Outcome, world: DeltaWorld) -> None:
    """Files that the table drops are taken in before the shard forgets that it needs them."""
    world.append([(4, "b")], 0)
    peer, stay = world.peer(), InPlace(math.inf)
    for steps in range(200):
        mirror = Mirror()
        mirror.create()
        mirror.adopt(peer, wanted=0, in_place=stay)
        world.optimize([], 0)
        faults = Faults([Outcome.WORKS] * steps + [outcome])
        try:
            on(mirror, faults).adopt(world.peer(), in_place=stay)
        except CrashError:
            mirror.adopt(world.peer(), in_place=stay)
            assert mirror.read() == world.rows()
        else:
            break

    assert 12 < steps < 199
    world.vacuum()
    assert mirror.read() == world.rows()


@pytest.mark.parametrize("step", range(0, 13, 2))
def test_of_two_at_once_each_change_counts_once(
    step: int, world: DeltaWorld, mirror: Mirror
) -> None:
    mirror.adopt(world.peer())
    world.append([(4, "b")], 0)
    faults = Faults([Outcome.WORKS] * step + [Outcome.INTERRUPTED])

    def another() -> None:
        mirror.adopt(world.peer())
        world.delete([], 1)
        mirror.adopt(world.peer())

    faults.interlude = another
    on(mirror, faults).adopt(world.peer())

    assert faults.drawn[Outcome.INTERRUPTED] == 1
    assert mirror.read() == world.rows()


@pytest.mark.parametrize("step", [6, 8, 10, 12, 14, 16])
def test_what_others_write_meanwhile_is_retracted_too(step: int, world: DeltaWorld) -> None:
    """They write at an earlier time than that of the version, which would leave room for both."""
    mirror = Mirror(replace(memory_stores(), clock=lambda: 10**14))
    mirror.create()
    mirror.adopt(world.peer())
    world.append([(4, "b")], 0)
    faults = Faults([Outcome.WORKS] * step + [Outcome.INTERRUPTED])
    faults.interlude = partial(strange_rows, mirror)

    on(mirror, faults).adopt(world.peer(), all_anew=True)

    assert faults.drawn[Outcome.INTERRUPTED] == 1
    assert mirror.read() == world.rows()


def test_a_run_that_is_behind_changes_nothing(world: DeltaWorld, mirror: Mirror) -> None:
    world.append([(4, "b")], 0)
    mirror.adopt(world.peer())
    held = mirror.read()

    late = mirror.adopt(world.peer(), wanted=0)

    assert (late.how, late.before, late.already_adopted) == ("nothing", "1", True)
    assert mirror.read() == held


def test_an_earlier_snapshot_of_iceberg_is_behind_but_a_rollback_is_not(
    tmp_path: Path, mirror: Mirror
) -> None:
    world = IcebergWorld(tmp_path)
    first = world.table.current_snapshot()
    assert first is not None
    world.append([(4, "b")], 0)
    for _ in range(2):  # the same two versions again and again
        assert not mirror.adopt(world.peer()).already_adopted
        assert mirror.adopt(world.peer(), wanted=first.snapshot_id).already_adopted
        newest = world.table.current_snapshot()
        assert newest is not None
        world.roll_back([], 0)
        assert not mirror.adopt(world.peer()).already_adopted
        assert mirror.read() == world.rows()
        world.table.manage_snapshots().set_current_snapshot(newest.snapshot_id).commit()
    assert not mirror.adopt(world.peer()).already_adopted
    assert mirror.read() == world.rows()


def test_a_dry_run_writes_nothing(world: DeltaWorld, mirror: Mirror) -> None:
    before = Machine(mirror.stores).load(NAME)
    told = mirror.adopt(world.peer(), dry_run=True)

    assert (told.how, told.dry_run, told.report) == ("whole", True, None)
    assert Machine(mirror.stores).load(NAME) == before
    assert not list(mirror.stores.blob.list(""))


def test_the_record_outlives_compaction(world: DeltaWorld, mirror: Mirror) -> None:
    for number in range(3):
        world.append([(number, "a")], 0)
        mirror.adopt(world.peer())
    compact_shard(mirror.stores, NAME, settings(), full=True)
    world.delete([], 1)

    done = mirror.adopt(world.peer())

    assert (done.how, done.before) == ("feed", "3")
    assert mirror.read() == world.rows()


def test_a_shard_with_rows_of_others_is_refused_until_it_begins_anew(
    world: DeltaWorld, mirror: Mirror
) -> None:
    mirror.adopt(world.peer())
    strange_rows(mirror)
    with pytest.raises(InvalidRequest, match="rows of others") as refused:
        mirror.adopt(world.peer())
    assert "--replace" in str(refused.value)

    done = mirror.adopt(world.peer(), all_anew=True)

    assert done.how == "replace"
    assert mirror.read() == world.rows()
    world.append([(4, "b")], 0)
    assert mirror.adopt(world.peer()).how == "feed"
    assert mirror.read() == world.rows()


def test_a_reverted_adoption_does_not_count_as_held(world: DeltaWorld, mirror: Mirror) -> None:
    report = mirror.adopt(world.peer()).report
    assert report is not None
    revert_interval(mirror.stores, NAME, report.lower, report.upper)

    with pytest.raises(InvalidRequest, match="rows of others"):
        mirror.adopt(world.peer())
    mirror.adopt(world.peer(), all_anew=True)
    assert mirror.read() == world.rows()


def test_nobody_else_gives_a_write_the_token_of_an_adoption(
    world: DeltaWorld, mirror: Mirror
) -> None:
    """The shard would be taken for another version of the table, and its next changes be wrong."""
    mirror.adopt(world.peer())
    state, config = Machine(mirror.stores).load(NAME), Settings(mirror.stores.settings)
    token = re.sub(r"\.0-[0-9a-f]+\.0\.", ".7-5.0.", state.commits[-1].token)
    assert token.startswith("adopt.delta.")
    assert ".7-5.0." in token
    lower, upper = state.upper, state.upper + 1

    with pytest.raises(InvalidRequest, match="for adoptions alone"):
        write(made([(9, "z")], ()), NAME, lower=lower, upper=upper, token=token, config=config)
    with pytest.raises(InvalidRequest, match="for adoptions alone"):
        ingest(mirror.stores, config, NAME, paths=[], lower=lower, upper=upper, token=token)
    assert mirror.adopt(world.peer()).already_adopted


def test_another_table_is_refused(tmp_path: Path, world: DeltaWorld, mirror: Mirror) -> None:
    mirror.adopt(world.peer())
    (tmp_path / "other").mkdir()
    other = DeltaWorld(tmp_path / "other", feed=False, parted=False)
    other.append([(5, "q")], 0)

    with pytest.raises(InvalidRequest, match="holds another table"):
        mirror.adopt(other.peer())
    mirror.adopt(other.peer(), all_anew=True)
    assert mirror.read() == other.rows()


def test_times_are_those_of_versions_and_never_go_back(world: DeltaWorld, mirror: Mirror) -> None:
    """The clock of these stores stands at 1,000,000 ms: every version is later."""
    first = mirror.adopt(world.peer()).report
    world.append([(4, "b")], 0)
    second = mirror.adopt(world.peer()).report
    assert first is not None
    assert second is not None
    assert first.lower == 1_000_000
    assert second.lower == first.upper

    later = replace(mirror.stores, clock=lambda: 10**14)
    world.append([(5, "b")], 0)
    third = Mirror(later).adopt(world.peer()).report
    assert third is not None
    assert third.lower == world.table.history(1)[0]["timestamp"]


def test_no_table_is_adopted_into_a_shard_that_strata_writes_about_itself(
    world: DeltaWorld, mirror: Mirror
) -> None:
    """Also not for a dry run, and not with `--replace`, which retracts what is there."""
    config = Settings(mirror.stores.settings)
    for dry_run in (False, True):
        with pytest.raises(InvalidRequest, match="Strata alone writes"):
            adopt_table(
                mirror.stores,
                config,
                "strata_verdicts",
                world.peer(),
                all_anew=True,
                dry_run=dry_run,
            )
