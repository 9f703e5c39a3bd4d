"""What it costs that ingest looks twice: shards that verify always against shards that never do.

    python -m benchmarks.verify [--rows 400000] [--rounds 5]

Files of several shapes, each ingested in turns (never, always) in one process without Spark, into a
local folder, in the layout `both`. CPU seconds of all threads, medians; bytes are what is read
from the store again.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

import psutil

from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.store.open import open_stores

NUMBERS: Final = count()
WIDE: Final = 60  # columns
WAYS: Final = ("never", "always")


@dataclass(frozen=True)
class Shape:
    """One kind of file."""

    name: str
    form: str
    columns: Mapping[str, str]
    rows: float  # of those asked for
    line: Callable[[Random, int], str]


def narrow(random: Random, row: int) -> str:
    """Return a line of CSV of six columns."""
    price = random.randint(100, 10**7) / 100
    day = f"2020-01-{row % 28 + 1:02}"
    return f"{row},{random.randint(1, 10**6)},{price},{'ABCDE'[row % 5]},{day},text {row % 9973}"


def wide(random: Random, row: int) -> str:
    """Return a line of CSV of very many columns."""
    return ",".join([str(row), *(f"{random.random():.6}" for _ in range(WIDE))])


def nested(random: Random, row: int) -> str:
    """Return a line of JSON with a list, a record and a document."""
    tags = [f"t{random.randint(0, 99)}" for _ in range(row % 5)]
    place = {"lat": random.random(), "note": f"n{row % 1000}"}
    document = {"a": {"b": [1, 2.5, None]}, "k": row % 77, "s": "x" * (row % 40)}
    return json.dumps({"id": row, "tags": tags, "place": place, "doc": document})


SHAPES: Final = (
    Shape(
        "narrow CSV", "csv",
        {"id": "int64", "k": "int32", "price": "numeric(12,2)", "flag": "string", "day": "date",
         "comment": "string"}, 1.0, narrow,
    ),
    Shape(
        "wide CSV", "csv", {"id": "int64", **{f"c{n}": "float64" for n in range(WIDE)}}, 0.1, wide
    ),
    Shape(
        "nested JSON lines", "jsonl",
        {"id": "int64", "tags": "list<string>", "place": "record<lat: float64, note: string>",
         "doc": "jsonb"}, 0.25, nested,
    ),
    Shape("one row of CSV", "csv", {"id": "int64", "k": "int32"}, 0.0, lambda _, row: f"{row},1"),
)  # fmt: skip


def lay_out(root: Path, shape: Shape, rows: int) -> Path:
    """Write one file."""
    random = Random(shape.name)
    path = root / f"{shape.name.replace(' ', '-')}.{shape.form}"
    head = [",".join(shape.columns)] if shape.form == "csv" else []
    lines = [shape.line(random, row) for row in range(max(1, round(rows * shape.rows)))]
    path.write_text("\n".join([*head, *lines]) + "\n")
    return path


def once(root: Path, shape: Shape, path: Path, way: str) -> tuple[float, int, int]:
    """Ingest a file into a new shard; return CPU seconds, bytes stored, rows verified."""
    number = next(NUMBERS)
    store = StoreSettings(f"file://{root}/blob-{number}", f"memory://verify-{number}", str(root))
    stores = open_stores(store)
    columns = [{"name": name, "type": kind} for name, kind in shape.columns.items()]
    source = {"format": shape.form, "verify": way}
    spec = {"name": "s", "columns": columns, "key": ["id"], "source": source}
    Machine(stores).create(parse_spec(spec))
    began = time.process_time()
    report = ingest(stores, Settings(store), "s", paths=[str(path)], lower=0, upper=1)
    return time.process_time() - began, report.size_bytes, report.counts.verified


def main() -> None:
    """Print a line for each shape."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(
        f"{'file':20}{'MiB':>8}{'never, s':>10}{'always, s':>10}{'ratio':>7}{'rows':>6}"
        f"{'MiB read again':>16}  load {psutil.getloadavg()[0]:.0f}"
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for shape in SHAPES:
            path = lay_out(root, shape, arguments.rows)
            for way in WAYS:  # compilers and caches
                once(root, shape, path, way)
            pairs = [
                [once(root, shape, path, way) for way in WAYS] for _ in range(arguments.rounds)
            ]
            never, always = (statistics.median(p[n][0] for p in pairs) for n in range(2))
            _, size, rows = pairs[0][1]
            print(
                f"{shape.name:20}{path.stat().st_size / 2**20:>8.1f}{never:>10.3f}{always:>10.3f}"
                f"{always / never:>7.2f}{rows:>6}{size / 2**20:>16.1f}"
            )


if __name__ == "__main__":
    main()
