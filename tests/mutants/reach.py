"""Which fast tests reach which functions: run them all once, watched, and write it down.

    python -m tests.mutants.reach [FILE ...]

Some minutes. The record lies in `.strata/reached.json`; `make mutants` makes it anew, and asks only
the tests that reach a mutant's function. Files that are named are run anew and put into the record;
no mutant is judged by a record that has not seen every file of the pool. To be watched, each
function of the engine is imported with a line more, which notes that it was entered; kernels are
left as they are.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Final

import pytest

PROJECT: Final = Path(__file__).resolve().parents[2]
RECORD: Final = PROJECT / ".strata" / "reached.json"
# Whatever lies below these is asked, a file of tomorrow too, but for what is left out by name.
POOL: Final = (
    "tests/unit",
    "tests/spec",
    "tests/laws",
    "tests/formats",
    "tests/attacks/test_approvals.py",
    "tests/attacks/test_gates_in_store.py",
)
FAST: Final = "not spark and not dags and not long and not slow"
LEFT_OUT: Final = (
    # rooms that decide nothing, and reach what does only with whole shards
    *(f"tests/unit/{room}" for room in ("cli", "demo")),
    # what looks at the text of a source instead of what it does
    "tests/unit/expr/test_certificate.py",
    "tests/unit/expr/test_certified_code.py",
    "tests/unit/expr/test_registry.py",
    "tests/unit/tools/test_mutants.py",
    # another kind of state machine
    "tests/laws/test_state_machine.py",
)
_NOTED: Final = "__reached__"
_KERNELS: Final = "strata.kernels"


@dataclass(frozen=True)
class Reached:
    """What one test reached: `module:function`s, and the seconds of a processor that it took."""

    seconds: float
    functions: frozenset[str]


class Watch(importlib.abc.MetaPathFinder):
    """Imports the engine watched; a pytest plugin that knows what each test entered."""

    def __init__(self) -> None:
        self.found: dict[str, Reached] = {}
        self.entered: set[str] = set()
        self._failed: set[str] = set()

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Return how to import a module of the engine, None for every other one."""
        file = PROJECT / f"{name.replace('.', '/')}.py"
        if not name.startswith("strata.") or name.startswith(_KERNELS) or not file.exists():
            return None
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(name, file, self))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Note what is entered while one test runs."""
        self.entered.clear()
        begun = time.process_time()  # of a clock it would be longer on a busy machine
        result = yield
        self.found[item.nodeid] = Reached(time.process_time() - begun, frozenset(self.entered))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which tests do not pass as it is."""
        if report.failed or report.skipped:
            self._failed.add(report.nodeid)

    def passed(self) -> dict[str, Reached]:
        """Return what each test reached that can tell a mutant."""
        return {test: one for test, one in self.found.items() if test not in self._failed}


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, file: Path, watch: Watch) -> None:
        super().__init__(name, str(file))
        self._watch = watch

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(Path(self.path).read_text("utf-8"))
        for name, function in list(_functions(tree, "")):
            documented = ast.get_docstring(function, clean=False) is not None
            line = ast.parse(f"{_NOTED}({f'{fullname}:{name}'!r})").body[0]
            function.body.insert(int(documented), ast.copy_location(line, function.body[0]))
        return compile(ast.fix_missing_locations(tree), self.path, "exec")

    def exec_module(self, module: Any) -> None:
        setattr(module, _NOTED, self._watch.entered.add)
        super().exec_module(module)


def _functions(node: ast.AST, within: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions under a node with their names, `outer.inner` for what stands inside."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        name = f"{within}.{child.name}" if named and within else child.name if named else within
        if isinstance(child, ast.FunctionDef):
            yield name, child
        yield from _functions(child, name)


def pool() -> list[str]:
    """Return the files of tests that are asked, those without a fast test among them."""
    return [name for name in files_below(POOL) if not _is_below(name, LEFT_OUT)]


def files_below(places: Sequence[str]) -> list[str]:
    """Return the files of tests in some folders; a file is there by itself."""
    found = [file for one in places for file in (PROJECT / one).rglob("test_*.py")]
    found += [PROJECT / one for one in places if (PROJECT / one).is_file()]
    return sorted(file.relative_to(PROJECT).as_posix() for file in found)


def read(*, whole: bool = True) -> dict[str, Reached]:
    """Return the record; `whole`: it must have seen every file of the pool.

    Raises: SystemExit, naming the command that makes it so.
    """
    if not RECORD.exists():
        raise SystemExit(f"no {RECORD}: run python -m tests.mutants.reach")
    kept = json.loads(RECORD.read_text("utf-8"))
    unseen = [name for name in pool() if name not in kept["files"]]
    if whole and unseen:
        raise SystemExit(f"not seen yet: run python -m tests.mutants.reach {' '.join(unseen)}")
    names = kept["functions"]
    return {
        test: Reached(seconds, frozenset(names[n] for n in some))
        for test, (seconds, some) in kept["tests"].items()
    }


def _is_below(name: str, places: Sequence[str]) -> bool:
    """Return whether a file, or a test of it, is one of some files or lies in a folder of them."""
    return name in places or name.startswith(tuple(f"{one}{end}" for one in places for end in "/:"))


def _write(found: dict[str, Reached], files: Sequence[str]) -> None:
    names = sorted({name for reached in found.values() for name in reached.functions})
    number = {name: n for n, name in enumerate(names)}
    tests = {
        test: (round(reached.seconds, 2), sorted(number[name] for name in reached.functions))
        for test, reached in sorted(found.items())
    }
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    kept = {"files": sorted(files), "functions": names, "tests": tests}
    RECORD.write_text(json.dumps(kept), "utf-8")


def main(argv: Sequence[str]) -> int:
    """Run the tests and write down what they reached."""
    os.environ["JAVA_HOME"] = os.devnull  # a test that begins Spark fails here: it is not fast
    watch = Watch()
    sys.meta_path.insert(0, watch)
    words = ["-q", "-m", FAST, "-p", "no:cacheprovider", "-p", "no:xdist"]
    words += [f"--ignore={name}" for name in LEFT_OUT]
    status = pytest.main([*words, *(argv or POOL)], [watch])
    asked = [name.rstrip("/") for name in argv] or list(POOL)
    files = [name for name in pool() if _is_below(name, asked)]
    kept: dict[str, Reached] = {}
    if argv and RECORD.exists():
        kept = {test: one for test, one in read(whole=False).items() if not _is_below(test, asked)}
        files += json.loads(RECORD.read_text("utf-8"))["files"]
    _write(kept | watch.passed(), list(dict.fromkeys(files)))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
