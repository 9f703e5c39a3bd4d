"""A column that stands only in the path of a file (day=2024-01-01/part.parquet) is refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import InvalidRequest
from tests.unit.ingest.test_engine import World

FOLDER = "country%20of=D%C3%A9/day=2024-01-01"


def ingested(root: Path, suffix: str, default: Any = None, **row: Any) -> World:
    """Ingest a file of one row from a folder that says two columns."""
    day = {"name": "day", "type": "string"} | ({"default": default} if default else {})
    columns = [{"name": "id", "type": "int64"}, day]
    world = World(root, columns=columns, key=["id"], source={"format": suffix})
    path = root / FOLDER / f"part.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: [value] for name, value in ({"id": 1} | row).items()})
    if suffix == "parquet":
        pq.write_table(table, path)
    elif suffix == "csv":
        path.write_text("\n".join(",".join(map(str, x)) for x in (table.column_names, row or [1])))
    else:
        path.write_text(json.dumps({"id": 1} | row))
    world.ingest(str(path))
    return world


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "json"])
@pytest.mark.parametrize("default", [None, "1999-01-01"])
def test_a_column_in_the_path_alone_is_refused(
    tmp_path: Path, suffix: str, default: str | None
) -> None:
    """It was null, or its default, where the format lets a column be missing."""
    with pytest.raises(InvalidRequest, match="in the path of the file only") as refused:
        ingested(tmp_path, suffix, default)
    assert refused.value.details == {
        "file": f"{FOLDER}/part.{suffix}",
        "column": "day",
        "folder": "day=2024-01-01",
    }
    assert "hive_partitioning" in str(refused.value.cure)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_column_in_path_and_file_is_what_the_file_says(tmp_path: Path, suffix: str) -> None:
    [[row, count]] = ingested(tmp_path, suffix, day="2024-01-02").rows().items()
    assert (row[:2], count) == ((1, "2024-01-02"), 1)
