"""The filter that is judged is the filter that Spark runs, in whatever order Spark likes.

Each filter hides an error, or loses a row, for a planner that takes the text at its word: Spark
evaluates null tests late, takes common factors out, derives conditions and puts them in front,
and calls Python functions below the filter.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType

from strata.audit.run import Scope
from strata.config.filters import RegisteredFilter
from strata.decide.descent import load_manifest
from strata.decide.plan import plan_read
from strata.expr.nodes import Opaque
from strata.format.manifest import part_refs
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.spark import snapshot
from strata.spark.evaluate import spark_evaluator, validate
from strata.spark.front.catalyst import analyse
from strata.spark.front.legacy import CERTIFIED, older_meaning, other_release
from strata.spark.running import is_guarded
from strata.spark.snapshot import planned_rows
from tests.spark.answers import SESSIONS, WAYS, Shard, answer, both, newest, session, store
from tests.support.climb import standing
from tests.support.sizes import slice_of

pytestmark = pytest.mark.spark
TYPES = {"a": "int32", "dv": "int32", "z": "int32", "s": "string", "code": "string", "y": "int32"}
RELATION = Relation(
    0, tuple(Column(i, n, parse_type(t)) for i, (n, t) in enumerate(TYPES.items(), 1)), (1,), ()
)
LOW = [(1, 0, None, "😀", "x", 1), (2, 0, None, "😁", "x", 2), (3, 0, None, "😂", "x", 3)]
HIGH = [(101, 1, 1, "a", "7", 1), (102, 1, 2, "b", "8", 2), (103, 2, 3, "c", "9", 3)]
DIVIDED = "DIVIDE_BY_ZERO"
# They fail on the first part in some order of evaluation, and accept rows of the second.
HIDING = [
    "z is not null and 1/dv > 0.7",
    "not (z is null) and 1/dv > 0.7",
    "isnotnull(z) and isnotnull(s) and 1/dv > 0.7",
    "z is not null and case when 1/dv > 0.7 then true else false end",
    "z is not null and rand() < 2 and 1/dv > 0.7",
    "z is not null and cast(code as int) > 5",
    "(a > 100 and 1/dv > 0.7) or (a > 200 and 1/dv > 0.7)",
    "(a > 100 and 1/dv > 0.7) or (y > 200 and 1/dv > 0.7)",
    "(a > 100 and y < 9 and 1/dv > 0.7) or (a > 200 and y < 8 and 1/dv > 0.7)",
    "(s = 'a' and cast(code as int) > 5) or (s = 'a' and cast(code as int) > 5)",
    "(not coalesce(a > 100, false) or 1/dv > 0.7) and coalesce(a > 100, false)",
    "not (a <> dv) and 1/a > 0.2",
    "(a = dv) = true and 1/a > 0.2",
    "(a = dv or a = dv) and 1/a > 0.2",
    "a = dv and 1/a > 0.2",
    "a > 100 and (1/dv > 0.7 or 1/dv < 0.1)",
    "a > 100 and 1/dv between 0.2 and 5",
    "a > 100 and coalesce(y > 5 and (1/dv > 0.7 or 1/dv < 0.1), 1/dv > 3)",
    "a > 100 and nullif(1/dv, 2) > 0.1",
    "a in (101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112) and 1/dv > 0.7",
]
CALLING = [
    "(case when a < 50 then y else boom(a) end) = 2",
    "if(a < 50, y, boom(a)) > 1",
    "coalesce(a, boom(a)) = 102",
    "a > 100 and boom(a) = 102",
    "boom(a) = 102 and a > 100",
    "a > 100 and boom(cast(1 / dv as int)) = 1",
]
LOST = [
    "s < cast(X'ff' as string)",
    "s <= cast(X'ff' as string)",
    "s between 'a' and cast(X'ff' as string)",
    "startswith(s, cast(X'f09f' as string))",
    "s like concat(cast(X'f09f' as string), '%')",
    "s like any (cast(X'f09f9880' as string), cast(X'f09f' as string))",
    "s > cast(X'eda080' as string)",
    "not (s > cast(X'fe' as string))",
    "cast(a as double) not in (-0.0D, 1D, 2D, 3D, 4D, 5D, 6D, 7D, 8D, 9D, 10D, 11D)",
    "atan2(cast(dv as double), -0.0D) > 1",
]


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Shard:
    return store(tmp_path_factory.mktemp("runs"), RELATION, [LOW, HIGH])


@pytest.fixture(scope="module")
def calling(spark: SparkSession) -> None:
    """Register a function that fails on the rows of the first part."""

    def boom(a: int) -> int:
        if a < 10:
            raise ValueError("boom")
        return a

    spark.udf.register("boom", boom, IntegerType())


# With the option, Spark runs its own filter: `own` derives less of it than `stock` does, and
# `test_as_run.py` tries it.
ASKED = [*(("snapshot", name) for name in SESSIONS), ("option", "uncompiled"), ("option", "stock")]


@pytest.mark.parametrize(("way", "name"), ASKED)
def test_no_error_is_hidden_whatever_spark_evaluates_first(
    spark: SparkSession, shard: Shard, way: str, name: str
) -> None:
    # What Strata's own sessions do is tried whole, the others share the filters.
    number = ASKED.index((way, name))
    filters = slice_of(HIDING, number, len(ASKED) - 1) if number else HIDING
    with session(spark, **SESSIONS[name]):
        found = {where: both(spark, shard, where, way) for where in filters}

    wrong = {where: answers for where, answers in found.items() if answers[0] != answers[1]}
    assert not wrong


@pytest.mark.parametrize("way", WAYS)
def test_a_null_test_in_front_hides_nothing_on_any_way(
    spark: SparkSession, shard: Shard, way: str
) -> None:
    off, on = both(spark, shard, "z is not null and 1/dv > 0.7", way)

    assert off == on
    assert off == DIVIDED or way in ("snapshot", "consolidated")


@pytest.mark.parametrize("way", ["snapshot", "option"])
def test_python_functions_are_called_on_rows_that_a_branch_leaves_out(
    spark: SparkSession, shard: Shard, calling: None, way: str
) -> None:
    filters = slice_of(CALLING, way == "option", 2)
    found = {where: both(spark, shard, where, way) for where in filters}

    assert not {where: answers for where, answers in found.items() if answers[0] != answers[1]}
    assert "PYTHON" in [off for off, _ in found.values()]


@pytest.mark.parametrize("way", WAYS)
def test_a_constant_is_taken_exactly_or_not_at_all(
    spark: SparkSession, shard: Shard, way: str
) -> None:
    number = WAYS.index(way)
    filters = slice_of(LOST, number, len(WAYS) - 1) if number else LOST
    found = {where: both(spark, shard, where, way) for where in filters}

    assert not {where: answers for where, answers in found.items() if answers[0] != answers[1]}
    assert all(isinstance(off, list) for off, _ in found.values())
    accepting = sum(len(off) > 0 for off, _ in found.values())
    assert accepting > len(filters) * 0.6, "they accept rows"


_TEST = "(a is not null or {0}(l, e -> {1}))"
_FAILING = ("1 / e.x > 0.1", "e.x + 2147483600 > 0 or e is null")
INSIDE = [
    form.format(_TEST.format(function, failing))
    for function in ("forall", "exists")
    for failing in _FAILING
    for form in ("coalesce(a < 100 and ({0} or not {0}), false)", "a < 100 and ({0} or not {0})")
]


@pytest.mark.parametrize("name", SESSIONS)
def test_the_elements_of_empty_lists_say_nothing_about_rows(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """What a lambda repeats has no value where there is no element; the rows are there still."""
    types = {"a": "int32", "l": "list<record<x: int32>>"}
    columns = (Column(i, n, parse_type(t)) for i, (n, t) in enumerate(types.items(), 1))
    empty, full = [(1, None), (2, [])], [(101, [{"x": 2}]), (102, [{"x": 5}, None])]
    parts = [[(0, None)], empty, full]
    lists = store(tmp_path, Relation(0, tuple(columns), (1,), ()), parts)
    with session(spark, **SESSIONS[name]):
        filters = slice_of(INSIDE, [*SESSIONS].index(name), len(SESSIONS))
        found = {where: both(spark, lists, where, "snapshot") for where in filters}

    assert not {where: answers for where, answers in found.items() if answers[0] != answers[1]}
    assert all(len(off) == 3 for off, _ in found.values())


LATER = [
    ("z is not null", "1/dv > 0.7"),
    ("a > 100", "1/dv > 0.7"),
    ("a > 100", "a = dv and 1/a > 0.2"),
    ("a > 100", "dv = y and 1/y > 0.2"),
    ("a > 100", "boom(a) > 0"),
]


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize(("where", "then"), LATER)
def test_a_filter_that_is_added_sees_only_rows_that_are_left(
    spark: SparkSession, shard: Shard, calling: None, name: str, where: str, then: str
) -> None:
    def asked(pushdown: str) -> Any:
        def ask() -> Any:
            return snapshot(
                spark, shard.name, where=where, pushdown=pushdown, config=shard.settings
            ).where(then)

        return answer(ask)

    with session(spark, **SESSIONS[name]):
        off, on = asked("off"), asked("on")

    assert isinstance(off, list)
    assert off == on


def test_settings_that_change_before_the_action_change_nothing(
    spark: SparkSession, shard: Shard
) -> None:
    found = []
    for pushdown in ("off", "on"):
        frame = snapshot(
            spark,
            shard.name,
            where="a = dv and 1/a > 0.2",
            pushdown=pushdown,
            config=shard.settings,
        )
        with session(spark, **SESSIONS["stock"], **{"spark.sql.ansi.enabled": "false"}):
            found.append(answer(lambda frame=frame: frame))

    assert found[0] == found[1]


@pytest.mark.parametrize(
    "where",
    [
        "z is not null and y > 0",
        "z is not null",
        "a > 100 and cast(code as int) > 5",
        "a > 100 and cast(code as int) between 1 and 9",
        "not (a <= 100 or 1/dv > 5)",
        "if(a > 100, 1/dv > 0.2, false)",
        "a > 100 and boom(a) = 102",
        "boom(a) = 102 and a > 100",
        "a in (101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112) and 1/dv > 0.7",
        "a > 100 and y < z + 9 and y = z and 1/y > 0.1",
    ],
)
def test_what_spark_evaluates_first_still_hides_what_is_behind(
    spark: SparkSession, shard: Shard, calling: None, where: str
) -> None:
    filter = analyse(spark, RELATION, where)

    assert plan_read(shard.stores, newest(shard), filter=filter, mode="on").parts_fetched == 1


def test_filters_that_hide_errors_trip_no_healthy_shard(
    spark: SparkSession, tmp_path: Path
) -> None:
    shard = store(tmp_path, RELATION, [LOW, HIGH])
    Machine(shard.stores).apply(shard.name, partial(standing, mode="on", percent=0))
    # What gives another answer each time is refused before it is judged.
    filters = [where for where in slice_of(HIDING, 0, 2) if "rand()" not in where]
    registered = [RegisteredFilter(shard.name, f"f{n}", where) for n, where in enumerate(filters)]

    report = validate(spark, shard.stores, shard.name, registered, Scope("run", 100))

    assert report.mismatches == ()
    assert (report.mode_after, newest(shard).rollout.quarantine) == ("on", ())
    assert sum(summary.audited_parts for summary in report.summaries) > 4


def test_an_error_without_any_row_is_no_verdict(spark: SparkSession, shard: Shard) -> None:
    state = newest(shard)
    refs = [ref for b in state.batches for ref in part_refs(load_manifest(shard.stores, state, b))]
    evaluate = spark_evaluator(spark, shard.stores.settings, state.relations)

    [low, high] = evaluate(analyse(spark, RELATION, "a = cast('x' as int)"), refs)
    assert "no rows at all" in low.failed
    assert "CAST_INVALID_INPUT" in high.failed
    assert not low.error

    [low, high] = sorted(
        evaluate(analyse(spark, RELATION, "1 / dv > 0"), refs), key=lambda e: e.rows
    )
    assert low.error.count("[DIVIDE_BY_ZERO]") == 1
    assert "calling o" not in low.error, "Java's own words, not py4j's"
    assert high.accepted == len(HIGH)


@pytest.mark.parametrize(
    ("setting", "where"),
    [
        ({"legacy.timeParserPolicy": "LEGACY"}, "date_format(ts, 'ss.SSSSSS') = '20.000123'"),
        ({"legacy.timeParserPolicy": "LEGACY"}, "to_char(ts, 'ss.SSSSSS') = '20.000123'"),
        ({"legacy.sizeOfNull": "true", "ansi.enabled": "false"}, "size(split(s, ',')) = -1"),
        ({"legacy.codingErrorAction": "true"}, "encode(s, 'US-ASCII') = X'3F'"),
    ],
)
def test_settings_that_give_functions_an_older_meaning_lose_no_row(
    spark: SparkSession, tmp_path: Path, setting: dict[str, str], where: str
) -> None:
    columns = (("id", "int64"), ("ts", "timestamptz"), ("s", "string"))
    relation = Relation(
        0, tuple(Column(i, n, parse_type(t)) for i, (n, t) in enumerate(columns, 1)), (1,), ()
    )
    moment = datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
    shard = store(tmp_path, relation, [[(1, moment, None), (2, moment, "é")]])

    with session(spark, **{f"spark.sql.{key}": value for key, value in setting.items()}):
        off, on = (
            answer(
                lambda way=way: snapshot(
                    spark, shard.name, where=where, pushdown=way, config=shard.config
                )
            )
            for way in ("off", "on")
        )

    assert off == on
    assert 1 <= len(off) <= 2


ACTIONS: Final[dict[str, Callable[[DataFrame], object]]] = {
    "collect": lambda frame: frame.collect(),
    "count": lambda frame: frame.count(),
    "written": lambda frame: frame.write.format("noop").mode("overwrite").save(),
    "arrow": lambda frame: frame.toArrow(),
    "joined": lambda frame: frame.crossJoin(frame.limit(1).selectExpr("id as other")).collect(),
}


@pytest.fixture
def moments(tmp_path: Path) -> Shard:
    columns = (("id", "int64"), ("ts", "timestamptz"))
    relation = Relation(
        0, tuple(Column(i, n, parse_type(t)) for i, (n, t) in enumerate(columns, 1)), (1,), ()
    )
    moment = datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
    shard = store(
        tmp_path, relation, [[(1, moment)], [(2, moment)], [(3, moment.replace(year=2030))]]
    )
    Machine(shard.stores).apply(shard.name, partial(standing, mode="on", percent=0))
    return shard


@pytest.mark.parametrize(
    ("action", "where", "consolidate"),
    [
        *((action, "date_format(ts, 'ss.SSSSSS') = '20.000123'", False) for action in ACTIONS),
        ("collect", "date_format(ts, 'ss.SSSSSS') = '20.000123'", True),
        ("collect", "date_format(ts, 'yyyy') = '2030'", False),
        ("collect", "date_format(ts, 'yyyy') = '2030'", True),
    ],
)
def test_a_setting_that_functions_read_late_may_not_change_before_the_action(
    spark: SparkSession, moments: Shard, action: str, where: str, consolidate: bool
) -> None:
    act = ACTIONS[action]
    with session(spark, **{"spark.sql.legacy.timeParserPolicy": "CORRECTED"}):
        frame = snapshot(
            spark, moments.name, where=where, consolidate=consolidate, config=moments.config
        )
        answered = act(frame)  # as it was, it answers
    with (
        session(spark, **{"spark.sql.legacy.timeParserPolicy": "LEGACY"}),
        pytest.raises((PySparkException, Py4JJavaError), match="Policy was CORRECTED, is LEGACY"),
    ):
        act(frame.select("*"))
    with session(spark, **{"spark.sql.legacy.timeParserPolicy": "CORRECTED"}):
        assert str(act(frame.select("*"))) == str(answered)


def test_tasks_below_an_rdd_answer_although_they_see_no_settings(
    spark: SparkSession, moments: Shard
) -> None:
    with session(spark, **{"spark.sql.legacy.timeParserPolicy": "CORRECTED"}):
        where = "date_format(ts, 'yyyy') = '2030'"
        frame = snapshot(spark, moments.name, where=where, config=moments.config)

        assert [row.id for row in frame.rdd.collect()] == [3]


@pytest.mark.parametrize(
    ("where", "guarded"),
    [
        ("id > 7", False),
        ("id in (7, 8) and (ts > timestamp'2031-01-01' or not (id = 1))", False),
        ("date_format(ts, 'yyyy') = '1999'", True),
        ("id = cast(date_format(timestamp'1999-01-01', 'yyyy') as int)", True),
        ("id = date_format (timestamp'1999-01-01', 'yyyy')", True),
        ("id = `date_format`(timestamp'1999-01-01', 'yyyy')", True),
        ("id = date_format /* years */ (timestamp'1999-01-01', 'yyyy')", True),
        ("id > '7'::int", True),
        ("id >= 1", False),
    ],
)
def test_reads_that_leave_out_parts_by_a_function_are_guarded(
    spark: SparkSession, moments: Shard, where: str, guarded: bool
) -> None:
    with session(spark, **{"spark.sql.legacy.timeParserPolicy": "CORRECTED"}):
        state = newest(moments)
        filter = analyse(spark, state.relation, where)
        plan = plan_read(moments.stores, state, filter=filter)
        rows = planned_rows(spark, moments.stores, state, plan, filter)

        assert is_guarded(plan, filter) is guarded
        assert (
            rows.collect()
            == snapshot(
                spark, moments.name, where=where, pushdown="off", config=moments.config
            ).collect()
        )


def test_a_setting_at_its_default_or_about_files_keeps_skipping(spark: SparkSession) -> None:
    settings = {
        "spark.sql.legacy.sizeOfNull": "true",
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        "spark.sql.legacy.parquet.nanosAsLong": "true",
    }
    with session(spark, **settings):
        assert older_meaning(spark) is None
    with session(spark, **{"spark.sql.legacy.sizeOfNull": "false"}):
        assert older_meaning(spark) == "spark.sql.legacy.sizeOfNull=false"
        expr = analyse(spark, RELATION, "a > 1").expr
    assert isinstance(expr, Opaque)
    assert "sizeOfNull=false" in expr.reason


def test_another_release_of_spark_skips_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert other_release(spark) is None
    for version, other in (
        (f"{CERTIFIED}.0", False),
        (f"{CERTIFIED}.7", False),
        (f"{CERTIFIED}.0-amzn-1", False),
        ("4.1.2", True),
        ("4.30.0", True),
        ("5.0.0", True),
    ):
        monkeypatch.setitem(vars(spark), "version", version)
        assert (other_release(spark) == version) is other

        expr = analyse(spark, RELATION, "a > 1").expr

        assert isinstance(expr, Opaque) is other
        assert not other or f"Spark {version}" in expr.reason
