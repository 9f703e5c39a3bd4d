"""Files of every format bring values of every type; what a reader was given comes in again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.decide.plan import plan_read
from strata.ingest.engine import ingest
from strata.ingest.quarantine import rejected
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.read.scan import scan, scan_schema
from strata.store.open import open_stores
from tests.support.values import plain, same

COLUMNS = {
    "id": "int64",
    "u": "uuid",
    "big": "uint64",
    "n": "numeric",
    "at": "time",
    "gap": "interval",
    "months": "interval year to month",
    "tags": "list<string>",
    "grid": "array<int32>",
    "props": "map<jsonb>",
    "place": "record<lat: float64, note: string>",
    "span": "range<int32>",
    "code": "char(3)",
}
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
GOOD = [
    "1", UUID.upper(), "18446744073709551615", "0." + "1" * 39, "23:59:60.5", "1 mon -1 days",
    "1-2", '{a,"b,c",NULL}', "[0:1]={1,2}", '{"k": [1e2], "a": null}', '{"lat": 1.5}', "(1,3]",
    "ab ",
]  # fmt: skip
BAD = {"u": "x", "n": "1" * 40, "span": "[5,1]", "tags": "{a", "code": "abcd"}


class World:
    """A landing folder and a shard of the columns in memory."""

    def __init__(self, root: Path, file_format: str) -> None:
        self.path = root / f"in.{file_format}"
        name = f"memory://types-{root.name}-{file_format}"
        self.settings = Settings(StoreSettings(name, name, str(root)))
        self.stores = open_stores(self.settings.store, clock=lambda: 1_000_000)
        columns = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
        source = {"paths": ["in"], "format": file_format, "max_rejected": 0.9}
        spec = {"name": "s", "columns": columns, "key": ["id"], "source": source}
        Machine(self.stores).create(parse_spec(spec))

    def ingest(self) -> Any:
        return ingest(self.stores, self.settings, "s", paths=[str(self.path)])

    def rows(self) -> pa.Table:
        state = Machine(self.stores).load("s")
        batches = scan(self.stores, state, plan_read(self.stores, state), consolidate=True)
        return pa.Table.from_batches(batches, schema=scan_schema(state.relation))


def csv_lines(rows: Sequence[Sequence[str | None]]) -> str:
    def field(text: str | None) -> str:
        return "" if text is None else '"' + text.replace('"', '""') + '"'

    return "\n".join(",".join(map(field, row)) for row in [list(COLUMNS), *rows]) + "\n"


@pytest.fixture
def filled(tmp_path: Path) -> World:
    """Ingest a good row, a row of nulls, and rows with one bad value each."""
    world = World(tmp_path, "csv")
    bad = [[BAD[name] if c == name else GOOD[n] for n, c in enumerate(COLUMNS)] for name in BAD]
    nulls = ["2", *[None] * (len(COLUMNS) - 1)]
    world.path.write_text(csv_lines([GOOD, nulls, *bad]))
    report = world.ingest()
    assert report.counts.rejected == len(BAD)
    return world


def test_text_becomes_values_that_readers_see(filled: World) -> None:
    first, second = filled.rows().drop_columns(["t", "d"]).to_pylist()

    assert first["u"] == UUID
    assert str(first["big"]) == "18446744073709551615"
    assert first["n"]["text"] == "0." + "1" * 39
    assert first["at"] == "23:59:60.500000000"
    assert first["gap"] == {"months": 1, "days": -1, "micros": 0}
    assert first["months"] == 14
    assert first["tags"] == ["a", "b,c", None]
    assert first["grid"] == {"dims": [{"lower_bound": 0, "length": 2}], "vals": [1, 2]}
    assert first["props"] == [("a", None), ("k", "[100.0]")]
    assert first["place"] == {"lat": 1.5, "note": None}
    assert (first["span"]["lower"], first["span"]["upper"]) == (2, 4)
    assert first["code"] == "ab"
    assert {value for name, value in second.items() if name != "id"} == {None}


def test_a_row_with_a_bad_value_is_in_the_quarantine(filled: World) -> None:
    [batch] = rejected(filled.stores, "s")

    assert {row["column_name"]: row["value"] for row in batch.rows} == BAD


def test_what_was_read_comes_in_again_from_parquet(filled: World, tmp_path: Path) -> None:
    again = World(tmp_path, "parquet")
    pq.write_table(filled.rows().drop_columns(["t", "d"]), again.path)
    again.ingest()

    for name in COLUMNS:
        assert same(plain(again.rows()[name]), plain(filled.rows()[name])), name


def test_json_brings_the_same_values(filled: World, tmp_path: Path) -> None:
    again = World(tmp_path, "jsonl")
    row = dict(zip(COLUMNS, GOOD, strict=True)) | {
        "props": {"k": [100.0], "a": None},
        "place": {"lat": 1.5},
        "tags": ["a", "b,c", None],
        "grid": {"dims": [{"lower_bound": 0, "length": 2}], "vals": [1, 2]},
        "gap": {"months": 1, "days": -1},
        "span": {"lower": 2, "upper": 4},
        "id": 1,
    }
    line = orjson.dumps(row).decode().replace(f'"{GOOD[3]}"', GOOD[3])
    again.path.write_text(line.replace(f'"{GOOD[2]}"', GOOD[2]) + '\n{"id": 2}\n')
    again.ingest()

    for name in COLUMNS:
        assert same(plain(again.rows()[name]), plain(filled.rows()[name])), name
