"""Attacks that go through Airflow use the tests' own: it is set up before any import of it."""

from tests.dags.conftest import project

__all__ = ["project"]
