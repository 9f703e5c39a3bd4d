"""Very many small files: what it costs to list them, to plan, to remember, and to take them in.

    python -m benchmarks.ingest_files [--files 1000000] [--taken 20000] [--folder DIR]

Files of two lines of CSV, 1,000 in a folder, of one day. Listing, planning and the ledger are
measured with all of them; reading and committing with the first `--taken`, by two processes'
worth of threads, without Spark. CPU seconds; memory is the process's peak so far.
"""

import argparse
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

from strata.ingest.engine import ingest
from strata.ingest.land.files import files_by_time
from strata.ingest.ledger import Ledger, Taken
from strata.ingest.plan import ingest_tasks
from strata.ingest.task import Step
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.state.state import State
from strata.store.open import open_stores

COLUMNS: Final = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
SPEC: Final = parse_spec(
    {
        "name": "s",
        "columns": COLUMNS,
        "source": {"format": "csv", "paths": ["in/"], "verify": "never"},
    }
)
DAY_MS: Final = 86_400_000
FOLDER: Final = 1000  # files in one
FIRST: Final = 1_704_067_200_000  # 2024-01-01


class Clock:
    """Prints what each step took."""

    def __init__(self) -> None:
        """Begin."""
        self.cpu, self.wall = time.process_time(), time.monotonic()

    def tell(self, what: str) -> None:
        """Print what was done since the last time."""
        cpu, wall = time.process_time() - self.cpu, time.monotonic() - self.wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        load = psutil.getloadavg()[0]
        print(f"{what:48}{cpu:>8.1f} CPU s {wall:>8.1f} s  {peak:>7,.0f} MiB  load {load:.0f}")
        self.cpu, self.wall = time.process_time(), time.monotonic()


def lay_out(root: Path, files: int) -> None:
    """Write the files."""
    for start in range(0, files, FOLDER):
        folder = root / "in" / "2024-01-01" / f"{start // FOLDER:05}"
        folder.mkdir(parents=True)
        for number in range(start, min(files, start + FOLDER)):
            handle = os.open(folder / f"{number}.csv", os.O_WRONLY | os.O_CREAT)
            os.write(handle, b"id,name\n%d,a name\n" % number)
            os.close(handle)


def remember(settings: Settings, state: State, files: int) -> None:
    """Measure listing, planning and the ledger with all files."""
    clock, blob = Clock(), open_stores(settings.store).blob
    found = files_by_time(settings.store.landing, SPEC.source.paths)
    assert len(found) == files
    clock.tell(f"list {files:,} files and read their times")
    ledger = Ledger(blob, state)
    sorted_out = ledger.sort_out(found)
    assert len(sorted_out.new) == files
    clock.tell("sort out: all are new, many of one size")
    planned = ingest_tasks(settings, state, Step(FIRST, FIRST + DAY_MS, "t", tuple(found)))
    clock.tell(f"plan {len(planned):,} tasks")
    taken = [Taken(f.name, f.size_bytes, f.changed_ns, f"{n:032x}") for n, f in enumerate(found)]
    ledger.with_files(state, taken, "t")
    clock.tell("write the ledger")
    assert len(ledger.sort_out(found).taken) == files
    clock.tell("sort out: all are in")


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--taken", type=int, default=20_000)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="files-", dir=args.folder))
    try:
        store = StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/state.db", str(root))
        settings = Settings(store=store)
        stores = open_stores(store)
        state = Machine(stores).create(SPEC)
        clock = Clock()
        lay_out(root, args.files)
        clock.tell(f"write {args.files:,} files")
        remember(settings, state, args.files)
        clock = Clock()
        folders = sorted((root / "in" / "2024-01-01").iterdir())[: args.taken // FOLDER]
        paths = [str(folder) for folder in folders]
        report = ingest(stores, settings, "s", paths=paths, lower=FIRST, upper=FIRST + DAY_MS)
        assert report.updates == len(paths) * FOLDER, report
        clock.tell(f"take {report.updates:,} of them in")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
