"""Folders of declarations: YAML files, a mapping in each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from strata.errors import InvalidRequest

DEPTH_MAX: Final = 100  # of a declaration
VALUES_MAX: Final = 100_000


def yaml_files(folder: str | Path) -> list[Path]:
    """Return the YAML files of a folder by name; none if there is no such folder."""
    return sorted(f for f in Path(folder).glob("*") if f.suffix in (".yaml", ".yml"))


def yaml_mappings(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the mapping of each YAML file of a folder.

    Raises: InvalidRequest naming the file, where it cannot be read or is no mapping.
    """
    for path in yaml_files(folder):
        yield str(path), yaml_mapping(path)


def yaml_mapping(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises: InvalidRequest naming the file."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise _too_large(path) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise InvalidRequest("not YAML", file=str(path), reason=str(error)) from error
    if _values(raw, {}, DEPTH_MAX) > VALUES_MAX:
        raise _too_large(path)
    if not isinstance(raw, dict):
        raise InvalidRequest("a declaration is a mapping", file=str(path))
    return raw


def _values(value: Any, known: dict[int, int], depth: int) -> int:
    """Return how many values a document has, with each alias counted as what it stands for.

    Ten lines of aliases of aliases stand for a billion values. Too many also for a document that
    is nested more than `depth` deep, or contains itself. `known`: the counts of lists and mappings.
    """
    if not isinstance(value, list | dict | set):
        return 1
    if depth == 0:
        return VALUES_MAX + 1
    if id(value) not in known:
        known[id(value)] = VALUES_MAX + 1  # what holds only if it contains itself
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_values(one, known, depth - 1) for one in inner)
    return known[id(value)]


def _too_large(path: Path) -> InvalidRequest:
    return InvalidRequest(
        "the file is nested too deeply, or its aliases stand for too much",
        file=str(path), most_levels=DEPTH_MAX, most_values=VALUES_MAX,
        cure="write it out, without aliases of aliases",
    )  # fmt: skip
