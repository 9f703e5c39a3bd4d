"""A fault of ingest itself is found by looking twice, stops the source, and reaches no reader.

Each test plants the fault that the net is there to find.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt, Fenced, InvalidRequest
from strata.ingest import run
from strata.ingest.changes.settle import check_verified
from strata.ingest.counts import Counts
from strata.ingest.engine import ingest, ingest_steps
from strata.ingest.ledger import Ledger
from strata.ingest.tables import Rows, commit_tables, open_batch, table_task
from strata.ingest.task import Step, TaskResult
from strata.ingest.values import cast, connect
from strata.ingest.values.column import NONE_BAD, Cast
from strata.ingest.values.exact_json import NumberText
from strata.ingest.verify import Difference, Sampling, sampling
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.spec import ShardSpec, parse_spec
from strata.model.types import ColumnType
from strata.state.source import release
from tests.unit.ingest.test_engine import DAY, SPEC, World

HUGE = str(2**256 - 1)  # an allowance without limit, as token contracts have it


def world_of(root: Path, kind: str, form: str, **source: Any) -> World:
    columns = [{"name": "id", "type": "int64"}, {"name": "n", "type": kind}]
    return World(root, columns=columns, source={"paths": ["in/"], "format": form, **source})


def wrapping(texts: pa.Array, goal: pa.DataType) -> Cast:
    """Return decimals as Arrow's own cast makes them."""
    return Cast(pc.cast(texts, goal), NONE_BAD)


def caught(call: Callable[[], object]) -> dict[str, object]:
    with pytest.raises(Corrupt, match="would have been stored as another one") as error:
        call()
    return error.value.details


def test_a_number_that_wraps_trips_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "numeric(10,2)", "jsonl")
    good = world.put("good.jsonl", '{"id":1,"n":1.5}\n')
    world.ingest(good, lower=0, upper=10)
    before = world.state
    bad = world.put("in/x.jsonl", f'{{"id":1,"n":2}}\n\n{{"id":2,"n":{HUGE}}}\n')
    monkeypatch.setattr(cast, "decimals", wrapping)

    found = caught(lambda: world.ingest(bad, lower=10, upper=20))

    assert (found["file"], found["line"], found["column"]) == ("in/x.jsonl", 3, "n")
    assert (
        "78 digits" in str(found["source"]) or HUGE[:20] in str(found["source"]) or found["source"]
    )
    assert found["stored"] == "Decimal('-1.00')"
    assert (world.state.upper, world.state.spine) == (before.upper, before.spine)
    tripped = world.state.tripped
    assert tripped is not None
    assert (tripped.file, tripped.line, tripped.column) == ("in/x.jsonl", 3, "n")


def test_nothing_comes_in_while_a_source_is_tripped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "numeric(10,2)", "csv")
    bad = world.put("bad.csv", f"id,n\n1,{HUGE}\n2,1\n")
    good = world.put("good.csv", "id,n\n1,1.5\n")
    with monkeypatch.context() as patched:
        patched.setattr(cast, "decimals", wrapping)
        caught(lambda: world.ingest(bad, lower=0, upper=10))

    with pytest.raises(Corrupt, match="source of this shard is tripped") as error:
        world.ingest(good, lower=0, upper=10)
    with pytest.raises(Corrupt, match="tripped"):
        open_batch(world.stores, world.settings, "s", Rows(0, 10))

    assert "strata source release s" in str(error.value)
    world.machine.apply("s", release)
    assert world.ingest(good, lower=0, upper=10)["updates"] == 1
    assert world.ingest(bad, lower=10, upper=20)["rejected"] == 1
    with pytest.raises(InvalidRequest, match="not tripped"):
        world.machine.apply("s", release)


def test_a_run_that_began_before_the_trip_does_not_commit(tmp_path: Path) -> None:
    world = world_of(tmp_path, "int64", "csv")
    file = world.put("a.csv", "id,n\n1,1\n")
    result = TaskResult(0, 0, Counts(rows=1), differences=(Difference("f", 1, "n", "1", "2"),))
    plans = ingest_steps(world.stores, world.settings, "s", [Step(0, 10, None, ())])
    basis = Ledger(world.stores.blob, world.state).with_files(world.state, [], "token")
    with pytest.raises(Corrupt):
        check_verified(world.state, Step(0, 10), [result], world.machine)

    with pytest.raises(Corrupt, match="tripped"):
        world.machine.append("s", token="token", lower=0, upper=10, basis=basis)
    with pytest.raises(Corrupt, match="tripped"):
        next(plans)
    assert file


def test_a_dry_run_finds_it_and_trips_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "numeric(10,2)", "csv")
    world.put("in/1970-01-01.csv", f"id,n\n1,{HUGE}\n2,1\n")
    monkeypatch.setattr(cast, "decimals", wrapping)

    steps = ingest_steps(world.stores, world.settings, "s", [Step(0, DAY)], dry_run=True)

    caught(lambda: list(steps))
    assert world.state.tripped is None


def test_a_rounded_decimal_of_a_change_stream_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "numeric(38,0)", "jsonl", envelope="debezium")
    field = {
        "field": "n",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "0"},
    }
    schema = {"type": "struct", "fields": [{"field": "after", "fields": [field]}]}
    payload = {
        "before": None,
        "after": {"id": 1, "n": "DMnyTJrxfQ8Jd1JAAQ=="},
        "op": "c",
        "ts_ms": 1,
    }
    file = world.put("a.jsonl", orjson.dumps({"schema": schema, "payload": payload}).decode())
    monkeypatch.setattr(connect, "_decimal", lambda text, scale: NumberText("1" + "0" * 30))

    found = caught(lambda: world.ingest(file, lower=0, upper=10))

    assert (found["line"], found["column"]) == (1, "n")
    assert world.state.upper < 10


def test_a_rounded_float_of_a_parquet_file_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "numeric(10,2)", "parquet")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2], "n": [0.5, 0.125]}), path)
    monkeypatch.setattr(
        cast, "as_decimals", lambda values, goal: Cast(pc.cast(values, goal), NONE_BAD)
    )

    found = caught(lambda: world.ingest(str(path), lower=0, upper=10))

    assert (found["line"], found["column"]) == (2, "n")


def test_rows_of_a_program_are_looked_at_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "date", "csv")

    def next_day(values: pa.Array, target: ColumnType, goal: pa.DataType) -> Cast:
        days = pc.add(values.view(pa.int32()), pa.scalar(1, pa.int32()))
        return Cast(days.view(goal), NONE_BAD)

    monkeypatch.setattr(cast, "_within_family", next_day)
    opened = open_batch(world.stores, world.settings, "s", Rows(0, 10))
    table = pa.table({"id": ["1"], "n": [date(2020, 1, 1)]})
    results = list(table_task(opened.task, [table], 0, 1 << 20, world.stores.blob))

    found = caught(lambda: commit_tables(world.stores, world.settings, opened, results))

    assert (found["column"], world.state.tripped is not None) == ("n", True)


@pytest.mark.parametrize("envelope", ["append", "upsert"])
def test_a_row_that_is_lost_on_the_way_to_the_store_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, envelope: str
) -> None:
    world = world_of(tmp_path, "int64", "csv", envelope=envelope)
    file = world.put("a.csv", "id,n\n1,1\n2,2\n3,3\n")
    monkeypatch.setattr(run, "consolidate", lambda table, relation: table.slice(1))

    found = caught(lambda: world.ingest(file, lower=0, upper=10))

    assert found["column"] == "digest"
    assert world.state.upper < 10


def test_a_time_that_is_moved_on_the_way_to_the_store_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "int64", "csv")
    file = world.put("a.csv", "id,n\n1,1\n")

    def moved(table: pa.Table, _: Relation) -> pa.Table:
        index = table.schema.get_field_index("t")
        return table.set_column(index, table.schema.field("t"), pa.array([5], pa.int64()))

    monkeypatch.setattr(run, "consolidate", moved)

    assert caught(lambda: world.ingest(file, lower=0, upper=10))["column"] == "times"


def test_small_files_that_are_read_together_name_the_file_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "numeric(10,2)", "csv")
    for day in range(1, 6):
        world.put(f"in/1970-01-0{day}.csv", f"id,n\n{day},{HUGE if day == 3 else day}\n")
    monkeypatch.setattr(cast, "decimals", wrapping)

    found = caught(lambda: ingest(world.stores, world.settings, "s", lower=0, upper=9 * DAY))

    assert (found["file"], found["line"]) == ("in/1970-01-03.csv", 2)


def test_a_new_source_is_looked_at_wholly_and_an_old_one_seldom(tmp_path: Path) -> None:
    world = world_of(tmp_path, "int64", "csv")
    settings = world.settings.ingest
    world.ingest(world.put("a.csv", "id,n\n1,1\n"), lower=0, upper=10)
    state = world.state
    assert state.consumed is not None
    began = state.consumed.began_ms

    def share(now_ms: int, **changes: Any) -> float:
        spec = replace(state.spec, source=replace(state.spec.source, **changes))
        found = sampling(settings, replace(state, spec=spec), now_ms, "t")
        return 0.0 if found is None else found.share

    assert began == 1_000_000
    assert share(began + 7 * DAY - 1) == 1.0
    assert share(began + 7 * DAY) == 0.01
    assert (share(began, verify="never"), share(began + 9 * DAY, verify="always")) == (0.0, 1.0)
    assert sampling(replace(settings, verify_rows=0), state, began, "t") is None


def test_the_lot_is_drawn_by_file_and_is_the_same_again(tmp_path: Path) -> None:
    world = world_of(tmp_path, "int64", "csv", same_content="each")
    for n in range(40):
        # With a lone return each is read by itself
        Path(world.put(f"in/1970-01-01-x{n}.csv", "")).write_bytes(b"id,n\n1,1\r")
    state = world.state
    world.now += 8 * DAY
    world.settings = replace(
        world.settings, ingest=replace(world.settings.ingest, verify_percent=50, verify_days=0)
    )

    def looked() -> int:
        [report] = ingest_steps(world.stores, world.settings, "s", [Step(0, DAY)], dry_run=True)
        return report.counts.verified

    assert 8 <= looked() <= 32
    assert looked() == looked()
    assert state.tripped is None


def test_a_wrong_twin_would_be_noticed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself can fail: whichever of the two is wrong."""
    world = world_of(tmp_path, "int64", "csv")
    file = world.put("a.csv", "id,n\n1,1\n")
    monkeypatch.setattr("strata.ingest.twin.from_text", lambda text, kind: 7)

    assert caught(lambda: world.ingest(file, lower=0, upper=10))["source"] == "7"


def test_what_was_looked_at_is_counted(tmp_path: Path) -> None:
    world = world_of(tmp_path, "int64", "csv")
    rows = "".join(f"{n},{n}\n" for n in range(250))
    file = world.put("a.csv", "id,n\n" + rows + "x,1\n")

    assert world.ingest(file, lower=0, upper=10)["verified"] == world.settings.ingest.verify_rows
    assert Sampling("t", 1.0, 5).share == 1.0


def test_a_shard_that_is_created_anew_is_not_tripped(tmp_path: Path) -> None:
    world = world_of(tmp_path, "int64", "csv")
    machine = Machine(world.stores)
    result = TaskResult(0, 0, Counts(rows=1), differences=(Difference("f", 1, "n", "1", "2"),))
    with pytest.raises(Corrupt):
        check_verified(world.state, Step(0, 10), [result], machine)
    machine.drop("s", by="anna", reason="test", force=True)

    machine.create(world_spec(), revive=True)

    assert world.state.tripped is None


def world_spec() -> ShardSpec:
    return parse_spec({**SPEC, "columns": [{"name": "id", "type": "int64"}], "key": ["id"]})


def test_a_part_that_others_removed_at_once_is_fenced_and_not_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "int64", "csv")
    file = world.put("a.csv", "id,n\n1,1\n")
    monkeypatch.setattr("strata.ingest.verify.retry", lambda _: None)

    with pytest.raises(Fenced, match="an erasure or a sweep removed it") as error:
        world.ingest(file, lower=0, upper=10)

    assert error.value.cure
    assert world.state.upper < 10
