"""A small real shard with every column type, mixed layouts and retractions, and its slow twin.

Three batches of five parts or so: the first in the old row format without statistics, then both
encodings, then columns only. The last batch takes back some rows of the first.
"""

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache, cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from strata.format.columns import D, T, updates_schema
from strata.format.part import Description
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import ShardSpec, StatsSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import WrittenPart, write_batch, write_parts
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores, open_stores
from strata.updates.order import sort_updates
from tests.support.climb import standing

NAME = "events"
START = datetime(2013, 1, 1, tzinfo=UTC)
UPPER = 3000
COLUMNS = {
    "id": "int64", "carrier": "string", "at": "timestamptz", "local": "timestamp", "day": "date",
    "price": "numeric(10,2)", "ratio": "float64", "small": "int16", "flag": "bool",
    "raw": "bytes", "payload": "jsonb", "level": "float32", "number": "int32",
}  # fmt: skip
LAYOUTS = ("row", "both", "structured")
Row = tuple[Any, ...]
Update = tuple[Row, int, int]


@dataclass(frozen=True)
class Events:
    """The shard and everything that was ever written to it."""

    settings: Settings
    updates: tuple[Update, ...]

    @cached_property
    def stores(self) -> Stores:
        return open_stores(self.settings.store)

    @property
    def state(self) -> State:
        return Machine(self.stores).load(NAME)

    def contents(
        self, as_of: int = UPPER - 1, keep: Callable[[dict[str, Any]], bool] = lambda _: True
    ) -> Counter[Row]:
        """Return how often each kept row is there at a time, in the obvious way."""
        found: Counter[Row] = Counter()
        for row, t, d in self.updates:
            if t <= as_of and keep(dict(zip(COLUMNS, row, strict=True))):
                found[row] += d
        return Counter({row: count for row, count in found.items() if count})


def spec() -> ShardSpec:
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    return parse_spec({"name": NAME, "columns": columns, "key": ["carrier", "id"]})


def event(number: int, draw: random.Random) -> Row:
    """Return one row: nulls in most columns now and then, days that follow the number."""
    at = START + timedelta(hours=number)
    row: list[Any] = [
        number, draw.choice(["AA", "B6", "UA", "WN"]), at, at.replace(tzinfo=None), at.date(),
        Decimal(number) / 4, number / 8, number % 100, number % 3 == 0,
        number.to_bytes(2, "big"), f'{{"n":{number},"s":"x{number % 7}"}}', number / 2, number * 3,
    ]  # fmt: skip
    for i in range(2, len(row)):
        if draw.random() < 0.05:
            row[i] = None
    return tuple(row)


def build(folder: Path, blob: str | None = None) -> Events:
    """Write the shard below `folder`, its blobs elsewhere if need be; return it with its twin."""
    blob = blob or f"file://{folder}/blob"
    settings = Settings(StoreSettings(blob, f"sqlite:///{folder}/consensus.db"))
    stores = open_stores(settings.store)
    state = Machine(stores).create(spec())
    updates: list[Update] = []
    draw = random.Random(7)
    for number, layout in enumerate(LAYOUTS):
        lower = 1000 * number
        new = [(event(100 * number + i, draw), lower + draw.randrange(1000), 1) for i in range(100)]
        if number == 2:
            new += [(row, lower + draw.randrange(1000), -1) for row, _, _ in updates[:100:9]]
        append(stores, state, new, lower, layout)
        updates += new
    return Events(settings, tuple(updates))


def copied(folder: Path) -> Events:
    """Return the shard of `build` below `folder`, a copy: it is written once a process.

    Cost: 20 ms instead of 2 s. Tests that change how parts are written build their own.
    """
    written, updates = _written()
    shutil.copytree(Path(written.name) / "blob", folder / "blob")
    with (
        sqlite3.connect(Path(written.name) / "consensus.db") as source,
        sqlite3.connect(folder / "consensus.db") as target,
    ):
        source.backup(target)
    source.close()
    target.close()
    place = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
    return Events(Settings(place), updates)


@cache
def _written() -> tuple[TemporaryDirectory[str], tuple[Update, ...]]:
    """Return the folder that holds the shard of `build`, and its twin."""
    folder = TemporaryDirectory(prefix="strata-events-")
    return folder, build(Path(folder.name)).updates


def let_skip(stores: Stores, name: str = NAME) -> None:
    """Let readers skip, unsampled, as an approved rollout would: no reader can bring it about."""
    Machine(stores).apply(name, partial(standing, mode="on", percent=0))


def append(
    stores: Stores, state: State, updates: Sequence[Update], lower: int, layout: str
) -> None:
    relation, upper = state.relation, lower + 1000
    table = updates_table(state, updates)
    description = Description(lower, upper, MIN_TIME)
    parts: list[WrittenPart] = write_parts(
        stores.blob,
        keys.part_prefix(NAME),
        slices(table, 20),
        relation,
        layout=layout,
        description=description,
        part_bytes=1024,
        row_group_bytes=1024,
        stats_spec=StatsSpec(budget_bytes=100_000),
    )
    first = MIN_TIME if lower == 0 else lower
    batch = write_batch(stores.blob, NAME, parts, first, upper, MIN_TIME)
    Machine(stores).append(NAME, token=f"t{lower}", lower=lower, upper=upper, batch=batch)


def updates_table(state: State, updates: Sequence[Update]) -> pa.Table:
    """Return updates in memory, sorted."""
    schema = updates_schema(state.relation)
    columns = [list(column) for column in zip(*(row for row, _, _ in updates), strict=True)]
    times = {T: [t for _, t, _ in updates], D: [d for _, _, d in updates]}
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=False)]
    arrays += [pa.array(values, pa.int64()) for values in times.values()]
    return sort_updates(pa.Table.from_arrays(arrays, schema=schema), state.relation)


def slices(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def counted(table: pa.Table) -> Counter[Row]:
    """Return how often each row is there, from columns by name, then t and d."""
    found: Counter[Row] = Counter()
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    for *row, _, d in rows:
        found[tuple(row)] += d
    return Counter({row: count for row, count in found.items() if count})
