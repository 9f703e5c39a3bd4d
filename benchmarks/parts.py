"""How fast parts are written and read in each layout, beside pyarrow on the same columns.

    .venv/bin/python -m benchmarks.parts [--rounds 7] [--rows 262144] [--json]

Contenders take turns (A B A B ...), so that a noisy machine troubles all of them alike; printed
are medians. "limit" is pyarrow alone: the same columns, zstd level 1, its own defaults, or only the
row codec's bytes once they are made. "columns alone" is layout `structured`. MB are those of the
updates in Arrow memory, so that layouts can be compared. CPU seconds are those of all threads: a
part with rows is encoded beside the writer, which wall time shows on an idle machine only.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.format import RELATION, make_updates
from strata.format.columns import K, V, child
from strata.format.part import Description, encode_part, read_part
from strata.format.part_settings import WRITER
from strata.format.part_write import encode_side
from strata.model.spec import LAYOUTS

ROW_GROUP_BYTES: Final = 8 * 1024 * 1024
GROUP_ROWS: Final = 73_728  # what the layouts make of that
RATIOS: Final = {
    "write: both / columns alone": ("write both", "write structured"),
    "write: row / columns alone": ("write row", "write structured"),
    "write: columns alone / limit": ("write structured", "limit: write columns"),
    "write: both / limit of both halves": ("write both", "limit: write both halves"),
    "write: (limit of k, v + columns alone) / columns alone": ("free codec", "write structured"),
    "read: columns / limit": ("read structured", "limit: read columns"),
    "read: row / columns": ("read row", "read structured"),
    "read: row_with_validate / columns": ("read row_with_validate", "read structured"),
}


def encoded(updates: pa.Table, layout: str) -> bytes:
    """Return a part of these updates."""
    description = Description(0, updates.num_rows, 0)
    return encode_part(
        updates, RELATION, layout, description=description, row_group_bytes=ROW_GROUP_BYTES
    ).data


def plain(table: pa.Table, **options: Any) -> pa.Buffer:
    """Return a table as pyarrow writes it."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, row_group_size=GROUP_ROWS, compression="zstd", compression_level=1, **options
    )
    return sink.getvalue()


def contenders(updates: pa.Table) -> tuple[dict[str, Callable[[], object]], dict[str, int]]:
    """Return what is measured, and the sizes of the files."""
    ids = [child(c.id) for c in RELATION.columns]
    sides = RELATION.key_columns, RELATION.value_columns
    rows = {n: encode_side(updates, side) for n, side in zip((K, V), sides, strict=True)}
    codec, halves = pa.table(rows), updates
    for name, values in rows.items():
        halves = halves.append_column(name, values)
    files = {layout: encoded(updates, layout) for layout in LAYOUTS}
    limit = plain(updates)

    def read(data: bytes, read_format: str) -> int:
        return sum(b.num_rows for b in read_part(data, RELATION, read_format=read_format))

    def write(layout: str) -> Callable[[], object]:
        return lambda: encoded(updates, layout)

    work: dict[str, Callable[[], object]] = {
        **{f"write {layout}": write(layout) for layout in LAYOUTS},
        "codec alone": lambda: [encode_side(updates, side) for side in sides],
        "limit: write columns": lambda: plain(updates),
        "limit: write k, v": lambda: lz4(codec),
        "limit: write both halves": lambda: plain(halves, use_dictionary=ids),
        "read structured": lambda: read(files["both"], "structured"),
        "read row": lambda: read(files["both"], "row"),
        "read row_with_validate": lambda: read(files["both"], "row_with_validate"),
        "limit: read columns": lambda: pq.ParquetFile(pa.BufferReader(limit)).read(
            use_threads=False
        ),
    }
    return work, {**{n: len(data) for n, data in files.items()}, "pyarrow": limit.size}


def lz4(table: pa.Table) -> pa.Buffer:
    """Return k and v as layout `both` writes them."""
    sink = pa.BufferOutputStream()
    options = {**WRITER, "compression": "lz4", "compression_level": None}
    with pq.ParquetWriter(
        sink, table.schema, use_dictionary=False, write_statistics=False, **options
    ) as writer:
        writer.write_table(table, row_group_size=GROUP_ROWS)
    return sink.getvalue()


def measure(
    work: dict[str, Callable[[], object]], rounds: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Return CPU and wall seconds of each contender in each round but the first."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in work}
    for number in range(rounds + 1):
        for name, run in work.items():
            cpu, wall = time.process_time(), time.perf_counter()
            run()
            if number:
                times[name][0].append(time.process_time() - cpu)
                times[name][1].append(time.perf_counter() - wall)
    return times


def main() -> None:
    """Run the rounds and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=1 << 18)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    updates = make_updates(args.rows)
    work, sizes = contenders(updates)
    times = measure(work, args.rounds)
    cpu = {name: statistics.median(seconds) for name, (seconds, _) in times.items()}
    wall = {name: statistics.median(seconds) for name, (_, seconds) in times.items()}
    for clock in (cpu, wall):
        clock["free codec"] = clock["limit: write k, v"] + clock["write structured"]
    ratios = {name: (cpu[a] / cpu[b], wall[a] / wall[b]) for name, (a, b) in RATIOS.items()}
    if args.json:
        found = {"cpu_s": cpu, "wall_s": wall, "sizes": sizes, "ratios": ratios}
        json.dump(found, sys.stdout, indent=2)
        return
    print(f"{args.rows} rows, {updates.nbytes / 1e6:.1f} MB in memory")
    for name in work:
        low, high = min(times[name][0]), max(times[name][0])
        print(
            f"{name:26}{cpu[name] * 1e3:7.0f} ms CPU ({low * 1e3:.0f} to {high * 1e3:.0f})"
            f"{wall[name] * 1e3:8.0f} ms wall{updates.nbytes / 1e6 / cpu[name]:8.0f} MB/s"
        )
    for name, size in sizes.items():
        print(f"size {name:21}{size / 1e6:7.1f} MB   {size / args.rows:6.1f} bytes a row")
    for name, (by_cpu, by_wall) in ratios.items():
        print(f"{name:56}{by_cpu:6.2f}x CPU {by_wall:6.2f}x wall")


if __name__ == "__main__":
    main()
