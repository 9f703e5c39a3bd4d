"""A job holds a writer's lease: it may work for long, and once it has lost it, it changes nothing.

A zombie here is a job that sleeps in the middle of its tasks for longer than its lease, without
its heartbeat, as a process does that was stopped; another run does the same work meanwhile.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from strata.compact import compact_shard
from strata.errors import Fenced
from strata.ingest.engine import ingest_steps
from strata.ingest.land.files import files_at
from strata.ingest.task import Step
from strata.machine.writer_lease import LEASE_MS, Lease
from strata.maintain.backfill import backfill_shard
from strata.maintain.trim import trim_shard
from strata.maintain.trim_tasks import survey_batch
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.state.generations import live_writers
from strata.store.open import Stores
from tests.support.failing_stores import Faults, FaultyConsensus, Outcome
from tests.support.garbage import World

Job = Callable[[World, Runner, Lease | None, Path], Any]


def ingest(world: World, runner: Runner, lease: Lease | None, folder: Path) -> Any:
    file = folder / "new.csv"
    file.write_text('{"id": 9, "text": "nine"}\n')
    step = Step(100, 110, "new", tuple(files_at(str(folder), [str(file)])))
    return list(ingest_steps(world.stores, Settings(), "s", [step], runner=runner, lease=lease))


def compact(world: World, runner: Runner, lease: Lease | None, folder: Path) -> Any:
    return compact_shard(world.stores, "s", Settings(), runner, full=True, lease=lease)


def backfill(world: World, runner: Runner, lease: Lease | None, folder: Path) -> Any:
    return backfill_shard(world.stores, "s", runner=runner, lease=lease)


def trim(world: World, runner: Runner, lease: Lease | None, folder: Path) -> Any:
    return trim_shard(world.stores, "s", budget_bytes=0, runner=runner, lease=lease)


JOBS: list[Job] = [ingest, compact, backfill, trim]


@pytest.fixture
def world() -> World:
    made = World()
    for number in range(3):
        made.append(*range(number, 40, 3))
    made.commit(made.write([50], layout="row"), [50])  # without statistics
    return made


def meanwhile(event: Callable[[], Any]) -> Runner:
    """Return a runner in which something happens once the first task has worked."""
    done = []

    def run(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            result = function(item)
            if not done and function is not survey_batch:  # before which nothing is held
                done.append(True)
                event()
            yield result

    return run


def lease(world: World) -> Lease:
    return Lease(world.machine, "s", "job")


@pytest.mark.parametrize("job", JOBS)
def test_a_zombie_is_fenced_and_its_successor_is_not(
    world: World, tmp_path: Path, job: Job
) -> None:
    after: list[Any] = []

    def successor() -> None:
        world.now_ms += LEASE_MS + 1
        with lease(world):  # a run that is at work as the zombie wakes up saves it from nothing
            after.append(world.state)

    with pytest.raises(Fenced, match="lease"):
        job(world, meanwhile(successor), lease(world), tmp_path)

    [seen] = after
    assert (world.state.spine, world.state.commits) == (seen.spine, seen.commits)
    assert live_writers(world.state, world.now_ms) == ()
    job(world, serial, lease(world), tmp_path)
    assert (world.state.spine, world.state.commits) != (seen.spine, seen.commits)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_renews_its_lease_may_take_days(world: World, tmp_path: Path, job: Job) -> None:
    mine, before = lease(world), world.state

    def days() -> None:
        for _ in range(200):
            world.now_ms += LEASE_MS // 2
            mine.renew()
        for _ in range(3):
            world.sweep(hours=0)  # each closes a generation: the last one is older than the grace
            world.now_ms += LEASE_MS // 2
            mine.renew()

    job(world, meanwhile(days), mine, tmp_path)

    assert world.state.spine != before.spine
    assert world.state.writers == ()
    world.ids += [9] if job is ingest else []
    world.settle()
    world.check()


def test_a_job_with_nothing_to_do_takes_no_lease(world: World, tmp_path: Path) -> None:
    for job in (ingest, compact, trim):
        job(world, serial, lease(world), tmp_path)
        seqno = world.state.seqno
        job(world, serial, lease(world), tmp_path)
        assert world.state.seqno == seqno, job


def test_a_lease_is_renewed_in_the_background(world: World) -> None:
    with Lease(world.machine, "s", "job", lease_ms=30):
        [first] = world.state.writers
        world.now_ms += 20
        while world.state.writers[0].expires_ms == first.expires_ms:
            time.sleep(0.001)  # pytest's limit of a test ends it
        assert world.state.writers[0].name == first.name
    assert world.state.writers == ()


def test_a_renewal_that_fails_is_tried_again(world: World) -> None:
    faults = Faults(sleep=lambda _: None)
    world.stores = Stores(
        world.inner.blob,
        FaultyConsensus(world.inner.consensus, faults),
        world.inner.clock,
        world.inner.settings,
    )
    with Lease(world.machine, "s", "job", lease_ms=60):
        [first] = world.state.writers
        faults.plan([Outcome.REQUEST_LOST] * 20)
        world.now_ms += 30
        while world.state.writers[0].expires_ms == first.expires_ms:
            pass


def test_what_killed_runs_leave_behind_is_dropped_by_the_next(world: World) -> None:
    for number in range(5):
        Lease(world.machine, "s", f"killed{number}").__enter__()
        world.now_ms += LEASE_MS + 1
    assert len(world.state.writers) == 1


def test_an_error_of_the_job_gives_the_lease_back(world: World, tmp_path: Path) -> None:
    def fails() -> None:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        compact(world, meanwhile(fails), lease(world), tmp_path)
    assert world.state.writers == ()


def test_a_run_that_is_stopped_as_it_begins_leaves_no_lease_behind(world: World) -> None:
    lease = Lease(world.machine, "s", "compact")
    lease._beat = Stopped()  # type: ignore[assignment]

    with pytest.raises(KeyboardInterrupt), lease:
        pass

    assert world.state.writers == ()


class Stopped:
    """A beat in whose first moment somebody stops the program."""

    def __enter__(self) -> None:
        raise KeyboardInterrupt


def test_nothing_beats_once_a_lease_is_given_back(world: World) -> None:
    with Lease(world.machine, "s", "compact") as lease:
        assert lease.name in [thread.name for thread in enumerate_threads()]

    assert lease.name not in [thread.name for thread in enumerate_threads()]
    assert world.state.writers == ()
