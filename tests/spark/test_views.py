"""Views of several shards show one time and one clock, and are made all or none."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest
from strata.history.usage import recent
from strata.model.schema import Column, Relation
from strata.model.settings import UsageSettings
from strata.model.types import parse_type
from strata.spark import temporary_views
from tests.support.shards import NAME, UPPER, Events, copied, counted, let_skip
from tests.support.stored import append, create
from tests.support.updates import table

SHORT = "carriers.short"  # a name that SQL has to quote
BEHIND = 1700  # its upper, while the events go on
RELATION = Relation(
    0, (Column(1, "carrier", parse_type("string")), Column(2, "n", parse_type("int64"))), (1,), ()
)
UPDATES = [("AA", 1, 0, 1), ("B6", 2, 900, 1), ("AA", 1, 1600, -1), ("AA", 7, 1600, 1)]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    """The shard of events, and one beside it that is behind."""
    events = copied(tmp_path_factory.mktemp("views"))
    let_skip(events.stores)
    create(events.stores, RELATION, name=SHORT)
    append(events.stores, SHORT, 0, BEHIND, [table(RELATION, UPDATES)])
    return events


@pytest.fixture(autouse=True)
def no_views(spark: SparkSession) -> None:
    for name in (NAME, f"`{SHORT}`"):
        spark.catalog.dropTempView(name.strip("`"))


def views(spark: SparkSession) -> set[str]:
    return {row.viewName for row in spark.sql("show views").collect()}


def test_views_show_the_newest_time_that_all_have(spark: SparkSession, events: Events) -> None:
    at = temporary_views(spark, [NAME, SHORT], config=events.settings)

    assert at == BEHIND - 1 < UPPER - 1
    assert {NAME, SHORT} <= views(spark)
    assert counted(spark.table(NAME).toArrow()) == events.contents(at)
    found = spark.sql(
        f"select n, sum(e.d * s.d) as rows from {NAME} e join `{SHORT}` s using (carrier)"
        " group by n having rows <> 0"
    ).collect()
    carriers = Counter[str]()
    for row, count in events.contents(at).items():
        carriers[row[1]] += count
    assert {(row.n, row.rows) for row in found} == {(7, carriers["AA"]), (2, carriers["B6"])}


def test_an_earlier_time_and_conditions_reach_each_shard(
    spark: SparkSession, events: Events
) -> None:
    where = {NAME: "id < 30"}
    at = temporary_views(
        spark, [NAME, SHORT], as_of=1500, where=where, consolidate=True, config=events.settings
    )

    assert at == 1500
    kept = events.contents(1500, lambda row: row["id"] < 30)
    assert counted(spark.table(NAME).toArrow()) == kept != events.contents(1500)
    assert sorted(tuple(row) for row in spark.table(f"`{SHORT}`").collect()) == [
        ("AA", 1, 1500, 1),
        ("B6", 2, 1500, 1),
    ]
    [logged] = recent(events.stores, NAME, UsageSettings())
    assert logged.filter.sql == "id < 30"
    assert logged.parts_kept < logged.parts_total


def test_all_conditions_have_one_clock(spark: SparkSession, events: Events) -> None:
    never = "now() > timestamp'1970-01-01 00:00:01Z'"
    where = {NAME: never, SHORT: never}
    temporary_views(spark, [NAME, SHORT], where=where, now=0, config=events.settings)

    assert spark.table(NAME).count() == spark.table(f"`{SHORT}`").count() == 0


def test_one_shard_that_cannot_be_read_leaves_no_view(spark: SparkSession, events: Events) -> None:
    for shards, where, wrong in (
        ([NAME, "nobody"], {}, "no such shard"),
        ([NAME], {SHORT: "n > 1"}, "without a view"),
        ([NAME, SHORT], {SHORT: "m > 1"}, "m"),
        ([], {}, "no shard is named"),
    ):
        with pytest.raises(InvalidRequest, match=wrong):
            temporary_views(spark, shards, where=where, config=events.settings)
    with pytest.raises(InvalidRequest, match="no read is possible"):
        temporary_views(spark, [NAME, SHORT], as_of=BEHIND, config=events.settings)
    assert not views(spark) & {NAME, SHORT}


def test_a_text_names_the_time_of_all(spark: SparkSession, events: Events) -> None:
    text = "1970-01-01T00:00:01.000Z"
    assert temporary_views(spark, [NAME, SHORT], as_of=text, config=events.settings) == 1000
    assert counted(spark.table(NAME).toArrow()) == events.contents(1000)
