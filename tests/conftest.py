"""What every test run shares: Hypothesis profiles, and the stores' and Spark's surroundings.

`HYPOTHESIS_PROFILE` names the profile; without it CI takes `ci` (the same few examples in every
run), a person `dev`. `make test-long` takes `long`. The watchdog that shows where a stuck test
hangs is pytest's own (`faulthandler_timeout` in pyproject.toml).
"""

import faulthandler
import logging
import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is not a failure: no deadline, and no complaint about slow generation.
CALM = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile(
    "ci", max_examples=30, derandomize=True, database=None, print_blob=True, **CALM
)
settings.register_profile("dev", max_examples=60, **CALM)
settings.register_profile("long", max_examples=2000, print_blob=True, **CALM)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)

# Spark's workers run the interpreter of the tests, and nothing listens on the outside.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

# A worker of xdist begins without a file. PySpark takes such a program for its own doctests, and
# ends it, as soon as Great Expectations asks for Spark Connect.
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = __file__

# PySpark's bridge says good-bye at exit, into a log that pytest has closed by then.
logging.getLogger("py4j").setLevel(logging.WARNING)

# `kill -USR1 PID` shows where every thread of a running test process is.
faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)

# Two workers take files in this order: were the longest last, one would end up waiting.
LONGEST = ("tests/crash/", "tests/spark/test_pushdown.py", "tests/spark/", "tests/dags/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files."""
    items.sort(key=lambda item: next(
        (i for i, start in enumerate(LONGEST) if item.nodeid.startswith(start)), len(LONGEST)
    ))  # fmt: skip
