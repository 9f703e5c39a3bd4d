"""How fast statistics are collected, united and trimmed: `python benchmarks/stats.py [ROWS]`.

One process, best of three; the machine's other work shows. JSON is compared with the least that
any exact way must do: parsing each row with orjson.
"""

import random
import sys
import time
from collections.abc import Callable

import orjson
import pyarrow as pa

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import collect, concat, encoded_sizes, trim, union
from strata.stats.json import collect_json

TYPES = ("int64", "int32", "float64", "bool", "date", "timestamptz", "numeric(12,2)", "string")
RELATION = Relation(0, tuple(Column(i, t, parse_type(t)) for i, t in enumerate(TYPES, 1)), (1,), ())


def main(rows: int) -> None:
    """Print one line for each measurement."""
    rng = random.Random(1)
    flat, texts = flat_rows(rows, rng), documents(rows, rng)
    raw = texts.cast(pa.binary()).to_pylist()
    report("flat, 8 columns", rows, lambda: collect(flat, RELATION))
    report("orjson parse alone", rows, lambda: [orjson.loads(row) for row in raw])
    report("json, 7 paths", rows, lambda: collect_json(texts, 1))
    stats = [collect(flat.slice(i * 50, 50), RELATION) for i in range(min(1000, rows // 50))]
    table = concat(stats, [50] * len(stats))
    report("concat, parts", len(stats), lambda: concat(stats, [50] * len(stats)))
    report("union, parts", len(stats), lambda: union(table))
    report("encoded sizes, parts", len(stats), lambda: encoded_sizes(table))
    some = stats[:50]
    report("trim to 64 bytes, parts", 50, lambda: [trim(s, RELATION, 64, ()) for s in some])


def flat_rows(rows: int, rng: random.Random) -> pa.Table:
    """Return updates of every scalar kind."""
    numbers = pa.array([rng.randint(0, 10**9) for _ in range(rows)], pa.int64())
    small = pa.array([rng.randint(0, 10**6) for _ in range(rows)], pa.int32())
    arrays = [
        numbers, small, pa.array([rng.random() for _ in range(rows)]),
        pa.array([rng.random() < 0.5 for _ in range(rows)]), small.cast(pa.date32()),
        numbers.cast(pa.timestamp("us", "UTC")), small.cast(pa.decimal128(12, 2)),
        numbers.cast(pa.string()),
    ]  # fmt: skip
    return pa.table(arrays, names=[str(i) for i in range(1, len(TYPES) + 1)])


def documents(rows: int, rng: random.Random) -> pa.Array:
    """Return JSON texts of about 90 bytes: two strings, numbers, a nested map, some nulls."""
    return pa.array(
        orjson.dumps(
            {
                "carrier": rng.choice(["UA", "AA"]),
                "delay": rng.randint(-20, 500),
                "tail": f"N{rng.randint(0, 99999):05}",
                "cancelled": rng.random() < 0.1 or None,
                "w": {"temp": rng.random() * 50, "vis": rng.randint(0, 10)},
            }
        ).decode()
        for _ in range(rows)
    )


def report(name: str, items: int, work: Callable[[], object]) -> None:
    """Print how many items a second the work does, best of three."""
    best = min(_seconds(work) for _ in range(3))
    sys.stdout.write(f"{name:28} {items / best:>14,.0f} /s\n")


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
