"""The ingest job: one batch a step, in order, once; a bad file is a bad request."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from strata.config.settings import load_settings
from strata.jobs.ingest.main import main
from strata.machine.machine import Machine
from strata.store.open import open_stores

pytestmark = pytest.mark.spark
SHARD = """
name: visits
columns:
  - {name: id, type: int64, nullable: false}
  - {name: page, type: string}
key: [id]
source: {paths: ["in/"], format: csv}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "visits.yaml").write_text(SHARD)
    (tmp_path / "in").mkdir()
    for day in range(1, 5):
        rows = "".join(f"{day * 10 + n},p{n}\n" for n in range(10))
        (tmp_path / "in" / f"2013-01-0{day}.csv").write_text(f"id,page\n{rows}")
    file = tmp_path / "strata.toml"
    file.write_text(
        f'shards_dir = "{tmp_path}/shards"\n[store]\nblob = "file://{tmp_path}/blob"\n'
        f'consensus = "sqlite:///{tmp_path}/consensus.db"\nlanding = "{tmp_path}"\n'
    )
    return file


def ingest(config: Path, *words: str) -> tuple[int, dict[str, Any]]:
    result = config.with_name("result.json")
    code = main(
        ["--from-time", "2013-01-01", "--to-time", "2013-01-05", "--every", "P2D",
         "--config", str(config), "--result", str(result), *words]
    )  # fmt: skip
    return code, json.loads(result.read_text())


def test_steps_are_committed_once(
    spark: SparkSession, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = ingest(config, "--dry-run")
    assert (code, result["shards"][0]["updates"]) == (0, 40)
    machine = Machine(open_stores(load_settings(str(config), {}).store))
    assert machine.names() == []  # the shard is declared, and a dry run makes none

    code, result = ingest(config, "--shard", "visits", "--write-format", "structured")

    assert code == 0
    [shard] = result["shards"]
    assert (shard["batches"], shard["updates"], shard["files"]) == (2, 40, 4)
    assert "visits 2/2 2013-01-03T00:00:00Z: 20 updates" in capsys.readouterr().out
    state = machine.load("visits")
    assert sum(batch.updates for batch in state.batches) == 40
    assert {layout for batch in state.batches for layout, _ in batch.layouts} == {"structured"}

    code, result = ingest(config)
    assert (code, result["shards"][0]["already_committed"]) == (0, 2)
    assert machine.load("visits") == state


def test_a_file_of_the_wrong_shape_is_a_bad_request_and_commits_nothing(
    spark: SparkSession, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "in" / "2013-01-02.csv").write_text("id,path\n1,x\n")

    code, result = ingest(config)

    assert code == 2
    assert result["error"]["kind"] == "InvalidRequest"
    assert "in/2013-01-02.csv" in result["error"]["message"]
    assert "column='page'" in capsys.readouterr().err
    machine = Machine(open_stores(load_settings(str(config), {}).store))
    assert machine.load("visits").batches == ()


def test_a_shard_without_a_source_is_passed_over_unless_it_is_named(
    spark: SparkSession, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one that only `strata adopt` or kept sums fill."""
    filled = SHARD.replace("visits", "filled").replace('source: {paths: ["in/"], format: csv}', "")
    (config.parent / "shards" / "filled.yaml").write_text(filled)

    code, result = ingest(config)

    assert (code, [shard["shard"] for shard in result["shards"]]) == (0, ["visits"])
    assert "filled: passed over, because it declares no source" in capsys.readouterr().out
    code, result = ingest(config, "--shard", "filled")
    assert code == 2
    assert "the shard declares no source" in str(result)
