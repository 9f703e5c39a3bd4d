"""Build Spark sessions for jobs, the command line and tests. No other module builds one.

A job's session takes Java two seconds, and the job's engine takes Python more than one: they are
made side by side. So nothing here may import the engine.

Master and memory come from spark-submit if there is one, otherwise (tests, command line, a shell)
from the settings. The meaning of a filter depends on the session, so ANSI mode and zone are pinned
here: a plan of one job must be valid in another.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from strata.model.settings import SparkSettings
from strata.session.executors import require_executors

ROOT: Final = Path(__file__).resolve().parents[2]  # holds strata, jobs and pyspark_strata

PINNED: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
    # Spark starts a daemon of workers for each set of variables, and this one sets a variable for
    # queries alone: jobs with tasks and queries would load the engine twice, 2.5 s each time.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Spark would derive conditions from a filter and evaluate them before its own first conjunct:
    # then an error could appear that the planner has proven hidden behind that conjunct.
    "spark.sql.constraintPropagation.enabled": "false",
}

# The environment of Python workers, which must be set before libraries are loaded.
WORKERS: Final[Mapping[str, str]] = {
    "OPENBLAS_NUM_THREADS": "1",  # its threads would not survive a fork
    # Arrow's allocator returns pages that are unused for a second, and the kernel clears them for
    # the next use: 5 % of a merge. Tasks return memory themselves (`strata.updates.resident`).
    "MIMALLOC_PURGE_DELAY": str(60 * 60 * 1000),
}

# Contexts whose workers are starting: for some seconds tasks would wait for them.
_starting: Final[set[str]] = set()

# They print every analysis error, expected ones too, as a wall of Java on stderr.
NOISY: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def spark_session(
    app_name: str,
    settings: SparkSettings,
    extra: Mapping[str, str] | None = None,
    *,
    workers: bool = False,
    engine: str = "",
) -> Iterator[SparkSession]:
    """Yield the session of a job, and stop it afterwards unless it was there before.

    `extra` is Spark configuration on top, for tests and benchmarks. `workers`: start the Python
    workers of this machine beside the block, for a job that has tasks for them in any case.
    `engine`: the module that the block imports; it is loaded while Java makes the session.
    """
    for name in NOISY:
        logging.getLogger(name).disabled = True
    before = SparkSession.getActiveSession()
    if before is not None:
        yield before
        return
    _prepare_environment(settings)
    builder = SparkSession.builder.appName(app_name)
    for key, value in {**_configuration(settings), **(extra or {})}.items():
        builder = builder.config(key, value)
    with _beside(engine):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        if not str(spark.sparkContext.master).startswith("local"):
            require_executors(spark)
        elif workers:
            name = str(spark.sparkContext.applicationId)  # a context that has ended has none
            _starting.add(name)
            Thread(target=_load_workers, args=(spark.sparkContext, name), daemon=True).start()
        yield spark
    finally:
        _stop(spark)


def activate(spark: SparkSession) -> None:
    """Make the session the one of this thread.

    Java looks for settings in the session of its thread, and takes its own defaults for a thread
    that has none: another zone, another ANSI mode.
    """
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


@contextmanager
def _beside(module: str) -> Iterator[None]:
    """Import a module, if one is named, beside the block.

    A failure is left to the next import of it.
    """
    loader = import_beside(module) if module else None
    try:
        yield
    finally:
        if loader is not None:
            loader.join()


def import_beside(module: str) -> Thread:
    """Import a module in a thread of its own; a failure is left to the next import of it."""

    def load() -> None:
        with suppress(Exception):
            import_module(module)

    loader = Thread(target=load, daemon=True)
    loader.start()
    return loader


def _stop(spark: SparkSession) -> None:
    """Stop a session without the wait for its server of accumulators, which looks once a second."""
    context = spark.sparkContext
    server = getattr(context, "_accumulatorServer", None)
    context._accumulatorServer = None  # type: ignore[assignment]  # or it would be waited for
    spark.stop()
    if server is not None:
        Thread(target=server.shutdown, daemon=True).start()


def _load_workers(context: SparkContext, application: str) -> None:
    """Let Spark start its daemon of workers, which takes 2 s, with a task that does nothing.

    A failure is left to the job's own tasks.
    """
    try:
        with suppress(Exception):
            context.parallelize([0], 1).map(int).collect()
    finally:
        _starting.discard(application)


def workers_start(context: SparkContext) -> bool:
    """Return whether the workers that `spark_session` was asked to start are not there yet."""
    return str(context.applicationId) in _starting


def submitted() -> bool:
    """Return whether spark-submit started this process (its JVM runs and has its configuration)."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted_master() -> str:
    """Return the master passed to spark-submit, which only its JVM knows."""
    SparkContext._ensure_initialized()
    return str(SparkConf().get("spark.master", "local"))


def _prepare_environment(settings: SparkSettings) -> None:
    """Set the environment that Spark reads, except where the user has set it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not submitted() and settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _configuration(settings: SparkSettings) -> dict[str, str]:
    """Return the session's configuration without the options that spark-submit sets."""
    conf = {**PINNED, "spark.sql.shuffle.partitions": str(settings.shuffle_partitions)}
    if (_submitted_master() if submitted() else settings.master).startswith("local"):
        # Workers import strata from here; on a cluster it is sent along (docs/how-to/deploy.md).
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        conf["spark.executorEnv.PYTHONPATH"] = path
        conf |= {f"spark.executorEnv.{name}": value for name, value in WORKERS.items()}
        conf["spark.python.daemon.module"] = "strata.spark.daemon"
    if not submitted():
        conf["spark.master"] = settings.master
        conf["spark.driver.memory"] = f"{settings.driver_memory_mib}m"
    return conf
