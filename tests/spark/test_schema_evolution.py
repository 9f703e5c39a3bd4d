"""Seed 002 through Spark: drop `b`, add `b` default 50, delete where `b = 5` deletes nothing.

    CREATE TABLE t1 (a text, b int)
    INSERT INTO t1 VALUES ('hello', 5)
    ALTER TABLE t1 DROP COLUMN b
    ALTER TABLE t1 ADD COLUMN b int DEFAULT 50
    DELETE FROM t1 WHERE b = 5

A delete reads what the condition accepts and retracts it. Everything is asked with and without
skipping, as of the data source and of `snapshot`, before compaction and after it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import CompactSettings, Settings, StoreSettings
from strata.model.types import parse_type
from strata.read.scan import scan
from strata.spark import snapshot, spark_runner
from strata.spark.front.catalyst import analyse
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from strata.state.state import State
from strata.store.open import open_stores
from tests.support.shards import let_skip
from tests.support.sizes import slice_of
from tests.support.stored import append, create
from tests.support.updates import table

TEXT, INT = parse_type("string"), parse_type("int32")
FIRST = Relation(0, (Column(1, "a", TEXT), Column(2, "b", INT)), (1,), ())
Shard = tuple[Settings, Callable[..., State]]

LAYOUTS = ("row", "structured", "both")


@pytest.fixture(params=LAYOUTS)
def shard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shard]:
    """Return settings and what changes the shard: rows at the shard's upper, or its relation."""
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    settings = Settings(store)
    stores = open_stores(store)
    create(stores, FIRST, write_format=request.param)
    let_skip(stores, "shard")
    times = iter(range(100))

    def do(*steps: Change | tuple[Any, ...], relation: Relation | None = None) -> State:
        rows = [step for step in steps if isinstance(step, tuple)]
        for step in steps:
            if not isinstance(step, tuple):
                Machine(stores).evolve("shard", step)
        if rows:
            at = next(times)
            newest = relation or Machine(stores).load("shard").relation
            updates = [(*row[:-1], at, row[-1]) for row in rows]
            append(stores, "shard", at, at + 1, [table(newest, updates)], relation=relation)
        return Machine(stores).load("shard")

    yield settings, do
    stores.consensus.close()  # type: ignore[attr-defined]


def compact(spark: SparkSession, settings: Settings) -> None:
    options = replace(settings, compact=CompactSettings(history_ms=1))
    stores = open_stores(settings.store)
    report = compact_shard(stores, "shard", options, spark_runner(spark), full=True)
    assert report.not_applied == ()
    state = Machine(stores).load("shard")
    assert {b.versions for b in state.batches if b.manifest} <= {(state.relation.version,)}


def rows(
    spark: SparkSession, settings: Settings, where: str | None = None, **options: Any
) -> list[tuple[Any, ...]]:
    """Return the snapshot's rows with their counts; the same with and without skipping."""
    found = []
    for pushdown, consolidate in (("off", True), ("on", False)):
        frame = snapshot(
            spark,
            "shard",
            where=where,
            config=settings,
            pushdown=pushdown,
            consolidate=consolidate,
            **options,
        )
        names = [name for name in frame.columns if name not in ("t", "d")]
        counts: dict[tuple[Any, ...], int] = {}
        for row in frame.collect():
            key = tuple(row[name] for name in names)
            counts[key] = counts.get(key, 0) + row.d
        found.append(sorted(((*row, d) for row, d in counts.items() if d), key=repr))
    assert found[0] == found[1]
    return found[0]


def config(folder: Path, settings: Settings) -> str:
    path = folder / "strata.toml"
    store = settings.store
    path.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    return str(path)


def delete(spark: SparkSession, shard: Shard, where: str) -> int:
    """Retract what a condition accepts, as DELETE does; return how many rows that were."""
    settings, do = shard
    found = rows(spark, settings, where)
    if found:
        do(*((*row[:-1], -row[-1]) for row in found))
    return len(found)


def skipped(spark: SparkSession, settings: Settings, where: str) -> int:
    stores = open_stores(settings.store)
    state = Machine(stores).load("shard")
    filter = analyse(spark, state.relation, where)
    return plan_read(stores, state, filter=filter, mode="on").parts_skipped


@pytest.mark.parametrize(
    ("shard", "compacted"),
    [
        (layout, compacted)
        for number, layout in enumerate(LAYOUTS)
        for compacted in slice_of((True, False), number, 2)
    ],
    indirect=["shard"],
)
def test_the_scenario_of_the_seed(spark: SparkSession, shard: Shard, compacted: bool) -> None:
    settings, do = shard
    do(("hello", 5, 1))
    do(DropColumn("b"))
    assert rows(spark, settings) == [("hello", 1)]
    with pytest.raises(InvalidRequest, match="b"):
        rows(spark, settings, "b = 5")
    state = do(AddColumn("b", INT, default=50))
    if compacted:
        compact(spark, settings)

    assert delete(spark, shard, "b = 5") == 0

    assert rows(spark, settings) == [("hello", 50, 1)]
    assert rows(spark, settings, "b = 50") == [("hello", 50, 1)]
    # Before compaction the default is known without statistics; the row layout never has any.
    known = not (compacted and state.spec.write_format == "row")
    assert skipped(spark, settings, "b = 5") == known
    assert delete(spark, shard, "b = 50") == 1
    assert rows(spark, settings) == []
    compact(spark, settings)
    assert rows(spark, settings) == []


def test_names_follow_ids_whatever_a_part_was_written_with(
    spark: SparkSession, shard: Shard, tmp_path: Path
) -> None:
    """Three versions in one shard: a name that moved, one that came back, a type that grew."""
    settings, do = shard
    do(("x", 1, 1), ("y", 2, 1))
    state = do(RenameColumn("b", "c"), AddColumn("b", TEXT), AddColumn("n", INT, default=7))
    do(("z", 3, "new", 8, 1))
    do(("late", 4, 1), relation=FIRST)  # a writer that started before
    do(WidenColumn("c", parse_type("int64")), WidenColumn("n", parse_type("int64")))
    do(("big", 2**40, None, 2**40, 1), ("x", 1, None, 7, -1))
    expected = [
        ("big", 2**40, None, 2**40, 1),
        ("late", 4, None, 7, 1),
        ("y", 2, None, 7, 1),
        ("z", 3, "new", 8, 1),
    ]

    for step in ("before", "after"):
        everything = rows(spark, settings)
        assert sorted(everything, key=repr) == sorted(expected, key=repr), step
        assert rows(spark, settings, "n = 7 and c > 3") == [("late", 4, None, 7, 1)]
        assert rows(spark, settings, "b is null and n > 7") == [expected[0]]
        assert rows(spark, settings, "b = 'new'") == [expected[3]]
        assert rows(spark, settings, "c = 2", columns=["a"]) == [("y", 1)]
        if step == "before":
            # By the default that their parts predate, however long they have been there.
            assert skipped(spark, settings, "n < 7") >= 2
        frame = (
            spark.read.format("strata")
            .options(shard="shard", config=config(tmp_path, settings), pushdown="on")
            .load()
            .filter("n > 7 and b is null")
        )
        assert [row.a for row in frame.collect()] == ["big"]
        if step == "before":
            compact(spark, settings)
    assert state.relation.version == 3


def test_arrow_and_spark_read_the_same(spark: SparkSession, shard: Shard) -> None:
    settings, do = shard
    do(("x", 1, 1))
    state = do(DropColumn("b"), AddColumn("when", parse_type("date"), default="2024-02-29"))
    stores = open_stores(settings.store)

    batches = list(scan(stores, state, plan_read(stores, state)))

    [row] = pa.Table.from_batches(batches).to_pylist()
    [(a, when, d)] = rows(spark, settings, "when = date'2024-02-29'")
    assert (a, when, d) == (row["a"], row["when"], row["d"])
