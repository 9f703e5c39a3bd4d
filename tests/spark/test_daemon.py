"""Workers fork off a daemon that has loaded the engine, and started no thread of its own."""

import os
import subprocess
import sys
import zipimport
from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from strata.session.session import WORKERS
from strata.spark.quiet_end import end_quietly

THREADS = """
from pathlib import Path
from strata.spark.daemon import preload
preload()
print(*sorted(task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")))
"""


def loaded(_: int) -> bool:
    """Tell whether the worker had merge, kernels and reader before its first task."""
    kernels = sys.modules.get("strata.kernels.merge_words")
    needed = {"strata.compact.tasks", "strata.spark.datasource", "sqlalchemy", "pydantic"}
    return needed <= sys.modules.keys() and bool(kernels.sort_words.signatures)


def archives(_: int) -> int:
    """Count the importers that list an archive anew when a worker's path changes."""
    known = sys.path_importer_cache.values()
    return sum(isinstance(one, zipimport.zipimporter) for one in known)


def environment(_: int) -> dict[str, str]:
    return dict(os.environ)


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError, ValueError])
def test_only_a_worker_whose_answer_nobody_reads_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def work(_: object, authenticated: bool) -> int:
        raise error(str(authenticated))

    monkeypatch.setattr(os, "_exit", sys.exit)
    daemon = SimpleNamespace(worker=work)
    end_quietly(daemon)

    with pytest.raises(ValueError if error is ValueError else SystemExit) as ended:
        daemon.worker(None, True)
    assert str(ended.value) == ("True" if error is ValueError else "1")


def test_a_worker_finds_the_engine_loaded(spark: SparkSession) -> None:
    assert spark.sparkContext.parallelize([0], 1).map(loaded).collect() == [True]


def test_a_new_worker_lists_no_archive_for_each_package_of_pyspark(spark: SparkSession) -> None:
    (found,) = spark.sparkContext.parallelize([0], 1).map(archives).collect()

    assert found < 8, "there were 16"


def test_a_worker_has_the_environment_that_libraries_read_as_they_are_loaded(
    spark: SparkSession,
) -> None:
    (found,) = spark.sparkContext.parallelize([0], 1).map(environment).collect()

    assert WORKERS.items() <= found.items()


def daemon(_: int) -> int:
    return os.getppid()


def test_tasks_and_queries_share_one_daemon(spark: SparkSession) -> None:
    (of_tasks,) = spark.sparkContext.parallelize([0], 1).map(daemon).collect()
    seen = spark.range(1).mapInArrow(_daemons, "daemon long").collect()

    assert [row["daemon"] for row in seen] == [of_tasks]


def _daemons(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})


def test_pyspark_of_the_same_installation_is_loaded_from_files(spark: SparkSession) -> None:
    (found,) = spark.sparkContext.parallelize([0], 1).map(where_pyspark_is).collect()

    assert ".zip" not in found


def where_pyspark_is(_: int) -> str:
    return str(sys.modules["pyspark"].__file__) + str(sys.modules["py4j"].__file__)


def test_what_is_loaded_before_a_fork_starts_no_thread() -> None:
    # Arrow's jemalloc has one of its own, and begins it anew in a child.
    env = {**os.environ, **WORKERS}
    command = [sys.executable, "-c", THREADS]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)

    assert len([name for name in run.stdout.split() if name != "jemalloc_bg_thd"]) == 1
    assert not run.stderr
