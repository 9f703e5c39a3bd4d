"""Errors that only Spark's optimiser brings about: a row that makes the read fail is fetched."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strata.decide.decision import decide
from strata.expr.entry import Context
from strata.expr.nodes import Call, Column, Literal
from strata.expr.registry import REGISTRY
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.spark.front.catalyst import analyse
from strata.spark.front.forms import CLOCKS, fails_always, may_fail
from strata.spark.front.optimised import with_propagated
from strata.spark.front.rowfilter import row_filter
from strata.stats import collect
from strata.stats.table import concat

DDL = "c int, x int not null, d date, b boolean, s string"
TYPES = {"c": "int32", "x": "int32", "d": "date", "b": "bool", "s": "string"}
RELATION = Relation(
    0,
    tuple(Declared(i, n, parse_type(t), n != "x") for i, (n, t) in enumerate(TYPES.items(), 1)),
    (2,),
    (),
)
ROWS = (
    (None, 0, None, True, "a"),
    (5, 0, date(2013, 1, 24), None, "5"),
    (0, 3, date(2014, 1, 1), False, "x"),
)
FILTERS = (
    "c = 1 and if(c > 0, 1 / x > 2, false)",
    "d = date'2014-01-01' and if(d > date'2013-06-01', 1 / x > 2, b)",
    "x = c and c = 5 and if(x > 3, 1 / x > 2, cast(s as int) > 1)",
    "not (c <> 1 or if(c > 0, 1 / x < 2, true))",
    "c = '1' and coalesce(if(c > 0, 1 / x > 2, b), true)",
    "c in (1) and case when c > 0 then 1 / x > 2 when b then true end",
    "if(c = 1, if(c > 0, 1 / x > 2, b), false)",
    "s = 'x' or (c = 1 and if(c < 2, cast(s as int) > 1, b))",
    "if(x = 4, 1 / (x - 4) > 2, b) and x = 4",
    "c = 1 and 1 / c > 0",  # constant: decided while Spark plans
    "1 / c > 0 and c = 1",
    "1 / c > 0 and c = 0",
    "coalesce(d, date'2020-01-01') between date'2013-01-01' and date'2013-01-02' and 1 / x > 2",
    "nullif(x, 4) = 3 and cast(s as int) > 1",
    "c + 1 > cast(x as int) and c = 2147483647 and b",
)


@pytest.fixture
def whole(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session that evaluates a filter whole, not conjunct by conjunct up to a null."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    yield spark
    spark.conf.unset("spark.sql.codegen.wholeStage")


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.spark
def test_a_row_that_spark_fails_on_is_never_skipped(whole: SparkSession, ordered: bool) -> None:
    """Whether Strata filters the rows, or a `.where` of the user's does."""
    frames = [whole.createDataFrame([row], DDL).localCheckpoint() for row in ROWS]
    stats = concat([_statistics(row) for row in ROWS], [1] * len(ROWS))
    failing = 0
    for text in FILTERS:
        filter = analyse(whole, RELATION, text, ordered=ordered)
        keep = decide(filter, stats, RELATION).keep
        for number, frame in enumerate(frames):
            fails = _fails(row_filter(whole, frame, text, 0) if ordered else frame.filter(text))
            failing += fails
            assert keep[number] or not fails, (text, ROWS[number])
    assert failing >= (2 if ordered else 6)


@pytest.mark.parametrize(
    "text",
    [
        "c is not null and cast(nullif(s, 'q') as int) is not null and 1 / nullif(x, 0) > 5",
        "d is not null and cast(coalesce(s, 'q') as int) is not null and c > 5",
    ],
)
@pytest.mark.spark
def test_a_null_test_that_stays_in_its_place_hides_behind_none(
    spark: SparkSession, text: str
) -> None:
    """Generated code tests columns last, and leaves what may be null of itself where it is."""
    row = (None, 0, None, True, "a")
    frame = spark.createDataFrame([row], DDL).localCheckpoint()
    keep = decide(analyse(spark, RELATION, text, ordered=False), _statistics(row), RELATION).keep

    assert _fails(frame.filter(text))
    assert keep[0]


@pytest.mark.spark
def test_a_branch_that_the_clock_takes_is_looked_into(whole: SparkSession) -> None:
    """Spark writes 2000 for the day, which lies behind us and before every row: not so in 1970."""
    row = (7, 0, date(2099, 1, 1), True, "y")
    text = "if(d > current_date(), b, 1 / x > 2) and d = date'2000-01-01'"
    frame = whole.createDataFrame([row], DDL).localCheckpoint()
    keep = decide(analyse(whole, RELATION, text, ordered=False), _statistics(row), RELATION).keep

    assert _fails(frame.filter(text))
    assert keep[0]


@pytest.mark.parametrize(
    "test",
    [
        "coalesce(d in (current_date(), date'2013-01-24'), false)",
        "coalesce(cast(d as timestamp) in (now(), timestamp'2013-01-24 00:00:00'), false)",
        "coalesce(d in (current_date(), date'2013-01-24'), false)|"
        "coalesce(d in (cast(now() as date), date'2013-01-24'), false)",
        "coalesce(d > current_date(), false)|"
        "coalesce(d > cast(current_timestamp() as date), false)",
    ],
)
@pytest.mark.spark
def test_readings_of_one_clock_are_equal_as_they_are_to_spark(
    spark: SparkSession, test: str
) -> None:
    """`(NOT p OR f) AND p` is `f AND p` to Spark, also where p reads the clock twice."""
    row = (7, 0, date(2003, 1, 1), True, "y")
    first, second = (test.split("|") * 2)[:2]
    text = f"(not {first} or cast(s as int) > 1) and {second}"
    frame = spark.createDataFrame([row], DDL).localCheckpoint()
    keep = decide(analyse(spark, RELATION, text, ordered=False), _statistics(row), RELATION).keep

    assert _fails(frame.filter(text))
    assert keep[0]


def test_what_may_fail_at_some_time_may_fail() -> None:
    """Whatever the clock says now: a filter is asked again later."""
    today = Call("current_date", (), "date", (("zone", "UTC"),))
    fails = Call(
        "equal_to", (Call("divide", (Column(1, "c", "double"),) * 2, "double"),) * 2, "boolean"
    )
    for first, second in ((fails, Literal(True, "boolean")), (Literal(True, "boolean"), fails)):
        for day in (-1, 1, 20_000, 2_000_000):
            passed = Call("less_than", (Literal(day, "date"), today), "boolean")
            branch = Call("if", (passed, first, second), "boolean")
            assert may_fail(branch)
            assert not fails_always(branch)


def test_every_function_that_reads_the_clock_is_known_as_one() -> None:
    """Else a branch that it takes at one time would count for all times."""
    late_us = 86_400_000_000 * 20_000
    early, late = Context(0, 0), Context(late_us, late_us)
    kinds = {"current_timestamp": "timestamp", "local_timestamp": "timestamp_ntz"}
    read = set()
    for name, entry in REGISTRY.items():
        if entry.arity[0] == 0:
            call = Call(name, (), kinds.get(name, "date"), (("zone", "UTC"),))
            found = [repr(entry.transfer(call, (), at)) for at in (early, early, late)]
            found = [re.sub(r" at 0x[0-9a-f]+", "", text) for text in found]
            assert found[0] == found[1]
            read |= {name} if found[0] != found[2] else set()
    assert read == CLOCKS


@pytest.mark.parametrize("text", ["c = 1 and x = 3", "c = 1 and c > 0 and x > c", "x > 1 and b"])
@pytest.mark.spark
def test_a_filter_that_cannot_fail_so_stays_as_it_is(spark: SparkSession, text: str) -> None:
    shown = analyse(spark, RELATION, text).expr
    assert isinstance(shown, Call)
    assert len(shown.args) == text.count(" and ") + 1


def test_what_is_evaluated_while_spark_plans_brings_no_error() -> None:
    column = Column(1, "day", "string")
    at = Column(2, "at", "timestamp")
    pinned = Call("equal_to", (column, Literal("2024-01-05", "string")), "boolean")
    later = Call("less_than", (Call("cast", (column,), "timestamp"), at), "boolean")
    found = with_propagated(Call("and", (later, pinned), "boolean"))
    assert found == Call("and", (later, pinned), "boolean")


def _statistics(row: tuple[Any, ...]) -> pa.RecordBatch:
    kinds = (pa.int32(), pa.int32(), pa.date32(), pa.bool_(), pa.string())
    arrays = [pa.array([value], kind) for value, kind in zip(row, kinds, strict=True)]
    return collect(pa.table(arrays, names=[str(c.id) for c in RELATION.columns]), RELATION)


def _fails(found: DataFrame) -> bool:
    """Return whether a row fails; what fails while Spark plans, fails with pushdown as without."""
    try:
        found._jdf.queryExecution().optimizedPlan()
    except (PySparkException, Py4JJavaError):
        return False
    try:
        found.collect()
    except (PySparkException, Py4JJavaError):
        return True
    return False
