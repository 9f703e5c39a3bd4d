"""A real change stream ends in shards that are the source tables at any readable time.

Only in `make test-debezium`: PostgreSQL under pgbench and under a load of its own is captured by
the real Debezium engine, which is killed and restarted, as the server is.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.spark.runner import spark_runner
from tests.debezium.record import record
from tests.debezium.replay import Replay
from tests.debezium.source import PYTHON


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("schema", [False, True], ids=["plain", "schema"])
def test_shards_are_the_source_tables(tmp_path: Path, *, schema: bool) -> None:
    assert PYTHON.exists(), "make test-debezium makes it"
    folder = record(tmp_path / "run", schema=schema)

    replay = Replay(folder)
    replay.run()

    again = sum(report.repeated for report in replay.reports)
    assert again > 0, "the engine delivered nothing twice, so nothing was proved"
    if schema:
        spark = SparkSession.builder.master("local[2]").getOrCreate()
        Replay(folder, store=tmp_path / "store", runner=spark_runner(spark)).run()
        spark.stop()
