"""What the sort order is worth: parts that filters skip before and after a change of order.

    python -m benchmarks.clustering

A shard of 200,000 rows in small parts, keyed by a number, is compacted, sorted by city,
migrated; then the same for a shard of 1,000 collections. Counts parts and bytes that a read
fetches, and the CPU time of the migration; in memory stores.
"""

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Literal
from strata.expr.nodes import Column as Ref
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import ColumnSpec, ShardSpec
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.parts.write import write_batch, write_parts
from strata.read.collections import create_collections, planned_collection
from strata.state.schema import SortBy
from strata.state.state import State
from strata.store.keys import part_prefix
from strata.store.open import Stores, open_stores
from strata.updates.order import sort_updates

ROWS, BATCHES, CITIES, COLLECTIONS = 200_000, 8, 500, 1_000
TEXT, INT = parse_type("string"), parse_type("int64")


def filled(
    name: str, key: tuple[str, ...], part_bytes: int, words: Callable[[np.ndarray], list[str]]
) -> Stores:
    """Return a shard (id, word, n) in memory, appended in a few batches."""
    stores = open_stores(StoreSettings(f"memory://{name}", f"memory://{name}"))
    columns = (
        ColumnSpec("id", INT),
        ColumnSpec("word", TEXT, nullable=False),
        ColumnSpec("n", INT),
    )
    spec = ShardSpec(name, columns, key, part_bytes=part_bytes, row_group_bytes=65_536)
    machine = Machine(stores)
    relation = machine.create(spec).relation
    for batch in range(BATCHES):
        ids = np.arange(batch, ROWS, BATCHES)
        _append(machine, spec, relation, batch, pa.table(
            {"1": ids, "2": words(ids), "3": ids * 7919 % 10_007,
             "t": np.full(len(ids), batch), "d": np.ones(len(ids), np.int64)}
        ))  # fmt: skip
    return stores


def _append(
    machine: Machine, spec: ShardSpec, relation: Relation, number: int, rows: pa.Table
) -> None:
    blob, prefix = machine.stores.blob, part_prefix(spec.name)
    parts = write_parts(
        blob,
        prefix,
        [sort_updates(rows, relation)],
        relation,
        layout="structured",
        description=Description(number, number + 1, MIN_TIME),
        part_bytes=spec.part_bytes,
        row_group_bytes=spec.group_bytes,
        stats_spec=spec.stats,
    )
    batch = write_batch(blob, spec.name, parts, number, number + 1, MIN_TIME)
    machine.append(spec.name, token=str(number), lower=number, upper=number + 1, batch=batch)


def share(stores: Stores, state: State, column: Column, prefix: str) -> str:
    """Return what a read with `word like 'prefix%'` fetches of all parts."""
    ref = Ref(column.id, column.name, "string")
    expr = Call("starts_with", (ref, Literal(prefix, "string")), "boolean")
    made = plan_read(stores, state, filter=Filter(expr, f"word like '{prefix}%'", 0, 0), mode="on")
    return (
        f"{made.parts_fetched} of {made.parts_total} parts, "
        f"{made.bytes_fetched:,} of {made.bytes_total:,} bytes"
    )


def cities(ids: np.ndarray) -> list[str]:
    """Return a city for each row, in no order."""
    return [f"city {i * 7 % CITIES:03}" for i in ids]


def tenants(ids: np.ndarray) -> list[str]:
    """Return a collection for each row, in no order."""
    return [f"tenant-{i * 31 % COLLECTIONS:04}" for i in ids]


def main() -> None:
    """Measure and print."""
    stores = filled("sorting", ("id",), 65_536, cities)
    machine, settings = Machine(stores), Settings()
    compact_shard(stores, "sorting", settings, full=True)
    word = machine.load("sorting").relation.column("word")
    for prefix in ("city 04", "city 042"):
        found = share(stores, machine.load("sorting"), word, prefix)
        print(f"sorted by id,   word like '{prefix}%': {found}")
    machine.evolve("sorting", SortBy(("word",)))
    began = time.process_time()
    compact_shard(stores, "sorting", settings, migrate=True)
    print(f"migrated: {ROWS / (time.process_time() - began):,.0f} rows/s of CPU time")
    for prefix in ("city 04", "city 042"):
        found = share(stores, machine.load("sorting"), word, prefix)
        print(f"sorted by word, word like '{prefix}%': {found}")

    names = [f"tenant-{i:04}" for i in range(COLLECTIONS)]
    stores = filled("many", ("word", "id"), 16_384, tenants)
    machine = Machine(stores)
    create_collections(machine, "many", names)
    for when in ("before", "after"):
        state = machine.load("many")
        reads = [planned_collection(stores, state, name) for name in names[::10]]
        shares = [read.plan.parts_fetched / read.parts_total for read in reads]
        began = time.process_time()
        planned_collection(stores, state, names[5])
        spent = time.process_time() - began
        print(
            f"one of {COLLECTIONS:,} collections {when} compaction: "
            f"{100 * np.median(shares):.2f} % of {reads[0].parts_total} parts, "
            f"{100 * max(shares):.2f} % at most; planned in {1000 * spent:.0f} ms"
        )
        compact_shard(stores, "many", settings, full=True)


if __name__ == "__main__":
    main()
