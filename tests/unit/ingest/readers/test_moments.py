"""Times of Debezium that come as integers without a schema: milliseconds are refused."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.ingest.readers import debezium
from strata.ingest.readers.moments import check_unit
from tests.unit.ingest.test_engine import World

NOW = 1_717_200_000_000  # 2024-06-01, in milliseconds
POSTGRES = {"connector": "postgresql", "lsn": 5, "snapshot": "false", "sequence": '["1","5"]'}


def ingested(root: Path, kind: str, *values: Any, **source: Any) -> World:
    columns = [{"name": "id", "type": "int64"}, {"name": "at", "type": kind}]
    how = {"format": "jsonl", "envelope": "debezium", "max_rejected": 1.0}
    world = World(root, columns=columns, key=["id"], source=how)
    lines = [
        {"op": "c", "after": {"id": n, "at": v}, "before": None, "source": source, "ts_ms": 1}
        for n, v in enumerate(values)
    ]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    world.ingest(world.put("a.jsonl", text))
    return world


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
@pytest.mark.parametrize(
    "values", [(NOW,), (NOW, None, 0), (0, NOW, -62_135_596_800_000, 253_402_214_400_000)]
)
def test_milliseconds_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    values: tuple[int | None, ...],
    at_once: bool,
) -> None:
    """They were days of January 1970."""
    if at_once:
        monkeypatch.setattr(debezium, "SMALL_BYTES", 0)
    with pytest.raises(InvalidRequest, match="look like milliseconds") as refused:
        ingested(tmp_path, kind, *values, **POSTGRES)
    details = refused.value.details
    assert (details["column"], details["value"]) == ("at", NOW)
    assert details["as_microseconds"] == "1970-01-20T21:00:00+00:00"
    assert details["as_milliseconds"] == "2024-06-01T00:00:00+00:00"


def test_microseconds_are_taken(tmp_path: Path) -> None:
    world = ingested(tmp_path, "timestamp", NOW * 1000, NOW, 0, **POSTGRES)
    assert {row[1] for row in world.rows()} == {
        datetime.fromisoformat("2024-06-01"),
        datetime.fromisoformat("1970-01-20T21:00"),
        datetime.fromisoformat("1970-01-01"),
    }


def test_no_times_look_like_nothing() -> None:
    for numbers in ([], [0], [-1], [-62_135_596_800_000], [10**18]):
        check_unit("f", "c", numbers)
