"""The map is the house: the picture is the import contract, and each place that is named exists."""

import ast
import re
from pathlib import Path

import pytest

from tools.rooms import PICTURE, levels, picture, purpose

PROJECT = Path(__file__).resolve().parents[2]
MAP = (PROJECT / "ARCHITECTURE.md").read_text("utf-8")
MADE = {"tests/found"}  # by a command, when it finds something
# names of metrics begin as those of modules do
FIGURES = ("metrics.md", "monitor.md", "rollout.md")
DOCUMENTS = [
    *(
        PROJECT / name
        for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md")
    ),
    PROJECT / "SECURITY.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
]
PLACE = re.compile(
    r"`((?:strata|tests|tools|jobs|demo|plugins|dags|benchmarks)/[\w/.-]*\w/?)(?:::\w+)?`"
)
NAME = re.compile(r"`((?:strata|tests|tools)(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")


def test_the_picture_is_the_contract() -> None:
    assert PICTURE.read_text("utf-8") == picture(), "run: python -m tools.rooms"


def test_every_folder_is_a_room_and_the_root_has_the_front_door_and_errors_only() -> None:
    rooms = {room for level in levels() for room in level}
    found = {
        path.stem
        for path in (PROJECT / "strata").iterdir()
        if (path.is_dir() and (path / "__init__.py").exists()) or path.suffix == ".py"
    }

    assert found - {"__init__"} == rooms
    assert {room for room in rooms if not (PROJECT / "strata" / room).is_dir()} == {
        "errors",
        "shard",
    }
    assert len(levels()) <= 12


@pytest.mark.parametrize("room", [room for level in levels() for room in level])
def test_each_room_says_what_it_is_for_and_is_on_the_map(room: str) -> None:
    assert len(purpose(room)) > 20
    assert re.search(rf"\*\*`strata/{room}(/|\.py)`", MAP), f"{room} has no paragraph"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)
def test_each_place_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text("utf-8")
    gone = {place for place in PLACE.findall(text) if not (PROJECT / place).exists()}

    assert gone - MADE == set()
    if document.name not in FIGURES:
        assert {
            name for name in NAME.findall(text) if _in_a_room(name) and not _is_there(name)
        } == set()


def _in_a_room(name: str) -> bool:
    """Whether a name begins with a folder; keys in files and options begin with `strata.` too."""
    return PROJECT.joinpath(*name.split(".")[:2]).is_dir()


def _is_there(name: str) -> bool:
    """Whether a dotted name is a package, a module, or something in a module."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        place = PROJECT.joinpath(*parts[:count])
        rest = parts[count:]
        file = place.with_suffix(".py") if not place.is_dir() else place / "__init__.py"
        if not rest and (place.is_dir() or file.exists()):
            return True
        if file.exists() and rest:
            return rest[0] in _names(file)
    return False


def _names(file: Path) -> set[str]:
    """Return what a module defines or imports."""
    names = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {
                n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)
            }
    return names
