"""The console's pages over a long journal: `python -m benchmarks.console [ROWS]`, by default 10^5.

Five shards share the journal. All but its last forty rows are merged; each of those is a part of
its own, as operations leave them. One row in twenty is of a validation, with its figures. Stores
are folders on this machine. Prints the seconds of CPU of each page: the first one after the start
(cold), the same again (warm), and once more behind one new operation.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from strata.compact import compact_shard
from strata.history.journal import append_rows
from strata.history.operations import SHARD, Operation, spec
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.store.open import Stores, open_stores
from strata.ui.pages import Asked, ConsolePages
from strata.ui.what_if import Analyst

SHARDS: Final = tuple(f"shard_{number}" for number in range(5))
TAIL: Final = 40  # rows that are not merged yet
CHUNK: Final = 10_000
STEP_MS: Final = 600_000  # between two operations
KINDS: Final = ("ingest", "ingest", "ingest", "compact", "sweep")
CHECKS: Final = {f"filter_{n}": {"bytes_total": 24_000_000, "bytes_skipped": n} for n in range(6)}


def operation(number: int, rows: int, now_ms: int) -> Operation:
    """Return one row of the journal; the last one is of now."""
    what = "validate" if number % 20 == 0 else KINDS[number % len(KINDS)]
    details: dict[str, Any] = {"updates": number, "parts": 7, "rejected": 0, "stats_ms": 12}
    details |= {"s3_puts": 9, "s3_gets": 20, "s3_bytes_in": 4_000_000, "s3_bytes_out": 1_000_000}
    if what == "validate":
        figures = {"evidence_parts": number // 100, "evidence_repeats": 3}
        details |= {**figures, "evidence_distinct_parts": 28, "checks": CHECKS}
    return Operation(
        SHARDS[number // 20 % len(SHARDS)],
        what,
        now_ms - (rows - number) * STEP_MS,
        4.2,
        f"airflow shard_{what} scheduled__2026-11-{number % 30:02}T00:00:00+00:00",
        "clean" if what == "validate" else "done",
        1000,
        100_000,
        orjson.dumps(details).decode(),
    )


def filled(place: Path, rows: int) -> Stores:
    """Return stores whose journal has a number of rows."""
    blob, consensus = f"file://{place}/blob", f"sqlite:///{place}/consensus.db"
    stores = open_stores(StoreSettings(blob=blob, consensus=consensus))
    machine, now = Machine(stores), stores.clock()
    for name in SHARDS:
        column = {"name": "n", "type": "int64"}
        machine.create(parse_spec({"name": name, "columns": [column], "key": ["n"]}))
    for first in range(0, rows - TAIL, CHUNK):
        some = range(first, min(first + CHUNK, rows - TAIL))
        append_rows(stores, spec(), [asdict(operation(n, rows, now)) for n in some], f"t{first}")
    compact_shard(stores, SHARD, settings=Settings(), runner=serial, full=True)
    for number in range(rows - TAIL, rows):
        append_rows(stores, spec(), [asdict(operation(number, rows, now))], f"t{number}")
    return stores


def console_of(stores: Stores) -> dict[str, Callable[[], str]]:
    """Return what draws each page, in a console that has just started."""
    settings = Settings()
    pages, name = ConsolePages(stores, settings, Analyst(stores, settings)), SHARDS[0]
    return {
        "shards": lambda: pages.shards(""),
        "spine": lambda: pages.shard("", name, Asked()),
        "rollout": lambda: pages.rollout("", name),
        "audits": lambda: pages.audits("", name),
    }


def main() -> None:
    """Print a line for each page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=100_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as place:
        stores = filled(Path(place), rows)
        batches = Machine(stores).load(SHARD).batches
        parts = sum(batch.parts for batch in batches)
        print(f"{rows:,} rows in {parts} parts, {sum(b.size_bytes for b in batches):,} bytes")
        print(f"{'page':<10}{'cold':>8}{'warm':>8}{'one more':>10}   seconds of CPU")
        for name in console_of(stores):
            page = console_of(stores)[name]
            cold, warm = timed(page), min(timed(page) for _ in range(3))
            one = asdict(operation(rows, rows, stores.clock()))
            append_rows(stores, spec(), [one], f"more {name}")
            print(f"{name:<10}{cold:>8.3f}{warm:>8.3f}{timed(page):>10.3f}")
        print(f"Arrow's memory: {pa.total_allocated_bytes() / 2**20:,.1f} MiB")


def timed(page: Callable[[], str]) -> float:
    """Return the seconds of CPU that a page takes, those of all threads."""
    began = time.process_time()
    assert page()
    return time.process_time() - began


if __name__ == "__main__":
    main()
