"""The tests that are too slow for a contributor's loop, measured in processor time.

    python -m tools.slow_tests        write tests/support/slow_tests.txt (some ten minutes)

`make test-unit` leaves them out, `make test` runs them with all others. A test is slow if it takes
more than `SLOW_SECONDS` of processor in all, with its fixtures and over its parameters. A second in
which it only waits keeps one worker of several busy and no core, and counts `WAITING`; time on the
clock alone would name other tests on each busy day. What the first test of a file sets up is its
own cost, and that of the next one where the first is left out: the second round finds those.
pytest loads this module as a plugin while it measures.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

import pytest

PROJECT: Final = Path(__file__).resolve().parents[1]
SLOW_TESTS: Final = PROJECT / "tests" / "support" / "slow_tests.txt"
SLOW_SECONDS: Final = 0.1
WAITING: Final = 0.2
FOLDER: Final = "STRATA_TEST_SECONDS"  # where processes that measure write
PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "tools.slow_tests")
LOOP: Final = "not spark and not dags and not long and not browser"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    """Write down what a test takes, with its fixtures and its programs."""
    file = Path(os.environ[FOLDER]) / str(os.getpid())  # now: a test may empty the environment
    before, began = sum(os.times()[:4]), time.monotonic()
    try:
        return (yield)
    finally:
        worked = sum(os.times()[:4]) - before
        waited = max(0.0, time.monotonic() - began - worked)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"{test_name(item.nodeid)} {worked + WAITING * waited:.3f}\n")


def test_name(nodeid: str) -> str:
    """Return the name of a test without its parameters.

    >>> test_name("tests/unit/test_a.py::test_b[c-d]")
    'tests/unit/test_a.py::test_b'
    """
    return nodeid.partition("[")[0]


test_name.__test__ = False  # type: ignore[attr-defined]


def slow_names() -> frozenset[str]:
    """Return the names of the tests that were slow when they were measured."""
    return frozenset(SLOW_TESTS.read_text("utf-8").split())


def measured(which: str) -> Mapping[str, float]:
    """Run the tests that a choice of marks names; return the seconds that each took."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*PYTEST, "-m", which, *folders()],
            env=os.environ | {FOLDER: folder, "HYPOTHESIS_PROFILE": "loop"},
            cwd=PROJECT,
            check=False,
        )
        if done.returncode > 1:  # 1: a test failed, and took its time
            raise SystemExit(done.returncode)
        seconds: Counter[str] = Counter()
        for file in Path(folder).iterdir():
            for line in file.read_text("utf-8").splitlines():
                name, _, spent = line.rpartition(" ")
                seconds[name] += float(spent)  # type: ignore[assignment]
        return seconds


def folders() -> list[str]:
    """Return what `make test-unit` runs, as the Makefile says it."""
    [line] = [
        line
        for line in (PROJECT / "Makefile").read_text("utf-8").splitlines()
        if line.startswith("LOOP_TESTS =")
    ]
    return line.partition("=")[2].split()


def write_slow(seconds: Mapping[str, float], among: frozenset[str]) -> frozenset[str]:
    """Write the list: those that are on it, and those that took too long; return it."""
    slow = among | {name for name, spent in seconds.items() if spent > SLOW_SECONDS}
    SLOW_TESTS.write_text("".join(f"{name}\n" for name in sorted(slow)), "utf-8")
    return slow


def main() -> None:
    """Measure, and write the list."""
    seconds = measured(LOOP)
    slow = write_slow(seconds, frozenset())
    left = measured(f"{LOOP} and not slow")
    slow = write_slow(left, slow)
    sys.stdout.write(
        f"{len(slow)} of {len(seconds)} tests are slow; the others take"
        f" {sum(spent for name, spent in left.items() if name not in slow):.0f}"
        f" of {sum(seconds.values()):.0f} s of processor\n"
    )


if __name__ == "__main__":
    main()
