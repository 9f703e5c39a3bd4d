"""Docstrings, comments and messages avoid phrases that a native reader has to decode.

Names are held to one meaning as well: a public function or class exists once, unless a reason
says otherwise.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PHRASES = re.compile(
    r"\btold\b(?! apart)|\btells?\b(?! .{0,30}apart| overflow)|\bwhoever\b|"
    r"\bso (?:many|long) (?:days|rows|bytes|parts|of)\b|\bso many\b(?! that)|"
    r"(?<!all )(?<!each )(?<!second )\bof which\b|\bwhatever\b|\bnobody\b[^.;:]{0,60}\bbut\b",
    re.IGNORECASE,
)
# Functions that several rooms define, and why. Commands (`cli`) are named by what is typed.
NAMESPACED = "called as a member of its module, which says of what"
SEAM = "one idea: the same thing for another kind of value"
FUNCTIONS = {
    "add": NAMESPACED,
    "as_texts": SEAM,
    "canonical": SEAM,
    "collect": NAMESPACED,
    "describe": NAMESPACED,
    "fingerprint": SEAM,
    "from_text": SEAM,
    "from_objects": SEAM,
    "main": "the entry of a module that is run",
    "numbers": SEAM,
    "plan": NAMESPACED,
    "record": NAMESPACED,
    "release": NAMESPACED,
    "shown": SEAM,
    "spec": "the declaration of a journal, asked of its module",
    "union": SEAM,
    "warm": "one protocol: compile the kernels of a room",
    "settle": NAMESPACED,
    "total": SEAM,
    "write": "appends rows of a program: a DataFrame through Spark, Arrow rows without it",
}

# Classes that two modules define, and why.
CLASSES = {
    "Column": "a column of a relation, and a reference to one in an expression",
    "Context": "of a command, and of an evaluation; neither is seen beside the other",
    "State": "of a shard, and of the compiled JSON scanner",
    "Translator": "the protocol that rules see, and its implementation",
}


def rooms() -> list[str]:
    found = [p.name for p in (PROJECT / "strata").iterdir() if (p / "__init__.py").exists()]
    beside = ["jobs", "plugins", "dags", "demo", "tools", "benchmarks"]
    return sorted([*(f"strata/{name}" for name in found), *beside])


@cache
def tree(file: Path) -> ast.Module:
    """Return the syntax of a file, parsed once for all tests."""
    return ast.parse(file.read_text("utf-8"))


def prose(source: str, parsed: ast.Module | None = None) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring, comment and message; names in backticks are cut."""
    for node in ast.walk(parsed or ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, re.sub(r"`[^`]*`", "", node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"`[^`]*`", "", token.string)


def findings(room: str) -> list[str]:
    return [
        f"{file.relative_to(PROJECT)}:{line}: {match[0]!r} in {text.strip()[:80]!r}"
        for file in sorted((PROJECT / room).rglob("*.py"))
        for line, text in prose(file.read_text("utf-8"), tree(file))
        for match in PHRASES.finditer(text)
    ]


def test_the_phrases_are_found_in_each_kind_of_text() -> None:
    source = '"""It is told."""\nx = 1  # whatever it is\nraise ValueError("so many of them")\n'
    assert [line for line, text in prose(source) if PHRASES.search(text)] == [1, 3, 2]
    assert not any(PHRASES.search(text) for _, text in prose('"""See `told`."""\n'))


@pytest.mark.parametrize("room", rooms())
def test_a_room_is_written_in_plain_english(room: str) -> None:
    found = findings(room)
    assert found == []


PAGES = sorted(
    page
    for folder in (PROJECT, PROJECT / "docs", PROJECT / "benchmarks")
    for page in (folder.rglob if folder.name == "docs" else folder.glob)("*.md")
    if "decisions" not in page.parts  # they keep the words of their day
    and page.name != "SECURITY.md"  # still to be written in plain English
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_a_page_is_written_in_plain_english(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    found = [match[0] for match in PHRASES.finditer(text)]
    assert found == []


def public(kind: type[ast.FunctionDef] | type[ast.ClassDef], *roots: str) -> dict[str, list[str]]:
    """Return the modules that define each public name at their top."""
    found = defaultdict(list)
    for file in sorted(file for root in roots for file in (PROJECT / root).rglob("*.py")):
        for node in tree(file).body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                found[node.name].append(file.relative_to(PROJECT).as_posix())
    return dict(found)


def test_a_class_is_defined_once_or_twice_with_a_reason() -> None:
    classes = public(ast.ClassDef, "strata")
    assert {name for name, files in classes.items() if len(files) > 1} == set(CLASSES)
    everywhere = public(ast.ClassDef, "strata", "jobs", "plugins")
    assert {name: files for name, files in everywhere.items() if len(files) > 2} == {}


def test_a_function_that_two_rooms_define_has_one_meaning() -> None:
    shared = {
        name
        for name, files in public(ast.FunctionDef, "strata").items()
        if len({file.split("/")[1] for file in files} - {"cli", "jobs"}) > 1
    }
    assert shared == set(FUNCTIONS)
