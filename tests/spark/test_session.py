"""A session in a process of its own: what its end waits for, and what it leaves."""

import os
import subprocess
import sys
from pathlib import Path

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
    session._socket_folder.cache_clear()
    monkeypatch.setattr(session.tempfile, "tempdir", os.fspath(deep))
    assert session._sockets("local[2]") == {}
    assert not list(deep.iterdir())
    session._socket_folder.cache_clear()
