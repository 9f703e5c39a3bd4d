"""Tables of Iceberg that are partitioned by transforms, also after these were changed."""

import random
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from strata.adopt.iceberg import IcebergPeer
from strata.decide.plan import plan_read
from strata.machine.machine import Machine
from strata.model.spec import parse_spec
from strata.read.scan import scan
from tests.support.adopted import NAME, Mirror

MOMENTS = ["1969-12-31T23:59:59.999999", "0001-01-01", "9999-12-31T23:00:00"]
VALUES: dict[str, tuple[str, Any, pa.DataType, list[Any]]] = {
    "id": ("int64", LongType(), pa.int64(), [*range(-30, 30)]),
    "s": (
        "string",
        StringType(),
        pa.string(),
        ["", "a", "ab", "abc", "äöü", "日本語", "a/b", "%4"],
    ),
    "when": (
        "timestamp",
        TimestampType(),
        pa.timestamp("us"),
        [*map(datetime.fromisoformat, MOMENTS)],
    ),
    "p": ("numeric(9,2)", DecimalType(9, 2), pa.decimal128(9, 2), [Decimal("-0.01"), Decimal(7)]),
    "day": ("date", DateType(), pa.date32(), [date(1969, 12, 31), date(2024, 2, 29)]),
    "z": (
        "timestamptz",
        TimestamptzType(),
        pa.timestamp("us", "UTC"),
        [datetime(1969, 12, 31, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)],
    ),
}
NAMES = [*VALUES]
SPECS: dict[str, list[tuple[str, Transform[Any, Any]]]] = {
    "bucket": [("id", BucketTransform(4)), ("s", BucketTransform(3))],
    "truncate": [("s", TruncateTransform(2)), ("id", TruncateTransform(10))],
    "decimal": [("p", TruncateTransform(100))],
    "times": [("when", MonthTransform()), ("z", YearTransform())],
    "day and hour": [("day", DayTransform()), ("when", HourTransform())],
    "identity": [("s", IdentityTransform()), ("p", IdentityTransform())],
    "void": [("s", VoidTransform()), ("id", BucketTransform(2))],
}


def some_rows(draw: random.Random, number: int) -> pa.Table:
    columns = [
        pa.array([draw.choice([None, *some]) for _ in range(number)], kind)
        for _, _, kind, some in VALUES.values()
    ]
    return pa.table(columns, names=NAMES)


def changed(draw: random.Random, table: Table, first: str) -> None:
    """Change a table as its users do."""
    match draw.choice(["append", "delete", "overwrite", "spec"]):
        case "append":
            table.append(some_rows(draw, draw.randint(1, 12)))
        case "delete":
            table.delete(draw.choice([f"id = {draw.randint(-30, 30)}", "s is null", "id < 0"]))
        case "overwrite":
            table.overwrite(some_rows(draw, 3), overwrite_filter="id > 5")
        case "spec":
            with suppress(ValueError), table.update_spec() as update:  # it may be gone
                update.remove_field(first)
            table.append(some_rows(draw, 5))


def counted(batches: Sequence[pa.RecordBatch], *, diffs: bool) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            found[tuple(row[name] for name in NAMES)] += row["d"] if diffs else 1
    return found


def read(mirror: Mirror) -> Counter[tuple[Any, ...]]:
    state = Machine(mirror.stores).load(NAME)
    plan = plan_read(mirror.stores, state, as_of=state.upper - 1)
    return counted([*scan(mirror.stores, state, plan, consolidate=True)], diffs=True)


@pytest.mark.parametrize("name", SPECS)
def test_a_partitioned_table_is_adopted_at_each_version(tmp_path: Path, name: str) -> None:
    draw, address = random.Random(name), f"sqlite:///{tmp_path}/c.db"
    catalog = SqlCatalog("strata", uri=address, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    fields = [NestedField(i, n, v[1]) for i, (n, v) in enumerate(VALUES.items(), 1)]
    spec = [
        PartitionField(NAMES.index(column) + 1, 1000 + i, transform, f"f{i}")
        for i, (column, transform) in enumerate(SPECS[name])
    ]
    table = catalog.create_table("n.t", Schema(*fields), partition_spec=PartitionSpec(*spec))
    mirror = Mirror()
    columns = [{"name": n, "type": v[0]} for n, v in VALUES.items()]
    declared = {"name": NAME, "columns": columns, "source": {"max_rejected": 0.0}}
    Machine(mirror.stores).create(parse_spec(declared))

    table.append(some_rows(draw, 12))
    for _ in range(6):
        mirror.adopt(IcebergPeer.open("n.t", address))
        there = catalog.load_table("n.t").scan().to_arrow().to_batches()
        assert read(mirror) == counted(there, diffs=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a deletion that finds nothing
            changed(draw, table, spec[0].name)
