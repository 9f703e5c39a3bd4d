"""Reports as JSON: commands print them with --json, jobs leave them for Airflow."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, Protocol

_NAMES: Final = {"size_bytes": "bytes"}  # fields with another name in every document


class Report(Protocol):
    """What an operation did, for programs and for people."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as the JSON that jobs and commands print."""
        ...

    def lines(self) -> list[str]:
        """Return the report as people read it in a log."""
        ...


def json_of(value: Any, **names: str) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON values; `names` renames fields.

    >>> from dataclasses import make_dataclass
    >>> json_of(make_dataclass("Blob", ["key", "size_bytes"])("k", 5), key="name")
    {'name': 'k', 'bytes': 5}
    """
    called = _NAMES | names
    return {called.get(f.name, f.name): _plain(getattr(value, f.name)) for f in fields(value)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return json_of(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
