"""How fast statistics are collected, united and trimmed: `python benchmarks/stats.py [ROWS]`.

One process, best of three; the machine's other work shows. JSON is compared with the least that
any exact way must do: parsing each row with orjson. What flat and nested statistics cost is a
share of writing the part that they are of: both are timed in turns, A B A B, and the shares are
told apart by layout. The least that any collection must do is to read every value once.
"""

import random
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import orjson
import pyarrow as pa

from strata.format.columns import D, T, updates_schema
from strata.format.part import Description, EncodedPart, encode_part
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import collect, concat, encoded_sizes, trim, trim_table, union
from strata.stats.json import collect_json

TYPES = ("int64", "int32", "float64", "bool", "date", "timestamptz", "numeric(12,2)", "string")
JSON = Relation(0, (Column(1, "payload", parse_type("jsonb")),), (1,), ())
NESTED_TYPES = (
    "int64",
    "record<lat: float64, lon: float64>",
    "list<int32>",
    "map<int32>",
    "numeric",
)
NESTED = Relation(
    0, tuple(Column(i, t, parse_type(t)) for i, t in enumerate(NESTED_TYPES, 1)), (1,), ()
)
RELATION = Relation(0, tuple(Column(i, t, parse_type(t)) for i, t in enumerate(TYPES, 1)), (1,), ())


def main(rows: int) -> None:
    """Print one line for each measurement."""
    rng = random.Random(1)
    flat, texts = flat_rows(rows, rng), documents(rows, rng)
    raw = texts.cast(pa.binary()).to_pylist()
    report("flat, 8 columns", rows, lambda: collect(flat, RELATION))
    report("orjson parse alone", rows, lambda: [orjson.loads(row) for row in raw])
    report("json, 7 paths", rows, lambda: collect_json(texts, 1))
    write_shares("flat", flat, RELATION)
    write_shares("nested", nested_rows(rows // 4, rng), NESTED)
    stats = [collect(flat.slice(i * 50, 50), RELATION) for i in range(min(1000, rows // 50))]
    table = concat(stats, [50] * len(stats))
    report("concat, parts", len(stats), lambda: concat(stats, [50] * len(stats)))
    report("union, parts", len(stats), lambda: union(table))
    report("encoded sizes, parts", len(stats), lambda: encoded_sizes(table))
    some = stats[:50]
    report("trim to 64 bytes, parts", 50, lambda: [trim(s, RELATION, 64, ()) for s in some])
    report("trim a table, parts", len(stats), lambda: trim_table(table, RELATION, 64, ()))
    mixed = [collect(pa.table([texts.slice(i * 50, 50)], names=["1"]), JSON) for i in range(50)]
    report("trim JSON to 64 bytes, parts", 50, lambda: [trim(s, JSON, 64, ()) for s in mixed])
    json_table = concat(mixed * 20, [50] * 1000)
    report("trim a JSON table, parts", 1000, lambda: trim_table(json_table, JSON, 64, ()))


def write_shares(name: str, updates: pa.Table, relation: Relation) -> None:
    """Print what collecting and trimming take, as a share of encoding the part, by layout."""
    updates = updates.append_column(T, pa.repeat(0, updates.num_rows))
    updates = updates.append_column(D, pa.repeat(1, updates.num_rows)).cast(
        updates_schema(relation)
    )
    reading = min(_seconds(lambda: read_once(updates)) for _ in range(3))
    for layout in ("structured", "both"):
        shares, costs = [], []
        for _ in range(5):
            written = _seconds(lambda: encode(updates, relation, layout))  # noqa: B023
            costs.append(_seconds(lambda: trim(collect(updates, relation), relation, 1024, ())))
            shares.append(costs[-1] / written)
        sys.stdout.write(
            f"{name} statistics on top of {layout:10} {median(shares):>8.1%} of writing "
            f"({min(shares):.1%} to {max(shares):.1%}); {min(costs) / reading:.1f} x reading once\n"
        )


def encode(updates: pa.Table, relation: Relation, layout: str) -> EncodedPart:
    """Return the part of the updates."""
    description = Description(0, 1, 0)
    return encode_part(updates, relation, layout, description=description, row_group_bytes=16 << 20)


def read_once(updates: pa.Table) -> None:
    """Read every byte of the values once: the physical limit."""
    for column in updates.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None and buffer.size >= 8:
                    np.frombuffer(buffer, np.int64, buffer.size // 8).max()


def nested_rows(rows: int, rng: random.Random) -> pa.Table:
    """Return updates of nested columns: a record, a list, a map, a numeric without precision."""
    numbers = pa.array([rng.randint(0, 10**9) for _ in range(rows)], pa.int64())
    floats = numbers.cast(pa.float64())
    record = pa.StructArray.from_arrays([floats, floats], ["lat", "lon"])
    starts = pa.array(range(0, 3 * rows + 1, 3), pa.int32())
    items = pa.array([rng.randint(0, 10**6) for _ in range(3 * rows)], pa.int32())
    words = pa.array(["a", "b", "c"] * rows)
    packed = pa.array([bytes(40)] * rows, pa.binary(40))
    numeric = pa.StructArray.from_arrays([floats, packed], ["approx", "binary"])
    arrays = [
        numbers,
        record,
        pa.ListArray.from_arrays(starts, items),
        pa.MapArray.from_arrays(starts, words, items),
        numeric,
    ]
    return pa.table(arrays, names=[str(i) for i in range(1, len(arrays) + 1)])


def flat_rows(rows: int, rng: random.Random) -> pa.Table:
    """Return updates of every scalar kind."""
    numbers = pa.array([rng.randint(0, 10**9) for _ in range(rows)], pa.int64())
    small = pa.array([rng.randint(0, 10**6) for _ in range(rows)], pa.int32())
    arrays = [
        numbers,
        small,
        pa.array([rng.random() for _ in range(rows)]),
        pa.array([rng.random() < 0.5 for _ in range(rows)]),
        small.cast(pa.date32()),
        numbers.cast(pa.timestamp("us", "UTC")),
        small.cast(pa.decimal128(12, 2)),
        numbers.cast(pa.string()),
    ]
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
