"""The examples in the plugin's docstrings hold."""

import doctest
import importlib

import pytest

pytestmark = pytest.mark.dags


@pytest.mark.parametrize("name", ["results", "intervals", "spark"])
def test_examples_hold(name):
    module = importlib.import_module(f"strata_airflow.{name}")
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0
