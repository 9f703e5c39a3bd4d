"""Adoption of a Delta table whose files stay where they are, beside one that copies them.

    PYTHONPATH=. python benchmarks/adopt.py [--files 8] [--rows 500000] [--rounds 3]

Each file is sorted by the key. Both ways in turn: processor and clock, the bytes that the store
gets, and a scan of all rows afterwards. Copies are in both layouts, as shards are by default.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from strata.adopt.delta import DeltaPeer
from strata.adopt.in_place import InPlace
from strata.adopt.run import adopt_table
from strata.decide.plan import plan_read
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.read.scan import scan
from strata.store.open import open_stores

COLUMNS = {"id": "int64", "who": "int64", "x": "float64", "word": "string", "at": "timestamptz"}
NAME = "adopted"


@dataclass(frozen=True)
class Taken:
    """What one adoption cost. Units: seconds, bytes."""

    cpu: float
    clock: float
    stored: int
    scan_cpu: float


def lake(at: Path, files: int, rows: int) -> int:
    """Write the table; return its bytes."""
    drawn = np.random.default_rng(1)
    for number in range(files):
        columns = {
            "id": np.arange(number * rows, (number + 1) * rows),
            "who": drawn.integers(0, 10_000, rows),
            "x": drawn.random(rows),
            "word": pa.array([f"w{n}" for n in drawn.integers(0, 5_000, rows)]),
            "at": pa.array(drawn.integers(1.6e15, 1.7e15, rows), pa.timestamp("us", "UTC")),
        }
        write_deltalake(str(at), pa.table(columns), mode="append")
    return sum(path.stat().st_size for path in at.rglob("*.parquet"))


def taken(folder: Path, table: Path, rows: int, *, in_place: bool) -> Taken:
    """Adopt the table into new stores, and read it."""
    place = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
    stores = open_stores(place)
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    Machine(stores).create(parse_spec({"name": NAME, "columns": columns, "key": ["id"]}))
    cpu, clock = time.process_time(), time.monotonic()
    how = InPlace() if in_place else None
    adopt_table(stores, Settings(place), NAME, DeltaPeer.open(str(table)), in_place=how)
    cpu, clock = time.process_time() - cpu, time.monotonic() - clock
    state = Machine(stores).load(NAME)
    began = time.process_time()
    found = sum(batch.num_rows for batch in scan(stores, state, plan_read(stores, state)))
    scanned = time.process_time() - began
    if found != rows:
        raise SystemExit(f"{found} rows were read, {rows} were written")
    stored = sum(path.stat().st_size for path in (folder / "blob").rglob("*") if path.is_file())
    return Taken(cpu, clock, stored, scanned)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "lake"
        size = lake(table, asked.files, asked.rows)
        found: dict[bool, list[Taken]] = {False: [], True: []}
        for number in range(2 * (asked.rounds + 1)):
            store = Path(folder) / "store"
            store.mkdir()
            in_place = bool(number % 2)
            one = taken(store, table, asked.files * asked.rows, in_place=in_place)
            shutil.rmtree(store)
            found[in_place] += [one] if number > 1 else []  # the first two load code
    print(f"{asked.files} files of {asked.rows:,} rows, {size:,} bytes")
    for in_place, ones in found.items():
        cpu, clock, scanned = (
            statistics.median(getattr(one, name) for one in ones)
            for name in ("cpu", "clock", "scan_cpu")
        )
        share = ones[0].stored / size
        print(
            f"{'in place' if in_place else 'copied':9} {cpu:.2f} s of CPU, {clock:.2f} s, "
            f"{share:.2%} of the bytes; a scan {scanned:.2f} s of CPU"
        )


if __name__ == "__main__":
    main()
