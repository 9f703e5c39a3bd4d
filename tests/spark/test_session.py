"""A session in a process of its own: what its end waits for, and what it leaves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from strata.session import session

SESSION = """
import stat, threading, time
from pathlib import Path
from strata.model.settings import SparkSettings
from strata.session.session import spark_session

WAIT = 5  # seconds that the server takes to end

with spark_session("test", SparkSettings()) as spark:
    spark.sparkContext.parallelize([0], 1).map(int).collect()
    rows = spark.range(0, 10**6, 1, 4).mapInArrow(lambda batches: batches, "id bigint")
    assert rows.limit(1).count() == 1  # the tasks' other rows are dropped
    folder = Path(spark.conf.get("spark.python.unix.domain.socket.dir"))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert any(stat.S_ISSOCK(one.stat().st_mode) for one in folder.iterdir())
    server = spark.sparkContext._accumulatorServer
    shut, ended = server.shutdown, threading.Event()
    server.shutdown = lambda: (time.sleep(WAIT), shut(), ended.set())
    began = time.monotonic()
took = time.monotonic() - began
assert ended.wait(3 * WAIT), "the server of accumulators is still there"
print(took < WAIT, folder)
with spark_session("again", SparkSettings()) as spark:
    assert spark.range(3).count() == 3
"""


def test_the_end_waits_for_nothing_leaves_nothing_and_another_session_can_follow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SESSION], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("True "), done.stderr[-2000:]
    assert not Path(done.stdout.split()[1]).exists()
    assert "Traceback" not in done.stderr


def test_only_this_machine_talks_over_files_and_only_where_their_names_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()

    assert session._sockets("local[2]")["spark.python.unix.domain.socket.enabled"] == "true"
    assert session._sockets("yarn") == {}
    monkeypatch.setattr(session.tempfile, "tempdir", os.fspath(deep))
    assert session._sockets("local[2]") == {}
    assert not list(deep.iterdir())


def test_a_context_of_a_cluster_forgets_the_cores_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(session.CORES, "7")

    session._remember_cores("local[3]")
    assert os.environ[session.CORES] == "3"
    session._remember_cores("spark://elsewhere:7077")
    assert session.CORES not in os.environ


OF_ITS_OWN = """
import os, sys
from strata.model.settings import SparkSettings
from strata.session.session import spark_session

with spark_session("test", SparkSettings()) as spark:
    spark.sparkContext.parallelize([0], 1).map(int).collect()
    name = "spark.python.unix.domain.socket"
    print(spark.conf.get(f"{name}.enabled", None), spark.conf.get(f"{name}.dir", None), flush=True)
    if len(sys.argv) > 1:
        os.kill(os.getpid(), int(sys.argv[1]))
"""


def test_a_driver_that_is_killed_leaves_no_folder_of_sockets() -> None:
    command = [sys.executable, "-c", OF_ITS_OWN, str(int(signal.SIGKILL))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    enabled, folder = done.stdout.split()
    assert enabled == "true"
    latest = time.monotonic() + 30
    while Path(folder).exists():
        assert time.monotonic() < latest, "the folder is still there"
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize("enabled", [None, "false"])
def test_a_local_master_submitted_has_sockets_unless_the_user_says_otherwise(
    enabled: str | None, tmp_path: Path
) -> None:
    home = Path(pyspark.__file__).parent
    (tmp_path / "job.py").write_text(OF_ITS_OWN)
    said = (
        [] if enabled is None else ["--conf", f"spark.python.unix.domain.socket.enabled={enabled}"]
    )
    command = [str(home / "bin/spark-submit"), "--master", "local[1]", *said, "job.py"]
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=env, cwd=tmp_path
    )
    assert done.stdout.split()[0] == (enabled or "true"), done.stderr[-2000:]
    assert not Path(done.stdout.split()[1]).exists()
