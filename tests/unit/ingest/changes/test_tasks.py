"""Change streams: the shard is the source table at any time, whatever the stream looks like."""

from collections.abc import Iterator
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.ingest import engine, plan
from strata.ingest.changes.lookup import rows_of_keys
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.ingest.readers.change import key_bytes, key_ids
from strata.ingest.task import SENT_BYTES, IngestTask
from strata.model.runner import Runner, serial, threads
from strata.model.settings import IngestSettings, Settings
from strata.model.time import MIN_TIME
from strata.read.scan import scan
from tests.support.sizes import tries
from tests.support.stored import append
from tests.support.updates import table as updates_of
from tests.unit.ingest.test_engine import DAY, World

COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "name", "type": "string", "nullable": False},
    {"name": "big", "type": "string"},
]
HOUR = DAY // 24
UNSENT = "__debezium_unavailable_value"
Table = dict[int, tuple[str, str | None]]


def world_of(root: Path, envelope: str, **source: Any) -> World:
    return World(
        root,
        columns=COLUMNS,
        source={"paths": ["in/"], "format": "jsonl", "envelope": envelope, **source},
        time={"from": "source", "column": "timestamp"}
        if envelope == "upsert"
        else {"from": "source"},
    )


def put(world: World, day: int, lines: list[Any], name: str = "x") -> str:
    text = "".join(orjson.dumps(line).decode() + "\n" for line in lines)
    return world.put(f"in/1970-01-{day:02}/{name}.jsonl", text)


def run(world: World, first: int, last: int, **how: Any) -> list[Any]:
    steps = steps_of((first - 1) * DAY, last * DAY, "P1D")
    return list(ingest_steps(world.stores, how.pop("settings", world.settings), "s", steps, **how))


def table_at(world: World, as_of: int) -> Table:
    state = world.state
    plan = plan_read(world.stores, state, as_of=as_of)
    found: Table = {}
    for batch in scan(world.stores, state, plan, consolidate=True):
        for row in batch.to_pylist():
            assert row["d"] == 1
            assert row["id"] not in found
            found[row["id"]] = (row["name"], row["big"])
    return found


def event(op: str, key: int, row: Any = None, t: int = 0, before: Any = None) -> dict[str, Any]:
    after = None if row is None else {"id": key, "name": row[0], "big": row[1]}
    if op == "d" and before is None:
        before = {"id": key, "name": "", "big": None}  # replica identity default
    return {"before": before, "after": after, "op": op, "ts_ms": t + 7, "source": {"ts_ms": t}}


def test_the_operations_of_a_stream(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(
        world,
        1,
        [
            event("r", 1, ("a", "A"), 1),
            event("r", 2, ("b", "B"), 1),
            {"status": "BEGIN", "id": "571"},
            event("c", 3, ("c", None), 5),
            event("u", 1, ("a2", UNSENT), 6),
            {"schema": {"type": "struct"}, "payload": event("d", 2, t=7)},
            None,
            {"key": {"id": 2}, "value": None},
            {"source": {}, "ddl": "ALTER TABLE x ADD y int", "tableChanges": []},
            {"op": "m", "message": {}},
        ],
    )

    [report] = run(world, 1, 1)

    assert table_at(world, 4) == {1: ("a", "A"), 2: ("b", "B")}
    assert table_at(world, 5) == {1: ("a", "A"), 2: ("b", "B"), 3: ("c", None)}
    assert table_at(world, 6)[1] == ("a2", "A")
    assert table_at(world, DAY - 1) == {1: ("a2", "A"), 3: ("c", None)}
    assert (report.updates, report.counts.passed, report.counts.rejected) == (6, 5, 0)


def test_a_truncation_takes_all_that_was_there(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, [event("c", n, ("x", None), 1) for n in range(5)])
    put(
        world,
        2,
        [
            event("c", 7, ("y", None), DAY + 1),
            {"op": "t", "source": {"ts_ms": DAY + 2}},
            event("c", 1, ("z", None), DAY + 3),
        ],
    )

    run(world, 1, 2)

    assert len(table_at(world, DAY + 1)) == 6
    assert table_at(world, DAY + 2) == {}
    assert table_at(world, 2 * DAY - 1) == {1: ("z", None)}


def test_values_mean_what_the_schema_says(tmp_path: Path) -> None:
    columns = [
        {"name": "id", "type": "int64"},
        {"name": "day", "type": "date"},
        {"name": "at", "type": "timestamp"},
        {"name": "price", "type": "numeric(10,2)"},
        {"name": "raw", "type": "bytes"},
        {"name": "tz", "type": "timestamptz"},
    ]
    world = World(
        tmp_path,
        columns=columns,
        source={"paths": ["in/"], "format": "jsonl", "envelope": "debezium"},
    )
    fields = [
        {"field": "id", "type": "int64"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "at", "type": "int64", "name": "io.debezium.time.Timestamp"},
        {
            "field": "price",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
        {"field": "raw", "type": "bytes"},
        {"field": "tz", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    row = {
        "id": 1,
        "day": 1,
        "at": 1500,
        "price": "AMg=",
        "raw": "/wA=",
        "tz": "1970-01-02T00:00:00Z",
    }
    plain = {**row, "id": 2, "at": 1_500_000, "price": "2.00"}
    put(
        world,
        1,
        [
            {"schema": schema, "payload": {"op": "c", "after": row, "ts_ms": 1}},
            {"op": "c", "after": plain, "ts_ms": 1},
        ],
    )

    run(world, 1, 1)

    [first, second] = [row[1:6] for row in sorted(world.rows())]
    assert first == second
    assert [str(value) for value in first] == [
        "1970-01-02",
        "1970-01-01 00:00:01.500000",
        "2.00",
        str(b"\xff\x00"),
        "1970-01-02 00:00:00+00:00",
    ]


CONTRADICTING = [
    event("c", 1, ("a", None), 1),
    event("c", 1, ("b", None), 2),
    event("u", 2, ("c", None), 3),
    event("d", 3, t=4),
    event("u", 2, ("d", None), 5),
]


def test_a_contradiction_fails_unless_declared_otherwise(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, CONTRADICTING)

    with pytest.raises(InvalidRequest, match="contradicts the shard") as error:
        run(world, 1, 1)

    assert error.value.details["line"] == 2
    assert error.value.details["reason"] == "inserted, and the key is there already"
    assert world.state.upper < 0


def test_contradictions_may_be_counted(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium", contradictions="count")
    put(world, 1, CONTRADICTING)

    [report] = run(world, 1, 1)

    assert (report.counts.contradictions, report.counts.rejected) == (3, 0)
    assert table_at(world, DAY - 1) == {1: ("b", None), 2: ("d", None)}


def test_contradictions_may_go_to_the_quarantine(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium", contradictions="quarantine", max_rejected=0.9)
    put(world, 1, CONTRADICTING)

    [report] = run(world, 1, 1)

    assert (report.counts.contradictions, report.counts.rejected) == (0, 4)
    assert table_at(world, DAY - 1) == {1: ("a", None)}
    [key] = report.quarantine
    rejected = [orjson.loads(line) for line in (world.stores.blob.get(key) or b"").splitlines()]
    assert [row["line"] for row in rejected] == [2, 3, 4, 5]
    assert orjson.loads(rejected[2]["raw"]) == {
        "before": {"id": 3},
        "after": None,
        "op": "d",
        "ts_ms": 4,
    }


@pytest.mark.parametrize(
    ("rows", "diff"),
    [
        ([(1, "a", None, 0, 1), (1, "b", None, 0, 1), (2, "c", None, 0, 1)], 1),
        ([(1, "a", None, 0, 2), (2, "c", None, 0, 1)], 2),
        ([(1, "a", None, 0, -1), (2, "c", None, 0, 1)], -1),
    ],
    ids=["two rows", "one row twice", "less than none"],
)
def test_a_key_that_is_not_there_once_is_not_replaced(
    tmp_path: Path, rows: list[Any], diff: int
) -> None:
    world = world_of(tmp_path, "debezium", contradictions="count")
    relation = world.state.relation
    before = append(world.stores, "s", MIN_TIME, DAY, [updates_of(relation, rows)])
    put(world, 2, [event("u", 2, ("d", None), DAY), event("u", 1, ("new", None), DAY)])

    with pytest.raises(InvalidRequest, match="does not hold this key exactly once") as error:
        run(world, 2, 2)

    assert (error.value.details["id"], error.value.details["diff"]) == (1, diff)
    assert world.state.batches == before.batches


def test_upserts_replace_rows_by_key_and_tombstones_remove_them(tmp_path: Path) -> None:
    world = world_of(tmp_path, "upsert", contradictions="count")
    put(
        world,
        1,
        [
            {"key": {"id": 1}, "value": {"name": "a", "big": None}, "timestamp": 1},
            {"key": 2, "value": {"id": 2, "name": "b", "big": "B"}, "timestamp": 1},
            {"id": 3, "name": "c", "big": None, "timestamp": 3},
        ],
    )
    put(
        world,
        2,
        [
            {"key": {"id": 1}, "value": None, "timestamp": DAY + 1},
            {"key": {"id": 2}, "value": {"name": "b2", "big": "B"}, "timestamp": DAY + 2},
            {"key": {"id": 9}, "value": None, "timestamp": DAY + 2},
        ],
    )

    reports = run(world, 1, 2)

    assert table_at(world, DAY - 1) == {1: ("a", None), 2: ("b", "B"), 3: ("c", None)}
    assert table_at(world, 2 * DAY - 1) == {2: ("b2", "B"), 3: ("c", None)}
    assert [r.counts.contradictions for r in reports] == [0, 1]


def test_a_column_may_mark_tombstones(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        source={"paths": ["in/"], "format": "csv", "envelope": "upsert", "deleted_column": "gone"},
    )
    world.put("in/1970-01-01.csv", "id,name,gone\n1,a,\n2,b,false\n")
    world.put("in/1970-01-02.csv", "id,name,gone\n1,,true\n2,c,false\n")

    run(world, 1, 2)

    assert world.rows() == {
        (1, "a", 0): 1,
        (2, "b", 0): 1,
        (1, "a", DAY): -1,
        (2, "b", DAY): -1,
        (2, "c", DAY): 1,
    }


def test_clocks_that_go_back_do_no_harm(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, [event("c", 1, ("a", None), 50), event("u", 1, ("b", None), 20)])

    run(world, 1, 1)

    assert table_at(world, 49) == {}
    assert table_at(world, 50) == {1: ("b", None)}


def test_a_late_file_of_changes_is_refused(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, [event("c", 1, ("a", None), 1)])
    run(world, 1, 1)
    put(world, 1, [event("u", 1, ("old", None), 0)], name="late")

    with pytest.raises(InvalidRequest, match="takes no late files"):
        run(world, 2, 2)


def test_only_row_groups_that_may_hold_a_key_are_read(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        part_bytes=4096,
        row_group_bytes=1024,
        source={"paths": ["in/"], "format": "csv", "envelope": "upsert"},
    )
    world.put(
        "in/1970-01-01.csv", "id,name\n" + "".join(f"{n},{n * 7919 % 10007}\n" for n in range(4000))
    )
    run(world, 1, 1)
    state = world.state
    wanted = range(1000, 1040)
    rows = [b for b in scan(world.stores, state, plan_read(world.stores, state), stored=True)]
    ids = key_ids(state.relation)
    keys = [
        key_bytes(b.rename_columns(["1", "2", "t", "d"]).filter(mask_of(b, wanted)), ids)
        for b in rows
    ]

    found = rows_of_keys(world.stores, state, pa.concat_arrays(keys))

    assert found.rows["1"].to_pylist() == list(wanted)
    assert found.bytes_read < 0.2 * found.bytes_in_shard


def mask_of(batch: Any, wanted: range) -> Any:
    return pc.is_in(batch["id"], value_set=pa.array(wanted, pa.int64()))


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete", "truncate", "tick", "day"]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    max_size=40,
)


def history(
    changes: list[tuple[str, int, int]],
) -> Iterator[tuple[int, dict[str, Any] | None, Table]]:
    """Yield time, event and the table after it, as a database would have them."""
    table: Table = {}
    time = 1
    for what, key, number in changes:
        found: dict[str, Any] | None = None
        if what == "tick":
            time += number
        elif what == "day":
            time = (time // DAY + 1) * DAY
        elif what == "truncate" and number == 0:
            table, found = {}, {"op": "t", "before": None, "after": None, "ts_ms": time}
        elif what == "delete" and key in table:
            old = table.pop(key)
            full = {"id": key, "name": old[0], "big": old[1]} if number else None
            found = event("d", key, t=time, before=full)
        elif what == "put":
            before = table.get(key)
            big = before[1] if before and number == 3 else f"{number}" if number else None
            table[key] = (f"n{number}", big)
            sent = (f"n{number}", UNSENT if before and number == 3 else big)
            found = event("u" if before else "c", key, sent, time)
            if before and number == 1:
                found["before"] = {"id": key, "name": before[0], "big": before[1]}
        if found is not None and number % 2:
            found = {"schema": None, "payload": found}
        yield time, found, deepcopy(table)


@pytest.mark.parametrize(("order", "runs"), [([], 1), (["id"], 1), (["name"], 18)])
def test_slices_of_the_sort_order_are_one_run(tmp_path: Path, order: list[str], runs: int) -> None:
    source = {"paths": ["in/"], "format": "jsonl", "envelope": "upsert"}
    world = World(
        tmp_path,
        columns=COLUMNS,
        source=source,
        time={"from": "source", "column": "timestamp"},
        order=order,
    )
    for number in range(2):
        rows = [{"id": 10 * number + n, "name": f"{n}", "big": None} for n in range(9)]
        lines = [{"key": {"id": r["id"]}, "value": r, "timestamp": 0} for r in rows]
        put(world, 1, lines, name=f"{number}")
    small = Settings(store=world.settings.store, ingest=IngestSettings(60))

    run(world, 1, 1, settings=small)

    found = plan_read(world.stores, world.state).runs
    assert [len(one.parts) for one in found] == [18 // runs] * runs, "each row is a slice"
    assert sorted(table_at(world, DAY - 1)) == [*range(9), *range(10, 19)]


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_changes_wait_in_memory_or_in_a_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(engine, "HERE_BYTES", in_memory)
    world = world_of(tmp_path, "debezium")
    put(world, 1, [event("c", 1, ("a", None)), event("c", 2, ("b", None))])
    run(world, 1, 1)
    put(world, 2, [event("u", 1, ("c", None), DAY), event("d", 2, t=DAY)])
    run(world, 2, 2)
    staged = [info.key for info in world.stores.blob.list("") if "staged" in info.key]
    assert len(staged) == (0 if in_memory else 2)
    assert table_at(world, 2 * DAY - 1) == {1: ("c", None)}


def test_what_all_tasks_of_a_run_hand_over_is_bounded(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    for day in (1, 2, 3):
        put(world, day, [event("c", day, ("a", None), (day - 1) * DAY)])
    given: list[int] = []

    def elsewhere(function: Any, items: Any) -> Any:
        given.extend(item.hand_over for item in items if isinstance(item, IngestTask))
        return serial(function, items)

    run(world, 1, 3, runner=elsewhere)
    assert len(given) == 3
    assert 0 < sum(given) <= SENT_BYTES
    assert sorted(table_at(world, 3 * DAY - 1)) == [1, 2, 3]


@settings(max_examples=tries(6, 250), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    CHANGES,
    st.sampled_from([1 << 20, 60]),
    st.sampled_from([0, 1 << 20]),
    st.sampled_from([serial, threads(2)]),
)
def test_the_shard_is_the_table_at_any_time(
    tmp_path_factory: Any,
    changes: list[tuple[str, int, int]],
    task_bytes: int,
    in_memory: int,
    runner: Runner,
) -> None:
    world = world_of(tmp_path_factory.mktemp("law"), "debezium")
    days: dict[int, list[Any]] = {}
    tables: dict[int, Table] = {}
    names = count()
    for time, found, table in history(changes):
        tables[time] = table
        if found is not None:
            days.setdefault(time // DAY + 1, []).append(found)
    world.put("in/.keep", "")
    for day, events in days.items():
        for start in range(0, len(events), 3):  # files of three events
            put(world, day, events[start : start + 3], name=f"{next(names):04}")
    small = Settings(store=world.settings.store, ingest=IngestSettings(task_bytes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "HERE_BYTES", in_memory)
        patch.setattr(plan, "LEAST_BYTES", 1)  # so that both threads have a task
        run(world, 1, max([1, *days]), settings=small, runner=runner)

    for time, table in tables.items():
        if time < world.state.upper:
            assert table_at(world, time) == table


@pytest.mark.parametrize("policy", ["refuse", "report"])
def test_a_column_in_other_capital_letters_is_no_null(tmp_path: Path, policy: str) -> None:
    world = world_of(tmp_path, "debezium", schema_changes=policy, max_rejected=1.0)
    put(world, 1, [event("c", 1, ("a", "A"), 1)])
    run(world, 1, 1)
    other = event("u", 1, ("b", "B"), 5)
    other["after"] = {"id": 1, "NAME": "b", "big": "B"}
    put(world, 2, [other])

    if policy == "refuse":
        with pytest.raises(InvalidRequest, match="does not declare") as caught:
            run(world, 2, 2)
        assert "call it 'name' in the source" in str(caught.value)
    else:
        assert [one.counts.rejected for one in run(world, 2, 2)] == [1]
    assert table_at(world, DAY - 1) == {1: ("a", "A")}


@pytest.mark.parametrize("policy", ["refuse", "report"])
def test_a_record_of_a_change_event_is_no_row(tmp_path: Path, policy: str) -> None:
    world = world_of(tmp_path, "upsert", schema_changes=policy, max_rejected=1.0)
    put(world, 1, [{"key": {"id": 1}, "value": event("c", 1, ("a", "A"), 1)}])

    if policy == "refuse":
        with pytest.raises(InvalidRequest, match="does not declare") as caught:
            run(world, 1, 1)
        assert "source.envelope: debezium" in str(caught.value)
    else:
        assert [one.counts.rejected for one in run(world, 1, 1)] == [1]
        assert table_at(world, DAY - 1) == {}
