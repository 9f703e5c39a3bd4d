"""Folders of declarations: YAML files, a mapping in each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from strata.errors import InvalidRequest


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
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidRequest("not YAML", file=str(path), reason=str(error)) from error
    if not isinstance(raw, dict):
        raise InvalidRequest("a declaration is a mapping", file=str(path))
    return raw
