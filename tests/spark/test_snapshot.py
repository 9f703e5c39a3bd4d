"""A snapshot holds what the twin holds, whatever is skipped, projected or consolidated."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import RolloutSettings
from strata.shard import Shard
from strata.spark import snapshot
from strata.spark.count import row_count
from strata.spark.failures import engine_error
from strata.spark.front.catalyst import analyse
from strata.store.open import open_stores
from tests.support.shards import (
    COLUMNS,
    NAME,
    START,
    UPPER,
    Events,
    copied,
    counted,
    let_skip,
    spec,
)

pytestmark = pytest.mark.usefixtures("read_by")

HOUR_US = 3_600_000_000
START_US = int(START.timestamp()) * 1_000_000
FILTERS: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    ("id >= 250", lambda r: r["id"] >= 250),
    ("carrier = 'AA' and id < 30", lambda r: r["carrier"] == "AA" and r["id"] < 30),
    (
        "at >= timestamp'2013-01-05 00:00:00'",
        lambda r: r["at"] is not None and r["at"] >= START.replace(day=5),
    ),
    ("day = date'2013-01-03'", lambda r: str(r["day"]) == "2013-01-03"),
    ("price is null", lambda r: r["price"] is None),
    ("price > 60.5 or flag", lambda r: bool((r["price"] or 0) > 60.5 or r["flag"])),
    ("get_json_object(payload, '$.s') = 'x3'", lambda r: '"x3"' in (r["payload"] or "")),
    ("small in (1, 2) and level > 50", lambda r: r["small"] in (1, 2) and (r["level"] or 0) > 50),
    ("raw = X'0010'", lambda r: r["raw"] == b"\x00\x10"),
    ("pmod(hash(id), 2) = 3", lambda _: False),
]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    events = copied(tmp_path_factory.mktemp("events"))
    let_skip(events.stores)
    return events


def contents(frame: DataFrame) -> Any:
    return counted(frame.toArrow())


@pytest.mark.parametrize("as_of", [0, 700, 1000, 2500, None])
def test_a_snapshot_holds_what_was_there_at_that_time(
    spark: SparkSession, events: Events, as_of: int | None
) -> None:
    frame = snapshot(spark, NAME, as_of=as_of, config=events.settings)

    at = UPPER - 1 if as_of is None else as_of
    assert contents(frame) == events.contents(at)
    assert {row.t for row in frame.select("t").distinct().collect()} <= {at}


def test_columns_are_seen_by_name_in_spark_types(spark: SparkSession, events: Events) -> None:
    frame = snapshot(spark, NAME, config=events.settings)

    assert [f"{name}:{kind}" for name, kind in frame.dtypes] == [
        "id:bigint", "carrier:string", "at:timestamp", "local:timestamp_ntz", "day:date",
        "price:decimal(10,2)", "ratio:double", "small:smallint", "flag:boolean", "raw:binary",
        "payload:string", "level:float", "number:int", "t:bigint", "d:bigint",
    ]  # fmt: skip


def test_consolidated_rows_come_once(spark: SparkSession, events: Events) -> None:
    frame = snapshot(spark, NAME, consolidate=True, config=events.settings)

    expected = events.contents()
    assert contents(frame) == expected
    assert frame.count() == len(expected)


@pytest.mark.parametrize(
    ("as_of", "where", "columns"),
    [(None, None, None), (1000, "id >= 250 or flag", ["carrier", "id"])],
)
def test_slices_hold_what_spark_would_group(
    spark: SparkSession,
    events: Events,
    monkeypatch: pytest.MonkeyPatch,
    as_of: int | None,
    where: str | None,
    columns: list[str] | None,
) -> None:
    monkeypatch.setattr("strata.spark.slices.LEAST_BYTES", 1)
    asked: Any = {"as_of": as_of, "where": where, "config": events.settings}
    loose = snapshot(spark, NAME, **asked)
    keys = [c for c in loose.columns if c != "d"]
    grouped = loose.groupBy(*keys).agg(fn.sum("d").alias("d")).where("d <> 0")

    frame = snapshot(spark, NAME, consolidate=True, columns=columns, **asked)

    assert "Exchange" not in frame._jdf.queryExecution().executedPlan().toString()
    assert frame.rdd.getNumPartitions() > 1
    assert contents(frame) == contents(grouped.select(frame.columns))
    assert frame.count() == grouped.count()


@pytest.mark.long
@pytest.mark.parametrize("compacted", [False, True])
def test_consolidated_reads_are_what_spark_groups(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compacted: bool
) -> None:
    """At every time, with every filter, skipping or not, whatever columns are asked for."""
    monkeypatch.setattr("strata.spark.slices.LEAST_BYTES", 1)
    settings, draw = copied(tmp_path).settings, random.Random(20)
    if compacted:
        compact_shard(open_stores(settings.store), NAME, settings, full=True)
    for as_of in (0, 700, 1000, 2500, None):
        asked: Any = {"as_of": as_of, "config": settings}
        loose = snapshot(spark, NAME, pushdown="off", **asked)
        keys = [c for c in loose.columns if c != "d"]
        grouped = loose.groupBy(*keys).agg(fn.sum("d").alias("d")).where("d <> 0").cache()
        for where in (None, *(sql for sql, _ in FILTERS)):
            columns = draw.sample(keys[:-1], draw.randrange(1, len(keys)))
            frame = snapshot(
                spark,
                NAME,
                where=where,
                columns=columns,
                consolidate=True,
                pushdown=draw.choice(["off", "on"]),
                **asked,
            )
            wanted = grouped if where is None else grouped.where(where)
            assert contents(frame) == contents(wanted.select(frame.columns)), (as_of, where)
            assert frame.count() == wanted.count(), (as_of, where)
        grouped.unpersist()


@pytest.mark.parametrize(("sql", "keep"), FILTERS, ids=[sql for sql, _ in FILTERS])
@pytest.mark.parametrize("pushdown", ["off", "on"])
def test_a_filter_gives_its_rows_with_and_without_skipping(
    spark: SparkSession,
    events: Events,
    sql: str,
    keep: Callable[[dict[str, Any]], bool],
    pushdown: str,
) -> None:
    frame = snapshot(spark, NAME, where=sql, pushdown=pushdown, config=events.settings)

    assert contents(frame) == events.contents(keep=keep)


@pytest.mark.parametrize(
    "sql", ["id >= 250", "day > date'2013-01-12'", "at < timestamp'2000-01-01'"]
)
def test_a_filter_that_should_prune_does(spark: SparkSession, events: Events, sql: str) -> None:
    filter = analyse(spark, events.state.relation, sql)

    plan = plan_read(events.stores, events.state, filter=filter, mode="on")

    assert plan.parts_skipped > 0


def test_a_filter_may_read_columns_that_are_not_shown(spark: SparkSession, events: Events) -> None:
    frame = snapshot(
        spark, NAME, where="flag and id < 40", columns=["price", "id"], config=events.settings
    )

    assert frame.columns == ["price", "id", "t", "d"]
    expected: Counter[Any] = Counter()
    for row, count in events.contents(keep=lambda r: bool(r["flag"]) and r["id"] < 40).items():
        expected[row[list(COLUMNS).index("price")], row[0]] += count
    assert contents(frame) == expected


@pytest.mark.parametrize("where", [None, "flag and id < 40"])
def test_a_column_may_be_shown_twice(
    spark: SparkSession, events: Events, where: str | None
) -> None:
    shown = ["id"] * len(COLUMNS)  # as many as there are, and the filter reads another one

    frame = snapshot(spark, NAME, where=where, columns=shown, config=events.settings)

    assert frame.columns == [*shown, "t", "d"]
    rows = events.contents(keep=lambda r: where is None or (bool(r["flag"]) and r["id"] < 40))
    assert sum(row["d"] for row in frame.collect()) == sum(rows.values())


def test_a_filter_may_be_a_column(spark: SparkSession, events: Events) -> None:
    where = (fn.col("id") >= 100) & fn.col("carrier").isin("AA", "UA")

    frame = snapshot(spark, NAME, where=where, pushdown="on", config=events.settings)

    assert contents(frame) == events.contents(
        keep=lambda r: r["id"] >= 100 and r["carrier"] in ("AA", "UA")
    )


def test_now_stands_where_the_reader_says(spark: SparkSession, events: Events) -> None:
    frame = snapshot(
        spark,
        NAME,
        where="at > now() - interval 10 hours and at <= now()",
        now=START_US + 50 * HOUR_US,
        pushdown="on",
        config=events.settings,
    )

    ids = {row.id for row in frame.collect()}
    assert ids <= set(range(41, 51))
    assert len(ids) >= 8  # a few have no time


def test_the_kill_switch_wins_over_the_reader(spark: SparkSession, events: Events) -> None:
    settings = replace(events.settings, rollout=RolloutSettings(kill=True))
    frame = snapshot(spark, NAME, where="id >= 1000", pushdown="on", config=settings)

    assert frame.count() == 0
    plan = plan_read(
        open_stores(settings.store),
        events.state,
        mode="on",
        filter=analyse(spark, events.state.relation, "id >= 1000"),
    )
    assert plan.parts_skipped == 0


def test_an_empty_shard_gives_no_rows(spark: SparkSession, tmp_path: Path, events: Events) -> None:
    store = replace(
        events.settings.store, blob=f"file://{tmp_path}/b", consensus=f"sqlite:///{tmp_path}/c.db"
    )
    settings = replace(events.settings, store=store)
    Machine(open_stores(store)).create(spec())

    frame = snapshot(spark, NAME, where="id > 3", consolidate=True, config=settings)

    assert (frame.count(), len(frame.columns)) == (0, len(COLUMNS) + 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"shard": "nope"}, "nope"),
        ({"columns": ["nope"]}, "nope"),
        ({"as_of": UPPER}, "as_of"),
        ({"where": "nope = 1"}, "nope"),
        ({"pushdown": "maybe"}, "maybe"),
    ],
)
def test_what_cannot_be_read_is_an_invalid_request(
    spark: SparkSession, events: Events, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        snapshot(spark, **{"shard": NAME, "config": events.settings, **arguments})


def test_a_missing_part_is_corrupt_and_named(spark: SparkSession, tmp_path: Path) -> None:
    events = copied(tmp_path)
    key = plan_read(events.stores, events.state).fetched[3].key
    events.stores.blob.delete(key)

    with pytest.raises((PySparkException, Corrupt)) as failed:
        snapshot(spark, NAME, config=events.settings).count()

    found = failed.value
    if isinstance(found, PySparkException):
        found = engine_error(str(found))
    assert isinstance(found, Corrupt)
    assert key in str(found)


def test_a_label_and_the_clock_are_times(spark: SparkSession, tmp_path: Path) -> None:
    events = copied(tmp_path)
    shard = Shard(events.stores, NAME)
    shard.tag("release-1", at=1500)
    (tmp_path / "strata.toml").write_text(
        f'[store]\nblob = "{events.settings.store.blob}"\n'
        f'consensus = "{events.settings.store.consensus}"\n'
    )
    config = str(tmp_path / "strata.toml")
    expected = events.contents(1500)
    frame = snapshot(spark, NAME, as_of="release-1", config=events.settings)
    source = spark.read.format("strata").options(shard=NAME, config=config, as_of="release-1")

    assert contents(frame) == contents(source.load()) == expected
    counted = row_count(spark, NAME, as_of="release-1", config=events.settings)
    assert counted.count == sum(expected.values())
    newest = snapshot(spark, NAME, as_of="clock:2999-01-01", config=events.settings)
    assert contents(newest) == events.contents()
    with pytest.raises(InvalidRequest, match="neither a time nor a label"):
        snapshot(spark, NAME, as_of="release", config=events.settings)
