"""Messages of other tools, ingested as plain rows: they are no rows of nulls."""

import json
from pathlib import Path
from typing import Any

import pytest

from strata.ingest.readers import jsonl
from tests.unit.ingest.test_engine import World

COLUMNS = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
ROW = {"id": 1, "name": "a"}
MESSAGES: dict[str, Any] = {
    "Maxwell": {"database": "d", "table": "t", "type": "insert", "ts": 1, "data": ROW},
    "DMS": {"data": ROW, "metadata": {"operation": "insert"}},
    "wal2json 1": {"change": [{"kind": "insert", "columnvalues": [1, "a"]}]},
    "wal2json 2": {"action": "I", "columns": [{"name": "id", "value": 1}]},
    "Airbyte": {"_airbyte_ab_id": "x", "_airbyte_data": ROW},
    "outbox": {"schema": {"type": "string"}, "payload": "{}"},
}


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("tool", MESSAGES)
def test_messages_without_a_declared_column_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, at_once: bool, suffix: str
) -> None:
    """They were stored as rows of nulls."""
    if at_once:
        monkeypatch.setattr(jsonl, "SMALL_BYTES", 0)
    source = {"format": suffix, "max_rejected": 1.0}
    world = World(tmp_path, columns=COLUMNS, key=["id"], source=source)
    lines = [json.dumps(one) for one in (MESSAGES[tool], MESSAGES[tool], {})]
    text = "\n".join(lines) if suffix == "jsonl" else f"[{','.join(lines)}]"
    report = world.ingest(world.put(f"a.{suffix}", text))

    assert report["rejected"] == 2
    assert {row[:2]: count for row, count in world.rows().items()} == {(None, None): 1}


def test_a_row_may_lack_the_columns_that_other_rows_have(tmp_path: Path) -> None:
    world = World(tmp_path, columns=COLUMNS, key=["id"], source={"format": "jsonl"})
    world.ingest(world.put("a.jsonl", '{"id": 1}\n{"other": 1}\n{"name": null}\n'))
    assert {row[:2]: count for row, count in world.rows().items()} == {
        (1, None): 1,
        (None, None): 2,
    }
