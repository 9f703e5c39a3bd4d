"""The shards that follow the tables of the test, and how their rows are told and compared."""

import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from strata.decide.plan import plan_read
from strata.ingest.engine import ingest
from strata.ingest.task import IngestReport
from strata.machine.machine import Machine
from strata.model.runner import Runner, serial
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.types import ColumnType, Kind
from strata.read.scan import scan
from strata.store.open import open_stores

Row = dict[str, Any]
# Columns and key of each table; a shard has the table's name.
TABLES: Final[dict[str, tuple[dict[str, str], list[str]]]] = {
    "things": (
        {
            "id": "int32", "v": "string", "n": "numeric", "m": "numeric(10,2)", "ts": "timestamp",
            "ts3": "timestamp", "tz": "timestamptz", "dt": "date", "j": "jsonb",
            "ai": "array<int32>", "al": "list<int64>", "at": "array<string>", "b": "bytes",
            "f": "bool", "u": "uuid", "tm": "time", "iv": "interval", "r": "float32",
            "dp": "float64", "sm": "int16", "vc": "varchar(10)", "ch": "char(5)",
        },
        ["id"],
    ),
    "pairs": ({"a": "int32", "b": "string", "v": "string", "n": "numeric(12,3)"}, ["a", "b"]),
    "notes": ({"id": "int64", "note": "string"}, ["id"]),
    "grown": ({"id": "int32", "v": "string"}, ["id"]),
    "preset": ({"id": "int32", "z": "int32", "s": "string", "b": "bool"}, ["id"]),
    "pgbench_accounts": (
        {"aid": "int32", "bid": "int32", "abalance": "int32", "filler": "char(84)"}, ["aid"],
    ),
    "pgbench_tellers": (
        {"tid": "int32", "bid": "int32", "tbalance": "int32", "filler": "char(84)"}, ["tid"],
    ),
    "pgbench_branches": ({"bid": "int32", "bbalance": "int32", "filler": "char(88)"}, ["bid"]),
}  # fmt: skip


class Shards:
    """One shard for each table, fed from a landing folder."""

    def __init__(
        self, landing: Path, store: Path | None = None, tables: Sequence[str] = tuple(TABLES)
    ) -> None:
        """Create the shards, in memory or in a folder."""
        blob = f"memory://debezium-{landing}" if store is None else f"file://{store}/blob"
        consensus = blob if store is None else f"sqlite:///{store}/consensus.db"
        self.settings = Settings(store=StoreSettings(blob, consensus, str(landing)))
        self.stores = open_stores(self.settings.store)
        self.machine = Machine(self.stores)
        self.tables = tuple(tables)
        for table in self.tables:
            self.machine.create(parse_spec(declaration(table)))

    def ingest(self, table: str, files: int, upper: int, runner: Runner = serial) -> IngestReport:
        """Take in the first so many files of a table; all in them happened before `upper`."""
        landing = Path(self.settings.store.landing)
        paths = sorted(landing.glob(f"source.public.{table}/[0-9]*.jsonl"))[:files]
        return ingest(
            self.stores,
            self.settings,
            table,
            paths=[str(p.relative_to(landing)) for p in paths],
            lower=max(0, self.machine.load(table).upper),
            upper=upper,
            runner=runner,
        )

    def rows(self, table: str, as_of: int, columns: Sequence[str]) -> list[Row]:
        """Return the rows of a shard at a time, comparable, by key."""
        state = self.machine.load(table)
        plan = plan_read(self.stores, state, as_of=as_of)
        kinds = {c.name: c.type for c in state.relation.columns}
        found = []
        for batch in scan(self.stores, state, plan, columns=list(columns), consolidate=True):
            for row in batch.to_pylist():
                assert row["d"] == 1
                found.append({name: plain(row[name], kinds[name]) for name in columns})
        return sorted(found, key=repr)


def declaration(table: str) -> dict[str, Any]:
    """Return the declaration of a shard."""
    columns, key = TABLES[table]
    return {
        "name": table,
        "columns": [
            {"name": name, "type": kind, "nullable": name not in key}
            for name, kind in columns.items()
        ],
        "key": key,
        "source": {
            "format": "jsonl",
            "envelope": "debezium",
            "snapshots": "replace",
            "max_rejected": 0,
        },
        "time": {"from": "source", "late": "refuse"},
    }


def plain(value: Any, kind: ColumnType) -> Any:
    """Return a value as `to_json` of PostgreSQL tells it, as far as the two could differ."""
    if value is None:
        return None
    if kind.kind is Kind.NUMERIC:
        return number(value["text"] if isinstance(value, dict) else str(value))
    if kind.kind in (Kind.FLOAT32, Kind.FLOAT64):
        exact = float(str(np.float32(value))) if kind.kind is Kind.FLOAT32 else value
        return exact if math.isfinite(exact) else str(exact)
    if kind.kind in (Kind.ARRAY, Kind.LIST):
        return value["vals"] if isinstance(value, dict) else value
    if kind.kind is Kind.JSONB:
        return shown(orjson.loads(value))
    if kind.kind is Kind.BYTES:
        return value.hex()
    if kind.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    if kind.kind is Kind.TIME:
        return str(value)[:15]
    if kind.kind is Kind.INTERVAL:
        return [value["months"], value["days"], value["micros"]]
    return str(value) if kind.kind is Kind.DATE else value


def number(text: str) -> str:
    """Return a number in the one form that equal numbers share."""
    return format(Decimal(text).normalize(), "f")


def shown(value: Any) -> str:
    """Return a JSON value in the one form that equal values share."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
