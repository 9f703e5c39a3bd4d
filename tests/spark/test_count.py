"""Counting by a filter that Spark understands gives what reading gives."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from strata.decide.whole import complement
from strata.spark import snapshot
from strata.spark.count import count
from strata.spark.front.catalyst import analyse
from tests.spark.test_snapshot import FILTERS
from tests.support.shards import NAME, UPPER, Events, build, let_skip

WHERE = [
    *(where for where, _ in FILTERS),
    "id < 10000",
    "lower(carrier) in ('aa', 'b6', 'ua', 'wn')",
    "id < 10000 -- and a comment",
    "id + 1 > 0 and not (carrier > 'ZZ')",
    "coalesce(small, 0) >= 0",
    None,
]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    events = build(tmp_path_factory.mktemp("events"))
    let_skip(events.stores)
    return events


@pytest.mark.parametrize("where", WHERE)
def test_a_count_is_the_sum_of_the_rows_that_are_read(
    spark: SparkSession, events: Events, where: str | None
) -> None:
    for as_of in (700, 2500, UPPER - 1):
        rows = snapshot(
            spark, NAME, where=where, as_of=as_of, config=events.settings, pushdown="off"
        )
        [read] = rows.agg(fn.coalesce(fn.sum("d"), fn.lit(0))).collect()

        found = count(spark, NAME, where=where, as_of=as_of, config=events.settings)

        assert found.count == read[0]


def test_parts_count_unread_where_every_row_is_accepted(
    spark: SparkSession, events: Events
) -> None:
    found = count(spark, NAME, where="upper(carrier) < 'x' or id * 2 < 900", config=events.settings)
    by_hour = count(spark, NAME, where="id + 0 >= 0", by="hour", config=events.settings)

    assert found.parts_counted > 5
    assert found.plan.parts_fetched  # those in the old format have no statistics
    assert sum(by_hour.by_bucket.values()) == by_hour.count == sum(events.contents().values())


@pytest.mark.parametrize("where", [where for where in WHERE if where])
def test_spark_understands_the_complement_as_it_is_judged(
    spark: SparkSession, events: Events, where: str
) -> None:
    """So soft evaluation, which analyses the text again, checks what a count relied on."""
    relation = events.state.relation
    other = complement(analyse(spark, relation, where, now=0))

    again = analyse(spark, relation, other.sql, now=0)

    assert again.expr == replace(other, sql=again.sql).expr
