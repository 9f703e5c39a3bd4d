"""What every test run shares: Hypothesis profiles, and the stores' and Spark's surroundings.

`HYPOTHESIS_PROFILE` names the profile: `loop` (fewest examples) in `make test-unit`, `ci` (few) in
`make test`, `long` in `make test-long`, `explore` in `make explore`. Every run draws the same
cases, but for those of another `STRATA_SEED`, which `make explore` sets; what that finds is kept
and replayed by all of them (`tests/support/kept.py`). The watchdog that shows where a stuck test
hangs is pytest's own (`faulthandler_timeout` in pyproject.toml).
"""

import faulthandler
import gc
import logging
import os
import signal
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from xdist.scheduler import LoadFileScheduling

from tests.support.kept import Kept, note_failure, seeded
from tests.support.sizes import EXAMPLES, PROFILE
from tools.slow_tests import slow_names, test_name

# A busy machine is not a failure: no deadline, and no complaint about slow generation.
CALM = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile(
    PROFILE,
    max_examples=EXAMPLES[PROFILE],
    derandomize=False,
    print_blob=PROFILE != "explore",
    database=Kept(writable=True) if PROFILE == "explore" else Kept(),
    **CALM,
)
settings.load_profile(PROFILE)
SEED = os.environ.get("STRATA_SEED", "0")

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
SPARK = "tests/spark/"
LONGEST = (SPARK, "tests/crash/", "tests/wall/", "tests/dags/")
# Tests that start Java machines of their own need none of the worker's session.
OWN_SPARK = (f"{SPARK}test_job_spark.py", f"{SPARK}test_session.py")


# Thousands of tests are made of millions of objects, none of them in a cycle that ends. Python's
# collector would walk through them again and again, while they are made and for ever after.
gc.set_threshold(50_000, *gc.get_threshold()[1:])


def pytest_collection_finish() -> None:
    """Take what was collected out of the collector's sight."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; mark what is too slow for a contributor's loop."""
    slow = slow_names()
    for item in items:
        if test_name(item.nodeid) in slow:
            item.add_marker(pytest.mark.slow)
    items.sort(
        key=lambda item: next(
            (i for i, start in enumerate(LONGEST) if item.nodeid.startswith(start)), len(LONGEST)
        )
    )


class OneSpark(LoadFileScheduling):
    """Files go to the workers one by one, but those of one session of Spark together."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return SPARK if file.startswith(SPARK) and file not in OWN_SPARK else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Let one Java machine serve all tests in `tests/spark`: a second would have to warm up."""
    return OneSpark(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Draw cases from the seed and the test's name."""
    test = getattr(item, "obj", None)
    if test is not None and is_hypothesis_test(test):
        seeded(test, item.nodeid, SEED)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell `make explore` of what failed."""
    if report.failed and "STRATA_FAILURES" in os.environ:
        message = report.longreprtext.strip().splitlines() or [""]
        said = [line[2:].strip() for line in message if line.startswith("E ")]
        note_failure(os.environ["STRATA_FAILURES"], report.nodeid, (said or message[-1:])[0])
