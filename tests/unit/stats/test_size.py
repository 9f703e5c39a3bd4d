"""The cheap measure agrees with what manifests really take."""

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import collect, concat, encoded_size, encoded_sizes
from strata.stats.size import column_bits
from tests.support.facts import canonical

TYPES = ["int64", "timestamptz", "float64", "numeric(10,2)", "date", "string", "jsonb", "bool"]
RELATION = Relation(0, tuple(Column(i, t, parse_type(t)) for i, t in enumerate(TYPES, 1)), (1,), ())
PARTS = 400


def part(number: int, rng: random.Random) -> pa.RecordBatch:
    """Return the statistics of a part as a shard of events has them: times follow each other."""
    rows = rng.randint(5, 30)
    day = 1_356_998_400_000_000 + number * 86_400_000_000
    documents = [{"delay": rng.randint(-20, 500), "tail": f"N{rng.randint(0, 9999)}"}] * rows
    arrays = [
        pa.array([rng.randint(0, 10**6) for _ in range(rows)], pa.int64()),
        pa.array([day + rng.randint(0, 10**9) for _ in range(rows)], pa.timestamp("us", "UTC")),
        pa.array([rng.random() for _ in range(rows)]),
        pa.array([Decimal(rng.randint(0, 10**7)) / 100 for _ in range(rows)], pa.decimal128(10, 2)),
        pa.array([15706 + number] * rows, pa.int32()).cast(pa.date32()),
        pa.array([rng.choice(["UA", "AA", "DL", "B6"]) for _ in range(rows)]),
        pa.array([canonical(d) for d in documents]),
        pa.array([rng.random() < 0.5 for _ in range(rows)]),
    ]
    return collect(pa.table(arrays, names=[str(c.id) for c in RELATION.columns]), RELATION)


def stored_bytes(table: pa.Table) -> int:
    """Return the size of a table as manifests are stored."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return int(sink.getvalue().size)


def test_the_measure_is_within_a_third_of_a_stored_manifest() -> None:
    rng = random.Random(7)
    stats = [part(number, rng) for number in range(PARTS)]
    table = concat(stats, [row["rows"][0].as_py() for row in stats])

    real = (stored_bytes(table) - stored_bytes(table.slice(0, 1))) / (PARTS - 1)
    measured = encoded_sizes(table).mean()

    assert real * 0.67 < measured < real * 1.5


WIDE = ["uuid", "interval", "uint64", "uint8", "record<lat: float64, n: uint32>", "list<int32>"]
WIDE_RELATION = Relation(
    0, tuple(Column(i, t, parse_type(t)) for i, t in enumerate(WIDE, 1)), (1,), ()
)


def wide_part(rng: random.Random) -> pa.RecordBatch:
    """Return the statistics of a part of values of a fixed width, and nested ones."""
    count = rng.randint(5, 30)
    rows = range(count)
    months = [(2**31 + rng.randint(0, 99)).to_bytes(4, "big") for _ in rows]
    arrays = [
        pa.array([rng.randbytes(16) for _ in rows], pa.binary(16)),
        pa.array([m + b"\x80\0\0\0\x80" + bytes(7) for m in months], pa.binary(16)),
        pa.array([rng.randint(2**63, 2**64 - 1) for _ in rows], pa.uint64()),
        pa.array([rng.randint(0, 255) for _ in rows], pa.uint8()),
        pa.array(
            [{"lat": rng.random(), "n": rng.randint(0, 2**32 - 1)} for _ in rows],
            pa.struct([("lat", pa.float64()), ("n", pa.uint32())]),
        ),
        pa.array([[rng.randint(0, 99)] * rng.randint(0, 3) for _ in rows], pa.list_(pa.int32())),
    ]
    return collect(
        pa.table(arrays, names=[str(c.id) for c in WIDE_RELATION.columns]), WIDE_RELATION
    )


def test_values_of_a_fixed_width_and_nested_ones_are_measured_alike() -> None:
    rng = random.Random(7)
    stats = [wide_part(rng) for _ in range(PARTS)]
    table = concat(stats, [row["rows"][0].as_py() for row in stats])

    real = (stored_bytes(table) - stored_bytes(table.slice(0, 1))) / (PARTS - 1)

    assert real * 0.67 < encoded_sizes(table).mean() < real * 1.5


def test_unsigned_numbers_cost_their_significant_bytes() -> None:
    values = pa.array([0, 1, 255, 256, 2**56 - 1, 2**56, 2**64 - 1, None], pa.uint64())
    column = pa.StructArray.from_arrays([values], ["low"])

    assert (column_bits(column) - 1).tolist() == [0, 8, 8, 16, 56, 64, 64, 0]


def test_signed_numbers_cost_as_much_as_their_complement() -> None:
    values = [0, 1, -1, 127, 128, -128, -129, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63)]
    column = pa.StructArray.from_arrays([pa.array([*values, None], pa.int64())], ["low"])

    bits = [0, 8, 8, 8, 16, 8, 16, 32, 40, 32, 64, 64, 0]
    assert (column_bits(column) - 1).tolist() == bits


def test_an_empty_row_costs_nothing() -> None:
    assert encoded_size(concat([None], [7]).to_batches()[0]) == 0


EDGES = [
    0,
    1,
    -1,
    *(s * (1 << n) + d for n in (7, 8, 15, 31, 32, 62) for s in (1, -1) for d in (-1, 0)),
]
INTEGERS = [pa.int64(), pa.duration("us"), pa.timestamp("us"), pa.timestamp("us", "UTC")]


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_one_number_has_the_size_that_it_has_among_many(kind: pa.DataType) -> None:
    column = pa.StructArray.from_arrays([pa.array(EDGES).cast(kind)], ["low"])
    assert [int(column_bits(column[n : n + 1])[0]) for n in range(len(column))] == list(
        column_bits(column)
    )
