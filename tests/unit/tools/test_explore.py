"""What exploring finds fails every run until it is mended; other runs draw the same cases."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.kept import FOLDER
from tools import explore
from tools.explore import ROOT, Finding

pytestmark = pytest.mark.slow

# Properties that fail above a limit, and that say what they draw.
PLANTED = """
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
import pytest

@given(st.integers(0, 10**6))
@pytest.mark.parametrize("more", [10**6, 0])
def test_planted(more, number):
    print("drew", number)
    assert number <= LIMIT + more

class Machine(RuleBasedStateMachine):
    @rule(number=st.integers(0, 10**9))
    def draw(self, number):
        print("step", number)

TestMachine = Machine.TestCase
"""


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator["Planted"]:
    """Return a file of tests, where no other run looks for some."""
    found = Planted()
    monkeypatch.setenv("PYTEST_PLUGINS", "tests.conftest")
    monkeypatch.setattr(explore, "LOGS", found.folder / "logs")
    yield found
    found.remove()


class Planted:
    """A file of tests, and a folder for what they find."""

    def __init__(self) -> None:
        """Make a folder of its own, which two processes do not share."""
        self.folder = ROOT / ".strata" / f"planted-{os.getpid()}"
        self.file, self.found = self.folder / "test_planted.py", self.folder / "found"

    def write(self, limit: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(PLANTED.replace("LIMIT", str(limit)))

    def remove(self) -> None:
        for path in sorted(self.folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        self.folder.rmdir()

    @property
    def name(self) -> str:
        return self.file.relative_to(ROOT).as_posix()

    def explore(self, seed: int) -> list[Finding]:
        return explore.properties([self.name], seed, 100, self.found)

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the tests as `make test` does."""
        ours = ("HYPOTHESIS", "PYTEST", "STRATA_")  # also of an explorer that runs this file
        known = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", self.name, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            env={
                **known,
                "PYTEST_PLUGINS": "tests.conftest",
                "STRATA_FOUND": str(self.found),
                **environment,
            },
        )


def test_what_is_found_is_kept_and_replayed_until_it_is_mended(planted: Planted) -> None:
    planted.write(limit=10**6)
    assert planted.explore(1) == []
    planted.write(limit=900_000)

    found = next(filter(None, map(planted.explore, range(2, 20))))

    (one,) = found
    assert one.what == f"{planted.name}::test_planted[0]"
    assert "900001" in one.said  # the smallest that fails
    assert shlex.quote(one.what) in one.repeat
    (kept,) = one.kept
    assert list(planted.found.iterdir()) == [kept]  # and none of those on the way to it
    failed = planted.run("-k", "test_planted and 0]")
    assert failed.returncode == 1
    planted.write(limit=900_001)
    mended = planted.run("-s", "-k", "[0]")
    assert drawn(mended)[0] == "drew 900001"  # before any other, though the body has changed
    assert kept.exists()
    kept.unlink()
    assert drawn(planted.run("-s", "-k", "[0]"))[0] != "drew 900001"


def drawn(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith(("drew", "step"))]


def test_each_run_draws_the_same_cases_and_exploring_others(planted: Planted) -> None:
    planted.write(limit=10**6)

    once, again, ci, other = (
        drawn(planted.run("-s", **e))
        for e in ({}, {"PYTHONHASHSEED": "5"}, {"CI": "true"}, {"STRATA_SEED": "5"})
    )

    assert once == again == ci
    assert len({line for line in once if "step" in line}) > 20
    assert len({line for line in once if "drew" in line}) > 20
    assert len(set(once) & set(other)) < len(set(once)) / 2


def test_every_explorer_has_its_part_of_the_time_and_tells_a_thing_once() -> None:
    asked: list[tuple[str, int]] = []

    def one(seed: int, seconds: float) -> Sequence[Finding]:
        asked.append(("one", seed))
        assert 0 < seconds <= explore.PATIENCE + 0.2
        return [Finding("same", "", "")]

    def two(seed: int, seconds: float) -> Sequence[Finding]:
        asked.append(("two", seed))
        return [Finding(f"two {seed}", "", "")] if len(asked) < 5 else []

    told = explore.explore([("one", one), ("two", two)], 7, explore.PATIENCE + 0.05)

    names = [(name, found.what) for name, _, found in told]
    assert asked[:4] == [("one", 7), ("two", 7), ("one", 8), ("two", 8)]
    assert names == [("one", "same"), ("two", "two 7"), ("two", "two 8")]


@pytest.mark.parametrize("after", ["sys.exit(1)", "time.sleep(60)"])
def test_what_a_program_says_is_wrong_is_kept_also_if_time_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after: str
) -> None:
    monkeypatch.setattr(explore, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(explore, "FOLDER", tmp_path / "found")
    says = "import sys, time; print('round 1'); print('WRONG rows', flush=True); "

    (found,) = explore.command("planted", ["-c", says + after], 7, 3)
    nothing = explore.command("planted", ["-c", "print('round 1')"], 8, 10)

    assert nothing == []
    assert found.said == "WRONG rows"
    (kept,) = found.kept
    assert kept == tmp_path / "found" / "planted-7.txt"
    words = shlex.split(kept.read_text().splitlines()[0].removeprefix("$ "))
    assert words == ["-c", says + after, "--seed", "7"]


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"

    code = explore.run([sys.executable, "-c", "import time; time.sleep(60)"], log, 0.5, {})

    assert code is None
    assert "KeyboardInterrupt" in log.read_text() or not log.read_text()


def test_commands_that_were_found_to_fail_are_mended() -> None:
    """Of `make explore`: mend what the first line of a file shows, then delete the file."""
    for path in sorted(FOLDER.glob("*.txt")):
        words = shlex.split(path.read_text().splitlines()[0].removeprefix("$ "))

        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
        )

        said = done.stdout[-5000:] + done.stderr[-5000:]
        assert done.returncode == 0, f"{path.name}: {said}"
