"""Parts are dealt to tasks completely, and tasks bring back results and errors as they are."""

import time
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strata.decide.plan import plan_read
from strata.decide.read_plan import Parts
from strata.errors import Corrupt, InvalidRequest, StrataError, Unavailable
from strata.format.manifest import PartRef, manifest_table
from strata.model.runner import cores
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts.manifests import PageParts
from strata.spark import spark_runner
from strata.spark.failures import engine_error
from strata.spark.rows import (
    LEAST_BYTES,
    OUT_ROWS,
    TASK_BYTES,
    fewer_batches,
    group_parts,
    part_rows,
    task_parts,
    wanted_columns,
    worthwhile_tasks,
)
from strata.spark.runner import TASKS_PER_CORE, WAVES
from tests.support.paged import Invented, cut, shard_of
from tests.support.shards import Events, copied
from tests.support.stored import memory_stores


def ref(number: int, size_bytes: int) -> PartRef:
    return PartRef(
        f"p{number}", size_bytes, 1, 0, "both", 0, (1,), 0, 0, 1, 0, False, b"%04d" % number, None
    )


SIZES = st.lists(st.integers(1, 3 * TASK_BYTES), max_size=40)


@given(SIZES, st.integers(1, 12))
def test_every_part_is_dealt_once_and_no_core_idles(sizes: list[int], tasks: int) -> None:
    parts = [ref(number, size) for number, size in enumerate(sizes)]

    groups = group_parts(parts[::-1], tasks)

    assert [part for group in groups for part in group] == parts  # neighbours by key
    assert len(groups) >= min(tasks, len(parts))
    assert all(groups)
    for group in groups:  # a task is over its share only by its last part
        assert sum(p.size_bytes for p in group[:-1]) <= TASK_BYTES


def test_parts_of_unopened_pages_are_dealt_once_and_unread() -> None:
    stores = memory_stores()
    with cut(4, 3):
        state = shard_of(stores, [Invented(n, n) for n in range(30)])
        plan = plan_read(stores, state)
    opened = [ref(number, 1000) for number in range(3)]
    both = Parts(manifest_table(opened), *plan.parts._found)

    tasks = task_parts(both, 2)

    assert tasks[0] == tuple(opened)
    assert all(isinstance(task, PageParts) for task in tasks[1:])
    assert [part for task in tasks for part in task] == [*opened, *plan.fetched]


@given(st.integers(20, 60), st.integers(1, 8))
def test_equal_parts_are_dealt_about_evenly(count: int, tasks: int) -> None:
    groups = group_parts([ref(n, 1000) for n in range(count)], tasks)

    assert len(groups) <= tasks + 1
    assert max(map(len, groups)) <= -(-count // tasks)


@given(SIZES, st.integers(1, 12))
def test_a_small_read_is_few_tasks(sizes: list[int], most: int) -> None:
    parts = [ref(number, size) for number, size in enumerate(sizes)]

    tasks = worthwhile_tasks(parts, most)

    assert 1 <= tasks <= most
    assert tasks == most or tasks * LEAST_BYTES >= sum(sizes)
    assert tasks == 1 or (tasks - 1) * LEAST_BYTES < sum(sizes)


def test_names_that_would_clash_are_refused() -> None:
    relation = Relation(0, (Column(1, "t", parse_type("int64")),), (1,), ())

    with pytest.raises(InvalidRequest, match="time or diff"):
        wanted_columns(relation, None)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    return copied(tmp_path_factory.mktemp("rows"))


def test_rows_can_tell_their_part_and_keep_their_times(spark: SparkSession, events: Events) -> None:
    parts = plan_read(events.stores, events.state).fetched

    frame = part_rows(
        spark, events.settings.store, events.state.relations, parts, ["id"], part_column="__part"
    )

    rows = frame.collect()
    assert {row["__part"] for row in rows} == {part.key for part in parts}
    times = {part.key: (part.t_low, part.t_high) for part in parts}
    assert all(times[r["__part"]][0] <= r.t <= times[r["__part"]][1] for r in rows)
    assert len(rows) == sum(part.rows for part in parts)


def double(number: int) -> int:
    return 2 * number


def fail(error: Exception, at: int, number: int) -> int:
    if number == at:
        raise error
    return number


def test_results_come_in_the_order_of_the_items(spark: SparkSession) -> None:
    run, slots = spark_runner(spark), spark.sparkContext.defaultParallelism
    count = 3 * WAVES * TASKS_PER_CORE * slots - 1

    assert list(run(double, range(count))) == [2 * n for n in range(count)]
    assert list(run(double, [])) == []


def test_tasks_are_told_how_many_cores_each_may_keep_busy(spark: SparkSession) -> None:
    run, slots = spark_runner(spark), spark.sparkContext.defaultParallelism

    assert list(run(told, range(1))) == [slots]
    assert list(run(told, range(slots + 1))) == [1] * (slots + 1)


def test_heavy_items_are_begun_first_and_results_keep_their_order(spark: SparkSession) -> None:
    slots = spark.sparkContext.defaultParallelism
    count = WAVES * TASKS_PER_CORE * slots  # go out as one wave
    items = [Heavy(n) for n in (count, *range(1, count))]  # the heaviest far from one another

    results = list(spark_runner(spark)(begun, items))

    assert [n for n, _ in results] == [item.weight for item in items]
    begins = [at for _, at in sorted(results, reverse=True)]
    assert max(begins[:slots]) < min(begins[slots:])


@dataclass(frozen=True)
class Heavy:
    weight: int


def begun(item: Heavy) -> tuple[int, float]:
    """Return what was run, and when."""
    now = time.time()
    time.sleep(0.3)
    return item.weight, now


def told(_: int) -> int:
    return cores()


@pytest.mark.parametrize(
    "error",
    [
        Corrupt("damaged", part="p7", cure="restore it"),
        Unavailable("no answer", certain=True, host="h"),
    ],
)
def test_an_engine_error_in_a_task_is_itself_on_the_driver(
    spark: SparkSession, error: StrataError
) -> None:
    results = spark_runner(spark)(partial(fail, error, 2), range(9))

    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(type(error)) as caught:
        next(results)
    assert str(caught.value) == str(error)
    assert caught.value.details == error.details


def test_a_bug_in_a_task_is_not_taken_for_an_engine_error(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="surprise"):
        list(spark_runner(spark)(partial(fail, ValueError("surprise"), 1), range(2)))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Traceback\n  x\nstrata.errors.Corrupt: a part is missing part='p'\n", Corrupt),
        ("a\nstrata.errors.Unavailable: no answer\n\n  at org.apache", Unavailable),
        ("ValueError: strata.errors.Corrupt: quoted", None),
        ("", None),
    ],
)
def test_the_kind_of_a_failed_task_is_read_from_its_traceback(text: str, kind: Any) -> None:
    found = engine_error(text)

    assert (None if found is None else type(found)) is kind


@given(st.lists(st.integers(0, 50_000), max_size=30))
def test_small_batches_come_together_with_the_same_rows(sizes: list[int]) -> None:
    starts = list(accumulate(sizes, initial=0))
    batches = [
        pa.record_batch({"n": pa.array(range(low, low + size), pa.int64())})
        for low, size in zip(starts, sizes, strict=False)
    ]

    found = list(fewer_batches(batches))

    assert [n for b in found for n in b.column("n").to_pylist()] == list(range(sum(sizes)))
    assert all(b.num_rows for b in found)
    assert all(b.num_rows <= max(OUT_ROWS, *sizes) for b in found)
    assert all(a.num_rows + b.num_rows > OUT_ROWS for a, b in pairwise(found))
