"""Servers that die, S3 that throttles, disks that are full, clocks that jump: nothing is lost."""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.faults.real import Restarted, Throttled
from tests.faults.world import whole_run
from tests.support import postgres, seaweed

DAY_MS = 86_400_000
ROOT = Path(__file__).parents[2]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> seaweed.Server:
    for name, value in seaweed.IDENTITY.items():
        monkeypatch.setenv(name, value)
    try:
        server = seaweed.Server()
    except seaweed.MissingError as error:
        pytest.skip(f"no S3 server: {error}")
    yield server
    server.close()


def prefix(server: seaweed.Server, seed: int) -> str:
    return f"s3://{seaweed.BUCKET}/w{seed}?endpoint={server.endpoint}&region=us-east-1&attempts=2"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_s3_that_is_killed_and_started_again_keeps_the_laws(
    tmp_path: Path, s3: seaweed.Server, seed: int
) -> None:
    world = whole_run(
        tmp_path,
        7000 + seed,
        operations=24,
        world=Restarted,
        blob=prefix(s3, seed),
        server=s3,
        how=signal.SIGKILL,
        deaths=4,
    )
    assert world.done["restart"]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_s3_that_throttles_keeps_the_laws(
    tmp_path: Path, s3: seaweed.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    done: Counter[str] = Counter()
    for seed in range(6):
        root = tmp_path / str(seed)
        world = whole_run(
            root, 7100 + seed, operations=24, world=Throttled, blob=prefix(s3, seed), share=0.3
        )
        done += world.done
    assert {"SlowDown", "InternalError", "ConditionalRequestConflict", "lost reply"} <= {*done}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_a_postgres_that_crashes_keeps_the_laws(tmp_path: Path, seed: int) -> None:
    try:
        server = postgres.Server()  # synced: what it has acknowledged it must know after a crash
    except postgres.MissingError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    try:
        world = whole_run(
            tmp_path,
            7200 + seed,
            operations=60,
            world=Restarted,
            server=server,
            how=signal.SIGQUIT,
            deaths=12,
            consensus=server.address.replace("+psycopg", ""),
        )
    finally:
        server.close()
    assert world.done["restart"] >= 5


@pytest.mark.parametrize("seed", range(7300, 7303))
def test_clocks_that_jump_by_days_keep_the_laws(tmp_path: Path, seed: int) -> None:
    jumps = (-400 * DAY_MS, -DAY_MS, -1, 0, DAY_MS, 30 * DAY_MS, 400 * DAY_MS)
    whole_run(tmp_path, seed, jumps=jumps, jumpy=0.3)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", [[], ["limited"]])
def test_a_full_disk_keeps_the_laws(tmp_path: Path, how: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.full_disk", str(tmp_path), "7400", "12", *how],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["done"]["filled"] >= 40
    assert told["failed"]["Unavailable"] >= 12
