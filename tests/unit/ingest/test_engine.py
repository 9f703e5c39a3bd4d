"""Ingest: the same twice is once, a bad row is counted, a bad file commits nothing."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import InvalidRequest
from strata.format.manifest import decode_manifest, part_refs
from strata.ingest.engine import ingest, ingest_steps
from strata.ingest.land.files import files_by_time
from strata.ingest.plan import ingest_tasks, steps_of
from strata.ingest.task import Step
from strata.machine.machine import Machine
from strata.model.runner import threads
from strata.model.settings import IngestSettings, Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.read.scan import read_updates
from strata.state.state import State
from strata.store.open import Stores, open_stores

NUMBERS = count()
DAY = 86_400_000


class World:
    """A landing folder, memory stores and one shard."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.root, self.now = root, 1_000_000
        name = f"ingest-{next(NUMBERS)}"
        store = StoreSettings(f"memory://{name}", f"memory://{name}", str(root))
        self.settings = Settings(store=store)
        self.stores: Stores = open_stores(store, clock=lambda: self.now)
        self.machine = Machine(self.stores)
        self.machine.create(parse_spec({**SPEC, **changes}))

    def put(self, name: str, text: str) -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def ingest(self, *paths: str, **how: Any) -> dict[str, Any]:
        report = ingest(self.stores, self.settings, "s", paths=list(paths) or None, **how)
        return report.to_json()

    @property
    def state(self) -> State:
        return self.machine.load("s")

    def rows(self) -> Counter[tuple[Any, ...]]:
        """Return every update (columns in order, t) that is stored with the sum of its diffs."""
        state = self.state
        found: Counter[tuple[Any, ...]] = Counter()
        for batch in state.batches:
            manifest = self.stores.blob.get(batch.manifest) if batch.manifest else None
            for ref in part_refs(decode_manifest(manifest)) if manifest else []:
                for row in read_updates(self.stores, state, ref).to_pylist():
                    *update, d = row.values()
                    found[tuple(update)] += d
        return Counter({row: n for row, n in found.items() if n})

    def blobs(self) -> list[str]:
        return [info.key for info in self.stores.blob.list("")]


SPEC: dict[str, Any] = {
    "name": "s",
    "columns": [
        {"name": "id", "type": "int64", "nullable": False},
        {"name": "name", "type": "string"},
    ],
    "key": ["id"],
    "source": {"paths": ["in/"], "format": "csv"},
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def source(**changes: Any) -> dict[str, Any]:
    return {"source": {**SPEC["source"], **changes}}


def test_a_batch_is_committed_and_read_back(world: World) -> None:
    file = world.put("a.csv", "id,name\n2,b\n1,NA\n")

    report = world.ingest(file, lower=10, upper=20)

    assert world.rows() == {(1, None, 10): 1, (2, "b", 10): 1}
    assert world.state.upper == 20
    assert {k: report[k] for k in list(report)[:9]} == {
        "shard": "s",
        "seqno": 2,
        "lower": 10,
        "upper": 20,
        "updates": 2,
        "parts": 1,
        "bytes": world.state.batches[-1].size_bytes,
        "rejected": 0,
        "already_committed": False,
    }


def test_the_same_interval_again_changes_nothing_and_reads_no_file(world: World) -> None:
    file = world.put("a.csv", "id,name\n1,a\n")
    first = world.ingest(file, lower=10, upper=20)
    world.put("a.csv", "this is no longer a file of the right shape")
    before = (world.state, world.blobs())

    again = world.ingest(file, lower=10, upper=20)

    assert again["already_committed"]
    assert {k: again[k] for k in ("seqno", "lower", "upper", "updates", "parts", "bytes")} == {
        k: first[k] for k in ("seqno", "lower", "upper", "updates", "parts", "bytes")
    }
    assert (world.state, world.blobs()) == before


def test_the_same_files_again_change_nothing(world: World) -> None:
    file = world.put("a.csv", "id,name\n1,a\n")
    first = world.ingest(file)
    world.now += 5

    assert world.ingest(file)["already_committed"]
    assert first["lower"] == 1_000_000
    other = world.put("b.csv", "id,name\n2,b\n")
    second = world.ingest(file, other)
    assert (second["files"], second["taken_before"]) == (1, 1)
    assert world.rows() == {(1, "a", 1_000_000): 1, (2, "b", second["lower"]): 1}


def test_without_interval_time_never_goes_back(world: World) -> None:
    world.ingest(world.put("a.csv", "id,name\n1,a\n"))
    world.now = 5

    report = world.ingest(world.put("b.csv", "id,name\n2,b\n"))

    assert (report["lower"], report["upper"]) == (1_000_001, 1_000_002)


def test_a_writer_that_was_overtaken_takes_the_next_time(world: World) -> None:
    a, b = world.put("a.csv", "id,name\n1,a\n"), world.put("b.csv", "id,name\n2,b\n")
    others = iter([b])

    def slow(function: Any, items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            result = function(item)
            for other in others:  # somebody commits while this one prepares
                world.ingest(other)
            yield result

    report = world.ingest(a, runner=slow)

    assert report["lower"] == 1_000_001
    assert world.rows() == {(1, "a", 1_000_001): 1, (2, "b", 1_000_000): 1}


def test_a_doubled_run_that_is_overtaken_by_itself_is_a_success(world: World) -> None:
    a = world.put("a.csv", "id,name\n1,a\n")
    doubles = iter([a])

    def slow(function: Any, items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            result = function(item)
            for double in doubles:
                world.ingest(double)
            yield result

    assert world.ingest(a, runner=slow)["already_committed"]
    assert sum(world.rows().values()) == 1


def test_an_interval_written_by_somebody_else_is_refused_before_reading(world: World) -> None:
    world.ingest(world.put("a.csv", "id,name\n1,a\n"), lower=10, upper=20)

    with pytest.raises(InvalidRequest, match="already written, and not under this token"):
        world.ingest(world.put("b.csv", "no csv at all"), lower=15, upper=25)
    with pytest.raises(InvalidRequest, match="used for another interval"):
        world.ingest(world.put("b.csv", ""), lower=20, upper=30, token=world.state.commits[0].token)


@pytest.mark.parametrize("bounds", [{"lower": 5}, {"upper": 5}, {"lower": 5, "upper": 5}, {}])
def test_contradicting_arguments_are_refused(world: World, bounds: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        world.ingest(**bounds)
    if bounds:
        with pytest.raises(InvalidRequest):
            world.ingest(world.put("a.csv", "id,name\n1,a\n"), **bounds)


def test_files_of_an_interval_are_found_by_their_time(world: World) -> None:
    for day in (1, 2, 3):
        world.put(f"in/1970-01-0{day}.csv", f"id,name\n{day},x\n")

    steps = steps_of(DAY, 3 * DAY, "P1D")
    reports = list(ingest_steps(world.stores, world.settings, "s", steps))

    assert [(r.lower, r.updates, r.counts.files) for r in reports] == [(DAY, 1, 1), (2 * DAY, 1, 1)]
    assert world.rows() == {(2, "x", DAY): 1, (3, "x", 2 * DAY): 1}
    again = list(ingest_steps(world.stores, world.settings, "s", steps_of(DAY, 4 * DAY, "P1D")))
    assert [r.already_committed for r in again] == [True, True, False]
    assert again[2].updates == 0
    assert world.state.upper == 4 * DAY


def test_steps_in_threads_commit_in_order(tmp_path: Path) -> None:
    world = World(tmp_path)
    for day in range(1, 9):
        world.put(f"in/1970-01-0{day}.csv", f"id,name\n{day},x\n")
    settings = replace(world.settings, ingest=IngestSettings(task_bytes=1))

    steps = steps_of(0, 8 * DAY, "P2D")
    reports = list(ingest_steps(world.stores, settings, "s", steps, runner=threads(3)))

    assert [r.lower for r in reports] == [0, 2 * DAY, 4 * DAY, 6 * DAY]
    assert world.rows() == {(day, "x", (day - 1) // 2 * 2 * DAY): 1 for day in range(1, 9)}


def test_a_task_takes_files_by_bytes(world: World) -> None:
    for day in (1, 2, 3):
        world.put(f"in/1970-01-0{day}.csv", "id,name\n1,x\n")
    small = replace(world.settings, ingest=IngestSettings(task_bytes=25))

    files = files_by_time(str(world.root), ["in/"])
    tasks = ingest_tasks(small, world.state, Step(0, 3 * DAY, "plan", tuple(files)))

    assert [[f.name for f in task.files] for task in tasks] == [
        ["in/1970-01-01.csv", "in/1970-01-02.csv"],
        ["in/1970-01-03.csv"],
    ]


def test_changes_keep_all_cores_busy_and_appended_rows_stay_one_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.ingest.plan.LEAST_BYTES", 30)
    for day in (1, 2, 3, 4):
        world.put(f"in/1970-01-0{day}.csv", "id,name\n1,x\n")
    step = Step(0, 4 * DAY, "plan", tuple(files_by_time(str(world.root), ["in/"])))
    state = world.state

    def groups(envelope: str, cores: int) -> list[int]:
        source = replace(state.spec.source, envelope=envelope)
        changed = replace(state, spec=replace(state.spec, source=source))
        tasks = ingest_tasks(world.settings, changed, step, cores=cores)
        return [len(task.files) for task in tasks]

    assert groups("append", 2) == [4]
    assert groups("upsert", 1) == [4]
    assert groups("upsert", 2) == [2, 2]
    assert groups("debezium", 8) == [2, 2], "a task has 30 bytes or more"


def test_an_unreadable_row_is_quarantined_and_counted(world: World) -> None:
    good = "".join(f"{n},x\n" for n in range(20))
    file = world.put("a.csv", f"id,name\nbad,first\n{good},\nonly one field\n")

    report = world.ingest(file, lower=0, upper=1)

    assert (report["updates"], report["rejected"]) == (20, 3)
    [key] = report["quarantine"]
    data = world.stores.blob.get(key)
    assert data is not None
    found = [orjson.loads(line) for line in data.splitlines()]
    assert [(r["file"], r["line"], r["column"], r["value"], r["raw"]) for r in found] == [
        ("a.csv", 2, "id", "bad", "bad,first"),
        ("a.csv", 23, "id", None, ","),
        ("a.csv", 24, None, None, "only one field"),
    ]
    assert found[1]["reason"] == "null in a column that may not be null"
    assert report["token"] in key


def test_too_many_unreadable_rows_commit_nothing(world: World) -> None:
    rows = "".join(f"{n},x\n" if n % 10 else "bad,x\n" for n in range(200))
    file = world.put("a.csv", f"id,name\n{rows}")
    before = world.state

    with pytest.raises(InvalidRequest, match="too many rows") as error:
        world.ingest(file, lower=0, upper=1)

    assert world.state == before
    details = dict(error.value.details)
    [key] = details.pop("quarantine")
    assert world.stores.blob.get(str(key))
    assert details == {
        "file": "a.csv",
        "line": 2,
        "column": "id",
        "value": "bad",
        "reason": "not readable as int64",
        "rejected": 20,
        "rows": 200,
    }


def test_no_rejected_row_is_allowed_where_none_is_declared(tmp_path: Path) -> None:
    world = World(tmp_path, **source(max_rejected=0))

    with pytest.raises(InvalidRequest, match="too many rows"):
        world.ingest(world.put("a.csv", "id,name\n1,a\n2,b\nx,c\n"), lower=0, upper=1)


def test_a_file_of_the_wrong_shape_commits_nothing(world: World) -> None:
    world.put("in/1970-01-01.csv", "id,name\n1,a\n")
    world.put("in/1970-01-02.csv", "id,surname\n1,a\n")
    before = world.state

    with pytest.raises(InvalidRequest, match="lacks a declared column") as error:
        world.ingest(lower=0, upper=3 * DAY)

    assert error.value.details["file"] == "in/1970-01-02.csv"
    assert error.value.details["column"] == "name"
    assert world.state == before


def test_a_change_stream_with_diffs_adds_up(tmp_path: Path) -> None:
    world = World(tmp_path, **source(format="jsonl", envelope="diff", diff_column="diff"))
    file = world.put(
        "a.jsonl",
        '{"id":1,"name":"a","diff":1}\n{"id":2,"name":"b","diff":2}\n'
        '{"id":1,"name":"a","diff":-1}\n{"id":3,"name":"c","diff":-1}\n',
    )

    report = world.ingest(file, lower=0, upper=1)

    assert report["updates"] == 2  # the change that was taken back is gone
    assert world.rows() == {(2, "b", 0): 2, (3, "c", 0): -1}
    assert world.state.batches[-1].retractions


def test_envelopes_ask_for_what_they_need(tmp_path: Path) -> None:
    world = World(tmp_path, **source(envelope="debezium"))
    with pytest.raises(InvalidRequest, match="cannot have this envelope"):
        world.ingest(world.put("a.csv", "id,name\n1,a\n"), lower=0, upper=1)

    world = World(tmp_path, **source(envelope="upsert"), key=["id", "name"])
    with pytest.raises(InvalidRequest, match="needs a key"):
        world.ingest(world.put("a.csv", "id,name\n1,a\n"), lower=0, upper=1)


TIMED = "id,name,at\n1,early,1970-01-01T00:00:00.005Z\n2,late,1970-01-01T00:00:00.001Z\n"


def timed(late: str, **changes: Any) -> dict[str, Any]:
    return {"time": {"from": "column", "column": "at", "late": late}, **changes}


def test_time_may_come_from_a_column_that_is_not_stored(tmp_path: Path) -> None:
    world = World(tmp_path, **timed("advance"))

    report = world.ingest(world.put("a.csv", TIMED), lower=3, upper=10)

    assert world.rows() == {(1, "early", 5): 1, (2, "late", 3): 1}
    assert report["late"] == 1


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("s"), pa.string()])
def test_time_may_be_a_date_of_any_form_that_is_not_stored(
    tmp_path: Path, kind: pa.DataType
) -> None:
    world = World(tmp_path, **timed("advance"), **source(format="parquet"))
    days = pa.array([date(1970, 1, 2), date(1969, 12, 31)]).cast(kind)
    table = pa.table({"id": [1, 2], "name": ["a", "b"], "at": days})
    pq.write_table(table, tmp_path / "x.parquet")

    world.ingest(str(tmp_path / "x.parquet"), lower=-DAY, upper=2 * DAY)

    assert world.rows() == {(1, "a", DAY): 1, (2, "b", -DAY): 1}


def test_time_may_be_milliseconds_of_a_stored_column(tmp_path: Path) -> None:
    columns = [*SPEC["columns"], {"name": "at", "type": "int64"}]
    world = World(tmp_path, **timed("advance", columns=columns))

    world.ingest(world.put("a.csv", "id,name,at\n1,a,7\n2,b,8\n"), lower=3, upper=10)

    assert world.rows() == {(1, "a", 7, 7): 1, (2, "b", 8, 8): 1}


def test_late_rows_may_be_refused_or_quarantined(tmp_path: Path) -> None:
    strict = World(tmp_path, **timed("refuse"))
    with pytest.raises(InvalidRequest, match="time lies outside") as error:
        strict.ingest(strict.put("a.csv", TIMED), lower=3, upper=10)
    assert (error.value.details["line"], error.value.details["column"]) == (3, "at")

    lenient = World(tmp_path, **timed("quarantine"))
    report = lenient.ingest(lenient.put("a.csv", TIMED), lower=3, upper=10)
    assert (report["updates"], report["rejected"]) == (1, 1)


def test_early_rows_are_never_advanced(tmp_path: Path) -> None:
    world = World(tmp_path, **timed("advance"))

    with pytest.raises(InvalidRequest, match="time lies outside"):
        world.ingest(world.put("a.csv", TIMED), lower=0, upper=5)


def test_early_rows_may_get_the_last_time_of_the_interval(tmp_path: Path) -> None:
    world = World(tmp_path, time={"from": "column", "column": "at", "early": "last"})

    report = world.ingest(world.put("a.csv", TIMED), lower=0, upper=5)

    assert world.rows() == {(1, "early", 4): 1, (2, "late", 1): 1}
    assert (report["early"], report["late"]) == (1, 0)


def test_without_interval_rows_keep_the_time_they_bring(tmp_path: Path) -> None:
    world = World(tmp_path, **timed("advance"))

    report = world.ingest(world.put("a.csv", TIMED))

    assert report["lower"] == MIN_TIME
    assert world.rows() == {(1, "early", 5): 1, (2, "late", 1): 1}


def test_the_layout_may_be_chosen_for_a_batch(world: World) -> None:
    file, other = world.put("a.csv", "id,name\n1,a\n"), world.put("b.csv", "id,name\n2,b\n")
    world.ingest(file, lower=0, upper=1, write_format="row")
    world.ingest(other, lower=1, upper=2)

    layouts = [dict(batch.layouts) for batch in world.state.batches if batch.parts]
    assert layouts == [{"row": 1}, {"both": 1}]
    with pytest.raises(InvalidRequest, match="unknown write format"):
        world.ingest(other, lower=2, upper=3, write_format="csv")


def test_a_dry_run_reads_and_writes_nothing(world: World) -> None:
    world.put("in/1970-01-01.csv", "id,name\n1,a\n2,b\nx,c\n")
    before = (world.state, world.blobs())

    [report] = ingest_steps(world.stores, world.settings, "s", steps_of(0, DAY), dry_run=True)

    assert (report.updates, report.counts.rejected, report.counts.files) == (2, 1, 1)
    assert (world.state, world.blobs()) == before
