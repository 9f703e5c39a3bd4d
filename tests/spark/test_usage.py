"""Each way to read with a filter leaves a note of it."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.cli.app import main
from strata.history import usage
from strata.model.settings import MetricsSettings
from strata.spark import where_option
from strata.spark.snapshot import snapshot
from tests.support.shards import NAME, Events, copied

pytestmark = pytest.mark.spark


@pytest.fixture
def events(tmp_path: Path) -> Events:
    """A shard without notes: in some hours two of the filters would share a slot."""
    return copied(tmp_path)


@pytest.fixture
def config(events: Events, tmp_path: Path) -> str:
    store = events.settings.store
    path = tmp_path / "strata.toml"
    path.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    return str(path)


def read_snapshot(spark: SparkSession, where: str, config: str) -> None:
    snapshot(spark, NAME, where=where, config=config).count()


def read_source(spark: SparkSession, where: str, config: str) -> None:
    reader = spark.read.format("strata").options(shard=NAME, config=config)
    reader.option("where", where_option(spark, NAME, where, config=config)).load().count()


def read_command(spark: SparkSession, where: str, config: str) -> None:
    out = Path(config).with_name("read.parquet")
    with pytest.raises(SystemExit) as end:
        main(["read", NAME, "--where", where, "--out", str(out), "--config", config])
    assert not end.value.code


@pytest.mark.parametrize(
    ("read", "where"),
    [(read_snapshot, "id < 11"), (read_source, "id < 12"), (read_command, "id < 13")],
)
def test_a_read_leaves_a_note_of_its_filter(
    spark: SparkSession, events: Events, config: str, read, where: str
) -> None:
    def noted() -> list[str]:
        return [f.filter.sql for f in usage.recent(events.stores, NAME, events.settings.usage)]

    assert where not in noted()

    read(spark, where, config)

    assert where in noted()


@pytest.mark.parametrize("consolidate", [False, True])
def test_the_tasks_of_a_snapshot_tell_what_they_gave_out(
    spark: SparkSession, events: Events, consolidate: bool
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(10)
        to = MetricsSettings(statsd=f"127.0.0.1:{bound.getsockname()[1]}")
        settings = replace(events.settings, metrics=to)
        rows = snapshot(spark, NAME, consolidate=consolidate, config=settings).count()
        told, timed = 0, 0
        while told < rows or not timed:
            name, _, rest = bound.recv(1000).decode().partition(":")
            told += int(rest.partition("|")[0]) if name == "strata.read.updates" else 0
            timed += name == "strata.read.first_row_seconds"
    assert told == rows > 0
