"""DataFrames of hostile values of every type are stored equal, or rejected with their row.

A DataFrame has a column of each type; of each row one is hostile, the others are null.
"""

import json
import os
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from strata.ingest.quarantine import rejected
from strata.ingest.twin import from_python
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.types import parse_type
from strata.spark import write
from strata.store.open import open_stores
from tests.support.sizes import tries
from tests.wall import typed
from tests.wall.cells import TYPES, Failure, same
from tests.wall.kept import unexcused
from tests.wall.packed import FOREIGN, as_avro
from tests.wall.rows import outcome
from tests.wall.world import stored_columns

pytestmark = pytest.mark.spark
# Values of each type, in some of the types that Spark has for it; 40 rounds of 250 make 10,000.
ROUNDS = int(os.environ.get("STRATA_WALL_ROUNDS", tries(2, 4)))
VALUES = tries(30, 250)


def spark_holds(arrow_type: pa.DataType) -> bool:
    """Tell whether a DataFrame has a column of an Arrow type."""
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit != "us":
        return False
    inner = [arrow_type.field(n).type for n in range(arrow_type.num_fields)]
    foreign = any(belongs(arrow_type) for belongs in FOREIGN if belongs != pa.types.is_duration)
    return not foreign and all(map(spark_holds, inner))


def chosen(name: str, number: int) -> pa.DataType:
    some = [one for one in typed.arrow_types(parse_type(name)) if spark_holds(one)]
    some = [one for one in some if not pa.types.is_duration(one) or one.unit == "us"]
    return some[number % len(some)]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_dataframes_of_hostile_values(number: int, spark: SparkSession, tmp_path: Path) -> None:
    types = {name: chosen(name, number) for name in TYPES}
    draw = Random(f"spark {number}")
    names = [f"c{n}" for n in range(len(TYPES))]
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    settings = Settings(store=store)
    stores = open_stores(store)
    columns = [{"name": "id", "type": "int64", "nullable": False}]
    columns += [{"name": c, "type": t} for c, t in zip(names, TYPES, strict=True)]
    source = {"paths": ["in/"], "format": "parquet", "max_rejected": 1.0}
    spec = {"name": "s", "columns": columns, "key": ["id"], "source": source}
    Machine(stores).create(parse_spec(spec))
    expected: list[tuple[str, str, Any, Any, bool]] = []
    arrays: list[pa.Array] = []
    total = len(TYPES) * VALUES
    for n, (name, arrow_type) in enumerate(types.items()):
        column_type = parse_type(name)
        promised = typed.same_family(column_type, arrow_type)
        values = []
        for _ in range(VALUES):
            value = distinct(typed.value(draw, arrow_type, column_type), arrow_type)
            read = outcome(lambda v=value, a=arrow_type, c=column_type: from_python(v, a, c))
            expected.append((name, names[n], value, read, promised))
            values.append(value)
        padded = [*[None] * (n * VALUES), *values, *[None] * (total - (n + 1) * VALUES)]
        arrays.append(pa.array(padded, arrow_type))
    table = pa.table([pa.array(range(total), pa.int64()), *arrays], ["id", *names])

    frame = spark.createDataFrame(table)
    write(frame, "s", lower=0, upper=10, config=settings)

    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for part in stored_columns(stores, Machine(stores).load("s")):
        for row in range(len(part["id"])):
            found[part["id"][row]].append({c: part[c][row] for c in names})
    rejects: dict[int, list[Any]] = defaultdict(list)
    for one in rejected(stores, "s"):
        for row in one.rows:
            rejects[json.loads(row["raw"])["id"]].append(row)
    failures = []
    for row, (name, column, value, read, promised) in enumerate(expected):
        got = fault(found.get(row, []), rejects.get(row, []), column, read, promised)
        if got is not None:
            text = f"{types[name]}: {value!r}"
            failures.append(Failure(name, "spark", text[:300], repr(read)[:300], got[:300]))
    assert unexcused(failures)[:10] == []


def distinct(value: Any, arrow_type: pa.DataType) -> Any:
    """Return a value whose maps have each key once: Spark refuses others."""
    if value is None:
        return None
    if pa.types.is_map(arrow_type):
        return list(as_avro(value, arrow_type).items())
    return value


def fault(found: list[Any], rejects: list[Any], column: str, read: Any, promised: bool) -> Any:
    if len(found) + len(rejects) != 1:
        return f"stored {len(found)} times, rejected {len(rejects)} times"
    unreadable = isinstance(read, Exception)
    if rejects:
        if promised and not unreadable:
            return f"rejected: {rejects[0]['reason']}"
        return None if rejects[0]["column_name"] == column else f"rejected in {rejects[0]}"
    if type(read).__name__ == "Undecided":
        return None
    value = found[0][column]
    return None if not unreadable and same(value, read) else f"stored as {value!r}"
