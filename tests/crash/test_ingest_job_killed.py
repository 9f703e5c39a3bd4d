"""The Spark job, killed with its JVM and workers at any moment: every update is there once.

The engine alone is killed in `test_ingest_killed.py`, faster and more often. Here it is the real
entry point in its own process group, with SIGKILL for all of it: half of the kills come just
after the job has said that a batch is in, half at a random time from the start. Two kills in CI,
ten in the long tests: each costs the start of a JVM.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from strata.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.time import MIN_TIME, parse_time
from strata.read import plan_read, scan
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
    sys.executable, str(ROOT / "jobs/ingest/main.py"), "--from-time", "2013-01-01",
    "--to-time", "2013-01-29", "--every", "P1D",
]  # fmt: skip

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
        '[spark]\nmaster = "local[2]"\ndriver_memory_mib = 512\n'
    )
    return config, contents


# A short life: what the JVM saves by compiling less and collecting simply is half of its start.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


def start(config: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--config", str(config)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, start_new_session=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAVA_TOOL_OPTIONS": JAVA},
    )  # fmt: skip


def kill(job: subprocess.Popen[str]) -> None:
    """Kill the driver, its JVM and its workers: all processes of its group."""
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    assert job.stdout is not None
    job.stdout.close()


def wait_for_batches(job: subprocess.Popen[str], count: int) -> None:
    assert job.stdout is not None
    for line in job.stdout:
        count -= "updates in" in line
        if count <= 0:
            return


def test_the_ingest_job_killed_twice_loses_and_doubles_nothing(tmp_path: Path) -> None:
    kill_and_repeat(tmp_path, kills=2)


@pytest.mark.long
def test_the_ingest_job_killed_ten_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    kill_and_repeat(tmp_path, kills=10)


def kill_and_repeat(tmp_path: Path, kills: int) -> None:
    config, contents = lay_out(tmp_path)
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    draw = random.Random(2013)
    uppers = []

    for number in range(kills):
        job = start(config)
        if number % 2:
            time.sleep(draw.uniform(2.0, 9.0))
        else:
            wait_for_batches(job, draw.randint(1, 3))
            time.sleep(draw.uniform(0.0, 0.3))
        kill(job)
        machine = Machine(open_stores(store))
        uppers.append(machine.load("events").upper if machine.names() else MIN_TIME)
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
    assert any(MIN_TIME < u < state.upper for u in uppers), "no kill came in between"
