"""Rows that were erased stay out of the shard when a file brings them again, and are counted."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from strata.format.columns import updates_schema
from strata.ingest.counts import Counts
from strata.ingest.plan import whole_task
from strata.ingest.readers.rejects import Reject
from strata.ingest.suppressed import without_suppressed
from strata.ingest.task import IngestTask, JudgedRows, Step
from strata.parts.suppressed import empty, store_suppressed
from tests.unit.ingest.test_engine import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def task_of(world: World, *erased: int, texts: tuple[bytes, ...] = ()) -> IngestTask:
    """Return a task of a shard from which the keys `erased`, and some rejected rows, are gone."""
    task = whole_task(world.settings, world.state, Step(0, 10, "t", ()))
    found = empty()
    words = found.key_words(rows_of(task, *erased).to_batches()[0], task.relation)
    found = found.plus("e", "key", words).plus("e", "raw", found.raw_words(texts))
    return replace(task, suppressed=store_suppressed(world.stores.blob, "s", found, 0))


def rows_of(task: IngestTask, *ids: int) -> pa.Table:
    schema = updates_schema(task.relation)
    columns = [list(ids), [f"name {n}" for n in ids], [0] * len(ids), [1] * len(ids)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def judged(*texts: str) -> JudgedRows:
    rejected = [Reject("x.csv", n, None, None, "bad", text) for n, text in enumerate(texts)]
    return JudgedRows(Counts(rows=4, rejected=len(texts)), rejected, ())


def test_an_erased_row_is_left_out_and_counted(world: World) -> None:
    task = task_of(world, 2, 4)

    rows, found = without_suppressed(world.stores.blob, task, rows_of(task, 1, 2, 3, 4), judged())

    assert rows.column(0).to_pylist() == [1, 3]
    assert found.counts == Counts(rows=4, suppressed=2)


def test_an_erased_row_of_the_quarantine_is_no_longer_rejected(world: World) -> None:
    task = task_of(world, 2, texts=(b"x,bob",))

    rows, found = without_suppressed(
        world.stores.blob, task, rows_of(task, 1), judged("x,bob", "y,eve")
    )

    assert rows.column(0).to_pylist() == [1]
    assert [one.raw for one in found.rejected] == ["y,eve"]
    assert found.counts == Counts(rows=4, rejected=1, suppressed=1)


def test_nothing_is_left_out_of_a_shard_from_which_nothing_was_erased(world: World) -> None:
    task = replace(task_of(world, 2), suppressed=None)
    rows, before = rows_of(task, 1, 2), judged("x")

    assert without_suppressed(world.stores.blob, task, rows, before) == (rows, before)
