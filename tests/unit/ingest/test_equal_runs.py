"""Runs that hold the same rows are two: what is stored adds up, and validation finds no fault.

Parts are named by their bytes. Ingest of before gave equal runs of one batch one part, which the
manifest then names for each; such shards stay right, too (`old`).
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata import gc
from strata.audit.receipts import issue, replay
from strata.audit.run import Scope, ValidationReport, validate_shard
from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.part_write import RUN_KEY, PartWriter
from strata.gc.leaks import find_leaks
from strata.ingest import run as ingest_run
from strata.ingest.tables import Rows, commit_tables, open_batch, table_task
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Fresh, exchange
from strata.maintain.trim import trim_shard
from strata.model.runner import serial
from strata.model.settings import GcSettings, IngestSettings
from strata.parts.manifests import load_manifest_of
from strata.read.scan import scan
from strata.state.state import Batch
from tests.unit.ingest.test_engine import SPEC, World

HOUR = 3_600_000
ROWS = "id,name\n1,a\n2,b\n3,\n"
TASK = IngestSettings(task_bytes=30)  # a file each
Fill = Callable[[World], None]


def files(world: World, *texts: str, **how: Any) -> None:
    """Take files in that hold the rows, each its own way."""
    start = world.state.batches[-1].upper if world.state.batches else 10
    paths = [world.put(f"in/{start}-{n}.csv", text) for n, text in enumerate(texts)]
    world.ingest(*paths, lower=start, upper=start + 10, **how)


def in_two_tasks(world: World) -> None:
    world.settings = replace(world.settings, ingest=TASK)
    files(world, ROWS, "id,name\n3,\n2,b\n1,a\n", 'id,name\n1,"a"\n2,b\n3,\n')


def in_one_task(world: World) -> None:
    files(world, ROWS, "name,id\n,3\nb,2\na,1\n")  # of one header, they would be read as one


def under_two_names(world: World) -> None:
    world.settings = replace(world.settings, ingest=TASK)
    files(world, ROWS, ROWS)


def in_pieces(world: World) -> None:
    world.settings = replace(world.settings, ingest=IngestSettings(task_bytes=4096))
    files(world, "id,name\n" + "7,seven\n" * 4000)


def in_partitions(world: World) -> None:
    opened = open_batch(world.stores, world.settings, "s", Rows(0, 10))
    rows = pa.table({"id": [1, 2], "name": ["a", None]})
    results = [
        result
        for partition in range(2)  # each cut into two tables
        for result in table_task(opened.task, [rows, rows], partition, 1, world.stores.blob)
    ]
    commit_tables(world.stores, world.settings, opened, results)


WAYS: dict[str, tuple[Fill, int]] = {  # and how often each row comes
    "tasks": (in_two_tasks, 3),
    "runs of a task": (in_one_task, 2),
    "same_content": (under_two_names, 2),
    "pieces": (in_pieces, 4000),
    "partitions": (in_partitions, 4),
}


@pytest.fixture(params=["new", "old"])
def old(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether runs are written as before, when they had no numbers."""
    monkeypatch.setattr(ingest_run, "RUN_BYTES", 1)
    if request.param == "old":
        right = PartWriter.close
        monkeypatch.setattr(PartWriter, "close", lambda self, copy=0, run=0: right(self, copy))
    return bool(request.param == "old")


@pytest.fixture
def world(tmp_path: Path) -> World:
    source = {**SPEC["source"], "same_content": "each"}
    world = World(tmp_path, source=source, part_bytes=2048)
    world.settings = replace(world.settings, gc=GcSettings(grace_ms=HOUR))
    return world


def named(world: World, batch: Batch) -> list[str]:
    manifest = load_manifest_of(world.stores.blob, "s", batch, ["key"])
    keys: list[str] = manifest["key"].to_pylist()
    return keys


def filled(world: World) -> list[Batch]:
    return [batch for batch in world.state.batches if batch.manifest]


def validated(world: World) -> ValidationReport:
    found = validate_shard(
        world.stores, "s", [], lambda *_: [], serial, Scope(f"run {world.state.seqno}")
    )
    assert [v.bound or v.error for v in found.verdicts if v.outcome != "clean"] == []
    assert found.totals()["rows"] == sum(batch.updates for batch in filled(world))
    return found


def rows_of(world: World, *, consolidate: bool) -> Counter[tuple[Any, ...]]:
    plan = plan_read(world.stores, world.state)
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in scan(world.stores, world.state, plan, consolidate=consolidate):
        for row in batch.to_pylist():
            found[row["id"], row["name"]] += row["d"]
        if consolidate:
            assert len(found) == batch.num_rows
    return found


def settled(world: World) -> None:
    """Compact, collect garbage, and check after each that nothing that is named is gone."""
    compact_shard(world.stores, "s", world.settings, full=True)
    before = {info.key for info in world.stores.blob.list("")}
    for _ in range(4):
        world.now += 2 * HOUR
        gc.collect(world.stores, "s", world.settings)
        assert find_leaks(world.stores, world.settings).missing == ()
    kept = {info.key for info in world.stores.blob.list("")}
    assert kept < before


@pytest.mark.parametrize("way", WAYS)
def test_equal_runs_count_each_time(world: World, way: str, *, old: bool) -> None:
    fill, times = WAYS[way]

    fill(world)

    (batch,) = filled(world)
    keys = named(world, batch)
    assert len(batch.runs) > 1
    assert (len(set(keys)) == len(keys)) is not old
    expected = world.rows()
    assert set(expected.values()) == {times}
    assert rows_of(world, consolidate=True) == Counter({k[:2]: n for k, n in expected.items()})
    assert rows_of(world, consolidate=False) == rows_of(world, consolidate=True)
    validated(world)

    settled(world)

    (merged,) = filled(world)
    assert (len(merged.runs), merged.diffs_sum) == (1, batch.diffs_sum)
    assert world.rows() == expected
    assert rows_of(world, consolidate=True) == Counter({k[:2]: n for k, n in expected.items()})
    validated(world)


def test_work_that_is_done_again_writes_the_same_blobs(world: World, *, old: bool) -> None:
    in_two_tasks(world)
    again = World(world.root, source={**SPEC["source"], "same_content": "each"}, part_bytes=2048)
    in_two_tasks(again)

    assert named(world, filled(world)[0]) == named(again, filled(again)[0])
    blobs = ({key for key in one.blobs() if "/consumed/" not in key} for one in (world, again))
    assert next(blobs) == next(blobs)  # the ledger also knows when files were changed


def test_the_first_run_is_named_as_before_and_others_by_their_number(world: World) -> None:
    in_two_tasks(world)

    found = [
        pq.read_metadata(pa.BufferReader(world.stores.blob.get(key))).metadata.get(RUN_KEY)
        for key in named(world, filled(world)[0])
    ]

    assert found == [None, b"1048576", b"2097152"]


def test_batches_of_equal_rows_share_nothing(world: World, *, old: bool) -> None:
    for _ in range(2):
        files(world, ROWS)
    first, second = filled(world)
    assert (first.digest, first.updates) == (second.digest, second.updates)
    assert not {first.manifest, *named(world, first)} & {second.manifest, *named(world, second)}
    expected = world.rows()
    validated(world)

    settled(world)

    assert world.rows() == expected
    assert set(rows_of(world, consolidate=True).values()) == {2}
    validated(world)


def test_statistics_go_to_the_batch_that_they_are_of(world: World) -> None:
    for _ in range(2):
        files(world, ROWS)
    before = filled(world)
    assert (before[0].size_bytes, before[0].digest) == (before[1].size_bytes, before[1].digest)
    (part,) = named(world, before[1])

    trim_shard(world.stores, "s", budget_bytes=0)  # meanwhile: other manifests for both
    assert {b.manifest for b in before}.isdisjoint(b.manifest for b in filled(world))
    changed = exchange(
        world.stores, "s", before[1], [part], lambda _, old: Fresh(old.stats, old.version or 1)
    )

    assert changed is not None
    assert (changed.batch.lower, changed.changed) == (before[1].lower, 1)


def test_what_was_skipped_of_equal_runs_is_decided_again(world: World, *, old: bool) -> None:
    in_two_tasks(world)
    where = Filter(
        Call("greater_than", (Column(1, "id", "long"), Literal(9, "long")), "boolean"),
        "id > 9",
        0,
        0,
    )
    plan = plan_read(world.stores, world.state, filter=where, mode="on")
    receipt = issue(world.stores, world.state, plan, where)

    found = replay(world.stores, world.state, json.loads(json.dumps(receipt)))

    assert found.reproduced, found.to_json()
    assert (found.parts, found.skipped) == (3, 3)


def test_a_batch_is_merged_away_and_its_equal_stays(world: World, *, old: bool) -> None:
    in_two_tasks(world)
    files(world, "id,name\n" + "".join(f"{n},x\n" for n in range(100, 130)))
    in_two_tasks(world)
    expected = world.rows()

    reports = compact_shard(world.stores, "s", world.settings)
    assert reports.applied

    for _ in range(4):
        world.now += 2 * HOUR
        gc.collect(world.stores, "s", world.settings)
    assert find_leaks(world.stores, world.settings).missing == ()
    assert world.rows() == expected
    validated(world)
    settled(world)
    assert world.rows() == expected


def test_statistics_are_trimmed_and_made_again_for_every_run(world: World, *, old: bool) -> None:
    for _ in range(2):
        in_two_tasks(world)
    expected = world.rows()
    parts = sum(batch.parts for batch in filled(world))

    trimmed = trim_shard(world.stores, "s", budget_bytes=0)
    small = [batch.stats_bytes for batch in filled(world)]
    validated(world)
    made = backfill_shard(world.stores, "s")

    assert (trimmed.parts_changed, made.parts_selected) == (parts, 0), (trimmed, made)
    assert sum(batch.parts for batch in filled(world)) == parts
    assert small
    assert world.rows() == expected
    validated(world)
