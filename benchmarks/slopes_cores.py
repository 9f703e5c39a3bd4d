"""Ingest, compaction and a full read by Spark on one core and two, for `benchmarks.slopes`.

Each way to run Spark has a driver of its own for the whole run, and they take turns. `local[n]` has
n cores of this machine for all that it is, Java and Python; a cluster of n executors has them too,
each executor one of them alone, and its driver whichever of the n is free. CPU time is that of all
processes of a way. `in_tasks` is Spark's own count of its tasks' time; on a busy machine it has
exceeded the clock, so no table is made of it.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import psutil

from benchmarks.cpu import cpu_seconds
from benchmarks.peers_data import SHAPES
from benchmarks.slopes_work import NAME, Home, sources
from demo.cluster import standalone
from demo.processes import Processes
from strata.machine.machine import Machine
from strata.model.settings import SparkSettings

TASKS: Final = 8  # of an ingest, and of a compaction: more than cores
MANY_TASKS: Final = 64  # of the ingest that shows what a task costs the driver
END_S: Final = 20.0  # that a driver has to end its work
SETTLE_S: Final = 0.3  # until Spark has counted the tasks that ended
OPERATIONS: Final = ("ingest", "compaction", "full read")
ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Way:
    """A way to run Spark."""

    name: str
    cores: int
    executors: bool = False  # a cluster's; otherwise threads of the driver's Java machine


WAYS: Final = (
    Way("local[1]", 1),
    Way("local[2]", 2),
    Way("1 executor", 1, True),
    Way("2 executors", 2, True),
)


@dataclass(frozen=True)
class Data:
    """Source files on disk."""

    name: str
    rows: int
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Job:
    """What one operation took. Units: seconds."""

    wall: float
    cpu: float  # of all processes
    driver: float  # of these, the driver's; in local mode everybody's
    in_tasks: float  # the times of all tasks, added up
    tasks: int
    stored_bytes: int = 0  # of the runs that the ingest wrote


@contextmanager
def on_cores(cores: int) -> Iterator[None]:
    """Let this process, and what it starts meanwhile, run on the first cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def extras(way: Way) -> dict[str, str]:
    """Return the configuration of a session beside the engine's own."""
    conf = {"spark.default.parallelism": str(way.cores)}
    if not way.executors:
        return conf
    from strata.session.session import WORKERS

    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {
        **conf,
        "spark.executorEnv.PYTHONPATH": path,
        **{f"spark.executorEnv.{name}": value for name, value in WORKERS.items()},
        "spark.python.daemon.module": "strata.spark.daemon",
        "spark.pyspark.python": sys.executable,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.cores.max": str(way.cores),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }


def driver(way: Way, master: str, workers: Sequence[int], pipe: Connection) -> None:
    """Answer with what each operation took, until None is asked; first with the session's start."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: way.cores])
    from strata.spark import spark_session

    began = time.perf_counter()
    settings = SparkSettings(master=master, driver_memory_mib=1024)
    with spark_session("slopes", settings, extras(way)) as spark:
        spark.sparkContext.parallelize(range(way.cores), way.cores).map(int).collect()
        pipe.send(time.perf_counter() - began)
        while (asked := pipe.recv()) is not None:
            try:
                pipe.send(jobs_of(spark, asked, workers))
            except Exception as error:  # the run ends with it
                pipe.send(error)


def jobs_of(spark: Any, data: Data, workers: Sequence[int]) -> dict[str, Job]:
    """Return what each operation on the data took."""
    from strata.spark import snapshot
    from strata.spark.runner import spark_runner

    runner = spark_runner(spark)
    home = Home.beside(data.paths)
    try:
        home.create(SHAPES["events"])
        found = {"ingest": job(spark, workers, lambda: home.take(data.paths, data.rows, runner))}
        stored = sum(batch.size_bytes for batch in Machine(home.stores).load(NAME).batches)
        # Such small runs would be one task; a smaller memory would also cut each task's rows.
        with patch("strata.compact.tasks.slice_bytes_of", lambda *_: max(1, ceil(stored / TASKS))):
            found["compaction"] = job(spark, workers, lambda: home.merge(runner))

        def read() -> None:
            frame = snapshot(spark, NAME, config=home.settings)
            frame.write.format("noop").mode("overwrite").save()

        found["full read"] = job(spark, workers, read)
        return {name: replace(took, stored_bytes=stored) for name, took in found.items()}
    finally:
        home.remove()


def job(spark: Any, workers: Sequence[int], work: Callable[[], Any]) -> Job:
    """Return what some work took."""
    ran, tasks = tasks_of(spark)
    others, mine, began = below(workers), cpu_seconds(), time.perf_counter()
    work()
    took = time.perf_counter() - began
    driver, executors = cpu_seconds() - mine, below(workers) - others
    time.sleep(SETTLE_S)
    after, count = tasks_of(spark)
    return Job(took, driver + executors, driver, after - ran, count - tasks)


def tasks_of(spark: Any) -> tuple[float, int]:
    """Return how long all tasks of a session took so far, and how many there were."""
    found = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    every = [found.apply(number) for number in range(found.size())]
    return sum(one.totalDuration() for one in every) / 1000, sum(one.totalTasks() for one in every)


def below(roots: Sequence[int]) -> float:
    """Return the CPU seconds of some processes and of all below them."""
    total = 0.0
    for root in roots:
        for process in (psutil.Process(root), *psutil.Process(root).children(recursive=True)):
            try:
                used = process.cpu_times()
            except psutil.NoSuchProcess:  # its parent has its time, next time
                continue
            total += used.user + used.system + used.children_user + used.children_system
    return total


Found = dict[str, dict[str, dict[str, list[Job]]]]  # way, data, operation


def over_cores(
    folder: Path, rows: int, rounds: int, ways: Sequence[Way] = WAYS
) -> tuple[Found, dict[str, float]]:
    """Return the jobs of each way, in turn, after one round that warms up; and its start."""
    few = max(rows // 10, MANY_TASKS)
    shape = SHAPES["events"]
    data = [
        Data("few", few, tuple(sources(folder / "few", shape, few, TASKS))),
        Data("all", rows, tuple(sources(folder / "all", shape, rows, TASKS))),
        Data("cut", few, tuple(sources(folder / "cut", shape, few, MANY_TASKS))),
    ]
    found: Found = {way.name: {d.name: {} for d in data} for way in ways}
    with ExitStack() as stack:
        pipes, starts = {}, {}
        for way in ways:  # each starts alone
            pipes[way.name] = stack.enter_context(begun(folder, way))
            starts[way.name] = answered(pipes[way.name])
        for number in range(rounds + 1):
            for one in data:
                for name, pipe in pipes.items():
                    pipe.send(one)
                    jobs: Mapping[str, Job] = answered(pipe)
                    for operation, took in jobs.items() if number else ():
                        found[name][one.name].setdefault(operation, []).append(took)
    return found, starts


def answered(pipe: Connection) -> Any:
    """Return what a driver says. Raises: the error that it met."""
    answer = pipe.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer


@contextmanager
def begun(folder: Path, way: Way) -> Iterator[Connection]:
    """Start a driver, and its cluster; stop both by process id."""
    place = folder / way.name.replace(" ", "-")
    processes = Processes(place / "processes.json")
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    try:
        master = f"local[{way.cores}]"
        if way.executors:
            master = standalone(processes, place, way.cores, pinned=True)
        workers = [one.pid for one in processes.recorded() if one.name.startswith("worker")]
        process = context.Process(target=driver, args=(way, master, workers, theirs))
        process.start()
        theirs.close()
        try:
            yield mine
        finally:
            stop(process, mine)
    finally:
        processes.stop()


def stop(process: BaseProcess, pipe: Connection) -> None:
    """Ask a driver to end; kill it, and all below it, if it still works after a while."""
    with suppress(OSError):  # it has ended
        pipe.send(None)
    process.join(END_S)
    if process.is_alive() and process.pid is not None:
        for one in reversed(psutil.Process(process.pid).children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.kill()
