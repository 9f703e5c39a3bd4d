"""What many shards in one database cost: `python -m benchmarks.shards [SHARDS ...]`.

Shards of one column with a few committed intervals each, on SQLite. CPU time, medians: a commit to
one of them, the names of all (what every pass of a DAG begins with), and for each of a hundred the
look whether anything is to be compacted. The size is the database's, states included. The last
line is the names alone, of many more shards: copies of the documents of one.
"""

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from strata.compact.plan import plan
from strata.machine.machine import Machine
from strata.model.settings import CompactSettings, StoreSettings
from strata.model.spec import parse_spec
from strata.store.keys import state_key
from strata.store.open import open_stores

SPEC = {"columns": [{"name": "id", "type": "int64"}], "key": ["id"]}
APPENDS = 4
LOOKED_AT = 100
COPIES = 100_000


def measure(folder: Path, shards: int) -> None:
    """Make `shards` shards and print what they cost."""
    store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/{shards}.db")
    machine = Machine(open_stores(store))
    names = [f"shard{number:05}" for number in range(shards)]
    for name in names:
        machine.create(parse_spec({"name": name, **SPEC}))
        for at in range(APPENDS):
            machine.append(name, token=f"{name}-{at}", lower=at, upper=at + 1)
    some = names[:: max(1, shards // LOOKED_AT)][:LOOKED_AT]
    commits = [
        cpu_ms(partial(machine.append, name, token="last", lower=APPENDS, upper=APPENDS + 1))
        for name in some
    ]
    listed = [cpu_ms(machine.names) for _ in range(3)]
    looks = [cpu_ms(lambda name=name: plan(machine.load(name), CompactSettings())) for name in some]  # type: ignore[misc]
    size = sum(file.stat().st_size for file in folder.glob(f"{shards}.db*")) >> 10
    print(
        f"{shards:>6} shards: commit {statistics.median(commits):5.2f} ms, "
        f"all names {statistics.median(listed):8.1f} ms, "
        f"look for merges {statistics.median(looks):5.2f} ms each, database {size:,} KiB",
        flush=True,
    )


def names_of(folder: Path, shards: int) -> None:
    """Copy one shard's documents many times and print what the names of all cost."""
    store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/copies.db")
    machine = Machine(open_stores(store))
    machine.create(parse_spec({"name": "one", **SPEC}))
    for at in range(APPENDS):
        machine.append("one", token=str(at), lower=at, upper=at + 1)
    with sqlite3.connect(folder / "copies.db") as database:
        found = database.execute("SELECT seqno, data FROM strata_consensus").fetchall()
        database.executemany(
            "INSERT INTO strata_consensus VALUES (?, ?, ?)",
            ((state_key(f"shard{n:06}"), *row) for n in range(shards - 1) for row in found),
        )
    database.close()
    new = Machine(open_stores(store))
    assert len(new.names()) == shards
    took = [cpu_ms(new.names) for _ in range(5)]
    print(f"{shards:>6} shards: all names {statistics.median(took):8.1f} ms", flush=True)


def cpu_ms(work: Callable[[], object]) -> float:
    """Return the CPU time of one call."""
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)


def main() -> None:
    """Print a line for each number of shards."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("shards", type=int, nargs="*", default=[10, 100, 1_000])
    with tempfile.TemporaryDirectory() as folder:
        for shards in parser.parse_args().shards:
            measure(Path(folder), shards)
        names_of(Path(folder), COPIES)


if __name__ == "__main__":
    main()
