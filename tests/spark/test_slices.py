"""Tasks of a consolidated read merge each row once, also where the driver names pages alone."""

import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from strata.decide.plan import plan_read
from strata.decide.read_plan import Parts, ReadPlan
from strata.expr.filter import Filter
from strata.machine.machine import Machine
from strata.read.merged import overlapping
from strata.read.scan import scan
from strata.spark import slices as module
from strata.spark import snapshot, where_option
from strata.spark.asked import request
from strata.spark.datasource import Guarded, Merged, StrataReader
from strata.spark.slices import SliceReader, SliceTask, StretchReader, slice_tasks
from strata.state.state import State
from strata.store.open import Stores
from strata.updates.slices import WHOLE, Slice
from tests.support.paged import cut
from tests.support.shards import NAME, Events, build, counted, let_skip
from tests.support.sizes import tries
from tests.support.stretched import FILTERS, accepts, covers_once, ends_before, few, rows_of, shards


@contextmanager
def small(copied_parts: int = 512) -> Iterator[None]:
    """Cut slices of few bytes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "LEAST_BYTES", 1)
        patched.setattr(module, "COPIED_PARTS", copied_parts)
        yield


def tasks_of(stores: Stores, state: State, plan: ReadPlan, count: int) -> list[SliceTask]:
    return slice_tasks(stores, state, plan, state.relation.columns, count)


@settings(max_examples=tries(25, 1500), deadline=None)
@given(
    stores=shards(),
    parts=st.integers(1, 6),
    count=st.integers(1, 40),
    copied=st.sampled_from([0, 3, 512]),
    filter=st.none() | FILTERS,
    data=st.data(),
)
def test_tasks_of_stretches_give_the_rows_of_a_read_that_holds_all_parts(
    stores: Stores,
    parts: int,
    count: int,
    copied: int,
    filter: Filter | None,
    data: st.DataObject,
) -> None:
    state = Machine(stores).load("shard")
    as_of = data.draw(st.integers(0, state.upper - 1))
    plain = rows_of(scan(stores, state, plan_read(stores, state, as_of=as_of), consolidate=True))
    plan = plan_read(stores, state, as_of=as_of, filter=filter, mode="on")

    with few(parts), small(copied):
        tasks = tasks_of(stores, state, plan, count)
        found = [row for task in tasks for row in rows_of(task.read())]

    if filter is None:
        assert found == plain
    else:
        assert [r for r in found if accepts(filter, r)] == [r for r in plain if accepts(filter, r)]


def slice_readers(tasks: list[SliceTask]) -> list[SliceReader]:
    """Return what each task merges; tasks without a slice are left out."""
    readers = [(pickle.loads(task.reader), task.number) for task in tasks]
    found = [r.slice_of(n) if isinstance(r, StretchReader) else r for r, n in readers]
    return [one for one in found if one is not None]


@settings(max_examples=tries(25, 1500), deadline=None)
@given(
    stores=shards(),
    parts=st.sampled_from([1, 2, 5, 100_000]),
    count=st.integers(1, 40),
    copied=st.sampled_from([0, 512]),
    filter=st.none() | FILTERS,
)
def test_each_key_is_in_one_slice_with_the_parts_that_may_have_it(
    stores: Stores, parts: int, count: int, copied: int, filter: Filter | None
) -> None:
    state = Machine(stores).load("shard")
    plan = plan_read(stores, state, filter=filter, mode="on")

    with few(parts), small(copied):
        found = slice_readers(tasks_of(stores, state, plan, count))

    pieces = [one.within for one in found]
    ends, begins = [b"", *(p.high for p in pieces)], [*(p.low for p in pieces), None]
    gaps = [Slice(a, b) for a, b in zip(ends, begins, strict=True) if a is not None and a != b]
    every = [*((one.within, one.runs) for one in found), *((gap, ()) for gap in gaps)]
    # Each page is read once for all slices.
    plan = replace(plan, runs=[replace(run, parts=Parts(*run.parts.tables())) for run in plan.runs])
    assert covers_once(sorted((within for within, _ in every), key=lambda one: one.low), WHOLE)
    for within, runs in every:
        tried = [ref for run in overlapping(state, plan, within) for ref in run]
        mine = [ref for run in runs for ref in run]
        assert [ref for ref in tried if ref in mine] == mine
        assert all(ends_before(ref, within) for ref in tried if ref not in mine)
    for one in found:
        keys = {ref.key for run in one.runs for ref in run}
        assert one.shown.groups.items() <= plan.groups.items()
        assert keys & set(plan.groups) <= set(one.shown.groups)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    """A shard whose manifests are in pages of three parts."""
    with cut(3, 100):
        events = build(tmp_path_factory.mktemp("paged"))
    let_skip(events.stores)
    return events


@pytest.fixture(scope="module")
def config(events: Events, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("config") / "strata.toml"
    store = events.settings.store
    path.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    return str(path)


@pytest.mark.parametrize("as_of", [700, 2500, None])
def test_a_snapshot_of_unread_pages_is_what_its_shard_holds(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch, as_of: int | None
) -> None:
    made: list[SliceTask] = []

    def noted(*args: Any) -> list[SliceTask]:
        made.extend(slice_tasks(*args))
        return made

    monkeypatch.setattr(module, "slice_tasks", noted)
    monkeypatch.setattr(module, "TASKS_PER_CORE", 15)
    with few(12), small():
        frame = snapshot(spark, NAME, as_of=as_of, consolidate=True, config=events.settings)

    expected = events.contents(2999 if as_of is None else as_of)
    assert counted(frame.toArrow()) == expected
    assert frame.count() == len(expected)
    assert len(made) > 4
    assert as_of is not None or any(task.number for task in made)


SCHEMA = (
    StructType()
    .add("id", "long")
    .add("carrier", "string")
    .add("number", "integer")
    .add("t", "long")
    .add("d", "long")
)


def read(reader: StrataReader, parts: list[Any]) -> Counter[tuple[Any, ...]]:
    tables = [pa.Table.from_batches([b]) for part in parts for b in reader.read(part)]
    return Counter(tuple(row.values()) for t in tables for row in t.to_pylist())


def test_the_source_reads_each_row_once_in_stretches(events: Events, config: str) -> None:
    asked = request({"shard": NAME, "config": config, "consolidate": "true"})
    reader = StrataReader(asked, SCHEMA)
    whole = read(reader, reader.partitions())

    with few(6), small():
        parts = reader.partitions()
        found = read(reader, parts)

    assert found == whole
    assert set(whole.values()) == {1}
    assert len(parts) > 4
    assert all(isinstance(part, Merged) for part in parts)


@pytest.mark.parametrize("same", [True, False])
def test_guarded_tasks_read_each_row_once_in_any_session(
    spark: SparkSession, events: Events, config: str, same: bool
) -> None:
    where = "id < 120 and carrier >= 'B6'"
    option = where_option(spark, NAME, where, config=config)
    options = {"shard": NAME, "config": config, "consolidate": "true"}
    plain = StrataReader(request(options), SCHEMA)
    whole = read(plain, plain.partitions())
    reader = StrataReader(request({**options, "where": option}), SCHEMA)

    with few(4), small(), patch("strata.spark.datasource.fits_task", return_value=same):
        parts = reader.partitions()
        found = read(reader, parts)

    assert all(isinstance(part, Guarded) for part in parts)
    if not same:
        assert found == whole
    assert kept(found) == kept(whole)
    assert 0 < len(kept(whole)) < len(whole)


def kept(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Return the rows that the filter accepts."""
    return Counter({r: n for r, n in rows.items() if r[0] < 120 and (r[1] or "") >= "B6"})
