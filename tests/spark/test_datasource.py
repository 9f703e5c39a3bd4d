"""`spark.read.format("strata")` gives what a snapshot gives, and refuses what it cannot do."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as ds
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.types import LongType, StructField, StructType

from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.expr.nodes import Call, Column, Literal
from strata.machine.machine import Machine
from strata.maintain.schema import change_schema
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.session.session import CORES
from strata.spark import rows, where_option
from strata.spark.asked import request
from strata.spark.datasource import StrataReader
from strata.spark.front.option import check_unaltered
from strata.spark.front.pushed import pushed_filter
from strata.state.schema import AddColumn, DropColumn, WidenColumn
from tests.support.shards import COLUMNS, NAME, UPPER, Events, copied, counted, let_skip

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    events = copied(tmp_path_factory.mktemp("source"))
    let_skip(events.stores)
    return events


@pytest.fixture(scope="module")
def config(events: Events, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("config") / "strata.toml"
    store = events.settings.store
    path.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    return str(path)


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def reader(spark: SparkSession, config: str, **options: str) -> DataFrameReader:
    return spark.read.format("strata").options(shard=NAME, config=config, **options)


def contents(frame: DataFrame) -> Counter[Any]:
    return counted(frame.toArrow())


def test_a_shard_is_loaded_without_registration(
    spark: SparkSession, events: Events, config: str
) -> None:
    frame = reader(spark, config).load()

    assert frame.columns == [*COLUMNS, "t", "d"]
    assert contents(frame) == events.contents()


def test_an_earlier_time_is_read_in_either_spelling(
    spark: SparkSession, events: Events, config: str
) -> None:
    for text in ("700", "1970-01-01T00:00:00.700Z"):
        frame = reader(spark, config, as_of=text).load()

        assert contents(frame) == events.contents(700)
        assert {row.t for row in frame.select("t").distinct().collect()} == {700}


def test_a_users_schema_chooses_the_columns(
    spark: SparkSession, events: Events, config: str
) -> None:
    frame = reader(spark, config).schema("d bigint, price decimal(10,2), id bigint").load()

    found: Counter[Any] = Counter()
    for row in frame.collect():
        found[row.price, row.id] += row.d
    expected: Counter[Any] = Counter()
    for row, count in events.contents().items():
        expected[row[list(COLUMNS).index("price")], row[0]] += count
    assert Counter({k: n for k, n in found.items() if n}) == expected


def test_a_value_that_a_users_schema_cannot_hold_is_named(spark: SparkSession, config: str) -> None:
    """It was an error of Arrow without a column or a cure."""
    frame = reader(spark, config).schema("d bigint, carrier int").load()

    with pytest.raises(PySparkException, match=r"column='carrier'.*leave the schema out"):
        frame.collect()


@pytest.mark.parametrize(
    ("column", "kind"), [("level", "float64"), ("number", "int64"), ("number", "another")]
)
def test_a_frame_does_not_read_an_altered_column_as_what_it_was(
    spark: SparkSession, tmp_path: Path, column: str, kind: str
) -> None:
    """A double was rounded to the nearest float; a long ended the query with an error of Arrow."""
    mine = copied(tmp_path)
    where = tmp_path / "strata.toml"
    store = mine.settings.store
    where.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    frame = reader(spark, str(where)).load().select(column)
    change = partial(change_schema, Machine(mine.stores), NAME)
    if kind == "another":
        change(DropColumn(column))
        change(AddColumn(column, parse_type("int32")))
    else:
        change(WidenColumn(column, parse_type(kind)))

    with pytest.raises(PySparkException, match=f"{column}.*load the DataFrame anew"):
        frame.collect()

    assert reader(spark, str(where)).load().select(column).count() == frame_rows(mine)


def test_a_column_that_may_be_null_by_now_is_what_it_was() -> None:
    """Only a user's own schema may have promised that it has no nulls."""
    before, now = (
        Relation(n, (Declared(1, "n", parse_type("int64"), nullable=bool(n)),), (), ())
        for n in (0, 1)
    )
    asked = StructType([StructField("n", LongType())])
    check_unaltered(before, now, asked, shard=NAME, cure="load it anew")

    promised = StructType([StructField("n", LongType(), nullable=False)])
    with pytest.raises(InvalidRequest, match="load it anew"):
        check_unaltered(before, now, promised, shard=NAME, cure="load it anew")


def frame_rows(events: Events) -> int:
    """Return how many updates a frame has, which consolidates nothing."""
    return sum(ref.rows for ref in plan_read(events.stores, events.state).fetched)


def test_consolidated_rows_come_once(spark: SparkSession, events: Events, config: str) -> None:
    frame = reader(spark, config, consolidate="true").load()

    assert contents(frame) == events.contents()
    assert frame.count() == len(events.contents())


@pytest.mark.parametrize(
    "sql",
    [
        "id >= 250 and carrier = 'AA'",
        "day in (date'2013-01-02', date'2013-01-05')",
        "at < timestamp'2013-01-02 00:00:00' and price is not null",
        "local >= timestamp_ntz'2013-01-10 00:00:00' and not carrier = 'UA'",
        "payload like '{\"n\":1%' and level > 5 and small <=> 12",
        "price = 2.50",
        "upper(carrier) = 'AA'",
    ],
)
def test_pushed_filters_change_no_result(
    spark: SparkSession, events: Events, config: str, pushing: None, sql: str
) -> None:
    pruned = reader(spark, config, pushdown="on", pushed="true").load().where(sql)
    plain = reader(spark, config, pushdown="off").load().where(sql)

    assert contents(pruned) == contents(plain)


def test_pushed_filters_skip_parts(events: Events, config: str) -> None:
    asked = request({"shard": NAME, "config": config, "pushdown": "on", "pushed": "true"})

    def parts(filters: list[ds.Filter]) -> int:
        one = StrataReader(asked, StructType())
        assert list(one.pushFilters(filters)) == filters  # Spark must check them all again
        return sum(len(p.parts) for p in one.partitions())  # type: ignore[attr-defined]

    assert 0 < parts([ds.GreaterThan(("id",), 250)]) < parts([])


def worker_of_main() -> str:
    """Return the module of what PySpark's daemon calls for each request, in this process."""
    return sys.modules["__main__"].worker.__module__  # type: ignore[no-any-return]


class EnvironmentSource(ds.DataSource):
    """One row: what planning finds in its environment."""

    @classmethod
    def name(cls) -> str:
        return "environment"

    def schema(self) -> str:
        return "cores string, worker string"

    def reader(self, schema: StructType) -> ds.DataSourceReader:
        class Reader(ds.DataSourceReader):
            def partitions(self) -> list[ds.InputPartition]:
                return [ds.InputPartition((os.environ.get(CORES), worker_of_main()))]

            def read(self, partition: ds.InputPartition) -> Iterator[tuple[str, str]]:
                yield partition.value

        return Reader()


def test_planning_learns_how_many_tasks_run_at_once_and_ends_without_a_traceback(
    spark: SparkSession,
) -> None:
    spark.dataSource.register(EnvironmentSource)

    assert spark.read.format("environment").load().first() == (
        "2",  # of the fixture's local[2]
        "strata.spark.quiet_end",
    )


@pytest.mark.parametrize(("cores", "tasks"), [("1", 2), ("3", 6), (None, 16)])
def test_a_small_read_has_two_tasks_a_core_or_sixteen(
    events: Events, config: str, monkeypatch: pytest.MonkeyPatch, cores: str | None, tasks: int
) -> None:
    monkeypatch.setattr(rows, "LEAST_BYTES", 1)
    if cores is None:
        monkeypatch.delenv(CORES, raising=False)
    else:
        monkeypatch.setenv(CORES, cores)
    asked = request({"shard": NAME, "config": config})

    assert abs(len(StrataReader(asked, StructType()).partitions()) - tasks) <= 1


def test_an_analysed_filter_chooses_parts_and_the_query_filters_rows(
    spark: SparkSession, events: Events, config: str
) -> None:
    sql = "date_trunc('day', at) = timestamp'2013-01-11 00:00:00'"
    option = where_option(spark, NAME, sql, config=config)

    frame = reader(spark, config, pushdown="on", where=option).load()

    assert frame.count() < reader(spark, config).load().count()
    assert contents(frame.where(sql)) == events.contents(
        keep=lambda r: r["at"] is not None and r["at"].date() == date(2013, 1, 11)
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"where": "id = 3"}, "where_option"),
        ({"as_of": str(UPPER)}, "as_of"),
        ({"pushdown": "maybe"}, "on, off"),
        ({"consolidate": "perhaps"}, "consolidate"),
        ({"shrad": "events"}, "unknown option"),
        ({"shard": "nope"}, "no such shard"),
    ],
)
def test_what_cannot_be_read_is_said_by_name(
    spark: SparkSession, config: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        spark.read.format("strata").options(
            **{"shard": NAME, "config": config, **options}
        ).load().count()


def test_the_settings_may_come_from_the_environment(events: Events) -> None:
    asked = request({"shard": NAME})
    store = events.settings.store
    before = dict(os.environ)
    os.environ |= {"STRATA__STORE__BLOB": store.blob, "STRATA__STORE__CONSENSUS": store.consensus}
    try:
        _, state = asked.open()
    finally:
        os.environ.clear()
        os.environ.update(before)

    assert state.name == NAME


AT = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filter", "column", "function", "value", "kind"),
    [
        (ds.EqualTo(("id",), 3), "id", "equal_to", 3, "long"),
        (ds.GreaterThan(("small",), 3), "small", "greater_than", 3, "short"),
        (ds.LessThan(("day",), date(1970, 1, 3)), "day", "less_than", 2, "date"),
        (
            ds.LessThanOrEqual(("at",), AT),
            "at", "less_than_or_equal", 1356998400000000, "timestamp",
        ),
        (
            ds.GreaterThanOrEqual(("local",), AT.replace(tzinfo=None)),
            "local", "greater_than_or_equal", 1356998400000000, "timestamp_ntz",
        ),
        (ds.EqualNullSafe(("price",), Decimal("1.50")), "price", "equal_null_safe",
         Decimal("1.50"), "decimal(10,2)"),
        (ds.StringStartsWith(("carrier",), "A"), "carrier", "starts_with", "A", "string"),
        (ds.EqualTo(("raw",), bytearray(b"a")), "raw", "equal_to", b"a", "binary"),
    ],
)  # fmt: skip
def test_a_pushed_filter_is_the_comparison_that_it_says(
    events: Events, filter: ds.Filter, column: str, function: str, value: Any, kind: str
) -> None:
    relation = events.state.relation
    left = Column(relation.by_name[column].id, column, kind)

    found = pushed_filter([filter], relation)

    assert found is not None
    assert found.expr == Call(function, (left, Literal(value, kind)), "boolean")


@pytest.mark.parametrize(
    "filter",
    [
        ds.EqualTo(("nope",), 3),
        ds.EqualTo(("payload", "n"), 3),
        ds.EqualTo(("id",), "3"),
        ds.EqualTo(("id",), True),
        ds.EqualTo(("at",), datetime(2013, 1, 1)),  # noqa: DTZ001 - a value of the wrong type
        ds.In(("day",), (date(2013, 1, 1), AT)),
    ],
)
def test_a_pushed_filter_that_is_not_understood_is_left_out(
    events: Events, filter: ds.Filter
) -> None:
    assert pushed_filter([filter], events.state.relation) is None
