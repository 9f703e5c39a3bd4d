"""A shard in memory for one cell of the wall: ingest through the engine, read back by strangers."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.format.manifest import decode_manifest, part_refs
from strata.ingest.engine import ingest
from strata.ingest.quarantine import rejected
from strata.ingest.retry import retry_rejected
from strata.ingest.twin import Unreadable, stored
from strata.machine.machine import Machine
from strata.maintain.schema import change_schema
from strata.model.schema import Relation
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.types import ColumnType
from strata.state.schema import WidenColumn
from strata.state.state import State
from strata.store.open import Stores, open_stores
from tests.formats import stranger
from tests.formats.logical import type_json
from tests.wall.rows import File

NUMBERS: Final = count()


class World:
    """One shard with the columns id and v (and n, if `extra` names its type)."""

    def __init__(
        self,
        root: Path,
        column_type: ColumnType,
        source: dict[str, Any],
        *,
        key: str = "id",
        extra: str = "",
    ) -> None:
        name = f"wall-{next(NUMBERS)}"
        store = StoreSettings(f"memory://{name}", f"memory://{name}", str(root))
        self.root, self.type, self.settings = root, column_type, Settings(store)
        self.stores = open_stores(store, clock=lambda: 1_000_000)
        self.machine = Machine(self.stores)
        columns = [
            {"name": "id", "type": "int64", "nullable": key != "id"},
            {"name": "v", "type": str(column_type), "nullable": key != "v"},
        ]
        columns += [{"name": "n", "type": extra}] if extra else []
        spec: dict[str, Any] = {
            "name": "s",
            "columns": columns,
            "key": [key],
            "source": {"paths": ["in/"], "max_rejected": 1.0, **source},
        }
        if source.get("envelope") == "debezium":
            spec["time"] = {"from": "source"}
        self.machine.create(parse_spec(spec))

    def ingest(self, files: list[File]) -> None:
        """Take files in as one batch, in both layouts."""
        folder = self.root / "in"
        folder.mkdir(exist_ok=True)
        paths = []
        for file in files:
            path = folder / Path(file.name).name
            path.write_bytes(file.data)
            paths.append(str(path))
        ingest(self.stores, self.settings, "s", paths=paths, write_format="both")

    def widen(self, column: str, column_type: ColumnType) -> None:
        change_schema(self.machine, "s", WidenColumn(column, column_type))
        if column == "v":
            self.type = column_type

    def retry(self) -> None:
        retry_rejected(self.stores, self.settings, "s")

    def rejected(self) -> list[dict[str, Any]]:
        """Return the rows in the quarantine."""
        return [row for one in rejected(self.stores, "s") for row in one.rows]

    def rows(self) -> list[tuple[int, Any, int]]:
        """Return id, canonical form (an Unreadable, if a part holds what it may not), diff."""
        found: list[tuple[int, Any, int]] = []
        for columns in stored_columns(self.stores, self.machine.load("s")):
            found += zip(columns["id"], columns["v"], columns["d"], strict=True)
        return found


def stored_columns(stores: Stores, state: State) -> Iterator[dict[str, list[Any]]]:
    """Yield the columns of each part in canonical forms, and "d"; parts must have both layouts."""
    for batch in state.batches:
        manifest = stores.blob.get(batch.manifest) if batch.manifest else None
        for ref in part_refs(decode_manifest(manifest)) if manifest else []:
            data = stores.blob.get(ref.key)
            assert data is not None
            yield _part(data, state.relations[ref.relation_version])


def _part(data: bytes, relation: Relation) -> dict[str, list[Any]]:
    table = pq.read_table(pa.BufferReader(data))
    children: dict[str, pa.Array] = {}
    for side in ("k_s", "v_s"):
        whole = table[side].combine_chunks()
        children |= {whole.type[n].name: child for n, child in enumerate(whole.flatten())}
    odd = _halves(data, relation)
    found: dict[str, list[Any]] = {"d": table["d"].to_pylist()}
    for column in relation.columns:
        values = stored(children[str(column.id)], column.type)
        found[column.name] = values
        if odd is not None and column.name != "id":
            found[column.name] = [Unreadable(odd)] * len(values)
    return found


def _halves(data: bytes, relation: Relation) -> str | None:
    """Return how rows and columns of a part differ for a stranger, if they do."""
    types = {column.id: type_json(column.type) for column in relation.columns}
    try:
        halves = stranger.read_part(data, list(relation.key), types)
    except Exception as error:
        return f"a stranger cannot read the part: {error!r}"
    rows, columns = (json.dumps(halves[name], sort_keys=True) for name in ("rows", "columns"))
    return None if rows == columns else "rows and columns of a part differ"
