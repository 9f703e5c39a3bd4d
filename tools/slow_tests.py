"""The tests that are too slow for a contributor's loop, measured in processor time.

    python -m tools.slow_tests        write tests/support/slow_tests.txt (some ten minutes)

`make test-unit` leaves them out, `make test` runs them with all others. A test is slow if its calls
take more than `SLOW_SECONDS` of processor in all, over its parameters; time on the clock would name
other tests on each busy day. pytest loads this module as a plugin while it measures.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

import pytest

PROJECT: Final = Path(__file__).resolve().parents[1]
SLOW_TESTS: Final = PROJECT / "tests" / "support" / "slow_tests.txt"
SLOW_SECONDS: Final = 0.15
FOLDER: Final = "STRATA_TEST_SECONDS"  # where processes that measure write
LOOP: Final = ("-m", "not spark and not dags and not long and not browser", "-n", "2")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Write down how much processor time a test takes, with that of its programs."""
    file = Path(os.environ[FOLDER]) / str(os.getpid())  # now: a test may empty the environment
    before = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"{test_name(item.nodeid)} {sum(os.times()[:4]) - before:.3f}\n")


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


def measured() -> Mapping[str, float]:
    """Run the tests of the loop and those that are left out; return the seconds that each took."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "tools.slow_tests", *LOOP, *folders()],
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


def main() -> None:
    """Measure, and write the list."""
    seconds = measured()
    slow = sorted(name for name, spent in seconds.items() if spent > SLOW_SECONDS)
    SLOW_TESTS.write_text("".join(f"{name}\n" for name in slow), "utf-8")
    left = sum(seconds.values()) - sum(seconds[name] for name in slow)
    sys.stdout.write(
        f"{len(slow)} of {len(seconds)} tests are slow; the calls of the others"
        f" take {left:.0f} of {sum(seconds.values()):.0f} s of processor\n"
    )


if __name__ == "__main__":
    main()
