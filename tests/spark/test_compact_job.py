"""The compact job merges on Spark's workers what a person would merge by hand."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.jobs.compact.main import main
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import StoreSettings
from strata.model.types import parse_type
from strata.store.open import Stores, open_stores
from tests.support.stored import append, create, snapshot
from tests.support.updates import table

pytestmark = pytest.mark.spark

COLUMNS = (Column(1, "id", parse_type("string")), Column(2, "n", parse_type("int64")))
RELATION = Relation(0, COLUMNS, (1,), ())


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    """A shard of six batches in folders that the workers can open, and a settings file."""
    blob, database = f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db"
    (tmp_path / "strata.toml").write_text(
        f'[store]\nblob = "{blob}"\nconsensus = "{database}"\n'
        "[compact]\nhistory_ms = 1\nmemory_bytes = 40000\n"
    )
    stores = open_stores(StoreSettings(blob, database))
    create(stores, RELATION)
    for day in range(6):
        new = [(f"row {i}", day, day, 1) for i in range(50)]
        old = [(f"row {i}", day - 1, day, -1) for i in range(50) if day]
        append(stores, "shard", day, day + 1, [table(RELATION, [*new, *old])])
    return stores


def test_the_job_merges_and_says_what_it_did(
    spark: SparkSession, stores: Stores, tmp_path: Path
) -> None:
    before, unchanged = snapshot(stores, "shard"), Machine(stores).load("shard")
    arguments = ["--shard", "shard", "--full", "--config", str(tmp_path / "strata.toml")]
    result = tmp_path / "results" / "r.json"

    assert main([*arguments, "--plan", "--result", str(result)]) == 0
    (planned,) = json.loads(result.read_text())["shards"]
    assert Machine(stores).load("shard") == unchanged
    assert main([*arguments, "--result", str(result)]) == 0
    (done,) = json.loads(result.read_text())["shards"]

    assert [r["reason"] for r in planned["requests"]] == [r["reason"] for r in done["requests"]]
    assert (done["applied"], done["runs_before"], done["runs_after"]) == (1, 6, 1)
    assert (done["updates_in"], done["updates_out"]) == (550, 50)
    assert snapshot(stores, "shard") == before


def test_an_unknown_shard_is_a_bad_request(
    spark: SparkSession, stores: Stores, tmp_path: Path
) -> None:
    result = tmp_path / "r.json"
    arguments = ["--config", str(tmp_path / "strata.toml"), "--result", str(result)]

    assert main(["--shard", "nope", *arguments]) == 2
    assert json.loads(result.read_text())["error"]["kind"] == "InvalidRequest"
