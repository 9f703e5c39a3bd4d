"""`strata erase` on a disk, with Spark's own reading of the filter: two steps and a certificate."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from strata.cli.app import main
from strata.decide.plan import plan_read
from strata.machine.machine import Machine
from strata.read.scan import scan
from strata.state.holds import hold, release
from tests.spark.test_explain_command import run
from tests.support.shards import NAME, UPPER, Events, copied, counted, let_skip

pytestmark = pytest.mark.spark
WHERE = "carrier = 'AA' and get_json_object(payload, '$.n') < 150"
MARK = "the-mark-of-a-state"


@pytest.fixture
def events(tmp_path: Path) -> Events:
    return copied(tmp_path)


def erases(row: dict[str, Any]) -> bool:
    return row["carrier"] == "AA" and row["payload"] is not None and row["id"] < 150


def snapshot(events: Events, as_of: int) -> Any:
    state = events.state
    plan = plan_read(events.stores, state, as_of=as_of)
    batches = [*scan(events.stores, state, plan, consolidate=True)]
    return counted(pa.Table.from_batches(batches))


def everything(root: Path) -> Any:
    """Return all rows of the database, and the bytes of each blob."""
    with sqlite3.connect(root / "consensus.db") as base:
        rows = [*base.iterdump()]
    base.close()
    return rows, {file: file.read_bytes() for file in root.rglob("blob/**/*") if file.is_file()}


def test_two_steps_erase_what_the_filter_means_and_nothing_else(
    spark: SparkSession, events: Events, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    let_skip(events.stores)
    machine = Machine(events.stores)
    take = partial(hold, name=MARK, since=UPPER, lease_ms=60_000)
    machine.apply(NAME, take)
    machine.apply(NAME, partial(release, name=MARK))
    counts = [row for row, _, _ in events.updates]
    gone = sum(erases(dict(zip(_columns(events), row, strict=True))) for row in counts)
    assert 0 < gone < len(counts) / 2

    before = everything(tmp_path)
    code, plan = run(events, capsys, "erase", NAME, "--where", WHERE)
    assert (code, plan["rows"]) == (0, gone)
    assert everything(tmp_path) == before, "the first step only says what would go"
    assert machine.load(NAME).erasing is None

    wrong = ("--confirm", "00000000", "--reason", "article 17")
    assert run(events, capsys, "erase", NAME, "--where", WHERE, *wrong)[0] == 2
    right = ("--confirm", plan["confirm"], "--reason", "article 17", "--wait", "0")
    out = tmp_path / "certificate.md"
    code, found = run(events, capsys, "erase", NAME, "--where", WHERE, *right, "--out", str(out))

    assert (code, found["complete"], found["rows"]) == (0, True, gone)
    assert found["proof"][0]["rows"] == len(counts) - gone
    assert "is complete" in out.read_text()
    for as_of in (999, 1500, UPPER - 1):
        wanted = events.contents(as_of, keep=lambda row: not erases(row))
        assert snapshot(events, as_of) == wanted
    assert run(events, capsys, "erase", NAME, "--where", WHERE)[1]["rows"] == 0
    listed = run(events, capsys, "erasures", NAME)[1]
    assert [one["id"] for one in listed["certificates"]] == [found["id"]]
    assert run(events, capsys, "verify", NAME)[1]["clean"]
    assert run(events, capsys, "gc", "leaks", NAME)[1]["clean"]
    _, history = run(events, capsys, "history", NAME)
    assert "erase" in str(history)
    assert "carrier" not in str(history), "the filter names whom it forgets"
    files = [*tmp_path.glob("consensus.db*")]
    assert files
    assert all(MARK.encode() not in file.read_bytes() for file in files)


def _columns(events: Events) -> list[str]:
    return [column.name for column in events.state.relation.columns]


def test_dropped_states_leave_bytes_in_the_file_until_it_is_scrubbed(
    events: Events, tmp_path: Path
) -> None:
    """What makes the last assertion above mean something."""
    machine = Machine(events.stores)
    machine.apply(NAME, partial(hold, name=MARK, since=UPPER, lease_ms=60_000))
    machine.apply(NAME, partial(release, name=MARK), whole=True)
    machine.forget_before(NAME, machine.load(NAME).seqno)

    with sqlite3.connect(tmp_path / "consensus.db") as database:
        found = database.execute("SELECT data FROM strata_consensus").fetchall()
    assert all(MARK.encode() not in data for (data,) in found)
    assert any(MARK.encode() in file.read_bytes() for file in tmp_path.glob("consensus.db*"))


def test_a_filter_that_fails_on_a_row_erases_nothing_and_quotes_none(
    spark: SparkSession, events: Events, capsys: pytest.CaptureFixture[str]
) -> None:
    where = "1 / (id - 105) > 0"
    with pytest.raises(SystemExit) as end:
        main(["erase", NAME, "--where", where, "--config", config_of(events)])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "the filter fails on a row" in said
    assert "try_divide" in said
    assert events.state.erasing is None


def config_of(events: Events) -> str:
    store = events.settings.store
    config = Path(store.blob.removeprefix("file://")).parent / "strata.toml"
    config.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    return str(config)
