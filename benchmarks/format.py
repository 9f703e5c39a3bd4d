"""How fast rows are encoded and decoded, against the protobuf library a row at a time.

    .venv/bin/python -m benchmarks.format [--rounds 5] [--rows 65536] [--json]

Contenders take turns (A B A B ...), so that a noisy machine troubles all of them alike; printed
are medians and the ratio of medians in this very run. The data are 10 mixed columns, half of them
with nulls, some 130 bytes a row in the codec. "both / structured" is what writing both halves of
a part costs beside the columns only.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from strata.format.columns import updates_schema
from strata.format.digest import content_digest
from strata.format.part import Description, encode_part, read_part
from strata.format.rowcodec.codec import decode_rows, encode_rows
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from tests.support.plain import plain
from tests.unit.format.rowcodec.proto import Row, encode_row

TWIN_ROWS = 4_096  # the twin is slow: it gets fewer rows, its time is per row
ROW_GROUP_BYTES = 8 * 1024 * 1024
TYPES = (
    "int64",
    "string",
    "float64",
    "timestamptz",
    "int32",
    "numeric(10,2)",
    "date",
    "bool",
    "jsonb",
    "int16",
)
RELATION = Relation(
    0, tuple(Column(i, f"c{i}", parse_type(t)) for i, t in enumerate(TYPES, 1)), (1, 2), ()
)
COLUMN_TYPES = [column.type for column in RELATION.columns]


def make_updates(rows: int) -> pa.Table:
    """Return `rows` updates with the same values in every run."""
    random = np.random.default_rng(1)

    def some_null() -> Any:
        return random.random(rows) < 0.1

    words = ["alpha", "beta", "gamma-delta", "some longer text here", "x"]
    cents = pa.array(random.integers(0, 10**7, rows)).cast(pa.decimal128(19, 0))
    payloads = [
        f'{{"a":{n},"b":"{words[n % 5]}"}}' for n in random.integers(0, 1000, rows).tolist()
    ]
    columns = [
        pa.array(random.integers(0, 10**9, rows)),
        pa.array([f"{n:016x}" for n in random.integers(0, 2**60, rows).tolist()]),
        pa.array(random.random(rows), mask=some_null()),
        pa.array(random.integers(13 * 10**14, 16 * 10**14, rows), mask=some_null()).cast(
            pa.timestamp("us", "UTC")
        ),
        pa.array(random.integers(-1000, 10**6, rows).astype("i4")),
        pa.Array.from_buffers(pa.decimal128(10, 2), rows, cents.buffers()),
        pa.array(random.integers(0, 20_000, rows).astype("i4"), mask=some_null()).cast(pa.date32()),
        pa.array(random.random(rows) < 0.5, mask=some_null()),
        pa.array(payloads, mask=some_null()),
        pa.array(random.integers(0, 100, rows).astype("i2")),
        pa.array(np.arange(rows) // 100),
        pa.array(np.ones(rows, np.int64)),
    ]
    return pa.Table.from_arrays(columns, schema=updates_schema(RELATION))


def twin_rows(columns: list[pa.Array]) -> list[tuple[Any, ...]]:
    """Return the first rows as the physical values that the twin encodes."""
    physical = []
    for array, column_type in zip(columns, COLUMN_TYPES, strict=True):
        values = plain(array.slice(0, TWIN_ROWS))
        if pa.types.is_decimal(array.type):
            values = [None if v is None else int(v.scaleb(column_type.scale or 0)) for v in values]
        elif pa.types.is_floating(array.type):
            values = [None if v is None else int.from_bytes(v, "little") for v in values]
        elif pa.types.is_string(array.type):
            values = [None if v is None else v.encode() for v in values]
        physical.append(values)
    return list(zip(*physical, strict=True))


def encode_twin(rows: list[list[tuple[str, Any]]]) -> list[bytes]:
    """Return rows as protobuf makes them of values already taken apart: (field, value) pairs.

    The work of turning a value into fields (a date into year and day) is not counted.
    """
    out = []
    for values in rows:
        row = Row()
        add = row.datums.add
        for name, value in values:
            if type(value) is tuple:
                message = getattr(add(), name)
                if name == "date":
                    message.year, message.ordinal = value
                elif name == "numeric":
                    message.bcd, message.scale = value
                else:
                    date, clock = message.date, message.time
                    date.year, date.ordinal, clock.secs, clock.frac = value
            else:
                setattr(add(), name, value)
        out.append(row.SerializeToString())
    return out


def taken_apart(rows: list[bytes]) -> list[list[tuple[str, Any]]]:
    """Return what `encode_twin` needs to make these rows again."""
    out = []
    for row in rows:
        values: list[tuple[str, Any]] = []
        for datum in Row.FromString(row).datums:
            name = datum.WhichOneof("kind")
            value = getattr(datum, name)
            if name == "date":
                value = (value.year, value.ordinal)
            elif name == "numeric":
                value = (value.bcd, value.scale)
            elif name.startswith("timestamp"):
                value = (value.date.year, value.date.ordinal, value.time.secs, value.time.frac)
            values.append((name, value))
        out.append(values)
    return out


def decode_twin(rows: list[bytes]) -> list[list[Any]]:
    """Return each row's values by the protobuf library, dates and the like not put together."""
    out = []
    for row in rows:
        values = []
        for datum in Row.FromString(row).datums:
            kind = datum.WhichOneof("kind")
            values.append(getattr(datum, kind))
        out.append(values)
    return out


def contenders(updates: pa.Table) -> dict[str, tuple[int, Callable[[], object]]]:
    """Return what is measured: rows worked on, and the work."""
    columns = [updates[str(c.id)].combine_chunks() for c in RELATION.columns]
    rows = len(columns[0])
    few, encoded = twin_rows(columns), encode_rows(columns, COLUMN_TYPES)
    few_encoded = encoded.slice(0, TWIN_ROWS).to_pylist()
    assert few_encoded == [encode_row(row, COLUMN_TYPES) for row in few]
    fields = taken_apart(few_encoded)
    assert few_encoded == encode_twin(fields)

    def write(layout: str) -> bytes:
        return encode_part(
            updates,
            RELATION,
            layout,
            description=Description(0, rows, 0),
            row_group_bytes=ROW_GROUP_BYTES,
        ).data

    both = write("both")

    def read(read_format: str) -> int:
        return sum(b.num_rows for b in read_part(both, RELATION, read_format=read_format))

    return {
        "encode, protobuf": (TWIN_ROWS, lambda: encode_twin(fields)),
        "encode, columns": (rows, lambda: encode_rows(columns, COLUMN_TYPES)),
        "decode, protobuf": (TWIN_ROWS, lambda: decode_twin(few_encoded)),
        "decode, columns": (rows, lambda: decode_rows(encoded, COLUMN_TYPES)),
        "write structured": (rows, lambda: write("structured")),
        "write both": (rows, lambda: write("both")),
        "write row": (rows, lambda: write("row")),
        "read structured": (rows, lambda: read("structured")),
        "read row": (rows, lambda: read("row")),
        "digest": (rows, lambda: content_digest(updates, RELATION)),
    }


RATIOS = {
    "encode: columns / protobuf": ("encode, columns", "encode, protobuf"),
    "decode: columns / protobuf": ("decode, columns", "decode, protobuf"),
    "dual write: time of both / structured": ("write structured", "write both"),
    "read: time of row / structured": ("read structured", "read row"),
}


def main() -> None:
    """Run the rounds and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=65_536, help=f"at least {TWIN_ROWS}")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    work = contenders(make_updates(args.rows))
    speeds: dict[str, list[float]] = {name: [] for name in work}
    gc.disable()  # a collection would be counted for one contender by chance
    for round_number in range(args.rounds + 1):
        for name, (rows, run) in work.items():
            gc.collect()
            start = time.process_time()
            run()
            if round_number:  # the first round warms up
                speeds[name].append(rows / (time.process_time() - start) / 1e6)
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    ratios = {name: medians[a] / medians[b] for name, (a, b) in RATIOS.items()}
    if args.json:
        json.dump({"rows_per_us": medians, "ratios": ratios}, sys.stdout, indent=2)
        return
    for name, values in speeds.items():
        print(f"{name:24}{medians[name]:8.3f} M rows/s   ({min(values):.3f} to {max(values):.3f})")
    for name, ratio in ratios.items():
        print(f"{name:42}{ratio:6.1f}x")


if __name__ == "__main__":
    main()
