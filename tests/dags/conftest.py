"""An Airflow of the tests' own: its home is a new folder, set before anything imports Airflow."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
HOME = tempfile.mkdtemp(prefix="strata-airflow-")

os.environ.update(
    {
        "AIRFLOW_HOME": HOME,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    }
)
assert "airflow" not in sys.modules, "Airflow was imported before it was told where to live"


@pytest.fixture(scope="session")
def project() -> Path:
    """Return the project's folder."""
    return PROJECT
