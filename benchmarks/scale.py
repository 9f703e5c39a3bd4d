"""What a terabyte and a petabyte take: `python -m benchmarks.scale [--write]`.

Arithmetic only: sizes of this code, figures that other benchmarks measured (benchmarks/README.md),
and a price list that is written here to be replaced. `--write` puts the tables into
docs/explanation/scale.md, between its marks, and draws docs/images/scale.svg.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.chart import Line, Panel, draw
from strata.machine.machine import KEEP

Points: TypeAlias = tuple[tuple[float, float], ...]
DOCS: Final = Path(__file__).parents[1] / "docs"
TB: Final = 10**12
MIB: Final = 2**20

# --- prices, US dollars: S3 Standard, us-east-1, price list of 2026-09-28. See
# docs/explanation/scale.md.
PUT: Final = 0.005 / 1000  # PUT, COPY, POST, LIST, each part of an upload
GET: Final = 0.0004 / 1000
MONTH: Final = (  # terabytes of a tier, and the price of each a month
    (50, 23.0),
    (450, 22.0),
    (float("inf"), 21.0),
)
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
MERGE: Final = 2_000_000 * 34.7 / 2.36  # stored bytes a CPU second of a compaction task (merge.py)
MANIFEST: Final = 110  # bytes a part (metadata.py)
PLAN: Final = ((1e4, 78.0), (1e5, 163.0), (1e6, 846.0))  # parts, CPU ms, first time
COMMIT: Final = ((1e4, 2.4), (1e5, 2.2), (1e6, 2.5))
MERGED: Final = ((125e3, 0.21), (250e3, 0.26), (500e3, 0.48), (2e6, 2.36))  # rows, CPU s (merge.py)
COMMIT_AMONG: Final = ((10, 1.9), (100, 1.7), (1_000, 2.0))  # shards, CPU ms (shards.py)
NAMES: Final = ((10, 7.0), (100, 75.0), (1_000, 748.0))
SWEEP: Final = ((1e4, 0.6), (1e5, 1.0), (1e6, 5.7))  # parts, CPU s
STATE: Final = 279 * 1024  # bytes, at a million parts
WRITERS: Final = 8  # of a shard each
COMMITS: Final = 649.0  # a second of these on PostgreSQL, at a load of 9 to 11 (commits.py)


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
    """Return how many parts of full size hold `size` bytes."""
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
    lines.append(f"| store for a month | | | | | {month(TB):.2f} |")
    return "\n".join(lines)


def table_of_sizes() -> str:
    """Return what grows with the bytes stored, in one shard and in shards of 10 TB, as Markdown."""
    lines = [
        "| Stored | parts | manifests | plan, one shard | sweep's listing | a month, $ |",
        "|---|---|---|---|---|---|",
    ]
    for size, name in ((TB, "1 TB"), (10 * TB, "10 TB"), (100 * TB, "100 TB"), (1000 * TB, "1 PB")):
        parts = parts_of(size)
        lines.append(
            f"| {name} | {parts:,} | {parts * MANIFEST / MIB:,.0f} MiB "
            f"| {plan_seconds(parts):.2f} CPU s{'' if parts <= 1e6 else ' *'} "
            f"| {ceil(parts / LISTED):,} requests | {month(size):,.0f} |"
        )
    return "\n".join(lines)


def month(size: float) -> float:
    """Return the dollars that `size` bytes cost in a month; the first have the first price."""
    left, dollars = size / TB, 0.0
    for many, price in MONTH:
        some = min(left, many)
        left, dollars = left - some, dollars + some * price
    return dollars


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
        f"| written | of {COMMITS:.0f} a second | one driver, a pass |",
        "|---|---|---|---|---|---|---|",
    ]
    for shards in (100, 1_000, 10_000):
        rate = shards * commits_an_hour / 3600
        lines.append(
            f"| {shards:,} | {shards * STATE / MIB:,.0f} MiB "
            f"| {shards * STATE * KEEP / 2**30:,.0f} GiB | {rate:.2f} "
            f"| {rate * STATE / MIB:.2f} MiB/s | {100 * rate / COMMITS:.1f} % "
            f"| {shards * commits_an_hour * WRITERS / COMMITS / 60:,.1f} min |"
        )
    return "\n".join(lines)


def chart() -> str:
    """Return the measured curves, each as a multiple of its first point, as SVG."""
    return draw([
        Panel("CPU time, times that of 10,000 parts", "parts of a shard", _multiples(
            {"commit": COMMIT, "plan, cold": PLAN, "sweep": SWEEP})),
        Panel("CPU time, times that of 10 shards", "shards of a database", _multiples(
            {"commit to one": COMMIT_AMONG, "names of all": NAMES})),
        Panel("CPU time, times that of 125,000 rows", "rows of a compaction task", _multiples(
            {"merge": MERGED})),
    ])  # fmt: skip


def _multiples(measured: Mapping[str, Points]) -> list[Line]:
    return [
        Line(name, [(at, value / points[0][1]) for at, value in points])
        for name, points in measured.items()
    ]


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
    parser.add_argument("--write", action="store_true", help="into docs/explanation/scale.md")
    if parser.parse_args().write:
        file = DOCS / "explanation" / "scale.md"
        file.write_text(filled(file.read_text("utf-8")), "utf-8")
        (DOCS / "images" / "scale.svg").write_text(chart(), "utf-8")
    else:
        print("\n\n".join(table() for table in TABLES.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
