"""Shards in a folder, published as Iceberg, with a clock that tests set; and what readers see."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import StaticTable

from strata.adopt.kept_nulls import keep_nulls
from strata.decide.plan import plan_read
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.publish.catalogs import CatalogEntry, FilesTable
from strata.publish.iceberg import Publication
from strata.publish.place import TableFolder, open_folder
from strata.read.scan import scan
from strata.store.open import Stores, open_stores
from tests.support.climb import standing
from tests.support.values import plain

DAY = 86_400_000
Rows = Counter[tuple[str, ...]]


@dataclass
class World:
    """Stores in a folder, and one table for a shard of them."""

    folder: Path
    shard: str = "shard"
    now: list[int] = field(default_factory=lambda: [1_700_000_000_000])

    def __post_init__(self) -> None:
        settings = StoreSettings(
            f"file://{self.folder}/blob", f"sqlite:///{self.folder}/consensus.db"
        )
        self.stores: Stores = open_stores(settings, clock=lambda: self.now[0])
        self.place: TableFolder = open_folder(f"file://{self.folder}/iceberg")

    def publication(
        self, table: CatalogEntry | None = None, stores: Stores | None = None
    ) -> Publication:
        return Publication(
            stores or self.stores, self.shard, self.place, table or FilesTable(self.place), 7 * DAY
        )

    def let_skip(self) -> None:
        Machine(self.stores).apply(self.shard, partial(standing, mode="on", percent=0))

    def table(self) -> StaticTable:
        """Return the table as PyIceberg opens it, with its own files."""
        return StaticTable.from_metadata(self.place.address)

    def read(self, snapshot: int | None = None) -> Rows:
        keep_nulls()  # docs/how-to/iceberg.md says what PyIceberg shows without
        table = self.table()
        found = table.scan(snapshot_id=snapshot) if snapshot else table.scan()
        return sums(found.to_arrow())

    def expected(self, names: Sequence[str] | None = None, as_of: int | None = None) -> Rows:
        """Return what Strata reads: rows as the table spells them, and how often they count."""
        state = Machine(self.stores).load(self.shard)
        relation = state.relation
        rows: Rows = Counter()
        for batch in scan(
            self.stores, state, plan_read(self.stores, state, as_of=as_of), stored=True
        ):
            cells = [
                plain(batch.column(c.name))
                for c in ordered(relation)
                if names is None or c.name in names
            ]
            _count(rows, cells, batch.column("d").to_pylist())
        return kept(rows)


def ordered(relation: Relation) -> list[Any]:
    """Return the columns in the order of the table: those of the key, then the others."""
    return [*relation.key_columns, *relation.value_columns]


def flat(table: pa.Table) -> list[tuple[str, pa.ChunkedArray]]:
    """Return the columns inside `key` and `value`, by name."""
    found = []
    for side in ("key", "value"):
        if side in table.column_names:
            kind = table.schema.field(side).type
            names = [kind.field(i).name for i in range(kind.num_fields)]
            found += [(name, pc.struct_field(table[side], [i])) for i, name in enumerate(names)]
    return found


def sums(table: pa.Table) -> Rows:
    """Return how often each row counts."""
    rows: Rows = Counter()
    _count(rows, [plain(column) for _, column in flat(table)], table["d"].to_pylist())
    return kept(rows)


def _count(rows: Rows, cells: list[list[Any]], diffs: list[int]) -> None:
    for row, diff in zip(zip(*cells, strict=True), diffs, strict=True):
        rows[tuple(map(repr, row))] += diff


def kept(rows: Rows) -> Rows:
    return Counter({row: count for row, count in rows.items() if count})


def filtered(world: World, text: Any, keep: Callable[[Any], bool], column: str) -> None:
    """Read with a filter that PyIceberg pushes, and compare with all rows, filtered here."""
    whole = world.table().scan().to_arrow()
    values = plain(dict(flat(whole))[column])
    wanted = whole.filter(pa.array([v is not None and keep(v) for v in values], pa.bool_()))
    assert sums(world.table().scan(row_filter=text).to_arrow()) == sums(wanted)
