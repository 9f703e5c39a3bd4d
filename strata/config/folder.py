"""Folders of declarations: YAML files, a mapping in each."""

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from strata.errors import InvalidRequest
from strata.store.cures import unreadable
from strata.store.small_file import limited_bytes

DEPTH_MAX: Final = 100  # of a declaration
VALUES_MAX: Final = 100_000
BYTES_MAX: Final = 2**20  # of a file; a schema of thousands of columns takes a fifth of it
SMALLER: Final = "name ranges instead of a list of values, or write several files"


def yaml_line(said: Mapping[str, Any]) -> str:
    """Return a mapping as YAML on one line, with what YAML would read otherwise in quotes.

    >>> yaml_line({"order": ["on", "id"], "columns": [{"name": "p", "type": "numeric(9,2)"}]})
    "{order: ['on', id], columns: [{name: p, type: 'numeric(9,2)'}]}"
    """
    text: str = yaml.safe_dump(
        said, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf
    )
    return text.strip()


def yaml_files(folder: str | Path) -> list[Path]:
    """Return the YAML files of a folder by name; none if there is no such folder.

    Raises: as `yaml_mapping`, for a folder that cannot be listed.
    """
    try:
        names = os.listdir(folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        cure = "give this user the right to list the folder"
        raise unreadable("a folder of files", error, folder=str(folder), cure=cure) from error
    return sorted(Path(folder, name) for name in names if name.endswith((".yaml", ".yml")))


def yaml_mappings(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the mapping of each YAML file of a folder.

    Raises: InvalidRequest naming the file, where it cannot be read or is no mapping.
    """
    for path in yaml_files(folder):
        yield str(path), yaml_mapping(path)


def yaml_mapping(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises: InvalidRequest naming the file; Unavailable where it cannot be read now.
    """
    try:
        data = limited_bytes(path, BYTES_MAX, "the declaration", SMALLER)
        loader = _Loader(data.decode())
        root = loader.get_single_node()
        if _values(root, {}, DEPTH_MAX) > VALUES_MAX:
            raise _too_large(path)
        raw = None if root is None else loader.construct_document(root)
    except RecursionError as error:
        raise _too_large(path) from error
    except OSError as error:
        raise unreadable("the file", error, file=str(path)) from error
    except (UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise InvalidRequest("not YAML", file=str(path), reason=str(error)) from error
    if not isinstance(raw, dict):
        raise InvalidRequest("a declaration is a mapping", file=str(path))
    return raw


class _Loader(yaml.SafeLoader):
    """YAML's own values alone. What is nested too deeply is not even read to its end."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """See `Composer`. Raises: RecursionError beyond DEPTH_MAX levels."""
        self._depth += 1
        if self._depth > DEPTH_MAX + 1:
            raise RecursionError
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _values(node: Any, known: dict[int, int], depth: int) -> int:
    """Return how many values a document has, with each alias counted as what it stands for.

    Ten lines of aliases of aliases stand for a billion values, and ten lines of merges (`<<`) of
    merges for a billion names. Too many also for a document that is nested more than `depth` deep,
    or contains itself. `known`: the counts of lists and mappings.
    """
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if depth == 0:
        return VALUES_MAX + 1
    if id(node) not in known:
        known[id(node)] = VALUES_MAX + 1  # what holds only if it contains itself
        pairs = isinstance(node, yaml.MappingNode)
        inner = [one for pair in node.value for one in pair] if pairs else node.value
        known[id(node)] = 1 + sum(_values(one, known, depth - 1) for one in inner)
    return known[id(node)]


def _too_large(path: Path) -> InvalidRequest:
    return InvalidRequest(
        "the file is nested too deeply, or its aliases stand for too much",
        file=str(path),
        most_levels=DEPTH_MAX,
        most_values=VALUES_MAX,
        cure="write it out, without aliases of aliases",
    )
