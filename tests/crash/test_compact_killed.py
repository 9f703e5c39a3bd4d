"""Killed at any moment, doubled or much too late, compaction loses nothing and does little twice.

Run as a program this file is the process that is killed: it compacts a shard on disk into one run,
task after task, keeps what it has every few parts, and prints a line for each task.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from strata.compact import compact_shard, merge_history
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import CompactSettings, Settings, StoreSettings
from strata.model.types import parse_type
from strata.store.open import Stores, open_stores
from tests.support.stored import append, create, snapshot
from tests.support.updates import table

COLUMNS = (Column(1, "id", parse_type("string")), Column(2, "n", parse_type("int64")))
RELATION = Relation(0, COLUMNS, (1,), ())
DAYS, ROWS = 4, 600
OPTIONS = Settings(compact=CompactSettings(memory_bytes=60_000, chunk_bytes=1, history_ms=1))


def main() -> None:
    stores = open_stores(on_disk(Path(sys.argv[1])))
    report = compact_shard(stores, "shard", OPTIONS, telling, full=True)
    print("done", *(r.outcome for r in report.requests), flush=True)  # noqa: T201


def telling(function: Callable[..., object], items: Sequence[object]) -> Iterator[object]:
    for item in items:
        yield function(item)
        print("task", len(items), flush=True)  # noqa: T201


def on_disk(root: Path) -> StoreSettings:
    return StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/consensus.db")


def day(number: int) -> pa.Table:
    new = [(f"row {i:05}", number, number, 1) for i in range(ROWS)]
    old = [(f"row {i:05}", number - 1, number, -1) for i in range(ROWS) if number]
    return table(RELATION, [*new, *old])


def filled(root: Path) -> Stores:
    stores = open_stores(on_disk(root))
    create(stores, RELATION)
    for number in range(DAYS):
        append(stores, "shard", number, number + 1, [day(number)])
    return stores


def start(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, str(root)], stdout=subprocess.PIPE, text=True
    )


def done_of(stores: Stores) -> int:
    return sum(p["done"] for p in merge_history(Machine(stores).load("shard"))["under_way"])


@pytest.mark.long
def test_killed_again_and_again_it_goes_on_where_it_was(tmp_path: Path) -> None:
    stores, draw = filled(tmp_path), random.Random(5)
    before, done = snapshot(stores, "shard"), [0]

    for _ in range(2):
        process = start(tmp_path)
        assert process.stdout is not None
        for _ in range(draw.randrange(2, 4)):
            assert "task" in process.stdout.readline(), "it ended before it could be killed"
        time.sleep(draw.random() * 0.02)
        process.kill()
        process.stdout.close()
        assert process.wait() == -9, "it ended before it could be killed"
        done.append(done_of(stores))
        assert snapshot(stores, "shard") == before

    assert done[0] < done[1] < done[2]
    lines, _ = start(tmp_path).communicate()
    (merge,) = load(stores).merges
    assert lines.splitlines()[-1] == "done applied"
    assert merge.resumed == done[-1]
    assert lines.count("task") == merge.tasks - done[-1] - 1  # none is asked for behind the last
    assert load(stores).merging == ()
    assert snapshot(stores, "shard") == before
    assert load(stores).batches == undisturbed(tmp_path / "other")


@pytest.mark.long
def test_two_at_once_are_one(tmp_path: Path) -> None:
    stores = filled(tmp_path)
    before = snapshot(stores, "shard")

    outputs = [p.communicate()[0] for p in [start(tmp_path), start(tmp_path)]]

    assert all(output.splitlines()[-1].startswith("done") for output in outputs)
    assert any("done applied" in output for output in outputs)
    assert len(load(stores).merges) == 1
    assert snapshot(stores, "shard") == before
    assert load(stores).batches == undisturbed(tmp_path / "other")


def load(stores: Stores):
    return Machine(stores).load("shard")


def undisturbed(root: Path):
    """Return what one run that nobody disturbs makes of the same appends."""
    root.mkdir()
    stores = filled(root)
    compact_shard(stores, "shard", OPTIONS, full=True)
    return load(stores).batches


if __name__ == "__main__":
    main()
