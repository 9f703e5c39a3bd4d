"""Filters that are programs: what a reader, a registration or a receipt says is never run as one.

`reflect` stands for all that calls Java: it sets a property that the test looks at.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from strata.audit import receipts
from strata.audit.run import Scope
from strata.audit.used import used_filters
from strata.config.filters import RegisteredFilter
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.history import usage
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.model.settings import UsageSettings
from strata.spark.evaluate import replayed, spark_evaluator, validate
from strata.spark.front.admit import admitted, admitted_again, check_parsed
from strata.spark.front.catalyst import analyse
from strata.spark.limited import TooLong, run_within
from tests.support.shards import NAME, Events, build

pytestmark = pytest.mark.spark
MARK = "strata.attack"
CALL = f"reflect('java.lang.System', 'setProperty', '{MARK}', 'yes')"
PROGRAMS = [
    f"{CALL} = 'no' and id > 5",
    f"id > 5 or java_method('java.lang.System', 'setProperty', '{MARK}', 'yes') is null",
    f"try_reflect('java.lang.System', 'setProperty', '{MARK}', 'yes') is null",
    f"id = (select max(v) from (select length({CALL}) v))",
    f"exists (select {CALL})",
    f"id in (select length({CALL}))",
    "id > (select count(*) from csv.`/etc/passwd`)",
    "id > (select count(*) from victim)",
    f"identifier({CALL}) = 1",
    "identifier('i' || 'd') = 1",
    "theirs(id) > 1",
    "plus_one(id) > 1",
    "spark_catalog.default.plus_one(id) > 1",
    "rand() > 0.5",
    "uuid() = 'x'",
    "input_file_name() = 'x'",
    "monotonically_increasing_id() > 5",
    "sum(id) over () > 5",
    ":parameter = 1",
]
EXPRESSIONS = [
    "id > 5",
    "j:a.b[0]::int > 1",
    "exists(array(id, 2), x -> x > 1)",
    "at >= now() - interval 1 day and upper(cast(id as string)) rlike '^A.*'",
    "case when id > 5 then id between 6 and 7 else (id, 1) in ((1L, 2)) end",
    "builtin.abs(id) > 5",
    "format_number(id, 2) = 'x'",  # not certified, and an expression
    " or ".join(f"id = {n}" for n in range(600)),
]


@pytest.fixture
def events(tmp_path: Path) -> Events:
    return build(tmp_path)


@pytest.fixture(autouse=True, scope="module")
def callable_by_filters(spark: SparkSession) -> Iterator[None]:
    """A view, and functions in Python and in SQL, that a filter could call."""
    spark.range(3).createOrReplaceTempView("victim")
    spark.udf.register("theirs", lambda x: x + 1, "long")
    spark.sql("create or replace temporary function plus_one(x long) returns long return x + 1")
    yield
    spark.catalog.dropTempView("victim")
    for name in ("theirs", "plus_one"):
        spark.sql(f"drop temporary function if exists {name}")


@pytest.fixture(autouse=True)
def untouched(spark: SparkSession) -> Iterator[None]:
    """Nothing may be run."""
    spark._jvm.java.lang.System.clearProperty(MARK)
    yield
    assert spark._jvm.java.lang.System.getProperty(MARK) is None, "the program ran"
    assert spark.catalog.tableExists("victim")


def log(spark: SparkSession, events: Events, where: str) -> Filter:
    """Have a reader use a filter, as a read does that plans and logs; nothing is run."""
    try:
        filter = analyse(spark, events.state.relation, where)
    except InvalidRequest:
        filter = analyse(spark, events.state.relation, "id > 5")
    filter = replace(filter, sql=where)
    plan = plan_read(events.stores, events.state, filter=filter, mode="on")
    assert (
        usage.record(events.stores, events.state, plan, filter, UsageSettings(), Metrics())
        == "written"
    )
    spark._jvm.java.lang.System.clearProperty(MARK)
    return filter


@pytest.mark.parametrize("where", PROGRAMS)
def test_a_registered_filter_that_is_a_program_is_refused(
    spark: SparkSession, events: Events, where: str
) -> None:
    registered = [RegisteredFilter(NAME, "theirs", where)]

    with pytest.raises(InvalidRequest):
        validate(spark, events.stores, NAME, registered, Scope("run", 100, check_format=False))


@pytest.mark.parametrize("where", [w for w in EXPRESSIONS if "j:a" not in w])
def test_an_expression_is_admitted(spark: SparkSession, events: Events, where: str) -> None:
    relation = events.state.relation

    assert admitted(spark, relation, where, now=0) == analyse(spark, relation, where, now=0)


def test_a_path_into_json_is_an_expression(spark: SparkSession, events: Events) -> None:
    check_parsed(spark, "j:a.b[0]::int > 1")


@pytest.mark.parametrize("where", PROGRAMS[:6])
def test_what_a_reader_used_is_not_run_by_the_operator(
    spark: SparkSession, events: Events, where: str
) -> None:
    log(spark, events, where)
    used = used_filters(events.stores, NAME, UsageSettings(), [], 20)

    report = validate(
        spark, events.stores, NAME, [], Scope("run", 100, check_format=False), used=used
    )

    assert len(used) == len(report.unusable) == 1
    assert report.summaries == ()
    assert Machine(events.stores).load(NAME).rollout == events.state.rollout


def test_a_text_beside_another_tree_is_not_run(spark: SparkSession, events: Events) -> None:
    """Who can write the log could say one thing and mean another."""
    relation = events.state.relation
    honest = analyse(spark, relation, "id > 5", now=0)

    assert admitted_again(spark, relation, honest, now=0) == honest
    unordered = analyse(spark, relation, "id > 5", now=0, ordered=False)
    assert admitted_again(spark, relation, unordered, now=0) == honest
    with pytest.raises(InvalidRequest, match="means something else"):
        admitted_again(spark, relation, replace(honest, sql="id > 6"), now=0)
    for where in ("format_number(id, 2) = 'x'", "xpath_string(cast(id as string), 'a') = 'x'"):
        opaque = analyse(spark, relation, where, now=0)
        with pytest.raises(InvalidRequest, match="not certified"):
            admitted_again(spark, relation, opaque, now=0)
        assert admitted_again(spark, relation, opaque, now=0, certified=False) == opaque


def test_a_filter_of_a_reader_in_another_zone_is_said_to_be_left_out(
    spark: SparkSession, events: Events
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        log(spark, events, "hour(at) = 5")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    used = used_filters(events.stores, NAME, UsageSettings(), [], 20)

    report = validate(
        spark, events.stores, NAME, [], Scope("run", 100, check_format=False), used=used
    )

    assert "zone" in report.unusable[0]


@pytest.mark.parametrize("where", [PROGRAMS[0], PROGRAMS[3]])
def test_a_receipt_is_no_program(spark: SparkSession, events: Events, where: str) -> None:
    filter = replace(analyse(spark, events.state.relation, "id > 290"), sql=where)
    plan = plan_read(events.stores, events.state, filter=filter, mode="on")
    assert plan.parts_skipped
    receipt = receipts.issue(events.stores, events.state, plan, filter)

    with pytest.raises(InvalidRequest):
        replayed(spark, events.stores, events.state, receipt)
    honest = {**receipt, "filter": {**receipt["filter"], "sql": "id > 290"}}
    again = replayed(spark, events.stores, events.state, orjson.loads(orjson.dumps(honest)))
    assert again.looked_into == plan.parts_skipped
    assert not again.matching


@pytest.mark.parametrize("where", ["id > 5 and", "id > 5 name", "id > 5 as (a, b)", "j:a name"])
def test_a_filter_that_is_not_whole_is_refused(
    spark: SparkSession, events: Events, where: str
) -> None:
    """Spark takes what stands behind a condition for its name, `and` as well."""
    with pytest.raises(InvalidRequest, match="not whole"):
        analyse(spark, events.state.relation, where)


def test_a_filter_that_takes_too_long_holds_up_nobody(spark: SparkSession, events: Events) -> None:
    state = events.state
    refs = plan_read(events.stores, state).fetched[:2]
    evaluate = spark_evaluator(spark, events.stores.settings, state.relations, 0.01)

    results = evaluate(analyse(spark, state.relation, "id > 5"), refs)

    assert {one.part for one in results} == {ref.key for ref in refs}
    assert all("filter_seconds" in one.failed for one in results)


def test_the_jobs_of_what_takes_too_long_are_cancelled(spark: SparkSession) -> None:
    def endless() -> None:
        spark.range(10**13).selectExpr("sum(id * 3 % 7)").collect()

    with pytest.raises(TooLong):
        run_within(spark, 2, endless)

    tracker, end = spark.sparkContext.statusTracker(), time.monotonic() + 60
    while tracker.getActiveJobsIds() and time.monotonic() < end:
        time.sleep(0.1)
    assert not tracker.getActiveJobsIds()


def test_work_within_its_time_is_done_in_the_session(spark: SparkSession) -> None:
    assert (
        run_within(spark, 60, lambda: spark.sql("select current_timezone() z").first().z) == "UTC"
    )
    with pytest.raises(ZeroDivisionError):
        run_within(spark, 60, lambda: 1 / 0)
    with pytest.raises(TooLong):
        run_within(spark, 0.2, lambda: time.sleep(2))
