"""A real change stream ends in shards that are the source tables at any readable time.

Only in `make test-debezium`: PostgreSQL under pgbench and under a load of its own is captured by
the real Debezium engine, which is killed and restarted, as the server is.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.spark.runner import spark_runner
from tests.debezium.record import record, record_nulls
from tests.debezium.replay import Replay
from tests.debezium.source import NULL_SETTINGS, PYTHON


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("schema", [False, True], ids=["plain", "schema"])
def test_shards_are_the_source_tables(tmp_path: Path, *, schema: bool) -> None:
    assert PYTHON.exists(), "make test-debezium makes it"
    folder = record(tmp_path / "run", schema=schema)

    replay = Replay(folder)
    replay.run()

    again = sum(report.counts.repeated for report in replay.reports)
    assert again > 0, "the engine delivered nothing twice, so nothing was proved"
    if schema:
        spark = SparkSession.builder.master("local[2]").getOrCreate()
        Replay(folder, store=tmp_path / "store", runner=spark_runner(spark)).run()
        spark.stop()


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("schema", [False, True], ids=["plain", "schema"])
def test_nulls_stay_nulls_by_the_settings_alone(tmp_path: Path, *, schema: bool) -> None:
    assert PYTHON.exists(), "make test-debezium makes it"

    replay = Replay(record_nulls(tmp_path / "with", schema=schema))
    replay.run()
    last = {row["id"]: row for row in replay.rounds[-1]["content"]["preset"]}
    assert last[11] == {"id": 11, "z": None, "s": None, "b": None}

    other = Replay(record_nulls(tmp_path / "without", schema=schema, without=NULL_SETTINGS))
    with pytest.raises(AssertionError, match="preset after snapshot"):
        other.run()
