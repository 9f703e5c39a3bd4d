"""Counting by a filter that Spark understands gives what reading gives."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from strata.audit.used import used_filters
from strata.decide.whole import complement
from strata.history import usage
from strata.model.settings import UsageSettings
from strata.plain.parse import plain_filter
from strata.spark import snapshot
from strata.spark.count import row_count
from strata.spark.front.catalyst import analyse
from tests.spark.test_snapshot import FILTERS
from tests.support.plain_filters import RELATION
from tests.support.shards import NAME, UPPER, Events, copied, let_skip
from tests.support.sizes import slice_of

WHERE = [
    *(where for where, _ in FILTERS),
    "id < 10000",
    "lower(carrier) in ('aa', 'b6', 'ua', 'wn')",
    "id < 20000 -- and a comment",
    "id + 1 > 0 and not (carrier > 'ZZ')",
    "coalesce(small, 0) >= 0",
    None,
]
TIMES = (700, 2500, UPPER - 1)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    events = copied(tmp_path_factory.mktemp("events"))
    let_skip(events.stores)
    return events


@pytest.mark.parametrize("where", WHERE)
def test_a_count_is_the_sum_of_the_rows_that_are_read(
    spark: SparkSession, events: Events, where: str | None
) -> None:
    for as_of in slice_of(TIMES, WHERE.index(where), len(TIMES)):
        rows = snapshot(
            spark, NAME, where=where, as_of=as_of, config=events.settings, pushdown="off"
        )
        [read] = rows.agg(fn.coalesce(fn.sum("d"), fn.lit(0))).collect()

        found = row_count(spark, NAME, where=where, as_of=as_of, config=events.settings)

        assert found.count == read[0]


def test_parts_count_unread_where_every_row_is_accepted(
    spark: SparkSession, events: Events
) -> None:
    found = row_count(
        spark, NAME, where="upper(carrier) < 'x' or id * 2 < 900", config=events.settings
    )
    by_hour = row_count(spark, NAME, where="id + 0 >= 0", by="hour", config=events.settings)

    assert found.parts_counted > 5
    assert found.plan.parts_fetched  # those in the old format have no statistics
    assert sum(by_hour.by_bucket.values()) == by_hour.count == sum(events.contents().values())


@pytest.mark.parametrize(
    "where", ["id > 3 and a < 3", "id <> 3 or s = 'x'", "not bo", "bo", "s is null"]
)
def test_spark_understands_the_complement_of_a_plain_filter_as_it_is_judged(
    spark: SparkSession, where: str
) -> None:
    """So soft evaluation, which analyses the text again, checks what a count relied on."""
    other = complement(plain_filter(RELATION, where, 0))

    assert analyse(spark, RELATION, other.sql, now=0).expr == other.expr


@pytest.mark.parametrize("where", [where for where in WHERE if where])
def test_soft_evaluation_finds_the_complement_in_the_log(
    spark: SparkSession, events: Events, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "SLOTS", 1 << 40)  # no two filters share one
    row_count(spark, NAME, where=where, config=events.settings)
    text = complement(analyse(spark, events.state.relation, where, now=0)).sql

    used = used_filters(events.stores, NAME, UsageSettings(), [], 99)

    [found] = [one.filter.expr for one in used if one.filter.sql == text]
    assert found == analyse(spark, events.state.relation, text, now=0).expr
