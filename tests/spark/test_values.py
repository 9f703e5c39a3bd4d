"""Values by a filter that Spark understands are those of the rows that Spark reads."""

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from strata.spark import snapshot
from strata.spark.values import column_extreme, column_values
from tests.support.shards import NAME, Events, copied, let_skip
from tests.support.sizes import slice_of

WHERE = ["lower(carrier) < 'b' -- early", "id % 7 = 3", "id = 1", None]
COLUMNS = ["carrier", "price", "at", "ratio"]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    events = copied(tmp_path_factory.mktemp("events"))
    let_skip(events.stores)
    return events


@pytest.fixture(scope="module")
def reading(spark: SparkSession, events: Events) -> Iterator[Callable[[str | None], DataFrame]]:
    """Return how the rows that satisfy a filter are read: once, since Spark keeps them."""
    known: dict[str | None, DataFrame] = {}

    def read(where: str | None) -> DataFrame:
        if where not in known:
            rows = snapshot(spark, NAME, where=where, config=events.settings, pushdown="off")
            known[where] = rows.cache()
        return known[where]

    yield read
    for rows in known.values():
        rows.unpersist()


@pytest.mark.parametrize(
    ("where", "column"),
    [
        (where, column)
        for number, where in enumerate(WHERE)
        for column in slice_of(COLUMNS, number, 2)
    ],
)
def test_values_are_those_that_reading_gives(
    spark: SparkSession,
    events: Events,
    reading: Callable[[str | None], DataFrame],
    where: str | None,
    column: str,
) -> None:
    sums = reading(where).groupBy(column).agg(fn.sum("d").alias("n")).where("n > 0")
    read = sums.where(f"{column} is not null").select(column)
    expected = read.orderBy(column).toArrow().column(0).to_pylist()
    ends = [expected[0], expected[-1]] if expected else [None, None]

    least = column_extreme(spark, NAME, column, greatest=False, where=where, config=events.settings)
    greatest = column_extreme(
        spark, NAME, column, greatest=True, where=where, config=events.settings
    )
    several = column_values(spark, NAME, column, limit=10_000, where=where, config=events.settings)

    assert list(map(repr, [least.value, greatest.value])) == list(map(repr, ends))
    assert list(map(repr, several.values.to_pylist())) == list(map(repr, expected))


def test_few_parts_are_read(spark: SparkSession, events: Events) -> None:
    found = column_extreme(
        spark, NAME, "id", greatest=True, where="id + 0 >= 0", config=events.settings
    )

    assert 0 < found.parts_read < found.plan.parts_total
