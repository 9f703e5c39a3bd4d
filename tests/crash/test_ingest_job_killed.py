"""The Spark job, killed with its JVM and workers at any moment: every update is there once.

The engine alone is killed in `test_ingest_killed.py`, faster and more often. Here it is the real
entry point with SIGKILL, in turns: for all of it just after it has said that a batch is in, for all
of it at a random time from the start, for its JVM alone (driver and executor: this is `local`), and
for one Python worker after the other, of which Spark tries the tasks again. Three kills in CI, for
all of it and for a worker; a hundred in the long tests, where those of workers come several in the
life of a JVM.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from strata.decide.plan import plan_read
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.time import MIN_TIME, parse_time
from strata.read.scan import scan
from strata.store.open import open_stores

ROOT = Path(__file__).parents[2]
DAYS = 28
ROWS = 100  # a day
SPEC = """
name: events
columns: [{name: id, type: int64, nullable: false}, {name: text, type: string}]
key: [id]
source: {paths: ["in/"], format: csv}
part_bytes: 4096
"""
COMMAND = [
    sys.executable,
    str(ROOT / "jobs/ingest/main.py"),
    "--from-time",
    "2013-01-01",
    "--to-time",
    "2013-01-29",
    "--every",
    "P1D",
]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def lay_out(root: Path) -> tuple[Path, Counter[tuple[int, str]]]:
    """Write a file a day, the declaration and the settings; return these and the contents."""
    (root / "in").mkdir()
    (root / "shards").mkdir()
    (root / "shards/events.yaml").write_text(SPEC)
    contents: Counter[tuple[int, str]] = Counter()
    for day in range(1, DAYS + 1):
        rows = [(day * ROWS + i, f"text {i} of day {day}") for i in range(ROWS)]
        text = "".join(f"{number},{words}\n" for number, words in rows)
        (root / f"in/2013-01-{day:02}.csv").write_text(f"id,text\n{text}")
        contents.update(rows)
    config = root / "strata.toml"
    config.write_text(
        f'shards_dir = "{root}/shards"\n[store]\nblob = "file://{root}/blob"\n'
        f'consensus = "sqlite:///{root}/consensus.db"\nlanding = "{root}"\n'
        '[spark]\nmaster = "local[2,8]"\ndriver_memory_mib = 512\n'
    )
    return config, contents


WORKERS = 4  # kills in the life of one job: Spark tries a task eight times
# A short life: what the JVM saves by compiling less and collecting simply is half of its start.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


def start(config: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAVA_TOOL_OPTIONS": JAVA},
    )


def kill(job: subprocess.Popen[str]) -> None:
    """Kill the driver and its JVM; its workers, a group of their own, see that it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    assert job.stdout is not None
    job.stdout.close()


def below(job: subprocess.Popen[str], words: str) -> list[psutil.Process]:
    """Return the processes that the job has started whose command holds `words`."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(job.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if words in " ".join(process.cmdline()):
                    found.append(process)
    return found


def kill_jvm(job: subprocess.Popen[str]) -> None:
    """Kill the JVM alone; the driver then ends by itself, and has failed."""
    for process in below(job, "org.apache.spark.deploy.SparkSubmit"):
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        job.wait(60)
    kill(job)


def kill_workers(job: subprocess.Popen[str], kills: int, draw: random.Random) -> int:
    """Kill Python workers, one after the other as they come; return how many."""
    killed, end = 0, time.monotonic() + 300
    while killed < kills and job.poll() is None and time.monotonic() < end:
        workers = [
            process
            for process in below(job, "spark.daemon")
            if any("spark.daemon" in word for word in _parent(process))
        ]
        if workers:
            time.sleep(draw.uniform(0.0, 0.1))
            with suppress(psutil.NoSuchProcess):
                draw.choice(workers).kill()
                killed += 1
        time.sleep(0.05)
    return killed


def _parent(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess):
        parent = process.parent()
        return [] if parent is None else parent.cmdline()
    return []


def wait_for_batches(job: subprocess.Popen[str], count: int) -> None:
    assert job.stdout is not None
    for line in job.stdout:
        count -= "updates in" in line
        if count <= 0:
            return


def test_the_ingest_job_killed_three_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    assert kill_and_repeat(tmp_path, ["batches", "workers"], kills=3) == 3


@pytest.mark.long
@pytest.mark.parametrize("tenth", range(10))
def test_the_ingest_job_killed_a_hundred_times_loses_and_doubles_nothing(
    tmp_path: Path, tenth: int
) -> None:
    ways = ["batches", "time", "jvm", "workers"]

    assert kill_and_repeat(tmp_path, ways[tenth % 4 :] + ways, kills=10, seed=tenth) == 10


def kill_and_repeat(root: Path, ways: list[str], kills: int, seed: int = 2013) -> int:
    """Kill so often, run to the end, compare; return how often something was killed."""
    config, contents = lay_out(root)
    store = StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/consensus.db")
    draw = random.Random(seed)
    uppers: list[int] = []
    killed = 0

    while killed < kills:
        way = ways[len(uppers) % len(ways)]
        job = start(config)
        if way == "workers":
            killed += kill_workers(job, min(kills - killed - 1, WORKERS), draw)
        elif way == "time":
            time.sleep(draw.uniform(2.0, 9.0))
        else:
            wait_for_batches(job, draw.randint(1, 3))
            time.sleep(draw.uniform(0.0, 0.3))
        killed += job.poll() is None  # else it ended before the kill came
        assert len(uppers) < 3 * kills, "it ends too soon"
        (kill_jvm if way == "jvm" else kill)(job)
        machine = Machine(open_stores(store))
        uppers.append(machine.load("events").upper if "events" in machine.names() else MIN_TIME)
    last = start(config)
    _, _ = last.communicate(timeout=300)

    assert last.returncode == 0
    stores = open_stores(store)
    state = Machine(stores).load("events")
    found: Counter[tuple[int, str]] = Counter()
    for batch in scan(stores, state, plan_read(stores, state)):
        for row in batch.to_pylist():
            found[row["id"], row["text"]] += row["d"]
    assert found == contents
    assert state.upper == parse_time("2013-01-29")
    assert uppers == sorted(uppers)
    if ways[0] == "batches":
        assert any(MIN_TIME < u < state.upper for u in uppers), "no kill came in between"
    return killed
