"""An executor that cannot run Strata is told by name, in one line, before any work."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest
from strata.model import own_code as own_code_module
from strata.model.own_code import own_code
from strata.read.changes import Stretch
from strata.session import executors, session
from strata.session.executors import NEEDED, _probe, _reason, require_executors
from strata.spark import runner, snapshot
from strata.spark.datasource import TaskInput
from strata.spark.rows import PartReader
from strata.spark.runner import spark_runner
from strata.spark.stream import ChangesOf
from strata.spark.tasks import task_rows
from tests.spark.small import in_tasks
from tests.support.shards import NAME, copied

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
BARE = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}"
LIBRARIES = sorted(str(path) for path in (HOME / "python" / "lib").glob("*.zip"))


def test_workers_that_have_everything_pass(spark: SparkSession) -> None:
    require_executors(spark.sparkContext)


def test_workers_with_code_of_another_day_are_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "own_code", lambda: "0123456789abcdef")

    with pytest.raises(InvalidRequest, match="run another Strata than the driver") as refused:
        require_executors(spark.sparkContext)

    details = refused.value.details
    assert details["theirs"].endswith(own_code())
    assert details["ours"].endswith("0123456789abcdef")
    assert "make pack" in str(refused.value)


def test_a_session_that_somebody_else_made_is_looked_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    monkeypatch.setattr(session, "require_executors", lambda _: looked.append(1))
    monkeypatch.setattr(session, "_ASKED", set())

    def read() -> None:
        task_rows(spark, lambda batches: batches, 1, "id bigint")

    read()
    assert looked == []  # these tasks run on this machine
    monkeypatch.setattr(session, "is_local", lambda _: False)
    read()
    read()
    assert looked == [1]


@pytest.mark.parametrize("consolidate", [False, True])
def test_an_executor_that_comes_later_with_other_code_reads_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, consolidate: bool
) -> None:
    settings = copied(tmp_path).settings
    with in_tasks():
        rows = snapshot(spark, NAME, config=settings, consolidate=consolidate)
        assert rows.count()
        monkeypatch.setattr(own_code_module, "own_code", lambda: "0123456789abcdef")
        rows = snapshot(spark, NAME, config=settings, consolidate=consolidate)
        with pytest.raises(Exception, match="runs another Strata than the driver"):
            rows.collect()


def test_an_executor_that_comes_later_with_other_code_merges_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [*spark_runner(spark)(abs, [-1, 2])] == [1, 2]
    monkeypatch.setattr(runner, "own_code", lambda: "0123456789abcdef")

    with pytest.raises(InvalidRequest, match="runs another Strata than the driver"):
        next(spark_runner(spark)(abs, [-1, 2]))


@pytest.mark.parametrize("streamed", [False, True])
def test_what_the_data_source_sends_is_refused_by_other_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, streamed: bool
) -> None:
    settings = copied(tmp_path).settings
    reader = PartReader(settings.store, (), ())
    sent = ChangesOf(reader, Stretch(0, 1, ())) if streamed else TaskInput(reader, ())
    assert pickle.loads(pickle.dumps(sent)) == sent
    monkeypatch.setattr(own_code_module, "own_code", lambda: "0123456789abcdef")
    data = pickle.dumps(sent)
    monkeypatch.undo()

    with pytest.raises(InvalidRequest, match="runs another Strata than the driver") as refused:
        pickle.loads(data)

    assert refused.value.details["ours"] == "0123456789abcdef"


def test_the_probe_runs_where_nothing_of_ours_is_installed() -> None:
    from pyspark import cloudpickle

    code = (
        "import json, sys; from pyspark import cloudpickle; "
        "print(json.dumps(cloudpickle.loads(sys.stdin.buffer.read())(0)))"
    )
    done = subprocess.run(
        [str(BARE), "-s", "-c", code],
        input=cloudpickle.dumps(_probe(NEEDED)),
        env={"PYTHONPATH": os.pathsep.join(LIBRARIES)},
        capture_output=True,
        check=True,
        cwd="/",
    )
    answer = json.loads(done.stdout)
    assert answer["missing"] == "ModuleNotFoundError: No module named 'strata'"
    assert Path(answer["python"]).resolve() == BARE.resolve()
    assert answer["code"] == ""


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (
            'x\njava.io.IOException: Cannot run program "./environment/bin/python": error=2, No\n',
            'Cannot run program "./environment/bin/python": error=2, No',
        ),
        ("a\n[PYTHON_VERSION_MISMATCH] Python in worker has 3.9\nb", "[PYTHON_VERSION_MISMATCH] "),
        ("something else\nand more", "something else"),
    ],
)
def test_a_page_of_java_becomes_the_line_that_says_why(report: str, reason: str) -> None:
    found = _reason(RuntimeError(report))
    assert found.startswith(reason)
    assert "\n" not in found


SESSION = """
import sys
from strata.errors import InvalidRequest
from strata.model.settings import SparkSettings
from strata.session import session
from strata.session.executors import require_executors
settings = SparkSettings(master="local-cluster[1,1,1024]", driver_memory_mib=512)
session.ROOT = sys.argv[1]
more = {"spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": sys.argv[1]}
try:
    with session.spark_session("t", settings, more) as spark:
        require_executors(spark.sparkContext)
except InvalidRequest as error:
    print(error)
    sys.exit(error.exit_code)
"""


def with_executors(python: str, theirs: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Look at real executors that run this interpreter, and find packages below `theirs`."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [sys.executable, "-c", SESSION, theirs],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=300,
    )


@pytest.mark.long
@pytest.mark.parametrize("edited", [False, True])
def test_real_executors_with_another_line_of_code_are_refused(edited: bool, tmp_path: Path) -> None:
    copied = tmp_path / "theirs"
    shutil.copytree(ROOT / "strata", copied / "strata", ignore=lambda *_: {"__pycache__"})
    if edited:
        with (copied / "strata/ingest/counts.py").open("a") as file:
            file.write("MORE = 1\n")
    done = with_executors(sys.executable, str(copied), tmp_path)
    said = done.stdout + done.stderr[-3000:]
    assert done.returncode == (InvalidRequest.exit_code if edited else 0), said
    assert done.stdout.startswith("Spark's executors run another Strata") is edited


@pytest.mark.long
@pytest.mark.parametrize("python", [str(BARE), "./environment/bin/python"])
def test_real_executors_without_the_package_give_one_clear_error(
    python: str, tmp_path: Path
) -> None:
    done = with_executors(python, "/nonexistent", tmp_path)
    assert done.returncode == InvalidRequest.exit_code, done.stderr[-3000:]
    (line,) = done.stdout.strip().splitlines()
    assert line.startswith("Spark's executors cannot run Strata")
    assert "No module named" in line or "Cannot run program" in line
    assert "--archives" in line
