"""Background processes are stopped with their families, and never mistaken for others."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from demo.processes import Processes, memory_bytes

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
# A child in a session of its own, as Airflow's task runners are, that ignores polite requests.
FAMILY = [
    sys.executable,
    "-c",
    "import signal, subprocess, sys, time\n"
    "child = 'import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True);'\n"
    "child += 'time.sleep(60)'\n"
    "p = subprocess.Popen([sys.executable, '-c', child], start_new_session=True)\n"
    "time.sleep(60)\n",
]


@pytest.fixture
def processes(tmp_path, monkeypatch):
    monkeypatch.setattr("demo.processes.GRACE_SECONDS", 2.0)
    made = Processes(tmp_path / "processes.json")
    yield made
    made.stop()


def eventually(condition):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_another_command_finds_and_stops_what_was_started(processes, tmp_path):
    processes.start("one", SLEEP, os.environ, tmp_path / "one.log")
    processes.start("two", SLEEP, os.environ, tmp_path / "two.log")
    again = Processes(tmp_path / "processes.json")
    pids = [process.pid for process in again.live().values()]
    assert sorted(again.live()) == ["one", "two"]

    assert sorted(again.stop()) == ["one", "two"]
    assert again.live() == {}
    assert eventually(lambda: not any(_alive(pid) for pid in pids))
    assert again.stop() == []


def test_what_has_nothing_to_end_is_not_waited_for(processes, tmp_path):
    deaf = [*SLEEP[:2], "import signal, time; signal.signal(15, signal.SIG_IGN); " + SLEEP[2]]
    processes.start("deaf", deaf, os.environ, tmp_path / "deaf.log")
    time.sleep(0.3)
    began = time.monotonic()
    assert processes.stop(at_once=["deaf"]) == ["deaf"]
    assert time.monotonic() - began < 1.5  # its grace is 2 s


def test_children_that_left_the_group_and_ignore_requests_end_too(processes, tmp_path):
    log = tmp_path / "family.log"
    processes.start("family", FAMILY, os.environ, log)
    assert eventually(lambda: log.read_text() == "1\n")
    (parent,) = processes.live().values()
    (child,) = parent.children()

    processes.stop()
    assert eventually(lambda: not _alive(child.pid))


def test_a_process_that_ended_by_itself_is_reported(processes, tmp_path):
    log = tmp_path / "short.log"
    processes.start("short", [sys.executable, "-c", "print('why')"], os.environ, log)
    assert eventually(lambda: [r.name for r in processes.dead()] == ["short"])
    assert log.read_text() == "why\n"


def test_a_stale_record_never_hits_another_process(processes, tmp_path):
    """The recorded process is long gone, and its id belongs to another by now."""
    other = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        record = {"name": "old", "pid": other.pid, "born": 1000.0, "log": ""}
        (tmp_path / "processes.json").write_text(json.dumps([record]))
        assert processes.live() == {}
        assert processes.stop() == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_broken_record_file_means_nothing_runs(processes, tmp_path):
    (tmp_path / "processes.json").write_text('{"half": ')
    assert processes.stop() == []


def test_memory_counts_children():
    own = psutil.Process()
    assert memory_bytes([own]) >= own.memory_full_info().uss > 0


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
