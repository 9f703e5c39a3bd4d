"""A small read is answered by the driver, and answers what tasks of Spark would."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strata.decide.plan import plan_read
from strata.errors import Corrupt
from strata.history.metrics import Metrics
from strata.spark import snapshot
from strata.spark import tasks as module
from tests.spark.answers import SESSIONS, session
from tests.spark.predicates import NOW_US
from tests.spark.small import in_driver, in_tasks
from tests.spark.tempting import Tempting, register
from tests.spark.test_snapshot import FILTERS
from tests.spark.worlds import NAME as WORLD
from tests.spark.worlds import World, build
from tests.support.shards import COLUMNS, NAME, UPPER, Events, copied, counted, let_skip
from tests.support.sizes import tries

SEED = 3


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    events = copied(tmp_path_factory.mktemp("small"))
    let_skip(events.stores)
    return events


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with in_driver():
        yield


@contextmanager
def jobs_of(spark: SparkSession) -> Iterator[list[int]]:
    """Yield a list that holds the jobs of the block when it ends."""
    found: list[int] = []
    context = spark.sparkContext
    context.setJobGroup("small reads", "small reads")
    before = set(context.statusTracker().getJobIdsForGroup("small reads"))
    try:
        yield found
    finally:
        found += set(context.statusTracker().getJobIdsForGroup("small reads")) - before
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def runs_python(frame: DataFrame) -> bool:
    return "MapInArrow" in frame._jdf.queryExecution().executedPlan().toString()


def test_a_small_read_starts_no_job(spark: SparkSession, events: Events) -> None:
    with jobs_of(spark) as jobs:
        found = snapshot(spark, NAME, config=events.settings).collect()
    with in_tasks(), jobs_of(spark) as jobs_of_tasks:
        wanted = snapshot(spark, NAME, config=events.settings).collect()

    assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert not jobs
    assert jobs_of_tasks


def test_a_filter_runs_without_python(spark: SparkSession, events: Events) -> None:
    frame = snapshot(spark, NAME, where="id = 7", config=events.settings)

    assert not runs_python(frame)
    assert {row.id for row in frame.collect()} == {7}


@pytest.mark.parametrize(
    "limits",
    [
        {"SMALL_BYTES": 0},
        {"SMALL_PARTS": 0},
        {"SMALL_OUT": 99},
        {"SMALL_OUT": 99, "CELL_BYTES": 0},  # the driver begins, and leaves it to tasks
    ],
)
def test_what_is_not_small_is_read_by_tasks(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for limit, least in limits.items():
        monkeypatch.setattr(module, limit, least)

    assert runs_python(snapshot(spark, NAME, config=events.settings))


def test_nothing_is_read_in_vain_where_the_plan_shows_that_it_is_much(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    monkeypatch.setattr(module, "_small_rows", lambda *_: begun.append(1))
    rows = sum(ref.rows for ref in plan_read(events.stores, events.state).fetched)
    few = rows * (1 + 2) * module.CELL_BYTES  # of one column, t and d
    monkeypatch.setattr(module, "SMALL_OUT", few)

    snapshot(spark, NAME, columns=["id"], config=events.settings)
    assert begun == [1]
    snapshot(spark, NAME, columns=["id", "at"], config=events.settings)
    assert begun == [1]
    monkeypatch.setattr(module, "SMALL_OUT", few - 1)
    snapshot(spark, NAME, columns=["id"], config=events.settings)
    assert begun == [1]


def test_tasks_read_what_the_driver_has_no_folder_for(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, or a session that outlives what a cleaner leaves below /tmp."""
    wanted = snapshot(spark, NAME, config=events.settings).count()
    monkeypatch.setattr(spark.sparkContext, "_temp_dir", "/nonexistent")

    rows = snapshot(spark, NAME, config=events.settings)

    assert runs_python(rows)
    assert rows.count() == wanted


def test_a_session_with_large_types_reads_by_tasks(spark: SparkSession, events: Events) -> None:
    """Its JVM took each offset of a text for half of a longer one, and died of what it read."""
    wanted = sorted(map(str, snapshot(spark, NAME, config=events.settings).collect()))
    spark.conf.set(module.LARGE_TYPES, "True")
    try:
        rows = snapshot(spark, NAME, config=events.settings)

        assert runs_python(rows)
        assert sorted(map(str, rows.collect())) == wanted
    finally:
        spark.conf.unset(module.LARGE_TYPES)


def test_a_read_that_must_see_the_settings_of_its_action_is_never_small(
    spark: SparkSession, events: Events
) -> None:
    where = "date_format(at, 'yyyy') = '2013' and id = 7"

    assert runs_python(snapshot(spark, NAME, where=where, pushdown="on", config=events.settings))


def test_rows_are_counted_once(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, float]] = []
    monkeypatch.setattr(Metrics, "wanted", True)
    monkeypatch.setattr(Metrics, "count", lambda _, name, n, tags=None: sent.append((name, n)))

    rows = snapshot(spark, NAME, config=events.settings).collect()

    assert [n for name, n in sent if name == "read.updates"] == [len(rows)]


def test_a_missing_part_is_named_at_once(spark: SparkSession, tmp_path: Path) -> None:
    events = copied(tmp_path)
    key = plan_read(events.stores, events.state).fetched[3].key
    events.stores.blob.delete(key)

    with pytest.raises(Corrupt, match=key):
        snapshot(spark, NAME, config=events.settings)


QUESTIONS = st.fixed_dictionaries(
    {
        "where": st.none() | st.sampled_from([sql for sql, _ in FILTERS]),
        "as_of": st.none() | st.integers(0, UPPER - 1),
        "columns": st.none() | st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4),
        "consolidate": st.booleans(),
        "pushdown": st.sampled_from(["on", "off"]),
    }
)


@settings(max_examples=tries(15, 500), deadline=None)
@given(asked=QUESTIONS)
def test_the_driver_finds_what_tasks_find(
    spark: SparkSession, events: Events, asked: dict[str, Any]
) -> None:
    here = snapshot(spark, NAME, config=events.settings, **asked)
    with in_tasks():
        there = snapshot(spark, NAME, config=events.settings, **asked)

    assert runs_python(there) or not there.count()
    assert here.schema == there.schema
    assert counted(here.toArrow()) == counted(there.toArrow())


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    register(spark)
    return build(tmp_path_factory.mktemp("world"), SEED)


def answer(spark: SparkSession, world: World, where: str) -> object:
    """Return the ids of the rows that a filter accepts, or the name of its error."""
    asked: Any = {"where": where, "now": NOW_US, "columns": ["id"], "config": world.settings}
    try:
        return sorted((row.id, row.d) for row in snapshot(spark, WORLD, **asked).collect())
    except PySparkException as error:
        return error.getCondition()


def test_a_filter_means_the_same_to_the_driver(spark: SparkSession, world: World) -> None:
    draw, failed = Tempting(random.Random(SEED), world.state.relation), 0
    names = list(SESSIONS)
    for number in range(tries(16, 400)):
        _, where = draw.filter()
        with session(spark, **SESSIONS[names[number % len(names)]]):
            here = answer(spark, world, where)
            with in_tasks():
                there = answer(spark, world, where)
        assert here == there, where
        failed += not isinstance(here, list)
    assert failed < tries(16, 400), "some filter accepts rows"
    assert failed, "some filter fails"


def test_what_fails_as_written_is_left_to_the_optimiser(spark: SparkSession, world: World) -> None:
    where = f"id < 5 and {array_of(world)}[1000] = null"

    assert answer(spark, world, where) == []


def array_of(world: World) -> str:
    return next(c.name for c in world.state.relation.columns if str(c.type) == "list<int32>")
