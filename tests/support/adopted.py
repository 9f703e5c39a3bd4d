"""Tables of Delta and Iceberg that change at random, and a shard that adopts them."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.table import TableFeatures
from hypothesis import strategies as st
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.types import LongType, StringType

from strata.adopt.delta import DeltaPeer
from strata.adopt.iceberg import IcebergPeer
from strata.adopt.peer import Peer
from strata.adopt.run import Adopted, adopt_table
from strata.decide.plan import plan_read
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.model.spec import parse_spec
from strata.model.types import parse_type
from strata.read.scan import scan
from strata.state.schema import AddColumn, DropColumn, RenameColumn, WidenColumn
from strata.store.open import Stores
from tests.support.deleting_files import delete_positions
from tests.support.marked import hide_rows
from tests.support.stored import memory_stores

NAME = "mirror"
Row = tuple[Any, ...]
Cells = list[tuple[int, str | None]]
CELLS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "", None])), min_size=1, max_size=6
)
IDS = st.integers(0, 5)


@dataclass
class Mirror:
    """A shard beside a table."""

    stores: Stores = field(default_factory=memory_stores)

    def create(
        self, columns: Sequence[str] = ("id int64", "s string"), max_rejected: float = 0.0
    ) -> None:
        declared = [dict(zip(("name", "type"), c.split(), strict=True)) for c in columns]
        Machine(self.stores).create(
            parse_spec(
                {
                    "name": NAME,
                    "columns": declared,
                    "key": ["id"],
                    "source": {"max_rejected": max_rejected},
                }
            )
        )

    def add(self, name: str, kind: str, default: object = None) -> None:
        change = AddColumn(name, parse_type(kind), True, default)
        Machine(self.stores).evolve(NAME, change)

    def drop(self, name: str) -> None:
        Machine(self.stores).evolve(NAME, DropColumn(name))

    def widen(self, name: str, kind: str) -> None:
        Machine(self.stores).evolve(NAME, WidenColumn(name, parse_type(kind)))

    def rename(self, name: str, to: str) -> None:
        Machine(self.stores).evolve(NAME, RenameColumn(name, to))

    def adopt(self, peer: Peer, **how: Any) -> Adopted:
        return adopt_table(self.stores, Settings(), NAME, peer, **how)

    def read(self, as_of: int | None = None) -> Counter[Row]:
        """Return how often each row is there, by the names of its columns."""
        state = Machine(self.stores).load(NAME)
        found: Counter[Row] = Counter()
        for batch in scan(self.stores, state, plan_read(self.stores, state, as_of=as_of)):
            for row in batch.to_pylist():
                d = row.pop("d")
                del row["t"]
                found[hashed(row)] += d
        return Counter({row: n for row, n in found.items() if n})


def hashed(value: Any) -> Any:
    """Return a row, or what is in it, without dicts and lists."""
    if isinstance(value, dict):
        return tuple(sorted((name, hashed(inner)) for name, inner in value.items()))
    return tuple(map(hashed, value)) if isinstance(value, list) else value


def rows_of(table: pa.Table) -> Counter[Row]:
    return Counter(tuple(sorted(row.items())) for row in table.to_pylist())


def made(cells: Cells, columns: Sequence[str], number: int = 7) -> pa.Table:
    """Return rows with the columns that a table has by now."""
    values = {
        "id": pa.array([c[0] for c in cells], pa.int64()),
        "s": pa.array([c[1] for c in cells], pa.string()),
    }
    more = {name: pa.array([number] * len(cells), pa.int64()) for name in columns}
    return pa.table({n: (values | more)[n] for n in ("id", "s", *columns)})


class DeltaWorld:
    """A Delta table, by what its owners do to it."""

    def __init__(self, folder: Path, *, feed: bool, parted: bool) -> None:
        self.at, self.extra = str(folder / "delta"), list[str]()
        self.how: dict[str, Any] = {"partition_by": ["s"]} if parted else {}
        write_deltalake(
            self.at,
            made([(1, "a"), (2, None)], ()),
            configuration={"delta.enableChangeDataFeed": "true"} if feed else {},
            **self.how,
        )

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.at)

    def peer(self) -> DeltaPeer:
        return DeltaPeer.open(self.at)

    def rows(self) -> Counter[Row]:
        """Return the rows; in a partition the empty text is null, and read as one or the other."""
        found = pa.table(self.table.scan().read_all())
        if self.how:
            empty = pc.equal(found["s"].cast(pa.string()), "")
            words = pc.if_else(empty, None, found["s"].cast(pa.string()))
            found = found.set_column(found.schema.get_field_index("s"), "s", words)
        return rows_of(found)

    def append(self, cells: Cells, _: int) -> None:
        write_deltalake(self.at, made(cells, self.extra), mode="append")

    def overwrite(self, cells: Cells, _: int) -> None:
        write_deltalake(self.at, made(cells, self.extra), mode="overwrite")

    def delete(self, _: Cells, number: int) -> None:
        self.table.delete(f"id = {number}")

    def update(self, _: Cells, number: int) -> None:
        self.table.update(updates={"id": "id + 10"}, predicate=f"id = {number}")

    def merge(self, cells: Cells, _: int) -> None:
        """Replace rows by id and add others."""
        one_each = list({id: (id, s) for id, s in cells}.values())
        self.table.merge(
            made(one_each, self.extra, 8), "t.id = s.id", source_alias="s", target_alias="t"
        ).when_matched_update_all().when_not_matched_insert_all().execute()

    def vacuum(self) -> None:
        """Remove the files that the newest version does not have."""
        kept = {unquote(urlsplit(uri).path) for uri in self.table.file_uris()}
        for path in Path(self.at).rglob("part-*.parquet"):
            if str(path) not in kept and unquote(str(path)) not in kept:
                path.unlink()

    def optimize(self, _: Cells, __: int) -> None:
        self.table.optimize.compact()

    def checkpoint(self, _: Cells, __: int) -> None:
        self.table.create_checkpoint()

    def allow_marks(self) -> None:
        self.table.alter.add_feature(
            TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
        )

    def hide(self, cells: Cells, number: int) -> None:
        """Delete rows of a file by marks."""
        hide_rows(self.at, number, [id for id, _ in cells])

    def switch(self, _: Cells, number: int) -> None:
        """Turn the feed on or off."""
        word = "true" if number % 2 else "false"
        self.table.alter.set_table_properties({"delta.enableChangeDataFeed": word})

    def restore(self, _: Cells, number: int) -> None:
        """Go back to an earlier version with the same columns."""
        table = self.table
        for version in range(max(0, table.version() - number), table.version()):
            if DeltaTable(self.at, version=version).schema() == table.schema():
                table.restore(version)
                return

    def widen(self, cells: Cells, _: int) -> str:
        """Add a column, and rows that have it."""
        self.extra.append(f"c{len(self.extra)}")
        write_deltalake(self.at, made(cells, self.extra), mode="append", schema_mode="merge")
        return self.extra[-1]


class IcebergWorld:
    """An Iceberg table, by what its owners do to it."""

    def __init__(self, folder: Path) -> None:
        self.catalog = InMemoryCatalog("lake", warehouse=f"file://{folder}/lake")
        self.catalog.create_namespace("shop")
        first = made([(1, "a"), (2, None)], ())
        self.table = self.catalog.create_table("shop.rows", schema=first.schema)
        self.table.append(first)

    def peer(self) -> IcebergPeer:
        return IcebergPeer.open(self.table.metadata_location)

    def rows(self) -> Counter[Row]:
        return rows_of(self.table.scan().to_arrow())

    @property
    def extra(self) -> list[str]:
        return [f.name for f in self.table.schema().fields][2:]

    def append(self, cells: Cells, _: int) -> None:
        self.table.append(made(cells, self.extra))

    def overwrite(self, cells: Cells, number: int) -> None:
        with _calm():
            self.table.overwrite(made(cells, self.extra), EqualTo("id", number))

    def delete(self, _: Cells, number: int) -> None:
        with _calm():
            self.table.delete(EqualTo("id", number))

    def upsert(self, cells: Cells, _: int) -> None:
        one_each = list({id: (id, s) for id, s in cells}.values())
        with_ids = self.table.scan().to_arrow().column("id").to_pylist()
        newest, schema = self.table.current_snapshot(), self.table.schema()
        plain = newest is not None and newest.schema_id == schema.schema_id
        if plain and len(set(with_ids)) == len(with_ids):  # PyIceberg refuses others
            self.table.upsert(made(one_each, self.extra, 8), ["id"])

    def hide(self, cells: Cells, number: int) -> None:
        """Delete rows of a file by a file of their positions."""
        delete_positions(self.table, number, [id for id, _ in cells])

    def roll_back(self, _: Cells, __: int) -> None:
        """Make the snapshot before the newest the current one."""
        newest = self.table.current_snapshot()
        if newest is not None and newest.parent_snapshot_id is not None:
            self.table.manage_snapshots().rollback_to_snapshot(newest.parent_snapshot_id).commit()

    def widen(self, cells: Cells, _: int) -> str:
        name = f"c{len(self.extra)}"
        with self.table.update_schema() as change:
            change.add_column(name, LongType())
        self.append(cells, 0)
        return name

    def vacuum(self) -> None:
        """Remove the data files that the newest snapshot does not have."""
        kept = {task.file.file_path for task in self.table.scan().plan_files()}
        folder = Path(self.table.location().removeprefix("file://"))
        for path in (folder / "data").rglob("*.parquet"):
            if f"file://{path}" not in kept and "deletes" not in path.name:
                path.unlink()

    def promote(self, cells: Cells, _: int) -> None:
        """Change the schema in a way that leaves all values as they are."""
        with self.table.update_schema() as change:
            change.update_column("s", StringType(), doc="a note")


@contextmanager
def _calm() -> Iterator[None]:
    """Let PyIceberg warn of deletes that find no row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def deeds(*names: str) -> st.SearchStrategy[list[tuple[str, Cells, int, bool]]]:
    """Return histories: what is done, with what, and whether the shard follows then."""
    one = st.tuples(st.sampled_from(names), CELLS, IDS, st.booleans())
    return st.lists(one, min_size=1, max_size=6)
