"""A collection is read by name in Spark, filters and all, and few parts are fetched for it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from strata.compact import compact_shard
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import CompactSettings, Settings, StoreSettings
from strata.model.types import parse_type
from strata.read.collections import create_collections
from strata.spark.snapshot import snapshot
from strata.store.open import open_stores
from tests.support.stored import append, create
from tests.support.updates import table

pytestmark = pytest.mark.spark

COLUMNS = (
    Column(1, "tenant", parse_type("string"), nullable=False),
    Column(2, "id", parse_type("int64")),
)
RELATION = Relation(0, COLUMNS, (1, 2), ())


@pytest.mark.slow
def test_a_collection_is_read_by_name(spark: SparkSession, tmp_path: Path) -> None:
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    stores, settings = open_stores(store), Settings(store, compact=CompactSettings())
    create(stores, RELATION)
    names = ["a", "b", "c"]
    for day in range(2):
        rows = [(name, 100 * day + i, day, 1) for name in names for i in range(30)]
        append(stores, "shard", day, day + 1, [table(RELATION, rows)])
    create_collections(Machine(stores), "shard", names)
    compact_shard(stores, "shard", settings, full=True)

    whole = snapshot(spark, "shard", collection="b", config=settings)
    some = snapshot(
        spark,
        "shard",
        collection="b",
        where="id < 5 or id = 103",
        columns=["id"],
        consolidate=True,
        config=settings,
    )
    by_column = snapshot(spark, "shard", collection="c", where=fn.col("id") > 128, config=settings)

    assert {(r.tenant, r.id) for r in whole.collect()} == {
        ("b", 100 * day + i) for day in range(2) for i in range(30)
    }
    assert sorted(r.id for r in some.collect()) == [0, 1, 2, 3, 4, 103]
    assert [(r.tenant, r.id) for r in by_column.collect()] == [("c", 129)]
    config = tmp_path / "strata.toml"
    config.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    for consolidate in ("false", "true"):
        chosen = spark.read.format("strata").options(
            shard="shard", config=str(config), collection="b", consolidate=consolidate
        )
        assert {(r.tenant, r.id) for r in chosen.load().collect()} == {
            ("b", 100 * day + i) for day in range(2) for i in range(30)
        }
        ids = chosen.schema("id bigint").load().where("id < 3").collect()
        assert sorted(r.id for r in ids) == [0, 1, 2]
    with pytest.raises(InvalidRequest, match="no such collection"):
        snapshot(spark, "shard", collection="nope", config=settings)
