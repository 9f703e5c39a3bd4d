"""Killed at any moment and run again, backfill goes on where it was, and touches no part.

Run as a program this file is the process that is killed: it backfills a shard on disk, a commit
for every few parts, and prints a line for each. A compaction comes between two of the kills.
"""

import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.format.manifest import part_refs
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.model.settings import Settings, StoreSettings
from strata.read.scan import scan
from strata.store import keys
from strata.store.interface import BlobInfo
from strata.store.open import Stores, open_stores
from tests.unit.maintain.test_backfill import SHARD, SPEC, batches_of, manifest, put

BATCHES = 16
KILLS = 4
COMMIT_BYTES = 3000  # a part or two


def main() -> None:
    stores = open_stores(on_disk(Path(sys.argv[1])))
    report = backfill_shard(stores, SHARD, commit_bytes=COMMIT_BYTES, log=tell)
    tell(f"done {report.parts_selected} {report.parts_changed}")


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def on_disk(root: Path) -> StoreSettings:
    return StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/consensus.db")


def run(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, str(root)], stdout=subprocess.PIPE, text=True
    )


def kill(root: Path, draw: random.Random) -> None:
    """Run, kill at a random moment after some commits."""
    process = run(root)
    assert process.stdout is not None
    for _ in range(draw.randrange(1, 5)):
        assert "done" not in process.stdout.readline(), "it ended before it could be killed"
    time.sleep(draw.random() * 0.05)  # anywhere in reading a part, or in a commit
    process.kill()
    process.stdout.close()
    assert process.wait() == -9, "it ended before it could be killed"


def listed(stores: Stores) -> list[BlobInfo]:
    return list(stores.blob.list(keys.part_prefix(SHARD)))


def done_parts(stores: Stores) -> dict[str, int]:
    """Return the parts that have statistics, and in which state that was written."""
    return {
        ref.key: ref.stats_bytes
        for batch in batches_of(stores)
        for ref in part_refs(manifest(stores, batch))
        if ref.stats_version is not None
    }


@pytest.mark.slow
def test_killed_four_times_each_part_is_read_once_more_at_most(tmp_path: Path) -> None:
    stores = open_stores(on_disk(tmp_path))
    Machine(stores).create(SPEC)
    for number in range(BATCHES):
        put(stores, 100 * number, 100 * number + 100, "row")
    parts = sum(batch.parts for batch in batches_of(stores))
    before, draw, counts = listed(stores), random.Random(5), [0]

    for _ in range(KILLS):
        done = done_parts(stores)
        kill(tmp_path, draw)
        assert done.items() <= done_parts(stores).items()  # what was done stays, untouched
        counts.append(len(done_parts(stores)))

    assert all(a < b for a, b in pairwise(counts))
    assert counts[-1] < parts, "the kills came too late to test anything"
    output, _ = run(tmp_path).communicate()
    assert output.splitlines()[-1] == f"done {parts - counts[-1]} {parts - counts[-1]}"
    assert backfill_shard(stores, SHARD).parts_selected == 0
    assert listed(stores) == before


@pytest.mark.slow
def test_killed_while_compaction_runs_no_part_comes_back(tmp_path: Path) -> None:
    stores = open_stores(on_disk(tmp_path))
    Machine(stores).create(SPEC)
    for number in range(8):
        put(stores, 100 * number, 100 * number + 100, "row")
    state = Machine(stores).load(SHARD)
    rows = sum(b.num_rows for b in scan(stores, state, plan_read(stores, state)))
    process = run(tmp_path)
    assert process.stdout is not None
    process.stdout.readline()

    compact_shard(stores, SHARD, Settings(stores.settings), full=True)
    process.kill()
    process.communicate()

    merged = {r.key for b in batches_of(stores) for r in part_refs(manifest(stores, b))}
    again = backfill_shard(stores, SHARD)
    state = Machine(stores).load(SHARD)
    after = {r.key for b in batches_of(stores) for r in part_refs(manifest(stores, b))}
    assert after == merged
    assert again.parts_dropped == 0
    assert backfill_shard(stores, SHARD).parts_selected == 0
    assert sum(b.num_rows for b in scan(stores, state, plan_read(stores, state))) == rows


if __name__ == "__main__":
    main()
