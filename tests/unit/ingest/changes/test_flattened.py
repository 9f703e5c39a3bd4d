"""Rows that a connector has flattened, with the key beside them or not, and with schemas or not."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from strata.decide.plan import plan_read
from strata.ingest.quarantine import rejected
from strata.ingest.readers.debezium import DOCUMENT
from strata.read.scan import scan
from tests.unit.ingest.changes.test_tasks import put, run
from tests.unit.ingest.test_engine import World

GONE = {"id": 1, "name": "a", "__deleted": "true"}
THERE = {"id": 1, "name": "a", "__deleted": "false"}
TEXTS = [{"field": "id", "type": "int64"}, {"field": "name", "type": "string"}]
DAYS = {"field": "id", "type": "int32", "name": "io.debezium.time.Date"}


def world_of(root: Path, envelope: str = "upsert", **changes: Any) -> World:
    source = {"paths": ["in/"], "format": "jsonl", "envelope": envelope, "max_rejected": 1.0}
    if envelope == "upsert":
        source["deleted_column"] = "__deleted"
    return World(root, **{"source": source, **changes})


def columns(*pairs: str) -> list[dict[str, Any]]:
    split = [pair.split(" ", 1) for pair in pairs]
    return [{"name": n, "type": t, "nullable": n not in ("id", "key")} for n, t in split]


def stored(world: World, *lines: Any) -> tuple[list[tuple[Any, ...]], Any]:
    """Return the rows after one batch, without their times, and its counts."""
    put(world, 1, [*lines])
    [report] = run(world, 1, 1)
    return sorted(row[:-1] for row in world.rows()), report


def described(payload: Any, *fields: Any) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": [*fields]}, "payload": payload}


@pytest.mark.parametrize(
    "form",
    [
        lambda row: row,
        lambda row: {"key": {"id": 1}, "value": row},
        lambda row: {"key": 1, "value": row, "timestamp": 5},
        lambda row: described(row, *TEXTS),
        lambda row: {"key": described({"id": 1}, TEXTS[0]), "value": described(row, *TEXTS)},
    ],
)
def test_a_row_that_is_marked_deleted_is_gone_in_each_form(tmp_path: Path, form: Any) -> None:
    assert stored(world_of(tmp_path), form(THERE), form(GONE))[0] == []


@pytest.mark.parametrize("key", [1, {"id": 1}])
def test_a_tombstone_removes_its_key_with_a_name_and_without(tmp_path: Path, key: Any) -> None:
    assert (
        stored(world_of(tmp_path), {"key": key, "value": THERE}, {"key": key, "value": None})[0]
        == []
    )


def test_a_row_that_is_not_marked_stays(tmp_path: Path) -> None:
    lines = [{"key": {"id": 1}, "value": THERE}, described({**THERE, "id": 2}, *TEXTS)]

    assert stored(world_of(tmp_path), *lines)[0] == [(1, "a"), (2, "a")]


def test_a_mark_that_is_no_boolean_rejects_a_record(tmp_path: Path) -> None:
    rows, report = stored(world_of(tmp_path), {"key": {"id": 1}, "value": {**GONE, "__deleted": 7}})

    assert (rows, report.to_json()["rejected"]) == ([], 1)


def test_columns_called_key_and_value_are_columns(tmp_path: Path) -> None:
    world = world_of(tmp_path, columns=columns("id int64", "key string", "value string"))

    rows, _ = stored(
        world, {"id": 1, "key": "k", "value": "x"}, {"id": 2, "key": "l", "value": None}
    )

    assert rows == [(1, "k", "x"), (2, "l", None)]


@pytest.mark.parametrize(
    "form",
    [
        lambda row: row,
        lambda row: {"key": {"id": 1}, "value": row},
        lambda row: {"key": 1, "value": row, "op": "x"},
        lambda row: described(row, *TEXTS),
        lambda row: {"key": described({"id": 1}, TEXTS[0]), "value": described(row, *TEXTS)},
    ],
)
@pytest.mark.parametrize("op", ["c", "d", "pick", None])
def test_columns_called_as_the_parts_of_an_event_are_columns(
    tmp_path: Path, form: Any, op: str | None
) -> None:
    """The second look took a row with a column `op` for an event, and stopped the source."""
    names = ("op string", "before string", "after string", "source string", "ts_ms int64")
    world = world_of(tmp_path, columns=columns("id int64", *names))
    row = {"id": 1, "op": op, "before": "a", "after": "b", "source": "c", "ts_ms": 5}

    rows, report = stored(world, form(row))

    assert rows == [(1, op, "a", "b", "c", 5)]
    assert report.counts.verified == 1


def test_a_key_column_called_key_is_one_in_rows_and_in_records(tmp_path: Path) -> None:
    world = world_of(tmp_path, columns=columns("key string", "value string"), key=["key"])
    record = {"key": {"key": "r"}, "value": {"key": "r", "value": "y"}}
    removed = {"key": {"key": "s"}, "value": None}

    rows, _ = stored(world, {"key": "k", "value": "x"}, {"key": "s", "value": "z"}, record, removed)

    assert rows == [("k", "x"), ("r", "y")]


@pytest.mark.parametrize("key", [described({"id": 19000}, DAYS), described(19000, DAYS)])
def test_the_schema_of_a_key_says_what_its_tombstone_removes(tmp_path: Path, key: Any) -> None:
    if not isinstance(key["payload"], dict):
        key = {"schema": DAYS, "payload": 19000}
    world = world_of(tmp_path, columns=columns("id date", "name string"))
    row = described({"id": 19000, "name": "a"}, DAYS, TEXTS[1])

    rows, report = stored(world, {"key": key, "value": row}, {"key": key, "value": None})

    assert (rows, report.to_json()["rejected"]) == ([], 0)


def test_the_schema_of_a_key_says_what_an_event_without_its_row_deletes(tmp_path: Path) -> None:
    """Milliseconds, where a number without a schema would be microseconds."""
    moment = {"field": "id", "type": "int64", "name": "io.debezium.time.Timestamp"}
    key = described({"id": 1_700_000_000_000}, moment)
    after = {"field": "after", "type": "struct", "fields": [moment, TEXTS[1]]}
    made = {"op": "c", "after": {"id": 1_700_000_000_000, "name": "a"}, "ts_ms": 5}
    gone = {"op": "d", "before": None, "after": None, "ts_ms": 6}
    world = world_of(tmp_path, "debezium", columns=columns("id timestamp", "name string"))

    rows, report = stored(
        world, {"key": key, "value": described(made, after)}, {"key": key, "value": gone}
    )

    assert (rows, report.to_json()["rejected"]) == ([], 0)


def test_a_flattened_row_is_no_notice(tmp_path: Path) -> None:
    """A table may have columns that messages about transactions, schemas or heartbeats have."""
    names = ("status", "databaseName", "ddl", "ts_ms")
    flat = [{"id": n, "name": "a", name: "paid"} for n, name in enumerate(names)]
    notices = [
        {"ts_ms": 5},
        {"status": "BEGIN", "id": "1", "event_count": None, "ts_ms": 5},
        {"source": {"db": "d"}, "ddl": "create table", "databaseName": "d"},
    ]

    _, report = stored(world_of(tmp_path, "debezium"), *flat, *notices)

    assert (report.to_json()["rejected"], report.counts.passed) == (4, 3)


NUMBER = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2"},
}
SHAPE = {
    "field": "v",
    "type": "struct",
    "name": "io.debezium.data.geometry.Point",
    "fields": [
        {"field": "wkb", "type": "bytes"},
        {"field": "n", **NUMBER},
        {"field": "at", "type": "int64", "name": "io.debezium.time.Timestamp"},
        {"field": "m", "type": "map", "keys": {"type": "string"}, "values": NUMBER},
    ],
}


@pytest.mark.parametrize("schema", [True, False])
def test_parts_of_structs_and_maps_are_decoded_as_columns_are(tmp_path: Path, schema: bool) -> None:
    """1234 is the base64 of -2658824, and base64 of bytes is text of other bytes."""
    kind = "record<wkb: bytes, n: numeric(10,2), at: timestamp, m: map<numeric(10,2)>>"
    value = {"wkb": "YWJj", "n": "1234", "at": 1_700_000_000_123, "m": {"x": "1234", "y": None}}
    event: Any = {"op": "c", "before": None, "after": {"id": 1, "v": value}, "ts_ms": 5}
    if schema:
        event = described(event, {"field": "after", "fields": [TEXTS[0], SHAPE]})
    world = world_of(tmp_path, "debezium", columns=columns("id int64", f"v {kind}"))
    put(world, 1, [event])

    [report] = run(world, 1, 1)

    batches = scan(world.stores, world.state, plan_read(world.stores, world.state))
    [found] = [row["v"] for batch in batches for row in batch.to_pylist()]
    cents, micros = (-2658824, 123_000) if schema else (123400, 123)
    whole = datetime.fromisoformat("2023-11-14T22:13:20" if schema else "1970-01-20T16:13:20")
    assert report.to_json()["rejected"] == 0
    assert found == {
        "wkb": b"abc",
        "n": Decimal(cents) / 100,
        "at": whole + timedelta(microseconds=micros),
        "m": [("x", Decimal(cents) / 100), ("y", None)],
    }


def test_documents_of_mongodb_are_rejected_with_the_cure(tmp_path: Path) -> None:
    made = {"after": '{"_id": 1, "name": "a"}', "op": "c", "ts_ms": 1, "source": {"ts_ms": 1}}
    changed: dict[str, Any] = {
        "after": None,
        "updateDescription": {},
        "op": "u",
        "ts_ms": 2,
        "source": {},
    }
    world = world_of(tmp_path, "debezium")
    rows, report = stored(world, made, changed)
    assert (rows, report.counts.rejected) == ([], 2)
    [batch] = rejected(world.stores, world.state.name)
    assert {row["reason"] for row in batch.rows} == {DOCUMENT}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"id": 1, "NAME": "b"}, "the key NAME differs from the column name in capital letters"),
        ({"key": {"ID": 1}, "value": {"name": "b"}}, "the key ID differs from the column id"),
        ({"key": {"Id": 1}, "value": None}, "the key Id differs from the column id"),
        (
            {"id": 1, "name": "b", "__deleted ": "true"},
            "the key __deleted  differs from the column __deleted",
        ),
        ({"id": 1, "name": "b", "__DELETED": True}, "the key __DELETED differs from the column"),
        ({"id": 1, "name": "a", "NAME": "b"}, ""),
    ],
)
def test_a_row_with_a_name_in_other_letters_is_rejected(
    tmp_path: Path, line: dict[str, Any], reason: str
) -> None:
    # A null would replace the value of the row, and a row that is marked deleted would stay.
    source = {"paths": ["in/"], "format": "jsonl", "envelope": "upsert", "max_rejected": 1.0}
    more = {"deleted_column": "__deleted", "schema_changes": "report"}
    world = world_of(tmp_path, source={**source, **more})

    rows, report = stored(world, THERE, line)

    assert rows == [(1, "a")]
    assert report.counts.rejected == bool(reason)
    found = [
        one["reason"][: len(reason)] for part in rejected(world.stores, "s") for one in part.rows
    ]
    assert found == ([reason] if reason else [])


def test_a_time_beside_a_row_is_no_missing_key_of_it(tmp_path: Path) -> None:
    source = {"paths": ["in/"], "format": "jsonl", "envelope": "upsert", "schema_changes": "report"}
    time = {"from": "source", "column": "timestamp"}
    world = world_of(tmp_path, source=source, time=time)
    row = {"id": 1, "name": "a", "TIMESTAMP": "x"}

    rows, report = stored(world, {"key": {"id": 1}, "value": row, "timestamp": 5})

    assert (rows, report.counts.rejected) == ([(1, "a")], 0)
