"""One Spark session for the whole run: a second JVM would cost ten seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.model.settings import SparkSettings
from strata.session.session import spark_session
from tests.spark.small import in_driver, in_tasks


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the session: ANSI on, UTC, two cores, no user interface, a JVM that starts quickly."""
    folder: Path = tmp_path_factory.mktemp("spark")
    settings = SparkSettings(master="local[2]", driver_memory_mib=1024, shuffle_partitions=2)
    extra = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    with spark_session("strata-tests", settings, extra) as session:
        yield session


@pytest.fixture(params=["driver", "tasks"])
def read_by(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have the driver read what is small, then tasks."""
    with in_tasks() if request.param == "tasks" else in_driver():
        yield
