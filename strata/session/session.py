"""Build Spark sessions for jobs, the command line and tests. No other module builds one.

Nothing here may import the engine: a job loads it while Java makes the context
(`strata.session.job_spark`).

Master and memory come from spark-submit if there is one, otherwise (tests, command line, a shell)
from the settings. The meaning of a filter depends on the session, so ANSI mode and zone are pinned
here: a plan of one job must be valid in another.
"""

import atexit
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest
from strata.model.own_code import own_code
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

# By this the planning of a data source, which sees no session, learns how many tasks run at once.
# Java passes it on from its own start: a context that follows on a cluster keeps it.
CORES: Final = "STRATA_LOCAL_CORES"

_SOCKETS: Final = "spark.python.unix.domain.socket"
_NAME: Final = "x" * len(".01234567-89ab-cdef-0123-456789abcdef.sock")  # as long as Spark's

_ASKED: Final[set[str]] = set()  # applications whose executors were looked at

# They print every analysis error, expected ones too, as a wall of Java on stderr.
NOISY: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def spark_session(
    app_name: str, settings: SparkSettings, extra: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a session, and stop it afterwards unless it was there before.

    `extra` is Spark configuration on top, for tests and benchmarks.
    """
    before = SparkSession.getActiveSession()
    if before is not None:
        yield before
        return
    context = new_context(app_name, settings, extra)
    spark = session_over(context, settings, extra)
    try:
        yield spark
    finally:
        stop_context(context, spark)


def new_context(
    app_name: str, settings: SparkSettings, extra: Mapping[str, str] | None = None
) -> SparkContext:
    """Return a context, which runs tasks; on a cluster, its executors are looked at.

    It is a new one, unless this process has one that no session of this thread uses.

    Raises: InvalidRequest for executors that cannot run Strata.
    """
    _prepare_environment(settings)
    own_code()  # of now: a daemon of workers that starts after an upgrade in place has another one
    configured = {**_configuration(settings), **(extra or {})}  # finds spark-submit's JVM first
    conf = SparkConf().setAppName(app_name)
    for key, value in configured.items():
        conf.set(key, value)
    master = str(conf.get("spark.master", ""))
    _remember_cores(master)
    sockets = _sockets(master)
    for key, value in sockets.items():
        conf.setIfMissing(key, value)
    context = SparkContext.getOrCreate(conf)
    context.setLogLevel("ERROR")
    if sockets:
        _java_removes(context, sockets[f"{_SOCKETS}.dir"])
    try:
        check_executors(context)
    except BaseException:
        stop_context(context)
        raise
    return context


def check_executors(context: SparkContext) -> None:
    """Look at the executors of a context, once; those on this machine have the driver's code.

    Raises: InvalidRequest for executors that cannot run Strata, or run another one.
    """
    if is_local(context) or context.applicationId in _ASKED:
        return
    require_executors(context)
    _ASKED.add(context.applicationId)


def session_over(
    context: SparkContext, settings: SparkSettings, extra: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the session of a context, which understands filters."""
    for name in NOISY:
        logging.getLogger(name).disabled = True
    builder = SparkSession.builder
    for key, value in {**_configuration(settings), **(extra or {})}.items():
        if key.startswith("spark.sql."):  # Java has all others with the context
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    assert spark.sparkContext is context
    return spark


def context_of(spark: SparkSession) -> SparkContext:
    """Return the context of a session.

    Raises: InvalidRequest for a session of Spark Connect, whose Java machine is out of reach.
    """
    try:
        return spark.sparkContext
    except AttributeError:
        cure = 'one without a remote; or read: spark.read.format("strata"), or strata.open'
        hidden = "a session of Spark Connect hides its plans and tasks"
        raise InvalidRequest(hidden, cure=cure) from None


def is_local(context: SparkContext) -> bool:
    """Return whether tasks run on this machine, inside the driver's Java machine."""
    return str(context.master).startswith("local")


def local_cores(master: str) -> int | None:
    """Return how many tasks a master of this machine runs at once; None for another master.

    >>> local_cores("local[3]"), local_cores("local"), local_cores("local[2, 4]")
    (3, 1, 2)
    >>> local_cores("yarn"), local_cores("local-cluster[2,1,1024]")
    (None, None)
    """
    found = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,.*)?\])?", master)
    if found is None:
        return None
    threads = found[1] or "1"
    return os.cpu_count() or 1 if threads == "*" else int(threads)


def _remember_cores(master: str) -> None:
    cores = local_cores(master)
    if cores is None:
        os.environ.pop(CORES, None)
    else:
        os.environ[CORES] = str(cores)


def activate(spark: SparkSession) -> None:
    """Make the session the one of this thread.

    Java looks for settings in the session of its thread, and takes its own defaults for a thread
    that has none: another zone, another ANSI mode.
    """
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def stop_context(
    context: SparkContext, session: SparkSession | None = None, *, quietly: bool = False
) -> None:
    """Stop a context without the wait for its server of accumulators, which looks once a second.

    `quietly`: say nothing of tasks that are under way, which Spark prints as errors.
    """
    server = getattr(context, "_accumulatorServer", None)
    context._accumulatorServer = None  # type: ignore[assignment]  # or it would be waited for
    if quietly:
        context.setLogLevel("OFF")
    (context if session is None else session).stop()
    if server is not None:
        Thread(target=server.shutdown, daemon=True).start()


def load_workers(context: SparkContext) -> None:
    """Let Spark start its daemon of workers, which takes 2 s, with a task that does nothing.

    On a cluster there are workers already: `new_context` has asked them.
    """
    if is_local(context):
        context.parallelize([0], 1).map(int).collect()


def _sockets(master: str) -> dict[str, str]:
    """Return the settings by which Java and Python talk over files of this user's own.

    Over TCP each task of Python waits some 40 ms for an acknowledgement. Executors on other
    machines lack the folder; and in one that others may enter, a mask of 000 would let them in.
    """
    if not master.startswith("local") or (folder := _socket_folder()) is None:
        return {}
    return {f"{_SOCKETS}.enabled": "true", f"{_SOCKETS}.dir": folder}


def _socket_folder() -> str | None:
    """Return a new folder that nobody else may enter; None where it can hold no socket."""
    try:
        folder = tempfile.mkdtemp(prefix="strata-")
    except OSError:  # Java may have another place
        return None
    atexit.register(_remove, folder, os.getpid())
    try:
        with socket.socket(socket.AF_UNIX) as one:  # a path may be too long for it
            one.bind(os.path.join(folder, _NAME))
        os.unlink(os.path.join(folder, _NAME))
    except OSError:
        _remove(folder, os.getpid())
        return None
    return folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a fork ends earlier
        shutil.rmtree(folder, ignore_errors=True)


def _java_removes(context: SparkContext, folder: str) -> None:
    """Let Java remove a folder, too: it ends in order when this process is killed."""
    jvm: Any = context._jvm
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(
        jvm.java.io.File(folder)
    )


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
