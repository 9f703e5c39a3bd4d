"""A small read is answered by the driver, and answers what tasks of Spark would."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from strata.decide.plan import plan_read
from strata.errors import Corrupt
from strata.history.metrics import Metrics
from strata.spark import snapshot
from strata.spark import tasks as module
from tests.spark.small import in_driver, in_tasks
from tests.spark.test_snapshot import FILTERS
from tests.support.shards import COLUMNS, NAME, UPPER, Events, copied, counted, let_skip
from tests.support.sizes import tries


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
    ("limit", "least"), [("SMALL_BYTES", 0), ("SMALL_PARTS", 0), ("SMALL_OUT", 99)]
)
def test_what_is_not_small_is_read_by_tasks(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch, limit: str, least: int
) -> None:
    monkeypatch.setattr(module, limit, least)

    assert runs_python(snapshot(spark, NAME, config=events.settings))


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
