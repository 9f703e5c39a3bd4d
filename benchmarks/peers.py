"""Strata beside Iceberg, Delta, DuckDB and Spark on the same data in one run.

    python -m benchmarks.peers [--rows 400000] [--rounds 3] [--shapes events wide nested]
                               [--only Strata DuckDB] [--write]

All are in `.venv`: `make setup`. Contenders take turns with each operation, in processes of their
own with two threads each; a first round warms up and does not count, and each round makes the
tables anew. Printed are medians: CPU seconds with those of all children, and the clock's. The rows
are compared with those that the generator says there are; one that differs ends the run.
`--write` keeps the figures in benchmarks/peers.toml; `python -m benchmarks.today` makes of them the
tables of benchmarks/README.md.

* Strata runs without Spark, skips as its mode `on` allows, and consolidates what it reads;
  `both layouts` stores the row layout as well, which is its default.
* PyIceberg and delta-rs get what Arrow reads from the CSV files and sorts by id.
* DuckDB has its own table in its own file. Spark has a folder of Parquet; its upsert and its
  compaction write the folder anew, and its full read throws the rows away where they are.
* All use zstd, files of about a MiB and row groups of a quarter of that; DuckDB has its own
  compression in one file.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.peers_data import QUESTIONS, SHAPES, Shape, asked, digest, small, sources, upserts
from benchmarks.peers_tables import tables
from benchmarks.peers_worker import CONTENDERS, Asked, Done, Took, work

HEAD: Final = "# Written by `python -m benchmarks.peers --write`; no figure here is typed."
KEPT: Final = Path(__file__).with_name("peers.toml")
INGEST_ONLY: Final = "Strata, both layouts"  # it reads the same columns
SIGNS: Final = {">=": pc.greater_equal, "<": pc.less, "=": pc.equal}
LIMIT: Final = 300.0  # seconds that an operation may take
SHARE: Final = {"wide": 50, "nested": 5}  # rows of these shapes: of `events`, divided by this


class Wrong(Exception):
    """A contender's rows are not those of the generator."""


@dataclass
class Process:
    """The process of a contender, and what it is called."""

    name: str
    pipe: Any
    process: Any
    version: str = ""

    def ask(self, what: Asked) -> Done:
        """Return the answer; what fails there is raised here."""
        self.pipe.send(what)
        if not self.pipe.poll(LIMIT):
            raise TimeoutError(f"{self.name}: {what.operation} takes more than {LIMIT:.0f} s")
        found = self.pipe.recv()
        if isinstance(found, Exception):
            raise RuntimeError(f"{self.name}: {what.operation}") from found
        assert isinstance(found, Done)
        return found


@dataclass
class Figures:
    """What was measured, by shape, operation and contender."""

    took: dict[tuple[str, str, str], list[Took]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[tuple[str, str, str], Any] = field(default_factory=dict)


def differing(truth: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return what of a digest is not as it should be."""
    return [name for name, value in truth.items() if found.get(name) != value]


def check(what: str, name: str, truth: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise Wrong with the names of the columns that differ."""
    if wrong := differing(truth, found):
        both = {column: (truth[column], found.get(column)) for column in wrong}
        raise Wrong(f"{name}, {what}: (expected, found) {both}")


def expected(shape: Shape, rows: int, question: str) -> dict[str, Any]:
    """Return the digest of the rows that satisfy a question's conditions, by the generator."""
    table = shape.table(np.arange(rows), rows)
    chosen = []
    for conditions in asked(rows)[question]:
        some = table
        for one in conditions:
            wanted = pa.scalar(one.value, some.schema.field(one.column).type)
            some = some.filter(SIGNS[one.sign](some[one.column], wanted))
        chosen.append(some)
    return digest(pa.concat_tables(chosen), shape)


def upserted(shape: Shape, rows: int, turn: int) -> dict[str, Any]:
    """Return the digest of the table after both upserts of a turn."""
    versions = np.zeros(rows, np.int64)
    few = rows // 100
    versions[rows // 3 : rows // 3 + few] = 1 + 2 * turn
    versions[turn::100] = 2 + 2 * turn
    ids = np.arange(rows)
    tables = [shape.table(ids[versions == v], rows, int(v)) for v in np.unique(versions)]
    return digest(pa.concat_tables(tables), shape)


@dataclass
class Run:
    """One shape, its sources, and the contenders that take turns with it."""

    shape: Shape
    rows: int
    folder: Path
    processes: Sequence[Process]
    figures: Figures

    def turn(self, number: int) -> None:
        """Let all do everything once; the first turn is not kept."""
        home, keep = self.folder / f"turn{number}", number > 0
        self._each("ingest", "ingest", home, keep, paths=sorted((self.folder / "all").iterdir()))
        self._checked(home, "ingest", self.truth)
        for process in self.processes:
            key = (self.shape.name, "sizes", process.name)
            self.figures.answers[key] = process.ask(self._asked("sizes", process, home)).answer
        self._reads(home, keep, first=number == 0)
        if self.shape.name == "events":
            self._changes(home, keep, number)
        shutil.rmtree(home)

    def prepare(self, turns: int) -> None:
        """Write the sources and find out what the answers are."""
        sources(self.folder, self.shape, self.rows)
        if self.shape.name == "events":
            upserts(self.folder, self.shape, self.rows, turns)
            small(self.folder, self.shape, self.rows)
        self.truth = expected(self.shape, self.rows, "full")
        reads = {"last", "lookup", *(["count"] if "day" in self.shape.columns else [])}
        self.truths = {name: expected(self.shape, self.rows, name) for name in reads}

    def _reads(self, home: Path, keep: bool, first: bool) -> None:
        questions = asked(self.rows)
        self._each("plan", "plan", home, keep, conditions=questions["plan"])
        for name, truth in self.truths.items():
            operation = "count" if name == "count" else "rows"
            for process in self._asking(name, operation, home, keep, conditions=questions[name]):
                found = self.figures.answers[self.shape.name, name, process.name]
                answer = {"rows": sum(found)} if name == "count" else found
                wanted = {"rows": truth["rows"]} if name == "count" else truth
                check(name, process.name, wanted, answer)
        for process in self._asking("full", "full", home, keep):
            found = self.figures.answers[self.shape.name, "full", process.name]
            if found >= 0:
                check("full", process.name, {"rows": self.rows}, {"rows": found})

    def _changes(self, home: Path, keep: bool, number: int) -> None:
        for name in ("clustered", "spread"):
            self._each(name, "upsert", home, keep, paths=[self.folder / f"{name}{number}.csv"])
        self._checked(home, "upserts", upserted(self.shape, self.rows, number))
        self._each("full after upserts", "full", home, keep)
        some, paths = home / "small", sorted((self.folder / "small").iterdir())
        self._each("append", "append", some, keep, paths=paths)
        self._each("compact", "compact", some, keep)
        truth = digest(self.shape.table(np.arange(self.rows // 5), self.rows), self.shape)
        self._checked(some, "compact", truth)

    def _checked(self, home: Path, what: str, truth: Mapping[str, Any]) -> None:
        for process in self.processes:
            if what == "ingest" or process.name != INGEST_ONLY:
                found = process.ask(self._asked("digest", process, home)).answer
                check(what, process.name, truth, found)

    def _each(self, name: str, operation: str, home: Path, keep: bool, **rest: Any) -> None:
        for _ in self._asking(name, operation, home, keep, **rest):
            pass

    def _asking(self, name: str, operation: str, home: Path, keep: bool, **rest: Any) -> Any:
        """Yield each contender behind its turn with an operation."""
        for process in self.processes:
            if process.name == INGEST_ONLY and operation != "ingest":
                continue
            done = process.ask(self._asked(operation, process, home, **rest))
            key = (self.shape.name, name, process.name)
            self.figures.answers[key] = done.answer
            if keep and done.took is not None:
                self.figures.took[key].append(done.took)
            yield process

    def _asked(self, operation: str, process: Process, home: Path, **rest: Any) -> Asked:
        place = home / process.name.replace(", ", "-").replace(" ", "-")
        return Asked(operation, place, self.shape.name, **rest)


def started(names: Sequence[str]) -> list[Process]:
    """Start the contenders, each in its process."""
    context, found = get_context("spawn"), []
    for name in names:
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(name, theirs))
        process.start()
        found.append(Process(name, ours, process, ours.recv()))
    return found


def entry(name: str, values: Mapping[str, object]) -> list[str]:
    """Return the lines of one table of TOML; what is None is left out."""
    known = {key: value for key, value in values.items() if value is not None}
    told = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in known.items()]
    return ["", name, *told]


def written(figures: Figures, head: Mapping[str, object]) -> str:
    """Return the figures as TOML: medians, seconds and bytes of one of the questions."""
    lines = [HEAD, *entry("[run]", head)]
    for (shape, operation, name), every in figures.took.items():
        named = {"shape": shape, "operation": operation, "contender": name}
        by = {unit: QUESTIONS.get(operation, 1) for unit in ("cpu", "wall", "read", "written")}
        middles = {
            unit: statistics.median(getattr(took, unit) for took in every) / by.get(unit, 1)
            for unit in (*by, "peak")
        }
        digits = {"cpu": 5, "wall": 5}
        rounded = {unit: round(value, digits.get(unit)) for unit, value in middles.items()}
        lines += entry("[[took]]", named | rounded)
    for (shape, operation, name), answer in figures.answers.items():
        named = {"shape": shape, "contender": name}
        if operation == "sizes":
            lines += entry("[[sizes]]", named | asdict(answer))
        elif operation == "plan" and answer[0] is not None:
            lines += entry("[[kept]]", named | {"files": answer[0]})
    return "\n".join(lines) + "\n"


def measured_shapes(options: argparse.Namespace, processes: Sequence[Process]) -> Iterator[str]:
    """Yield the figures as TOML after each shape, all that came before included."""
    began, figures, loads = time.monotonic(), Figures(), [os.getloadavg()[0]]
    rows_of: dict[str, int] = {}
    for name in options.shapes:
        rows = options.rows // SHARE.get(name, 1)
        with tempfile.TemporaryDirectory(prefix="peers-") as folder:
            run = Run(SHAPES[name], rows, Path(folder), processes, figures)
            run.prepare(options.rounds + 1)
            for number in range(options.rounds + 1):
                run.turn(number)
                loads.append(os.getloadavg()[0])
                took = time.monotonic() - began
                sys.stderr.write(f"{name}, round {number}: {took:.0f} s, load {loads[-1]:.1f}\n")
        rows_of[f"rows_{name}"] = rows
        yield written(
            figures,
            {
                "rounds": options.rounds,
                "cores": os.cpu_count(),
                "load": [round(min(loads), 1), round(max(loads), 1)],
                "seconds": round(time.monotonic() - began),
                "versions": [process.version for process in processes],
                **rows_of,
            },
        )


def main() -> None:
    """Run all shapes, print the tables, and keep the figures if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--only", nargs="*", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {KEPT.name}")
    options = parser.parse_args()
    processes, text = started(options.only), ""
    try:
        for text in measured_shapes(options, processes):
            if options.write:
                KEPT.write_text(text, "utf-8")
    finally:
        for process in processes:
            process.pipe.send(None)
            process.process.join(30)
            if process.process.is_alive():
                process.process.kill()
    print(tables(text))


if __name__ == "__main__":
    main()
