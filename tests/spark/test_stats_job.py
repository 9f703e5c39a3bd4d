"""The stats job: arguments in, a result file and an exit code out, work done on Spark."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.jobs.stats.main import main
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.store.open import Stores, open_stores
from tests.unit.maintain.test_backfill import SHARD, SPEC, batches, put

pytestmark = pytest.mark.spark


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    """Return stores on disk, with a settings file beside them and one batch without statistics."""
    settings = StoreSettings(
        blob=f"file://{tmp_path}/blob", consensus=f"sqlite:///{tmp_path}/consensus.db"
    )
    lines = [f'blob = "{settings.blob}"', f'consensus = "{settings.consensus}"']
    (tmp_path / "base.toml").write_text("\n".join(["[store]", *lines]))
    opened = open_stores(settings)
    Machine(opened).create(SPEC)
    put(opened, 0, 100, "row")
    put(opened, 100, 200, "both")
    return opened


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, object]]:
    """Run the job and return its exit code and the result document."""
    result = folder / "result.json"
    code = main([*arguments, "--config", str(folder / "base.toml"), "--result", str(result)])
    return code, json.loads(result.read_text())


def test_backfill_then_trim_on_spark(spark: SparkSession, stores: Stores, tmp_path: Path) -> None:
    preview = run(tmp_path, "backfill", "--shard", SHARD, "--dry-run")
    filled = run(tmp_path, "backfill", "--shard", SHARD, "--from-time", "0", "--to-time", "500")
    again = run(tmp_path, "backfill")
    trimmed = run(tmp_path, "trim", "--shard", SHARD, "--budget", "40")

    first, second = batches(Machine(stores).load(SHARD))
    assert [code for code, _ in (preview, filled, again, trimmed)] == [0, 0, 0, 0]
    figures = [document["shards"][0] for _, document in (preview, filled, again, trimmed)]  # type: ignore[index]
    assert [f["parts_selected"] for f in figures[:3]] == [first.parts, first.parts, 0]
    assert [f["parts_changed"] for f in figures[:3]] == [0, first.parts, 0]
    assert figures[3]["stats_bytes_after"] == first.stats_bytes + second.stats_bytes
    assert 0 < figures[3]["stats_bytes_after"] < figures[1]["stats_bytes_after"]


def test_an_unknown_shard_ends_with_the_code_of_a_bad_request(
    spark: SparkSession, stores: Stores, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = run(tmp_path, "backfill", "--shard", "flihgts")

    assert code == 2
    assert document["error"]["kind"] == "InvalidRequest"  # type: ignore[index]
    assert capsys.readouterr().err.startswith("InvalidRequest: no such shard shard='flihgts'")
