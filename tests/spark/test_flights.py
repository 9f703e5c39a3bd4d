"""Real flights through the whole engine: what Strata reads is what Spark reads from the files."""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from demo.landing import make_landing
from strata.compact import compact_shard
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import parse_time
from strata.spark import snapshot
from strata.store.open import open_stores
from tests.support.shards import let_skip

DAYS = 6
ROOT = Path(__file__).parents[2]
FILTERS = [
    "date_trunc('day', time_hour) >= timestamp'2013-01-05 00:00:00' - interval 1 day",
    "origin = 'EWR' and carrier like 'U%'",
    "dep_delay > 300 or arr_delay is null",
    "upper(dest) in ('ATL', 'ORD') and distance between 500 and 800",
    "dep_delay / nullif(arr_delay, 0) > 3",
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Return the settings of a store whose flights were ingested, backfilled and compacted."""
    root = tmp_path_factory.mktemp("flights")
    make_landing(root, DAYS)
    settings = Settings(
        StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/c.db", landing=str(root))
    )
    stores = open_stores(settings.store)
    declared = yaml.safe_load((ROOT / "config/shards/flights.yaml").read_text())
    Machine(stores).create(parse_spec({**declared, "part_bytes": 32_768}))
    begin, change, end = (parse_time(f"2013-01-0{day}") for day in (1, 3, 7))
    for lower, upper, layout in ((begin, change, "row"), (change, end, "both")):
        steps = steps_of(lower, upper, "P1D")
        list(ingest_steps(stores, settings, "flights", steps, write_format=layout))
    backfill_shard(stores, "flights")
    compact_shard(stores, "flights", settings)
    let_skip(stores, "flights")
    return settings


@pytest.fixture(scope="module")
def raw(spark: SparkSession, settings: Settings) -> DataFrame:
    """Return the files as Spark reads them, in the declared types."""
    types = {"int16": "smallint", "int32": "int", "timestamptz": "timestamp"}
    declared = yaml.safe_load((ROOT / "config/shards/flights.yaml").read_text())["columns"]
    schema = ", ".join(f"{c['name']} {types.get(c['type'], c['type'])}" for c in declared)
    folder = f"{settings.store.landing}/landing/flights"
    return spark.read.csv(folder, header=True, schema=schema, nullValue="NA")


@pytest.mark.parametrize("where", FILTERS)
def test_reading_equals_reading_the_files(
    spark: SparkSession, settings: Settings, raw: DataFrame, where: str
) -> None:
    expected = sorted(raw.filter(where).collect(), key=repr)

    for pushdown in ("off", "on"):
        found = snapshot(spark, "flights", where=where, pushdown=pushdown, config=settings)
        rows = found.collect()
        assert {row.d for row in rows} == {1}
        assert sorted((row[:-2] for row in rows), key=repr) == [tuple(row) for row in expected]
    assert expected, "a filter that nothing satisfies shows nothing"


def test_all_flights_are_there_once(
    spark: SparkSession, settings: Settings, raw: DataFrame
) -> None:
    rows = snapshot(spark, "flights", config=settings)

    assert rows.agg(F.sum("d")).first()[0] == rows.count() == raw.count()


def test_compaction_left_few_runs_in_the_new_layout(settings: Settings) -> None:
    state = Machine(open_stores(settings.store)).load("flights")

    assert sum(len(batch.runs) for batch in state.batches) < DAYS
    assert {layout for batch in state.batches for layout, _ in batch.layouts} == {"both"}
