"""What was planned is what is asked: by the query's clock, zone, settings, columns and types."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

import strata
from strata.machine.machine import Machine
from strata.maintain.schema import change_schema
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.rollout.basis import basis_of, code_of
from strata.spark import where_option
from strata.spark.asked import request
from strata.spark.datasource import StrataReader
from strata.spark.front.option import differences, retyped
from strata.state.schema import AddColumn, DropColumn
from tests.formats.every_type import TYPES as EVERY_TYPE
from tests.spark.answers import PUSHED, Shard, answer, newest, session, store
from tests.spark.test_what_runs import HIGH, LOW, RELATION
from tests.spark.test_what_runs import shard as two_parts  # noqa: F401 - a fixture

pytestmark = pytest.mark.spark
ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"


def relation(**types: str) -> Relation:
    columns = (Column(i, n, parse_type(t)) for i, (n, t) in enumerate(types.items(), 1))
    return Relation(0, tuple(columns), (1,), ())


def loaded(spark: SparkSession, shard: Shard, pushdown: str, **options: str) -> DataFrame:
    given = {"shard": shard.name, "config": shard.config, "pushdown": pushdown, **options}
    return spark.read.format("strata").options(**given).load()


def asked(
    spark: SparkSession, shard: Shard, where: str, option: str, **more: str
) -> tuple[Any, Any]:
    """Return the answers of the data source with an option that was made before."""

    def ask(pushdown: str) -> Callable[[], DataFrame]:
        return lambda: loaded(spark, shard, pushdown, where=option, **more).where(where)

    return answer(ask("off")), answer(ask("on"))


def fetched(shard: Shard, option: str) -> int:
    """Return how many parts a read with the option is planned to fetch."""
    asked = request(
        {"shard": shard.name, "config": shard.config, "where": option, "pushdown": "on"}
    )
    tasks = StrataReader(asked, StructType()).partitions()
    return sum(len(task.planned.parts) for task in tasks)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Shard:
    """Return a shard with rows of 1970 in one part, and of the seconds after now in another."""
    soon = datetime.now(UTC) + timedelta(seconds=2)
    parts = [
        [(1, datetime(1970, 1, 1, 2, tzinfo=UTC)), (2, datetime(1970, 1, 1, 3, tzinfo=UTC))],
        [(3, soon), (4, soon)],
    ]
    return store(tmp_path_factory.mktemp("timed"), relation(id="int64", ts="timestamptz"), parts)


def test_a_query_later_than_its_option_sees_what_has_come_since(
    spark: SparkSession, timed: Shard
) -> None:
    where = "ts <= now() and ts > timestamp'2001-01-01'"
    option = where_option(spark, timed.name, where, config=timed.config)
    frame = loaded(spark, timed, "on", where=option)
    before = frame.where(where).count()
    time.sleep(4)

    off, on = asked(spark, timed, where, option)
    assert len(off) == 2
    assert on == off
    # Spark plans the parts of a `load()` once, whatever the time is when it is queried again.
    assert frame.where(where).count() == 2 >= before


@pytest.mark.parametrize(
    ("setting", "value", "where"),
    [
        (ZONE, "America/New_York", "ts < timestamp'1970-01-01 00:00:00'"),
        (ANSI, "false", "id > 2"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY", "id > 2 and ts > timestamp'2001-01-01'"),
    ],
)
def test_an_option_of_other_settings_chooses_nothing(
    spark: SparkSession, timed: Shard, setting: str, value: str, where: str
) -> None:
    option = where_option(spark, timed.name, where, config=timed.config)
    assert fetched(timed, option) < 2, "it would choose"
    with session(spark, **{setting: value}):
        for consolidate in ("false", "true"):
            off, on = asked(spark, timed, where, option, consolidate=consolidate)
            assert off == on
            assert isinstance(off, list)


LIMIT = "create or replace temporary function limit_of() returns int return"
GIVEN = "create or replace temporary view given as select"
# A filter, and what is set and said before the option is made, and then before it is used.
MEANWHILE: list[tuple[str, dict[str, str], str, dict[str, str], str]] = [
    (r"s like 'a\\_b'", {}, "", {"spark.sql.parser.escapedStringLiterals": "true"}, ""),
    ("id > ${my.least}", {"my.least": "100"}, "", {"my.least": "0"}, ""),
    (
        "id > least",
        {},
        "declare or replace variable least int default 100",
        {},
        "set var least = 0",
    ),
    ("id > limit_of()", {}, f"{LIMIT} 100", {}, f"{LIMIT} 0"),
    ("id > (select max(n) from given)", {}, f"{GIVEN} 100 as n", {}, f"{GIVEN} 0 as n"),
]


@pytest.mark.parametrize("case", MEANWHILE, ids=[case[0] for case in MEANWHILE])
def test_an_option_whose_text_means_something_else_by_now_chooses_nothing(
    spark: SparkSession, tmp_path: Path, case: tuple[str, dict[str, str], str, dict[str, str], str]
) -> None:
    where, first_set, first_said, then_set, then_said = case
    parts = [[(1, "a_b"), (2, "a_b")], [(101, r"a\xb"), (102, r"a\yb")]]
    shard = store(tmp_path, relation(id="int64", s="string"), parts)
    with session(spark, **first_set):
        if first_said:
            spark.sql(first_said)
        option = where_option(spark, shard.name, where, config=shard.config)
        before, same = asked(spark, shard, where, option)
    with session(spark, **then_set):
        if then_said:
            spark.sql(then_said)
        off, on = asked(spark, shard, where, option)

    assert before == same
    assert off == on
    assert off != before, "it means something else"


def test_an_option_of_the_same_settings_chooses(spark: SparkSession, timed: Shard) -> None:
    option = where_option(spark, timed.name, "id > 2", config=timed.config)

    assert fetched(timed, option) == 1
    # Readers in new processes parse the sources anew; a mode holds only for the code it is of.
    known = basis_of(newest(timed)).partition(".")[0]
    assert code_of(Path(strata.__file__).parent) == known, "the sources were edited meanwhile"
    # Without the query's own filter one sees what was fetched.
    assert loaded(spark, timed, "on", where=option).count() == 2
    with session(spark, **{ZONE: "Asia/Tokyo"}):
        assert loaded(spark, timed, "on", where=option).count() == 4


def test_an_option_for_other_columns_chooses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    shard = store(tmp_path, relation(id="int64", b="int32"), [[(1, 5)], [(2, 6)]])
    where = "b = 6"
    option = where_option(spark, shard.name, where, config=shard.config)
    assert fetched(shard, option) == 1
    machine = Machine(shard.stores)
    change_schema(machine, shard.name, DropColumn("b"))
    change_schema(machine, shard.name, AddColumn("b", parse_type("int32"), default=6))

    off, on = asked(spark, shard, where, option)
    assert off == on
    assert len(off) == 2


def test_a_users_schema_opens_the_columns_it_retypes(spark: SparkSession, tmp_path: Path) -> None:
    shard = store(tmp_path, relation(id="int64", x="float64"), [[(1, 0.1), (2, 0.1)], [(3, 9.0)]])
    where = "x = cast(0.1 as float)"
    option = where_option(spark, shard.name, where, config=shard.config)
    for given in ({"pushed": "true"}, {"where": option}):
        found = []
        for pushdown in ("off", "on"):
            options = {"shard": shard.name, "config": shard.config, "pushdown": pushdown, **given}
            read = spark.read.schema("id bigint, x float").format("strata").options(**options)
            with session(spark, **{PUSHED: "true"}):
                found.append(answer(lambda read=read: read.load().where(where)))
        assert found[0] == found[1]
        assert len(found[0]) == 2


NO_NULLS = ArrayType(IntegerType(), containsNull=False)
# A column, its promise, and a filter on it.
PROMISES = [
    (StructField("z", IntegerType(), nullable=False), "z is not null"),
    (StructField("z", IntegerType(), nullable=False), "coalesce(z, 9) < 9"),
    (StructField("l", NO_NULLS), "l[0] is not null"),
    (StructField("l", NO_NULLS), "exists(l, e -> e is not null)"),
    # A row fails on the column although the filter does not look at it.
    (StructField("z", IntegerType(), nullable=False), "id = 3"),
    (StructField("z", LongType(), nullable=False), "id = 3"),
]


@pytest.mark.parametrize(
    ("column", "where"), PROMISES, ids=[f"{of.name} {where}" for of, where in PROMISES]
)
def test_a_users_schema_opens_the_columns_that_it_promises_to_have_no_nulls(
    spark: SparkSession, tmp_path: Path, column: StructField, where: str
) -> None:
    """Spark believes the promise, and fails on a null: no part that may have one is skipped."""
    parts = [[(1, None, [None]), (2, None, [None])], [(3, 5, [5])]]
    shard = store(tmp_path, relation(id="int64", z="int32", l="list<int32>"), parts)
    option = where_option(spark, shard.name, where, config=shard.config)
    assert fetched(shard, option) == 1

    found = []
    for pushdown in ("off", "on"):
        options = {"shard": shard.name, "config": shard.config, "pushdown": pushdown}
        read = spark.read.schema(StructType([StructField("id", LongType()), column]))
        frame = read.format("strata").options(**options, where=option).load()
        found.append(answer(lambda frame=frame: frame.where(where).select("id")))
    assert found[0] == found[1]
    assert isinstance(found[0], str), "a null that is read is an error"


def test_a_promise_that_the_relation_makes_as_well_opens_nothing() -> None:
    kept = Column(1, "id", parse_type("int64"), nullable=False)
    read = Relation(0, (kept, Column(2, "z", parse_type("int64"))), (1,), ())
    promised = StructType([StructField(name, LongType(), nullable=False) for name in ("id", "z")])

    assert retyped(read, promised) == ("z",)


def test_times_and_diffs_are_longs_for_every_reader() -> None:
    read = Relation(0, (Column(1, "id", parse_type("int64")),), (1,), ())
    given = StructType(
        [
            StructField("id", LongType()),
            StructField("t", IntegerType()),
            StructField("d", LongType()),
        ]
    )
    assert retyped(read, given) == ("t",)


def test_an_option_that_chooses_nothing_says_which_settings_differ() -> None:
    before = {ZONE: "UTC", ANSI: "true", "version": "4"}

    assert differences(before, dict(reversed(before.items()))) == ""
    assert differences(before, {ANSI: "false", "version": "4"}) == (
        f"{ANSI} was true, is false, {ZONE} was UTC, is not set"
    )


def test_no_column_of_any_type_is_taken_for_retyped(spark: SparkSession, tmp_path: Path) -> None:
    every = relation(**{f"c{i}": kind for i, kind in enumerate(EVERY_TYPE)})
    shard = store(tmp_path, every, [])

    frame = spark.read.format("strata").options(shard=shard.name, config=shard.config).load()

    assert retyped(newest(shard).relation, frame.schema) == ()


def test_a_pushed_filter_chooses_nothing_for_another_query(
    spark: SparkSession,
    two_parts: Shard,  # noqa: F811 - the fixture
) -> None:
    """Spark plans the parts of one `load()` for the last filter that it pushed."""
    with session(spark, **{PUSHED: "true"}):
        frame = loaded(spark, two_parts, "on")
        high, low = frame.where("a > 100"), frame.where("a < 100")

        assert high.count() == len(HIGH)
        assert frame.count() == len(LOW) + len(HIGH)
        assert high.union(low).count() == len(LOW) + len(HIGH)
    assert RELATION.by_name["a"]
