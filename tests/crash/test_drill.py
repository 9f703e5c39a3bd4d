"""The drill of docs/how-to/upgrade.md: a kill, a loss of everything, the way back, and on.

Run as a program this file is the process that is killed: it ingests day after day.
"""

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from strata import gc
from strata.backup import Backup, back_up, restore, verify_point, verify_shard
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.store.disk import DiskBlob
from strata.store.open import Stores, open_stores
from tests.support.erasing import all_rows

DAYS, ROWS, SAVED = 12, 400, 3
WHO = {"by": "ann", "reason": "drill"}
SPEC = parse_spec(
    {
        "name": "s",
        "columns": [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}],
        "key": ["id"],
        "source": {"paths": ["in/"], "format": "csv"},
    }
)


def main() -> None:
    root = Path(sys.argv[1])
    for day in range(int(sys.argv[2]), DAYS):
        take(root, day)
        print("day", day, flush=True)  # noqa: T201


def settings_in(root: Path) -> Settings:
    store = f"file://{root}/blob", f"sqlite:///{root}/consensus.db", str(root / "landing")
    return Settings(StoreSettings(*store))


def stores_in(root: Path) -> Stores:
    return open_stores(settings_in(root).store)


def take(root: Path, day: int) -> None:
    """Ingest one day; a repetition changes nothing."""
    file = str(root / "landing" / f"day{day:02}.csv")
    ingest(stores_in(root), settings_in(root), "s", paths=[file], lower=day, upper=day + 1)


def rows_of(days: int) -> Counter[tuple[int, str]]:
    return Counter(
        (day * ROWS + n, f"row {n} of {day}") for day in range(days) for n in range(ROWS)
    )


def land(root: Path) -> None:
    (root / "landing").mkdir(parents=True)
    for day in range(DAYS):
        lines = [f"{day * ROWS + n},row {n} of {day}" for n in range(ROWS)]
        text = "\n".join(["id,name", *lines, ""])
        (root / "landing" / f"day{day:02}.csv").write_text(text)


@pytest.mark.slow
def test_killed_lost_restored_to_a_point_verified_and_on(tmp_path: Path) -> None:
    root, saved = tmp_path / "store", tmp_path / "saved"
    land(root)
    stores, backup = stores_in(root), Backup(DiskBlob(saved))
    Machine(stores).create(SPEC)
    for day in range(SAVED):
        take(root, day)
    point = back_up(stores, backup.blob, settings_in(root)).point
    assert verify_point(backup, point, point.shard("s")).wrong == ()

    process = subprocess.Popen(
        [sys.executable, __file__, str(root), str(SAVED)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"day {SAVED}\n"
    time.sleep(random.Random(5).random() * 0.2)
    process.kill()
    process.stdout.close()
    assert process.wait() == -9, "it ended before it could be killed"
    assert verify_shard(stores, "s", settings_in(root)).wrong == ()
    after = Machine(stores).load("s").upper
    assert SAVED < after < DAYS, "the kill came in the middle"
    assert all_rows(stores, "s") == rows_of(after)

    shutil.rmtree(root / "blob")
    for file in root.glob("consensus.db*"):
        file.unlink()
    report = restore(stores_in(root), backup, point=point.name, **WHO)

    new = stores_in(root)
    assert [one.shard for one in report.shards] == ["s"]
    assert verify_shard(new, "s", settings_in(root)).wrong == ()
    assert gc.find_leaks(new, settings_in(root), ["s"]).clean
    assert all_rows(new, "s") == rows_of(SAVED)
    for day in range(DAYS):  # from the first on: what the point has is not taken twice
        take(root, day)
    assert all_rows(new, "s") == rows_of(DAYS)
    assert verify_shard(new, "s", settings_in(root)).wrong == ()


if __name__ == "__main__":
    main()
