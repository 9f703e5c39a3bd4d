"""A proposal takes in the rows that it was made from, or says which ones it does not."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from strata.errors import InvalidRequest
from strata.ingest.engine import ingest
from strata.ingest.readers.infer import Inferred, infer
from strata.model.spec import parse_spec
from tests.unit.ingest.test_engine import World

POINT = pa.struct({"x": pa.float64(), "at": pa.timestamp("us")})
NAN: Any = {"x": math.nan, "at": None}


def proposed(world: World, file: str, **how: Any) -> tuple[Inferred, dict[str, str]]:
    found = infer(world.settings, "new", file, **how)
    return found, {c["name"]: c["type"] for c in found.declaration["columns"]}


def rejected(world: World, found: Inferred, file: str) -> int:
    """Return how many rows an ingest of the file rejects."""
    source = {**found.declaration["source"], "max_rejected": 1.0}
    world.machine.create(parse_spec({**found.declaration, "source": source}))
    return int(ingest(world.stores, world.settings, "new", paths=[file]).to_json()["rejected"])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([NAN, {"x": 1.5, "at": None}], POINT), "record<x: float64, at: timestamp>"),
        (pa.array([[NAN], None], pa.list_(POINT)), "list<record<x: float64, at: timestamp>>"),
        (
            pa.array([[("k", NAN)], []], pa.map_(pa.string(), POINT)),
            "map<record<x: float64, at: timestamp>>",
        ),
        (pa.array([{"x": 1.5, "at": None}, None], POINT), "jsonb"),
    ],
)
@pytest.mark.parametrize("write", [pq.write_table, po.write_table])
def test_a_struct_with_what_json_lacks_is_a_record(
    tmp_path: Path, write: Any, values: pa.Array, kind: str
) -> None:
    """It was proposed as jsonb, and the rows with a NaN were rejected."""
    world, file = World(tmp_path), f"x.{write.__module__.removeprefix('pyarrow.').split('.')[0]}"
    write(pa.table({"id": [1, 2], "v": values}), tmp_path / file)

    found, types = proposed(world, file)

    assert types == {"id": "int64", "v": kind}
    assert found.notes == ()
    assert rejected(world, found, file) == 0


def test_a_file_all_of_whose_rows_hold_a_nan_is_taken(tmp_path: Path) -> None:
    world = World(tmp_path)
    pq.write_table(pa.table({"v": pa.array([NAN] * 50, POINT)}), tmp_path / "x.parquet")

    found, _ = proposed(world, "x.parquet")

    assert rejected(world, found, "x.parquet") == 0


def test_what_no_type_holds_is_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    long = pa.array([Decimal(10**50 + 1), Decimal(1), Decimal(-(10**50) - 1)], pa.decimal256(60, 0))
    late = pa.array([0, 253_402_300_800, 0], pa.timestamp("s"))
    pq.write_table(pa.table({"id": [1, 2, 3], "n": long, "at": late}), tmp_path / "x.parquet")

    found, types = proposed(world, "x.parquet")

    assert types["n"] == "numeric"
    assert found.notes == (
        "n: 2 of 3 examined rows would be rejected: not readable as numeric (x.parquet, line 1: "
        f"{10**50 + 1})",
        "at: 1 of 3 examined rows would be rejected: not readable as timestamp "
        "(x.parquet, line 2: 10000-01-01 00:00:00.000)",
    )
    assert rejected(world, found, "x.parquet") == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name\nDoe, John\nx\n", "1 of 2 examined rows would be rejected: 2 fields where"),
        ("name\nDoe, John\nRoe, Ann\n", "no row of the file fits its header file='x.csv' line=2"),
        ('a,b\n"x\\"y",2\n"\\n",3\n', "a quote within quotes is escaped by a backslash file="),
    ],
)
def test_rows_and_files_of_another_shape_are_said(tmp_path: Path, text: str, said: str) -> None:
    """A column of names with commas was proposed without a word, and no row of it was taken."""
    world = World(tmp_path)
    world.put("x.csv", text)

    found, _ = proposed(world, "x.csv")

    (note,) = found.notes
    assert said in note
    if note.startswith("no ingest"):
        with pytest.raises(InvalidRequest):
            rejected(world, found, "x.csv")
    else:
        assert rejected(world, found, "x.csv") == 1


def test_a_key_that_is_null_is_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("x.csv", "id,name\n1,a\n,b\n")

    found, _ = proposed(world, "x.csv", key=["id"])

    assert found.notes == (
        "id: 1 of 2 examined rows would be rejected: null in a column that may not be null "
        "(x.csv, line 3)",
    )


def test_a_change_without_its_key_is_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    gone = '{"key": {"id": 1}, "value": null}'
    world.put("x.jsonl", f'{{"id": 1, "v": "a"}}\n{{"id": null, "v": "b"}}\n{gone}\n')

    found, _ = proposed(world, "x.jsonl", key=["id"], envelope="upsert")

    (note,) = found.notes
    assert note.startswith("id: 1 of 3 examined rows would be rejected: null")
    assert rejected(world, found, "x.jsonl") == 1
