"""A DataFrame of user code becomes a batch: what Spark reads back is what it had."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import IngestSettings, Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.spark import snapshot, write
from strata.store.open import open_stores

pytestmark = pytest.mark.spark


def test_a_dataframe_is_written_once_and_replaced_by_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    settings = Settings(store=store, ingest=IngestSettings(task_bytes=32_768))
    columns = [
        {"name": "id", "type": "int64"},
        {"name": "name", "type": "string"},
        {"name": "at", "type": "timestamptz"},
        {"name": "price", "type": "numeric(10,2)"},
    ]
    Machine(open_stores(store)).create(parse_spec({"name": "s", "columns": columns, "key": ["id"]}))
    rows = spark.range(0, 1000, 1, 2).select(
        "id",
        fn.concat(fn.lit("n"), "id").alias("name"),
        fn.timestamp_seconds("id").alias("at"),
        (fn.col("id") / 4).cast("decimal(10,2)").alias("price"),
    )

    first = write(rows, "s", lower=0, upper=10, config=settings)
    again = write(rows, "s", lower=0, upper=10, config=settings)
    changed = rows.where("id % 100 = 0").withColumn("name", fn.lit("new"))
    write(changed, "s", lower=10, upper=20, envelope="upsert", config=settings)

    assert (first.updates, again.already_committed) == (1000, True)
    after = snapshot(spark, "s", consolidate=True, config=settings).drop("t", "d")
    assert sorted(after.collect()) == sorted(
        [*rows.where("id % 100 != 0").collect(), *changed.collect()]
    )
    with pytest.raises(InvalidRequest, match="does not declare"):
        write(rows.withColumn("x", fn.lit(1)), "s", lower=20, upper=30, config=settings)


def test_intervals_of_months_are_written_also_inside_other_types(
    spark: SparkSession, tmp_path: Path
) -> None:
    """PySpark hands no such interval to Python; they cross as whole months, those of years too."""
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    months = "interval year to month"
    types = {
        "id": "int64",
        "m": months,
        "years": months,
        "some": f"list<{months}>",
        "named": f"map<{months}>",
        "both": f"record<m: {months}, at: timestamptz>",
    }
    columns = [{"name": name, "type": kind} for name, kind in types.items()]
    Machine(open_stores(store)).create(parse_spec({"name": "s", "columns": columns, "key": ["id"]}))
    one, empty = "interval '-1-2' year to month", f"cast(null as {months})"
    rows = spark.sql(
        " union all ".join(
            f"select {n}L id, {m} m, interval '{n}' year years, "
            f"array({m}, null) some, map('a', {m}) named, "
            f"named_struct('m', {m}, 'at', timestamp'2024-01-01 00:00:00 UTC') both"
            for n, m in ((1, one), (2, empty))
        )
    )

    report = write(rows, "s", lower=0, upper=10, config=Settings(store=store))

    assert (report.updates, report.counts.rejected) == (2, 0)
    texts = ["id", *(f"to_json(struct({name}))" for name in types if name != "id")]
    found = snapshot(spark, "s", config=Settings(store=store)).selectExpr(*texts)
    wanted = rows.withColumn("years", fn.col("years").cast(months)).selectExpr(*texts)
    assert sorted(found.collect()) == sorted(wanted.collect())


def test_a_struct_with_two_fields_of_one_name_is_refused_by_its_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    columns = [{"name": "id", "type": "int64"}, {"name": "j", "type": "jsonb"}]
    Machine(open_stores(store)).create(parse_spec({"name": "s", "columns": columns, "key": ["id"]}))
    twins = "named_struct('a', 1, 'a', 2)"
    for value in (twins, f"array({twins})", f"map('x', named_struct('b', {twins}))"):
        rows = spark.sql(f"select 1L id, {value} j")
        with pytest.raises(InvalidRequest, match=r"two fields of one name column='j'.*cure: give"):
            write(rows, "s", lower=0, upper=10, config=Settings(store=store))
