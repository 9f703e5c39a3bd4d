"""How cost grows, with the slope of each line and what bends it: `python -m benchmarks.slopes`.

    python -m benchmarks.slopes [--rows 10000 100000 1000000] [--columns …] [--files …] [--parts …]
                                [--only rows columns files parts cores] [--rounds 3]
                                [--large] [--json FILE] [--write [FILE]]

Ingest, merge, full read, filtered plan and commit against rows, columns, source files and parts, in
one process (`benchmarks.slopes_work`); ingest, compaction and full read by Spark against cores and
executors of one core (`benchmarks.slopes_cores`). Sizes take turns; each figure is the median of
the rounds, after a round that warms up. A slope is that of log(cost) over log(size); `fixed` and
`of one` are a line whose relative errors are least. What bends a line is the stage whose CPU time
(or waiting) grows furthest from proportion, as signals of the processor's time find it
(`benchmarks.stages`).

`--large` adds 10⁷ rows and 10⁴ parts, for some minutes more. `--json` writes what was found;
`--write` puts the tables of such a file, by default those of `benchmarks/slopes.json`, into
docs/explanation/slopes.md and draws docs/images/slopes.svg, and measures nothing.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import slopes_cores, slopes_page, slopes_work
from benchmarks.slopes_page import Document

DOCS: Final = Path(__file__).parents[1] / "docs"
STORED: Final = Path(__file__).with_suffix(".json")
PARTS: Final = ("rows", "columns", "files", "parts", "cores")
ROWS_OF_COLUMNS: Final = 4_000
ROWS_OF_FILES: Final = 100_000
ROWS_OF_PARTS: Final = 100_000
ROWS_OF_CORES: Final = 500_000


def series(over: str, measured: slopes_work.Measured) -> list[dict[str, Any]]:
    """Return what was measured over one thing as lines of a document."""
    made = []
    for operation, costs in measured.items():
        means = {size: costs[size].mean_stages() for size in sorted(costs)}
        names = sorted({name for stages in means.values() for name in stages})
        stages = {name: [_short(of.get(name, 0.0)) for of in means.values()] for name in names}
        figures = {
            name: [_short(value) for value in values] if name != "sizes" else values
            for name, values in slopes_work.medians(costs).items()
        }
        made.append({"over": over, "operation": operation, **figures, "stages": stages})
    return made


def cores(folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Return what Spark took on one core and on two, medians of the rounds."""
    found, starts = slopes_cores.over_cores(folder, rows, rounds)
    size = sum(path.stat().st_size for path in (folder / "all").rglob("*.csv"))
    few = max(rows // 10, slopes_cores.MANY_TASKS)
    jobs = {
        way: {data: {op: _median(some) for op, some in ops.items()} for data, ops in by.items()}
        for way, by in found.items()
    }
    return {
        "rows": {"few": few, "all": rows, "cut": few},
        "bytes_a_row": size / rows,
        "starts": {way: _short(took) for way, took in starts.items()},
        "jobs": jobs,
    }


def _median(jobs: Sequence[slopes_cores.Job]) -> dict[str, float]:
    names = [one.name for one in fields(slopes_cores.Job)]
    return {name: _short(median(getattr(job, name) for job in jobs)) for name in names}


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run what is asked for, and return the document; each part is stored as it ends."""
    document: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "rounds": options.rounds,
        "load_before": round(os.getloadavg()[0], 1),
        "series": [],
    }
    rounds, began = options.rounds, time.monotonic()
    runs: dict[str, Callable[[Path], slopes_work.Measured]] = {
        "rows": partial(slopes_work.over_rows, sizes=options.rows, rounds=rounds),
        "columns": partial(
            slopes_work.over_columns, sizes=options.columns, rows=ROWS_OF_COLUMNS, rounds=rounds
        ),
        "files": partial(
            slopes_work.over_files, sizes=options.files, rows=options.of_files, rounds=rounds
        ),
        "parts": partial(
            slopes_work.over_parts, sizes=options.parts, rows=ROWS_OF_PARTS, rounds=rounds
        ),
    }
    for over in options.only:
        with tempfile.TemporaryDirectory(prefix="slopes-") as folder:
            if over == "cores":
                document["cores"] = cores(Path(folder), options.of_cores, rounds)
            else:
                document["series"] += series(over, runs[over](Path(folder)))
        document["seconds"] = round(time.monotonic() - began)
        document["load_after"] = round(os.getloadavg()[0], 1)
        print(f"{over}: {document['seconds']} s, load {document['load_after']}", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return document


def show(document: Document) -> None:
    """Print the tables."""
    print("\n".join(slopes_page.lines_of(document)))
    if "cores" in document:
        print(f"\ncores\n{slopes_page.cores_table(document)}")
        print(f"\nseveral machines, modelled\n{slopes_page.machines_table(document)}")
        for way, by in document["cores"]["jobs"].items():
            for data, operations in by.items():
                for operation, job in operations.items():
                    print(f"{way:12} {data:4} {operation:11} {job}")
    print(
        f"\n{document['cpus']} CPUs, load {document['load_before']} before and "
        f"{document['load_after']} after, {document['seconds']} s"
    )


def tables(document: Document) -> dict[str, str]:
    """Return the tables of the page by the names of their marks."""
    made = {
        f"slopes: {over}": slopes_page.table(document, over)
        for over in slopes_page.TITLES
        if any(one.over == over for one in slopes_page.series_of(document))
    }
    if "cores" in document:
        made["slopes: cores"] = slopes_page.cores_table(document)
        made["slopes: machines"] = slopes_page.machines_table(document)
    return made


def filled(text: str, document: Document) -> str:
    """Return the page with each table between its marks."""
    for name, table in tables(document).items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text)  # type: ignore[misc]
        assert count == 1, name
    return text


def write(stored: Path) -> None:
    """Put tables and chart where readers find them."""
    document = json.loads(stored.read_text("utf-8"))
    page = DOCS / "explanation" / "slopes.md"
    page.write_text(filled(page.read_text("utf-8"), document), "utf-8")
    (DOCS / "images" / "slopes.svg").write_text(slopes_page.chart(document), "utf-8")


def options_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sizes = partial(parser.add_argument, nargs="+", type=int)
    sizes("--rows", default=[10_000, 100_000, 1_000_000])
    sizes("--columns", default=[10, 100, 1_000])
    sizes("--files", default=[10, 100, 1_000, 10_000])
    sizes("--parts", default=[10, 100, 1_000])
    parser.add_argument("--of-files", type=int, default=ROWS_OF_FILES, help="rows in the files")
    parser.add_argument("--of-cores", type=int, default=ROWS_OF_CORES, help="rows for Spark")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="10⁷ rows and 10⁴ parts, too")
    parser.add_argument("--json", type=Path, help="a file for what was found")
    parser.add_argument("--write", type=Path, nargs="?", const=STORED, help="see above")
    options = parser.parse_args(words)
    if options.large:
        options.rows.append(10_000_000)
        options.parts.append(10_000)
    return options


def _end(*_: object) -> None:
    """End, and stop what was started; another signal must not keep it from that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main() -> int:
    """Measure and print, or write the page."""
    options = options_of()
    if options.write is not None:
        write(options.write)
        return 0
    signal.signal(signal.SIGTERM, _end)
    document = measured(options)
    show(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
