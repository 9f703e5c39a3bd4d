"""Filters that are programs: what a reader, a registration or a receipt says is never run as one.

`reflect` stands for all that calls Java: it sets a property that the test looks at.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from strata.audit import receipts
from strata.audit.run import Scope
from strata.audit.used import used_filters
from strata.config.filters import RegisteredFilter
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest, Unavailable
from strata.expr.filter import Filter
from strata.history import usage
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import UsageSettings
from strata.model.types import parse_type
from strata.spark.evaluate import replayed, spark_evaluator, validate
from strata.spark.failures import is_of_no_row, task_error
from strata.spark.front.admit import admitted, admitted_again, check_parsed
from strata.spark.front.catalyst import analyse
from strata.spark.front.growth import check_growth
from strata.spark.limited import TooLong, run_within
from tests.spark.answers import session, store
from tests.support.shards import NAME, Events, copied

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
    "? = id",
    "@@spark.sql.session.timeZone = carrier",
    "system.session.timeZone = carrier",
    "id = session.v",
    "id = v",
    "id = system.session.v",
    "id in (select v from victim)",
    "id = (with c as (select 1 v) select v from c)",
    "exists (with c as (table victim) select * from c)",
    "id in (table victim)",
    "id in (values (1))",
    "id in (from victim select id)",
    "id = (select max(id) from range(9))",
    "victim.id = 1",
    "global_temp.victim.id = 1",
    "from_xml('<a/>', 'b int', map('rowValidationXSDPath', '/etc/passwd')).b = id",
    "schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd')) = 'x'",
    "from_avro(raw, '{\"type\":\"int\"}', map('avroSchemaUrl', 'file:///etc/passwd')) = 1",
    "from_protobuf(raw, 'M', '/etc/passwd') is null",
    "builtin.To_Protobuf(named_struct('a', 1), 'M', '/etc/passwd') is null",
    *(
        f"{name}() = carrier"
        for name in (
            "current_user",
            "session_user",
            "user",
            "current_catalog",
            "current_database",
            "current_schema",
            "current_path",
        )
    ),
    "current_user = carrier",
    "session_user = carrier",
    "raise_error(carrier) is null",
    "assert_true(id > 5) is null",
    "transform(array(id), x -> rand())[0] > 0.5",
    "exists(array(id), x -> x = (select max(v) from victim))",
    "input_file_block_start() > 0",
]
# Texts that Spark's parser refuses, or gives up on.
BROKEN = [
    "id > 5; select 1",
    "id = ${id}",
    "id = any(select 1)",
    "id > ",
    "not " * 3000 + "(id > 5)",
    "id" + " + 1" * 3000 + " > 5",
    "id > 5 \u037e select 1",
]
# What would need gigabytes, by certified functions alone.
LARGE = [
    "length(repeat(repeat(carrier, 1000), 1000)) > 5",
    "length(repeat(repeat('ab', 100000), 100000)) > 5",
    "length(repeat(carrier, 101)) > 5",
    "length(repeat(carrier, id)) > 5",
    "length(space(2000000)) > 5",
    "length(lpad(carrier, 2000000000, 'x')) > 5",
    "length(rpad(carrier, cast(id as int), 'x')) > 5",
    "length(replace(repeat(carrier, 100), 'A', 'bb')) > 5",
    "length(replace(carrier, 'A', carrier)) > 5",
    "length(regexp_replace(carrier, '', space(101))) > 5",
    "length(" + "hex(" * 5 + "carrier" + ")" * 6 + " > 5",
    "length(" + "concat_ws(space(10), " * 3 + "carrier" + ", carrier)" * 3 + ") > 5",
    "length(overlay(repeat(carrier, 60) placing repeat(carrier, 60) from 1)) > 5",
    "size(transform(array(carrier), x -> transform(array(x), y -> space(200)))) > 5",
    "size(transform(split(carrier, ''), x -> carrier)) > 5",
    "size(transform(split(carrier, ''), x -> concat(x, upper(carrier)))) > 5",
    "size(transform(split(carrier, ''), x -> transform(array(1), y -> carrier))) > 5",
    "exists(array(carrier), x -> size(transform(split(x, ''), y -> x)) > 5)",
    "size(zip_with(split(carrier, ''), array(1), (x, y) -> carrier)) > 5",
    "size(zip_with(split(carrier, ''), array(1), (x, y) -> space(1000000))) > 5",
    "size(map_zip_with(map(carrier, 1), map(1, 2), (k, x, y) -> space(1000))) > 5",
    "exists(array(1), x -> size(transform(split(carrier, ''), y -> repeat(y, 101))) > 1)",
    "aggregate(split(carrier, ''), '', (a, x) -> a || x || 'xx') > 'b'",
    "aggregate(split(carrier, ''), 'x', (a, x) -> a || a) > 'b'",
    "aggregate(split(carrier, ''), 'x', (a, x) -> concat(a, carrier)) > 'b'",
    "length(reduce(array(carrier), '', (a, x) -> x, a -> repeat(a, 101))) > 5",
    "reduce(split(carrier, ''), space(2000000), (a, x) -> x) > 'b'",
]
SMALL = [
    "lpad(carrier, 10, '0') = 'x'",
    "repeat(carrier, 3) = 'x'",
    "concat(carrier, '-', carrier) = 'x'",
    "replace(carrier, 'A', 'bb') = 'x'",
    "length(space(1000)) > id",
    "exists(array(id), x -> x > id and carrier = 'x')",
    "size(transform(split(carrier, ''), x -> upper(concat(x, '-')))) > 5",
    "size(transform(split(carrier, ''), x -> x > carrier)) > 5",
    "size(transform(split(carrier, ''), x -> length(carrier) + id * 2)) > 5",
    "size(zip_with(array(id), array(id), (x, y) -> x + y)) > 5",
    "exists(array(carrier), X -> size(transform(split(x, ''), y -> concat(y, y))) > 5)",
    "aggregate(array(id), 0L, (a, x) -> a + x) > 5",
    "aggregate(split(carrier, ''), 0, (a, x) -> a + length(x), a -> a / 2) > 5",
    "aggregate(split(carrier, ''), '', (a, x) -> greatest(a, x)) > 'b'",
    "carrier collate utf8_lcase = 'ua'",
    "id in (" + ", ".join(map(str, range(2000))) + ")",
    " and ".join("carrier <> 'x'" for _ in range(300)),
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
    return copied(tmp_path)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Events:
    """A shard to which no test does anything."""
    return copied(tmp_path_factory.mktemp("unchanged"))


@pytest.fixture(autouse=True, scope="module")
def callable_by_filters(spark: SparkSession) -> Iterator[None]:
    """A view, and functions in Python and in SQL, that a filter could call."""
    spark.range(3).createOrReplaceTempView("victim")
    spark.udf.register("theirs", lambda x: x + 1, "long")
    spark.sql("create or replace temporary function plus_one(x long) returns long return x + 1")
    spark.sql("declare or replace variable v long default 7")
    yield
    spark.catalog.dropTempView("victim")
    spark.sql("drop temporary variable if exists v")
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
    """Have a reader use a filter, as a read does that plans and logs; nothing is run.

    The log has 256 slots, each filled by the first tree that falls into it. A text whose tree finds
    its slot taken, or that Spark does not parse, is logged with some other tree.
    """
    for tree in (where, *(f"id > {limit}" for limit in range(1_000_000, 1_000_100))):
        try:
            filter = replace(analyse(spark, events.state.relation, tree), sql=where)
        except InvalidRequest:
            continue
        plan = plan_read(events.stores, events.state, filter=filter, mode="on")
        outcome = usage.record(
            events.stores, events.state, plan, filter, UsageSettings(), Metrics()
        )
        if outcome == "written":
            spark._jvm.java.lang.System.clearProperty(MARK)
            return filter
        assert outcome == "known"
    raise AssertionError("the log has no free slot")


@pytest.mark.parametrize("where", PROGRAMS)
def test_a_registered_filter_that_is_a_program_is_refused(
    spark: SparkSession, unchanged: Events, where: str
) -> None:
    registered = [RegisteredFilter(NAME, "theirs", where)]

    with pytest.raises(InvalidRequest):
        validate(spark, unchanged.stores, NAME, registered, Scope("run", 100, check_format=False))


@pytest.mark.parametrize("where", [w for w in EXPRESSIONS if "j:a" not in w])
def test_an_expression_is_admitted(spark: SparkSession, unchanged: Events, where: str) -> None:
    relation = unchanged.state.relation

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


def test_a_filter_of_a_million_literals_is_refused_before_spark_parses_it(
    spark: SparkSession, unchanged: Events
) -> None:
    began = time.monotonic()
    with pytest.raises(InvalidRequest, match="it is too long") as refused:
        admitted(spark, unchanged.state.relation, "id in (" + "1234567, " * 10**6 + "0)")
    assert time.monotonic() - began < 1
    assert len(str(refused.value)) < 5000


@pytest.mark.parametrize("where", BROKEN)
def test_a_text_that_is_no_filter_is_refused(
    spark: SparkSession, unchanged: Events, where: str
) -> None:
    with pytest.raises(InvalidRequest):
        admitted(spark, unchanged.state.relation, where)


def test_what_is_no_filter_or_is_too_large_ends_no_validation(
    spark: SparkSession, events: Events
) -> None:
    large = [
        LARGE[0],
        *LARGE[2:4],
    ]  # the other is a constant, which the log's reader would evaluate
    for where in (*BROKEN, *large):
        log(spark, events, where)
    used = used_filters(events.stores, NAME, UsageSettings(), [], 20)

    report = validate(
        spark, events.stores, NAME, [], Scope("run", 100, check_format=False), used=used
    )

    assert len(used) == len(report.unusable) == len(BROKEN) + len(large)


@pytest.mark.parametrize("where", LARGE)
def test_what_may_need_too_much_memory_is_not_run_for_a_reader(
    spark: SparkSession, unchanged: Events, where: str
) -> None:
    harmless = replace(analyse(spark, unchanged.state.relation, "id > 5", now=0), sql=where)

    with pytest.raises(InvalidRequest, match="too much memory"):
        admitted_again(spark, unchanged.state.relation, harmless, now=0)


@pytest.mark.parametrize("where", SMALL)
def test_what_stays_small_is_run(spark: SparkSession, where: str) -> None:
    check_growth(check_parsed(spark, where), where)


@pytest.mark.parametrize("kind", ["OutOfMemoryError", "StackOverflowError", "MemoryError"])
def test_a_machine_that_is_too_small_is_no_mismatch(
    spark: SparkSession, unchanged: Events, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strata.spark import evaluate

    def exhausted(*_: object) -> None:
        if kind == "MemoryError":
            raise MemoryError(kind)
        jvm = spark._jvm
        assert jvm is not None
        inner = getattr(jvm.java.lang, kind)("too small")
        raise Py4JJavaError("", jvm.org.apache.spark.SparkException("Job aborted", inner))

    state = unchanged.state
    refs = plan_read(unchanged.stores, state).fetched[:3]
    monkeypatch.setattr(evaluate, "_count", exhausted)

    found = spark_evaluator(spark, unchanged.stores.settings, state.relations)(
        analyse(spark, state.relation, "id > 5"), refs
    )

    assert [(one.error, kind in one.failed) for one in found] == [("", True)] * 3


def test_the_words_of_an_error_that_nobody_knows_excuse_nothing(
    spark: SparkSession, unchanged: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strata.spark import evaluate

    def quoting(*_: object) -> None:
        raise RuntimeError("the value 'java.lang.OutOfMemoryError' is no number")

    state = unchanged.state
    refs = plan_read(unchanged.stores, state).fetched[:1]
    monkeypatch.setattr(evaluate, "_count", quoting)
    evaluator = spark_evaluator(spark, unchanged.stores.settings, state.relations)
    (found,) = evaluator(analyse(spark, state.relation, "id > 5"), refs)

    assert "is no number" in found.error
    assert not found.failed


TEXTS = Relation(
    0,
    (Column(1, "id", parse_type("int64")), Column(2, "s", parse_type("string"))),
    (1,),
    (1,),
)


@pytest.mark.parametrize("compiled", ["true", "false"])
@pytest.mark.parametrize(
    "value",
    [
        "OutOfMemoryError",
        "java.lang.StackOverflowError: x",
        "PythonException",
        "PYTHON_EXCEPTION",
        "1\nstrata.errors.Unavailable: come again",
        "1\nstrata.errors.Corrupt: lost",
        "Job aborted due to stage failure: most recent failure: OutOfMemoryError",
    ],
)
def test_a_value_of_a_row_hides_no_failure_of_its_filter(
    spark: SparkSession, tmp_path: Path, value: str, compiled: str
) -> None:
    """The text of an error quotes the value, and says nothing of what failed."""
    shard = store(tmp_path, TEXTS, [[(1, value)]])
    state = Machine(shard.stores).load(shard.name)
    refs = plan_read(shard.stores, state).fetched
    evaluator = spark_evaluator(spark, shard.stores.settings, state.relations)

    with session(spark, **{"spark.sql.codegen.wholeStage": compiled}):
        (found,) = evaluator(analyse(spark, state.relation, "cast(s as int) > 1"), refs)

    assert (found.failed, found.corrupt) == ("", False)
    assert "CAST_INVALID_INPUT" in found.error


def test_a_failure_of_python_and_an_exhausted_machine_are_known_by_their_class(
    spark: SparkSession,
) -> None:
    def lost(_: object) -> Iterator[object]:
        raise Unavailable("the store is away", certain=False)
        yield

    rows = spark.range(1)
    with pytest.raises(PythonException) as away:
        rows.mapInArrow(lost, "id bigint").count()  # type: ignore[arg-type]
    jvm = spark._jvm
    assert jvm is not None
    memory = jvm.java.lang.OutOfMemoryError("Java heap space")
    job = jvm.org.apache.spark.SparkException("Job aborted", memory)
    text = (
        "Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times, most recent "
        "failure: Lost task 0.0 in stage 2.0 (TID 4) (10.0.0.1 executor 3): "
        "ExecutorLostFailure (executor 3 exited)"
    )
    executor = jvm.org.apache.spark.SparkException(text, None)

    assert isinstance(task_error(away.value), Unavailable)
    assert is_of_no_row(away.value)
    for one in (job, executor):
        assert is_of_no_row(Py4JJavaError("", one))
        assert task_error(Py4JJavaError("", one)) is None


def test_the_search_for_the_parts_that_fail_ends(
    spark: SparkSession, unchanged: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter that fails late on every part takes no time for each of them."""
    from strata.spark import evaluate

    tried: list[int] = []

    def late(_: object, refs: list[object]) -> None:
        tried.append(len(refs))
        time.sleep(0.4)
        raise RuntimeError("late")

    state = unchanged.state
    refs = plan_read(unchanged.stores, state).fetched
    monkeypatch.setattr(evaluate, "_count", late)
    began = time.monotonic()

    found = spark_evaluator(spark, unchanged.stores.settings, state.relations, 1)(
        analyse(spark, state.relation, "id > 5"), refs
    )

    assert len(found) == len(refs) > 50
    assert time.monotonic() - began < 30
    assert all(one.failed for one in found[-20:])


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
