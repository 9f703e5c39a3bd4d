"""The list of slow tests names tests that there are, and is what the loop leaves out."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tools.slow_tests import FOLDER, folders, slow_names

pytest_plugins = ["pytester"]
PROJECT = Path(__file__).resolve().parents[3]
MEASURED = """
def test_works():
    sum(range(20_000_000))

def test_waits():
    __import__("time").sleep(0.3)
"""


@cache
def functions_of(file: Path) -> set[str]:
    """Return the functions of a file, with those of suites that it takes in."""
    nodes = [*ast.walk(ast.parse(file.read_text("utf-8")))]
    found = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.conf"):
            found |= functions_of(PROJECT / f"{str(node.module).replace('.', '/')}.py")
    return found


def test_each_slow_test_is_there() -> None:
    """One that was renamed would be back in the loop without a word."""
    names = slow_names()
    assert names
    for file, *_, function in (name.split("::") for name in names):
        assert function in functions_of(PROJECT / file), f"{file}: run python -m tools.slow_tests"


def test_the_loop_runs_folders_that_are_there() -> None:
    assert "tests/unit" in folders()
    assert all((PROJECT / folder).is_dir() for folder in folders())


def test_work_counts_for_more_than_waiting(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(pytester.mkdir("seconds")))
    pytester.makepyfile(MEASURED)

    pytester.runpytest_inprocess("-p", "tools.slow_tests").assert_outcomes(passed=2)

    [file] = (pytester.path / "seconds").iterdir()
    seconds = dict(line.rsplit(" ", 1) for line in file.read_text("utf-8").splitlines())
    works, waits = (
        float(seconds[f"{file_of(seconds)}::test_{name}"]) for name in ("works", "waits")
    )
    assert works > waits


def file_of(seconds: dict[str, str]) -> str:
    return next(iter(seconds)).partition("::")[0]
