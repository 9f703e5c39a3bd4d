"""Killed at any moment and run again, ingest loses nothing and doubles nothing (law 11).

Run as a program this file is the process that is killed: it ingests a year of small files into a
shard on disk, one batch a day, and prints a line for each.
"""

import random
import subprocess
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from strata.errors import Unavailable
from strata.format.manifest import decode_manifest, part_refs
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import format_time
from strata.read.scan import read_updates
from strata.store.open import Stores, open_stores, wall_clock
from tests.support.failing_stores import (
    CrashError,
    Faults,
    FaultyBlob,
    FaultyConsensus,
    Outcome,
    seeded,
)

DAY = 86_400_000
ROWS = 60  # a day
NUMBERS = count()
SPEC = parse_spec(
    {
        "name": "s",
        "columns": [
            {"name": "id", "type": "int64", "nullable": False},
            {"name": "text", "type": "string"},
        ],
        "key": ["id"],
        "source": {"paths": ["in/"], "format": "csv"},
        "part_bytes": 3000,  # several parts a batch: more moments to be killed at
    }
)
Contents = Counter[tuple[int, str, int]]


def main() -> None:
    settings, days = on_disk(Path(sys.argv[1])), int(sys.argv[2])
    stores = open_stores(settings.store)
    for report in ingest_steps(stores, settings, "s", steps_of(0, days * DAY, "P1D")):
        sys.stdout.write(f"{report.lower} {report.already_committed}\n")
        sys.stdout.flush()


def on_disk(root: Path) -> Settings:
    return Settings(
        StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/consensus.db", str(root))
    )


def lay_out(root: Path, days: int) -> Contents:
    """Write a file a day, one of them with a row that is there twice; return what they hold."""
    (root / "in").mkdir()
    contents: Contents = Counter()
    for day in range(days):
        draw = random.Random(day)
        rows = [(draw.randrange(1000), draw.randbytes(20).hex()) for _ in range(ROWS)]
        rows.append(rows[0])
        text = "".join(f"{number},{word}\n" for number, word in rows)
        (root / "in" / f"{format_time(day * DAY)[:10]}.csv").write_text(f"id,text\n{text}")
        contents.update((number, word, day * DAY) for number, word in rows)
    return contents


def stored(stores: Stores) -> Contents:
    """Return every update that the shard's state refers to."""
    state = Machine(stores).load("s")
    found: Contents = Counter()
    for batch in state.batches:
        manifest = stores.blob.get(batch.manifest) if batch.manifest else None
        for ref in part_refs(decode_manifest(manifest)) if manifest else []:
            for row in read_updates(stores, state, ref).to_pylist():
                number, text, t, d = row.values()
                found[(number, text, t)] += d
    return found


def test_killed_and_run_again_everything_is_there_once(tmp_path: Path) -> None:
    kill_and_repeat(tmp_path, kills=3, days=20)


@pytest.mark.long
def test_killed_ten_times_and_run_again_everything_is_there_once(tmp_path: Path) -> None:
    kill_and_repeat(tmp_path, kills=10, days=150)


def kill_and_repeat(tmp_path: Path, kills: int, days: int) -> None:
    expected = lay_out(tmp_path, days)
    stores = open_stores(on_disk(tmp_path).store)
    Machine(stores).create(SPEC)
    draw = random.Random(20131)

    # On average half of the days are done before the last run.
    most = days // (kills + 1)
    uppers = [kill(tmp_path, days, stores, draw, most) for _ in range(kills)]

    assert uppers == sorted(uppers)
    assert len(set(uppers)) > kills // 2, "the kills came too early to test anything"
    assert uppers[-1] < days * DAY, "the kills came too late to test anything"
    told = run_to_the_end(tmp_path, days)
    assert [line.split()[0] for line in told] == [str(day * DAY) for day in range(days)]
    assert stored(stores) == expected
    again = run_to_the_end(tmp_path, days)
    assert [line.split()[1] for line in again] == ["True"] * days
    assert stored(stores) == expected


def run_to_the_end(root: Path, days: int) -> list[str]:
    output, _ = run(root, days).communicate()
    return output.splitlines()


def run(root: Path, days: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, str(root), str(days)], stdout=subprocess.PIPE, text=True
    )


def kill(root: Path, days: int, stores: Stores, draw: random.Random, most: int) -> int:
    """Run, kill at a random moment of the work, and return how far the shard has come."""
    process = run(root, days)
    assert process.stdout is not None
    new, wanted = 0, draw.randrange(1, most)
    for line in process.stdout:
        new += line.endswith("False\n")
        if new == wanted:
            break
    time.sleep(draw.random() * 0.05)  # two or three steps: any point of one is as likely
    process.kill()
    process.stdout.close()
    assert process.wait() == -9, "it ended before it could be killed"
    return Machine(stores).load("s").upper


FAILURES = {
    Outcome.REPLY_LOST: 0.04,
    Outcome.REQUEST_LOST: 0.03,
    Outcome.REFUSED: 0.03,
    Outcome.CRASH_BEFORE: 0.02,
    Outcome.CRASH_AFTER: 0.02,
}


@pytest.mark.parametrize("seed", range(3))
def test_lost_replies_and_crashes_between_any_two_calls_lose_nothing(
    tmp_path: Path, seed: int
) -> None:
    expected = lay_out(tmp_path, 8)
    name = f"killed-{next(NUMBERS)}"
    store = StoreSettings(f"memory://{name}", f"memory://{name}", str(tmp_path))
    healthy = open_stores(store)
    Machine(healthy).create(SPEC)
    faults = Faults(seeded(seed, FAILURES))
    shaky = Stores(
        FaultyBlob(healthy.blob, faults),
        FaultyConsensus(healthy.consensus, faults),
        wall_clock,
        store,
    )

    failures = 0
    for _ in range(200):
        try:
            list(ingest_steps(shaky, Settings(store), "s", steps_of(0, 8 * DAY, "P1D")))
            break
        except (CrashError, Unavailable):
            failures += 1

    assert failures > 0
    assert Machine(healthy).load("s").upper == 8 * DAY
    assert stored(healthy) == expected


if __name__ == "__main__":
    main()
