"""`spark.readStream.format("strata")` gives each update once, also from a checkpoint."""

import random
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.types import FloatType, IntegerType, StructField, StructType

from strata.compact import compact_shard
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.maintain.schema import change_schema
from strata.model.settings import CompactSettings, Settings
from strata.model.types import parse_type
from strata.read.changes import plan_changes
from strata.spark import where_option
from strata.spark.front.option import question
from strata.spark.stream import UPPER, ChangesWish, StrataStreamReader
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from strata.state.tombstone import drop
from tests.support.shards import (
    COLUMNS,
    NAME,
    Events,
    append,
    copied,
    counted,
    event,
    let_skip,
    spec,
)

pytestmark = pytest.mark.spark
FLOAT_OR_INT = {"level": FloatType(), "number": IntegerType()}


@pytest.fixture
def events(tmp_path: Path) -> Events:
    return copied(tmp_path)


@pytest.fixture
def config(events: Events, tmp_path: Path) -> str:
    store = events.settings.store
    path = tmp_path / "strata.toml"
    path.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    return str(path)


def drain(
    spark: SparkSession, config: str, folder: Path, condition: str = "true", **options: str
) -> Counter[Any]:
    """Run the stream until nothing is new; return all that it ever wrote to the folder."""
    stream = spark.readStream.format("strata").options(shard=NAME, config=config, **options)
    query = (
        stream.load()
        .where(condition)
        .writeStream.format("parquet")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    return counted(spark.read.parquet(str(folder / "out")).toArrow())


def written(events: Events, start: int = 0) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row, t, d in events.updates:
        if t >= start:
            found[row] += d
    return Counter({row: d for row, d in found.items() if d})


def test_each_update_comes_once_also_after_a_restart_and_a_merge(
    spark: SparkSession, events: Events, config: str, tmp_path: Path
) -> None:
    first = drain(spark, config, tmp_path / "stream")
    merge = Settings(events.settings.store, compact=CompactSettings(history_ms=1))
    compact_shard(events.stores, NAME, merge, full=True)
    more = [(event(1000 + i, random.Random(i)), 3000 + i, 1) for i in range(40)]
    append(events.stores, events.state, more, 3000, "both")

    again = drain(spark, config, tmp_path / "stream")

    assert first == written(events)
    assert again == first + Counter(row for row, _, _ in more)


def test_a_run_behind_a_killed_one_takes_all_that_is_there(
    spark: SparkSession, events: Events, config: str, tmp_path: Path
) -> None:
    """It repeated the batch that had not ended, and ended without what had come since."""
    first = drain(spark, config, tmp_path / "stream")
    last = max((tmp_path / "stream/checkpoint/commits").glob("[0-9]*"), key=lambda f: int(f.name))
    for file in (last, last.with_name(f".{last.name}.crc")):
        file.unlink()  # as if the query had been killed before it noted the end of the batch
    more = [(event(1000 + i, random.Random(i)), 3000 + i, 1) for i in range(40)]
    append(events.stores, events.state, more, 3000, "both")

    again = drain(spark, config, tmp_path / "stream")

    assert again == first + Counter(row for row, _, _ in more)


def test_a_run_over_what_is_there_ends_there(events: Events) -> None:
    reader = StrataStreamReader(ChangesWish(NAME), events.settings, 1, StructType())
    reader.prepareForTriggerAvailableNow()
    before = events.state.upper
    append(events.stores, events.state, [(event(1, random.Random(1)), 3000, 1)], 3000, "both")

    assert reader.latestOffset({UPPER: 0}, None)[UPPER] == before
    assert reader.latestOffset({UPPER: before}, None) == {UPPER: before}
    assert reader.latestOffset({UPPER: 4000}, None) == {UPPER: 4000}


def test_a_stream_begins_where_it_is_told(
    spark: SparkSession, events: Events, config: str, tmp_path: Path
) -> None:
    assert drain(spark, config, tmp_path / "late", start="1500") == written(events, 1500)


def test_a_stream_that_compaction_has_overtaken_fails_and_says_so(
    spark: SparkSession, events: Events, config: str, tmp_path: Path
) -> None:
    merge = Settings(events.settings.store, compact=CompactSettings(history_ms=1))
    compact_shard(events.stores, NAME, merge, full=True)
    assert Machine(events.stores).load(NAME).since > 1500

    with pytest.raises(StreamingQueryException, match="compaction may have moved these times"):
        drain(spark, config, tmp_path / "late", start="1500")


@pytest.mark.parametrize("ahead", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_stream_does_not_go_on_in_another_life_of_its_shard(
    spark: SparkSession, events: Events, config: str, tmp_path: Path, ahead: bool
) -> None:
    """What the new life wrote before the offset of the checkpoint was left out."""
    drain(spark, config, tmp_path / "stream")
    machine = Machine(events.stores)
    machine.apply(NAME, partial(drop, by="ann", reason="due", force=True))
    machine.create(spec(), revive=True)
    machine.append(NAME, token="again", lower=0, upper=9000 if ahead else 10)

    with pytest.raises(StreamingQueryException, match="restored or created again"):
        drain(spark, config, tmp_path / "stream")


@pytest.mark.parametrize(("column", "kind"), [("level", "float64"), ("number", "int64")])
def test_a_running_query_does_not_read_a_widened_column_as_what_it_was(
    events: Events, column: str, kind: str
) -> None:
    """It rounded a double to the nearest float, and failed on a long without a word of why."""
    schema = StructType([StructField(column, FLOAT_OR_INT[column])])
    running = StrataStreamReader(ChangesWish(NAME), events.settings, 1, schema)
    start = running.latestOffset({UPPER: 0}, None)
    change_schema(Machine(events.stores), NAME, WidenColumn(column, parse_type(kind)))
    row = list(event(5000, random.Random(1)))
    row[list(COLUMNS).index(column)] = 0.1 if kind == "float64" else 2**40
    append(events.stores, events.state, [(tuple(row), 3000, 1)], 3000, "both")

    with pytest.raises(InvalidRequest, match=f"another type.*{column}.*load the stream anew"):
        running.partitions(start, running.latestOffset(start, None))

    again = StrataStreamReader(ChangesWish(NAME), events.settings, 1, schema)
    assert again.partitions(start, again.latestOffset(start, None)), "whose schema is its own"


@pytest.mark.parametrize("goes", [DropColumn("number"), RenameColumn("number", "former")])
def test_a_running_query_does_not_read_another_column_of_its_name(
    events: Events, goes: Change
) -> None:
    """Its target had the values of both, as if they were of one column."""
    schema = StructType([StructField("number", IntegerType())])
    running = StrataStreamReader(ChangesWish(NAME), events.settings, 1, schema)
    start = running.latestOffset({UPPER: 0}, None)
    for change in (goes, AddColumn("number", parse_type("int32"))):
        change_schema(Machine(events.stores), NAME, change)
    Machine(events.stores).append(NAME, token="more", lower=3000, upper=3001)

    with pytest.raises(InvalidRequest, match=r"the names of others.*number.*load the stream anew"):
        running.partitions(start, running.latestOffset(start, None))

    again = StrataStreamReader(ChangesWish(NAME), events.settings, 1, schema)
    assert again.partitions(start, again.latestOffset(start, None)), "which reads the new one"


def test_a_stream_refuses_what_only_a_read_has(
    spark: SparkSession, config: str, tmp_path: Path
) -> None:
    with pytest.raises(StreamingQueryException, match="no such option"):
        drain(spark, config, tmp_path / "stream", as_of="100")


def accepted(spark: SparkSession, events: Events, where: str) -> Counter[Any]:
    """Return the sums of all updates whose row Spark itself accepts."""
    rows = spark.read.format("strata").options(shard=NAME, config=settings_of(events)).load()
    return counted(rows.where(where).toArrow())


def settings_of(events: Events) -> str:
    return events.settings.store.blob.removeprefix("file://").removesuffix("blob") + "strata.toml"


def test_a_filter_chooses_the_parts_of_a_stream(
    spark: SparkSession, events: Events, config: str, tmp_path: Path
) -> None:
    where = "id >= 150 and date_trunc('day', at) >= date'2013-01-09'"
    option = where_option(spark, NAME, where, config=config)
    expected = accepted(spark, events, where)
    every = plan_changes(events.stores, events.state).parts
    everything = drain(spark, config, tmp_path / "soft", where, where=option)
    let_skip(events.stores)
    filter = question(option).later()
    kept = {r.key for r in plan_changes(events.stores, events.state, filter=filter).parts}
    assert 0 < len(kept) < len(every)
    for ref in every:
        if ref.key not in kept:
            events.stores.blob.delete(ref.key)

    skipping = drain(spark, config, tmp_path / "on", where, where=option)

    assert skipping == everything == expected
    with pytest.raises(StreamingQueryException, match="missing"):
        drain(spark, config, tmp_path / "off", where, where=option, pushdown="off")


def test_a_filter_of_another_session_chooses_no_parts(
    spark: SparkSession, events: Events, config: str, tmp_path: Path
) -> None:
    """The text means other rows there, and no part may be left out for what it meant here."""
    let_skip(events.stores)
    where = "local < timestamp'2013-01-02' or at > timestamp'2013-01-12 06:00:00'"
    option = where_option(spark, NAME, where, config=config)
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")
    expected = accepted(other, events, where)
    assert expected != accepted(spark, events, where)

    assert drain(other, config, tmp_path / "other", where, where=option) == expected


def test_a_batch_may_have_an_earlier_clock_than_the_option(
    spark: SparkSession, events: Events, config: str, tmp_path: Path
) -> None:
    """A restart repeats a batch under the clock of its first try, but the option is made anew."""
    let_skip(events.stores)
    where = "at > now() - interval 50 years"
    asked = question(where_option(spark, NAME, where, config=config))
    later = asked.filter.now_low + 100 * 366 * 86_400_000_000
    option = replace(asked, filter=replace(asked.filter, now_low=later, now_high=later)).text()
    expected = accepted(spark, events, where)
    assert expected

    assert drain(spark, config, tmp_path / "stream", where, where=option) == expected
