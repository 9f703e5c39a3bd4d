"""A row whose diffs add up beyond int64 comes as several rows in Spark: d is a bigint there."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.compact import compact_shard
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import CompactSettings, Settings, StoreSettings
from strata.model.sums import LEAST, MOST
from strata.model.types import parse_type
from strata.spark.snapshot import snapshot
from strata.store.open import open_stores
from tests.support.stored import append, create
from tests.support.updates import table

pytestmark = pytest.mark.spark

RELATION = Relation(0, (Column(1, "id", parse_type("int64")),), (1,), ())
BATCHES = [[(1, 2**62), (2, LEAST), (3, 1)], [(1, 2**62), (2, LEAST), (4, MOST)], [(4, MOST)] * 2]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_row_beyond_int64_is_its_fewest_updates(
    spark: SparkSession, tmp_path: Path, compacted: bool
) -> None:
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    stores, settings = open_stores(store), Settings(store, compact=CompactSettings(history_ms=1))
    create(stores, RELATION)
    for number, batch in enumerate(BATCHES):
        rows = table(RELATION, [(row, number, diff) for row, diff in batch])
        append(stores, "shard", number, number + 1, [rows])
    if compacted:
        compact_shard(stores, "shard", settings, full=True)
        assert sum(len(batch.runs) for batch in Machine(stores).load("shard").batches) == 1

    once = snapshot(spark, "shard", consolidate=True, config=settings).collect()
    loose = snapshot(spark, "shard", config=settings).collect()

    wanted = [(1, MOST), (1, 1), (2, LEAST), (2, LEAST), (3, 1), *[(4, MOST)] * 3]
    assert sorted((r.id, -r.d) for r in once) == sorted((row, -d) for row, d in wanted)
    for row in (1, 2, 3, 4):
        assert sum(r.d for r in loose if r.id == row) == sum(d for i, d in wanted if i == row)
