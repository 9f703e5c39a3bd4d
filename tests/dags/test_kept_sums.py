"""The DAG of kept sums: which follow, that a dry run changes nothing, and what events carry."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException
from typer.testing import CliRunner

from strata.cli.app import whole
from strata_airflow.assets import SUMS
from strata_airflow.sums import StrataSumsOperator

pytestmark = pytest.mark.dags
SCHEDULED = SimpleNamespace(run_type="scheduled")
BY_HAND = SimpleNamespace(run_type="manual")


def in_process(*words: str) -> dict[str, Any]:
    """Run the command line as `run_strata` does, without a process of its own."""
    done = CliRunner().invoke(whole(), [*words, "--json"])
    if done.exit_code:
        raise AirflowFailException(done.output + str(done.exception))
    document: dict[str, Any] = json.loads(done.stdout)
    return document


class World:
    """A store with a shard of two batches, and sums of the first one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        spec = root / "s.yaml"
        columns = [{"name": "id", "type": "int64"}, {"name": "note", "type": "string"}]
        spec.write_text(json.dumps({"columns": columns}))
        in_process("create", "s", "--spec", str(spec))
        self.take_in(1000, '{"id": 1, "note": "x"}\n{"id": 2, "note": "y"}\n')
        in_process("sums", "s", "--into", "kept", "--by", "note", "--sum", "id")
        self.take_in(2000, '{"id": 5, "note": "x"}\n')

    def take_in(self, lower: int, text: str) -> None:
        folder = self.root / f"in{lower}"
        folder.mkdir()
        (folder / "a.jsonl").write_text(text)
        times = ("--lower", str(lower), "--upper", str(lower + 1000))
        in_process("ingest", "s", *times, "--from", str(folder))

    def groups(self) -> dict[str, int]:
        file = self.root / "kept.json"
        in_process("read", "kept", "--consolidate", "--out", str(file), "--format", "json")
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        file.unlink()
        return {row["note"]: int(row["sum_id"]) for row in rows}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    file = tmp_path / "strata.toml"
    file.write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
        f'landing = "{tmp_path}"\n'
    )
    monkeypatch.setenv("STRATA_CONFIG", str(file))
    monkeypatch.setattr("strata_airflow.sums.run_strata", in_process)
    return World(tmp_path)


@pytest.fixture(scope="module")
def dag(project: Path) -> Any:
    bag = DagBag(str(project / "dags" / "kept_sums.py"))
    assert bag.import_errors == {}
    return bag.dags["kept_sums"]


@pytest.fixture
def which(dag: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    chooses = dag.get_task("which").python_callable
    monkeypatch.setitem(chooses.__globals__, "run_strata", in_process)

    def call(dag_run: Any = SCHEDULED, **params: Any) -> Any:
        return chooses({**dag.params.dump(), **params}, dag_run)

    return call


class Context(dict[str, Any]):
    """What a worker gives to an operator, as far as this one looks."""

    def __init__(self) -> None:
        task = SimpleNamespace(outlets=[SUMS])
        event = SimpleNamespace(extra={}, add_partitions=lambda _: None)
        super().__init__(ti=SimpleNamespace(task=task), outlet_events={SUMS: event})


def executed(context: Context | None = None, **fields: Any) -> dict[str, Any]:
    operator = StrataSumsOperator(task_id="sums", strata_conn_id="", outlets=[SUMS], **fields)
    return operator.execute(context or Context())  # type: ignore[arg-type]


def test_a_scheduled_run_brings_each_shard_of_sums_up(
    world: World, which: Callable[..., Any]
) -> None:
    assert world.groups() == {"x": 1, "y": 2}
    (one,) = which()
    assert one == {"source": "s", "into": "kept", "rebuild": False}
    context = Context()
    assert executed(context, **one)["changes"] == 1
    assert context["outlet_events"][SUMS].extra == {"changes": 1, "updates": 2}
    assert world.groups() == {"x": 6, "y": 2}

    again = Context()
    assert executed(again, **one)["changes"] == 0
    assert again["outlet_events"][SUMS].extra == {}
    assert again["ti"].task.outlets == []  # nothing new wakes nobody


def test_a_run_by_hand_only_lists(
    world: World, which: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert which(BY_HAND) == []
    assert "kept of s by note" in caplog.text
    assert "1 batches behind" in caplog.text
    assert len(which(BY_HAND, dry_run=False)) == 1
    for on in (True, False):
        backfill = SimpleNamespace(run_type="backfill", conf={"dry_run": on})
        assert (which(backfill) == []) is on


def test_sources_are_chosen_and_unknown_ones_said(
    world: World, which: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert len(which(sources=["s"])) == 1
    assert which(sources=["other"]) == []
    assert "no shard keeps sums of other" in caplog.text


def test_a_dropped_source_leaves_the_others_going_on(
    world: World, which: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    in_process("create", "gone", "--spec", str(world.root / "s.yaml"))
    in_process("sums", "gone", "--into", "rest", "--by", "note")
    in_process("drop", "gone", "--yes", "gone", "--force", "--reason", "r", "--by", "me")
    assert [one["into"] for one in which()] == ["kept"]
    assert "rest stays as it is: gone: this shard was dropped" in caplog.text


def test_a_rebuild_corrects(world: World, which: Callable[..., Any]) -> None:
    (one,) = which(rebuild=True)
    assert executed(**one)["updates"] == 2
    with pytest.raises(AirflowFailException, match="next batch"):
        executed(**one)


def test_the_asset_of_the_target_is_the_outlet_of_other_peoples_dags() -> None:
    one = StrataSumsOperator(task_id="a", source="s", into="kept")
    assert [asset.name for asset in one.outlets] == ["strata_default/kept"]
    assert StrataSumsOperator(task_id="b", source="s", into="{{ params.x }}").outlets == []


def test_the_dag_says_what_it_does(dag: Any) -> None:
    assert "May I run it again, or clear it?" in dag.doc_md
    assert dag.max_active_runs == 1
    assert "PartitionedAsset" in type(dag.timetable).__name__
    mapped = dag.get_task("sums")
    assert mapped.outlets == [SUMS]
    assert mapped.partial_kwargs["strata_conn_id"] == ""
