"""Judge mutants: each in a forked process that starts warm, on the fast tests that reach it.

The tests of the mutant's own module come first, then those of its room, then the quick ones, until
one fails or their time is over. In a first round all tests are collected once, and the mutant's
code is put into the imported engine. What survives that is judged again: in a process that has
every library but not the engine, the mutant is laid over its module while that is imported. No file
ever changes.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from types import CodeType
from typing import Any, Final

import pytest

from tests.mutants.choose import PROJECT, source
from tests.mutants.edits import Mutant, mutated
from tests.mutants.fork import DIED, in_a_fork
from tests.mutants.patch import is_in_functions, patch, remember
from tests.mutants.reach import Reached

LIBRARIES: Final = (
    "boto3", "fastavro", "google.protobuf.message", "hypothesis.extra.numpy", "hypothesis.stateful",
    "numba", "numpy", "orjson", "pandas", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet",
    "rich", "sqlalchemy", "typer", "strata.kernels.jit",
)  # fmt: skip
LAST: Final = ("tests/spec/test_ranges.py",)  # what rules once yielded: a meaning says more
QUIET: Final = (
    "-q",
    "-s",
    "--tb=short",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
_PATIENCE: Final = 4  # times what the tests took once


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: killed by a test, timed out, or survived some tests."""

    outcome: str  # killed | timed out | survived
    test: str = ""
    asked: int = 0  # tests, if it survived
    left: int = 0  # tests that reach it too, for which there was no time


@dataclass(frozen=True)
class Court:
    """What mutants are judged by: which tests reach what, and how many seconds of them run."""

    reached: Mapping[str, Reached]
    seconds: float

    def reaching(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant's function, in the order in which they are asked.

        What runs at the import alone is asked of the tests that reach its module, and of those of
        its room: a table is used by others.
        """
        room, own = mutant.module.split(".")[1], f"test_{mutant.module.rpartition('.')[2]}"
        found = self._entering(f"{mutant.module}:{mutant.function}".__eq__)
        if not found and runs_at_import(mutant):
            found = self._entering(lambda name: name.startswith(f"{mutant.module}:"))
            found = list({*found, *(test for test in self.reached if f"/{room}/" in test)})

        def place(test: str) -> tuple[bool, bool, bool, float, str]:
            seconds = self.reached[test].seconds
            return (test.startswith(LAST), own not in test, room not in test, seconds, test)

        return sorted(found, key=place)

    def _entering(self, is_one: Callable[[str], bool]) -> list[str]:
        """Return the tests that enter such a function."""
        return [test for test, one in self.reached.items() if any(map(is_one, one.functions))]

    def asked(self, mutant: Mutant) -> list[str]:
        """Return the tests for which there is time, one at least."""
        chosen: list[str] = []
        spent = 0.0
        for test in self.reaching(mutant):
            if not chosen or spent + self.reached[test].seconds <= self.seconds:
                chosen.append(test)
                spent += self.reached[test].seconds
        return chosen

    def limit(self, tests: Sequence[str]) -> float:
        """Return the seconds of a processor after which some tests will not end any more."""
        return 30 + _PATIENCE * sum(self.reached[test].seconds for test in tests)

    def verdict(self, mutant: Mutant, tests: Sequence[str], said: str | None) -> Verdict:
        """Return what it means that a process said which test fails, or nothing."""
        if said is None:
            return Verdict("timed out")
        if said:
            return Verdict("killed", f"{tests[0]} ({DIED})" if said == DIED else said)
        return Verdict("survived", "", len(tests), len(self.reaching(mutant)) - len(tests))


@cache
def _classes(module: str) -> frozenset[str]:
    """Return the qualified names of a module's classes."""
    waiting: list[tuple[str, ast.AST]] = [("", ast.parse(source(module).read_text("utf-8")))]
    found: set[str] = set()
    while waiting:
        within, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.ClassDef)
            name = f"{within}.{child.name}".lstrip(".") if named else within
            if isinstance(child, ast.ClassDef):
                found.add(name)
            waiting.append((name, child))
    return frozenset(found)


def is_body_of_a_class(mutant: Mutant) -> bool:
    """Return whether a mutant stands among the fields of a class: that runs at the import alone."""
    return mutant.function in _classes(mutant.module)


def runs_at_import(mutant: Mutant) -> bool:
    """Return whether a mutant runs while its module is imported: also in what makes a table."""
    return mutant.function in {"", *_made_at_import(mutant.module)} or is_body_of_a_class(mutant)


@cache
def _made_at_import(module: str) -> frozenset[str]:
    """Return the names that a module's own statements use."""
    tree = ast.parse(source(module).read_text("utf-8"))
    plain = [one for one in tree.body if not isinstance(one, ast.FunctionDef | ast.ClassDef)]
    nodes = [node for one in plain for node in ast.walk(one)]
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


def compiled(mutant: Mutant) -> CodeType:
    """Return the code of a module with a mutant in it."""
    file = source(mutant.module)
    return compile(mutated(file.read_text("utf-8"), mutant), str(file), "exec")


def unchanged(module: str) -> CodeType:
    """Return the code of a module as it is, made in the same way."""
    tree = ast.parse(source(module).read_text("utf-8"))
    return compile(tree, str(source(module)), "exec")


# The first round: tests are collected once.


def judge_patched(mutants: Sequence[Mutant], court: Court) -> Iterator[tuple[Mutant, Verdict]]:
    """Yield what becomes of mutants that are put into the imported engine; of none: no tests."""
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(receiving)
            with os.fdopen(sending, "w", buffering=1) as file:  # told at once, line by line
                _session(mutants, court, file.write)
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as file:
        for line in file:
            number, said = json.loads(line)
            yield mutants[number], Verdict(**said)
    os.waitpid(child, 0)


def _session(mutants: Sequence[Mutant], court: Court, tell: Callable[[str], Any]) -> None:
    wanted = [court.asked(mutant) for mutant in mutants]
    sound: dict[str, bool] = {}  # whether a test that killed passes without a mutant

    def judge_all(run: Callable[[Sequence[str]], str]) -> None:
        remember()
        for number, (mutant, tests) in enumerate(zip(mutants, wanted, strict=True)):
            code = compiled(mutant)
            kept = is_body_of_a_class(mutant) or not is_in_functions(mutant.module, code)
            if not tests or kept:
                continue  # the second round says so

            answer = partial(patched, mutant.module, code, run, tests)
            said = in_a_fork(answer, court.limit(tests))
            if said in court.reached:
                if said not in sound:
                    sound[said] = in_a_fork(partial(run, [said]), court.limit([said])) == ""
                if not sound[said]:
                    continue
            tell(json.dumps([number, asdict(court.verdict(mutant, tests, said))]) + "\n")

    collected(list(dict.fromkeys(test for tests in wanted for test in tests)), judge_all)


def patched(
    module: str, code: CodeType, run: Callable[[Sequence[str]], str], tests: Sequence[str]
) -> str:
    """Return the test that fails with this code put into the imported module, "" if none."""
    return run(tests) if patch(module, code) else ""


# The second round: a module is imported with the mutant in it.


class Overlay(importlib.abc.MetaPathFinder):
    """Lets one module be imported with a mutant in it."""

    def __init__(self, module: str, code: CodeType) -> None:
        assert module not in sys.modules, f"{module} is imported already"
        self._module, self._code = module, code

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Return how to import the module, None for every other one."""
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(
            name, source(name), loader=_Loader(name, self._code)
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, module: str, code: CodeType) -> None:
        super().__init__(module, str(source(module)))
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def warm() -> None:
    """Import what no mutant is made of."""
    for name in LIBRARIES:
        importlib.import_module(name)


def judge(mutant: Mutant, court: Court) -> Verdict:
    """Return what becomes of a mutant that is there from the import on.

    What libraries have imported already was judged in the first round, and stays as it was.
    """
    tests = court.asked(mutant)
    if not tests or is_imported(mutant.module):
        return court.verdict(mutant, tests, "")
    said = failing(mutant.module, compiled(mutant), tests, court.limit(tests))
    return court.verdict(mutant, tests, said)


def is_imported(module: str) -> bool:
    """Return whether nothing can be laid over a module any more: `import strata` loads it."""
    return module in sys.modules


def failing(module: str, code: CodeType, tests: Sequence[str], limit: float) -> str | None:
    """Return the test that fails with this code in place of a module, "" if none, None: no end."""

    def answer() -> str:
        sys.meta_path.insert(0, Overlay(module, code))
        found: list[str] = []
        failed = collected(tests, lambda run: found.append(run(tests)))
        return failed or found[0]

    return in_a_fork(answer, limit)


# Both.


class _Runner:
    """A pytest plugin that collects the wanted tests, and lets somebody else run them."""

    def __init__(self, wanted: Sequence[str], then: Callable[[Any], None]) -> None:
        self._wanted, self._then = set(wanted), then
        self.broken = self._failed = ""

    def pytest_collection(self) -> None:
        """Take the profile of the fast tests, without the search for the least example."""
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.reuse, Phase.generate)
        settings.register_profile("judge", settings.get_profile("ci"), phases=phases)
        settings.load_profile("judge")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what was not asked for."""
        items[:] = [item for item in items if self._wanted.intersection(_names(item))]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot even be imported."""
        if report.failed:
            self.broken = self.broken or report.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which test failed."""
        if report.failed:
            self._failed = self._failed or report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Let somebody else run tests, as often and in whatever order."""
        items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            for name in _names(item):
                items.setdefault(name, []).append(item)

        def run(tests: Sequence[str]) -> str:
            chosen = [item for test in tests for item in items.get(test, ())]
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._failed:
                    return self._failed
            return "" if chosen else "no test is there"

        if not self.broken:
            self._then(run)
        return True


def _names(item: pytest.Item) -> set[str]:
    """Return what names a test: alone, and with all the cases that it is called with."""
    return {item.nodeid, item.nodeid.partition("[")[0]}


def collected(tests: Sequence[str], then: Callable[[Any], None]) -> str:
    """Collect tests, and call `then` with what runs some; return what cannot be collected."""
    os.chdir(PROJECT)
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    runner = _Runner(tests, then)
    pytest.main([*QUIET, *files], [runner])
    return runner.broken
