"""How costs grow: ingest and merge against cores, rows, columns and files, each with its slope.

    python -m benchmarks.slopes [--most-rows 10000000] [--only rows columns files cores] [--write]

Each point is measured in a process of its own, without Spark: CSV files of `benchmarks.peers_data`
are taken in, both layouts, and eight batches whose keys interleave are merged into one run. Against
rows, columns and files the figure is CPU time; against cores it is rows a second by the clock, with
the process held on one core or on two. A slope is that of a line through the logarithms: 1 is a
cost that grows with its cause, 0 one that does not, and beside it stands the part that is there
anyway: the constant of a line `fixed + each x cause`. `--write` keeps the figures in slopes.toml
and draws docs/images/slopes.svg. `--most-rows 100000000` measures the longest point, too.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.chart import Line, Panel, draw
from benchmarks.peers_data import SHAPES, Shape, wide, wide_columns, write
from benchmarks.today import PROJECT, between
from strata.compact.run import compact_shard
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.runner import threads
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.store.open import open_stores

KEPT: Final = Path(__file__).with_name("slopes.toml")
PAGE: Final = Path(__file__).with_name("slopes.md")
CHART: Final = PROJECT / "docs" / "images" / "slopes.svg"
MARK: Final = "<!-- slopes: `python -m benchmarks.slopes --write` -->"
BATCHES: Final = 8  # that a merge merges
CELLS: Final = 2_000_000  # of a table whose columns vary
FILE_ROWS: Final = 100_000  # of a table whose files vary
CORE_ROWS: Final = 1_000_000
CHUNK: Final = 250_000  # rows of a source file at most
CAUSES: Final = {
    "cores": (1, 2),
    "rows": (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
    "columns": (10, 100, 1000),
    "files": (1, 100, 10_000),
}


@dataclass(frozen=True)
class Point:
    """One measurement: `work` under a cause. Units: seconds."""

    cause: str
    amount: int
    work: str  # ingest or merge
    rows: int
    cpu: float
    wall: float


def shape_of(cause: str, amount: int) -> tuple[Shape, int, int]:
    """Return the columns, the rows and the files of a point."""
    if cause == "columns":
        columns = wide_columns(amount)
        return Shape("wide", columns, wide(columns)), CELLS // amount, 1
    if cause == "files":
        return SHAPES["events"], FILE_ROWS, amount
    rows = amount if cause == "rows" else CORE_ROWS
    return SHAPES["events"], rows, -(-rows // CHUNK)


def measure(cause: str, amount: int) -> list[Point]:
    """Return the points of one amount, measured in this process."""
    cores = amount if cause == "cores" else 2
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    shape, rows, files = shape_of(cause, amount)
    with tempfile.TemporaryDirectory(prefix="slopes-") as name:
        home = Path(name)
        taken(home / "warm", SHAPES["events"], 1000, 1, cores)
        return [
            Point(cause, amount, work, rows, *seconds)
            for work, seconds in taken(home / "measured", shape, rows, files, cores).items()
        ]


def taken(
    home: Path, shape: Shape, rows: int, files: int, cores: int
) -> dict[str, tuple[float, float]]:
    """Take a table in and merge batches of it; return CPU seconds and the clock's of both."""
    edges = [number * rows // files for number in range(files + 1)]
    for number, (first, last) in enumerate(pairwise(edges)):
        ids = np.random.default_rng(number).permutation(np.arange(first, last))
        write(shape.table(ids, rows), home / f"whole/{number:05d}.csv")
    whole = Home(home / "one", shape, cores)
    found = {"ingest": clocked(lambda: whole.take(home / "whole"))}
    if files > BATCHES or rows > 10_000_000:
        return found
    pieces = Home(home / "pieces", shape, cores)
    for number in range(BATCHES):
        write(shape.table(np.arange(number, rows, BATCHES), rows), home / f"{number}/piece.csv")
        pieces.take(home / str(number))
    return {**found, "merge": clocked(pieces.merge)}


def clocked(work: Any) -> tuple[float, float]:
    """Return the CPU seconds of all threads, and the clock's."""
    cpu, began = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - began


class Home:
    """A pair of stores with one shard."""

    def __init__(self, folder: Path, shape: Shape, cores: int) -> None:
        """Create the shard; its source's rows are looked at once."""
        store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/state.db", str(folder))
        folder.mkdir(parents=True)
        self.settings, self.runner = Settings(store=store), threads(cores)
        self.stores, self.upper = open_stores(store), 0
        columns = [{"name": n, "type": t, "nullable": n != "id"} for n, t in shape.columns.items()]
        source = {"format": "csv", "verify": "never"}
        spec = {"name": "t", "columns": columns, "key": ["id"], "source": source}
        Machine(self.stores).create(parse_spec(spec))

    def take(self, folder: Path) -> None:
        """Take the files of a folder in as one batch."""
        self.upper += 1
        ingest(
            self.stores,
            self.settings,
            "t",
            paths=[str(folder)],
            lower=self.upper - 1,
            upper=self.upper,
            runner=self.runner,
        )

    def merge(self) -> None:
        """Make one run of all."""
        report = compact_shard(self.stores, "t", self.settings, self.runner, full=True)
        assert (report.runs_before, report.runs_after) != (1, 1), report


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of a line through the logarithms of points."""
    logs = np.log([[float(x), float(y)] for x, y in points])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def fixed(points: Sequence[tuple[float, float]]) -> float:
    """Return the part of the smallest cost that does not grow, 0 to 1, by its two first points."""
    (x, y), (more, cost) = sorted(points)[:2]
    each = (cost - y) / (more - x)
    return min(1.0, max(0.0, (y - each * x) / y))


def lines(points: Sequence[Point]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return for each cause and work the amounts and what they cost; for cores, rows a second."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one in points:
        cost = one.rows / one.wall if one.cause == "cores" else one.cpu
        # A table of more columns has fewer rows, so that the cells are as many.
        cost = 1e6 * cost / one.rows if one.cause == "columns" else cost
        found.setdefault((one.cause, one.work), []).append((one.amount, cost))
    return {key: sorted(some) for key, some in found.items()}


def table(run: Mapping[str, Any]) -> str:
    """Return the table of the figures: costs, slopes and what is there anyway."""
    units = {
        "cores": "rows a second",
        "rows": "CPU s",
        "columns": "CPU µs a row",
        "files": "CPU s",
    }
    low, high = run["run"]["load"]
    rows = [
        f"Two cores, load {low} to {high}; each point once.",
        "",
        "| Against | Work | Measured | Slope | There anyway, of the smallest |",
        "|---|---|---|---|---|",
    ]
    for (cause, work), some in lines([Point(**one) for one in run["point"]]).items():
        measured = "; ".join(f"{amount:,.0f}: {cost:,.4g}" for amount, cost in some)
        anyway = "" if cause == "cores" else f"{fixed(some):.0%}"
        rows.append(
            f"| {cause} | {work} | {measured} {units[cause]} | {slope(some):.2f} | {anyway} |"
        )
    return "\n".join(rows)


def chart(run: Mapping[str, Any]) -> str:
    """Return a panel for each cause: costs by unit, as multiples of the smallest amount's."""
    panels = []
    found = lines([Point(**one) for one in run["point"]])
    for cause in CAUSES:
        some = {work: points for (c, work), points in found.items() if c == cause}
        if not some:
            continue
        drawn = []
        for work, points in some.items():
            first = points[0][1] / (1 if cause == "cores" else points[0][0])
            each = [(x, y / first if cause == "cores" else y / x / first) for x, y in points]
            drawn.append(Line(f"{work}, slope {slope(points):.2f}", each))
        ends = (min(CAUSES[cause]), max(x for points in some.values() for x, _ in points))
        ideal = [(x, x if cause == "cores" else 1.0) for x in ends]
        title = "Rows a second" if cause == "cores" else f"CPU of each of the {cause}"
        panels.append(
            Panel(f"{title}, as a multiple", cause, [*drawn, Line("in proportion", ideal, True)])
        )
    return draw(panels)


def filled(page: str, run: Mapping[str, Any]) -> str:
    """Return the page of the slopes with its table made anew."""
    return between(page, MARK, table(run))


def main() -> None:
    """Measure each point in a process of its own; print the table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--most-rows", type=int, default=10_000_000)
    parser.add_argument("--only", nargs="*", default=list(CAUSES), choices=list(CAUSES))
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {KEPT.name}")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        points = measure(asked.one[0], int(asked.one[1]))
        print(json.dumps([asdict(point) for point in points]))
        return
    text, loads = [], [os.getloadavg()[0]]
    for cause in asked.only:
        for amount in CAUSES[cause]:
            if cause == "rows" and amount > asked.most_rows:
                continue
            line = [sys.executable, "-m", "benchmarks.slopes", "--one", cause, str(amount)]
            done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
            loads.append(os.getloadavg()[0])
            for point in json.loads(done.stdout.splitlines()[-1]):
                print(point, file=sys.stderr, flush=True)
                text += ["", "[[point]]", *(f"{k} = {json.dumps(v)}" for k, v in point.items())]
    head = ["# Written by `python -m benchmarks.slopes --write`; no figure here is typed.", ""]
    head += ["[run]", f"load = [{min(loads):.1f}, {max(loads):.1f}]"]
    whole = "\n".join([*head, *text]) + "\n"
    run = tomllib.loads(whole)
    print(table(run))
    if asked.write:
        KEPT.write_text(whole, "utf-8")
        CHART.write_text(chart(run), "utf-8")
        PAGE.write_text(filled(PAGE.read_text("utf-8"), run), "utf-8")


if __name__ == "__main__":
    main()
