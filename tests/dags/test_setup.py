"""Set-up makes the pool and the connection, and says what is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata_airflow import setup

pytestmark = [pytest.mark.dags, pytest.mark.slow]


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """Return the environment of an Airflow with an empty, migrated database."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    env |= {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
    }
    airflow = Path(sys.executable).with_name("airflow")
    subprocess.run([str(airflow), "db", "migrate"], env=env, check=True, capture_output=True)
    return env


def test_what_is_missing_is_named_and_then_made(environment):
    assert [line.split("'")[1] for line in setup.missing(environment)] == [
        setup.POOL,
        setup.CONNECTION,
    ]

    setup.make_pool(1, environment)
    setup.make_connection("spark://master:7077", "4g", environment)
    assert setup.missing(environment) == []
