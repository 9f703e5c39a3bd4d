"""What a terabyte and a petabyte take: `python -m benchmarks.scale [--write]`.

Arithmetic only: sizes of this code, figures that other benchmarks measured (benchmarks/README.md),
and a price list that is written here to be replaced. `--write` puts the tables into docs/scale.md,
between its marks, and draws docs/images/scale.svg.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Final

from benchmarks.chart import Line, Panel, draw
from strata.machine import KEEP

DOCS: Final = Path(__file__).parents[1] / "docs"
TB: Final = 10**12
MIB: Final = 2**20

# --- prices, US dollars: S3 Standard, us-east-1, as published for years. See docs/scale.md.
PUT: Final = 0.005 / 1000  # PUT, COPY, POST, LIST, each part of an upload
GET: Final = 0.0004 / 1000
MONTH: Final = 0.023 / 10**9  # a byte a month, first 50 TB; 0.021 above 500 TB
MONTH_MANY: Final = 0.021 / 10**9
CORE_HOUR: Final = 0.05  # a virtual core of a general machine, on demand, rounded up

# --- sizes of this code
PART: Final = 128 * MIB
PIECE: Final = 16 * MIB  # strata.store.s3: of an upload and of a ranged read
BATCH_PARTS: Final = 8  # parts of an ingested batch: 1 GiB
LISTED: Final = 1000  # keys a LIST answers

# --- measured: benchmarks/README.md
STORED: Final = 34.7 / 112.5  # stored bytes to bytes in memory, structured (parts.py)
READ: Final = 522e6  # bytes in memory a CPU second (parts.py)
WRITE: Final = 225e6
CHECK: Final = 115e6  # row_with_validate
MERGE: Final = 1_000_000 * 34.7 / 1.33  # stored bytes a CPU second of a compaction task (merge.py)
MANIFEST: Final = 110  # bytes a part (metadata.py)
PLAN: Final = ((1e4, 86.0), (1e5, 239.0), (1e6, 712.0))  # parts, CPU ms, first time
COMMIT: Final = ((1e4, 3.1), (1e5, 3.6), (1e6, 3.7))
SWEEP: Final = ((1e4, 0.6), (1e5, 1.0), (1e6, 5.7))  # parts, CPU s
STATE: Final = 279 * 1024  # bytes, at a million parts
COMMITS: Final = 85.0  # a second on PostgreSQL, 8 writers, on a machine with a load of 20


@dataclass(frozen=True)
class Cost:
    """What one operation takes for a terabyte of stored parts."""

    puts: float
    gets: float
    core_hours: float

    @property
    def requests(self) -> float:
        """Dollars for requests."""
        return self.puts * PUT + self.gets * GET

    @property
    def dollars(self) -> float:
        """Dollars, cores included."""
        return self.requests + self.core_hours * CORE_HOUR


def parts_of(size: float) -> int:
    """Return how many parts of full size hold so many bytes."""
    return ceil(size / PART)


def written(parts: float) -> float:
    """Return the requests that store parts: begin and complete an upload, and its pieces."""
    return parts * (2 + PART / PIECE)


def fetched(parts: float) -> float:
    """Return the requests that read parts whole."""
    return parts * PART / PIECE


def costs() -> dict[str, Cost]:
    """Return the operations for a terabyte stored."""
    parts = parts_of(TB)
    batches = parts / BATCH_PARTS
    memory = TB / STORED
    hours = 3600.0
    return {
        # each batch: its manifest and its leaf of the ledger
        "ingest": Cost(written(parts) + 2 * batches, 0, memory / WRITE / hours),
        # inputs read once, the result written once, inputs later set aside: HEAD and COPY
        "compact once": Cost(written(parts) + parts, fetched(parts) + parts, TB / MERGE / hours),
        "audit (format)": Cost(0, fetched(parts), memory / CHECK / hours),
        "read everything": Cost(0, fetched(parts), memory / READ / hours),
        "read 1 % of the parts": Cost(0, fetched(parts) / 100, memory / READ / hours / 100),
        "sweep": Cost(parts / LISTED, parts / BATCH_PARTS, SWEEP[-1][1] * parts / 1e6 / hours),
    }


def table_of_costs() -> str:
    """Return requests and money of each operation as Markdown."""
    lines = [
        "| A terabyte stored | PUT-class | GET-class | requests, $ | core hours | all, $ |",
        "|---|---|---|---|---|---|",
    ]
    for name, cost in costs().items():
        lines.append(
            f"| {name} | {cost.puts:,.0f} | {cost.gets:,.0f} | {cost.requests:.3f} "
            f"| {cost.core_hours:.2f} | {cost.dollars:.2f} |"
        )
    lines.append(f"| store for a month | | | | | {TB * MONTH:.2f} |")
    return "\n".join(lines)


def table_of_sizes() -> str:
    """Return what grows with the bytes stored, in one shard and in shards of 10 TB, as Markdown."""
    lines = [
        "| Stored | parts | manifests | plan, one shard | sweep's listing | a month, $ |",
        "|---|---|---|---|---|---|",
    ]
    for size, name in ((TB, "1 TB"), (10 * TB, "10 TB"), (100 * TB, "100 TB"), (1000 * TB, "1 PB")):
        parts = parts_of(size)
        price = MONTH if size < 50 * TB else MONTH_MANY
        lines.append(
            f"| {name} | {parts:,} | {parts * MANIFEST / MIB:,.0f} MiB "
            f"| {plan_seconds(parts):.2f} CPU s{'' if parts <= 1e6 else ' *'} "
            f"| {ceil(parts / LISTED):,} requests | {size * price:,.0f} |"
        )
    return "\n".join(lines)


def plan_seconds(parts: float) -> float:
    """Return the CPU seconds of a cold plan: linear between measured points, and beyond them."""
    if parts < PLAN[0][0]:
        return PLAN[0][1] / 1000
    pairs = list(pairwise(PLAN))
    (low, before), (high, after) = next((p for p in pairs if parts <= p[1][0]), pairs[-1])
    slope = (after - before) / (high - low)
    return (before + slope * (parts - low)) / 1000


def table_of_shards(commits_an_hour: float = 6.0) -> str:
    """Return what many shards take of consensus and of a driver, as Markdown."""
    lines = [
        "| Shards | newest states | with the 256 kept of each | commits a second "
        "| written | of 85 a second | one driver, a pass |",
        "|---|---|---|---|---|---|---|",
    ]
    for shards in (100, 1_000, 10_000):
        rate = shards * commits_an_hour / 3600
        lines.append(
            f"| {shards:,} | {shards * STATE / MIB:,.0f} MiB "
            f"| {shards * STATE * KEEP / 2**30:,.0f} GiB | {rate:.2f} "
            f"| {rate * STATE / MIB:.2f} MiB/s | {100 * rate / COMMITS:.0f} % "
            f"| {shards * commits_an_hour * 0.046 / 60:,.1f} min |"
        )
    return "\n".join(lines)


def chart() -> str:
    """Return the measured curves, each as a multiple of its first point, as SVG."""
    measured = {"commit": COMMIT, "plan, cold": PLAN, "sweep": SWEEP}
    lines = [
        Line(name, [(parts, value / points[0][1]) for parts, value in points])
        for name, points in measured.items()
    ]
    return draw([Panel("CPU time, times that of 10,000 parts", "parts of a shard", lines)])


TABLES: Final = {"costs": table_of_costs, "sizes": table_of_sizes, "shards": table_of_shards}


def filled(text: str) -> str:
    """Return the document with each table between its marks."""
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        text, count = pattern.subn(lambda m, t=table: f"{m[1]}{t()}\n{m[2]}", text)  # type: ignore[misc]
        assert count == 1, name
    return text


def main() -> int:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into docs/scale.md")
    if parser.parse_args().write:
        file = DOCS / "scale.md"
        file.write_text(filled(file.read_text("utf-8")), "utf-8")
        (DOCS / "images" / "scale.svg").write_text(chart(), "utf-8")
    else:
        print("\n\n".join(table() for table in TABLES.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
