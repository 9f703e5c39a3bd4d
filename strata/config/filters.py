"""Registered filters: the YAML files that say which filters soft evaluation watches.

One filter a file: `shard`, `name`, `where` (Spark SQL), and optionally `now` (one time, or a
list of two: the span in which `now()` stands) and `columns` (what the filter's users read).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from strata.errors import InvalidRequest
from strata.model.spec import check_name
from strata.model.time import parse_time

# Texts, quoted names, and bare names of Spark SQL; what stands in texts is no name.
_WORDS: Final = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`((?:[^`]|``)*)`|([^\W\d]\w*)""", re.DOTALL
)

FIELDS: Final = frozenset({"shard", "name", "where", "now", "columns"})


@dataclass(frozen=True, slots=True)
class RegisteredFilter:
    """One registered filter."""

    shard: str
    name: str
    where: str  # Spark SQL, boolean
    now: tuple[int, int] | None = None  # milliseconds, both inclusive; None: when it is run
    columns: tuple[str, ...] = ()  # empty: all


def parse_filter(raw: Mapping[str, Any], file: str = "") -> RegisteredFilter:
    """Return the filter in `raw`, a loaded YAML mapping.

    Raises: InvalidRequest naming the file, the setting and its value.
    """
    unknown = sorted(set(raw) - FIELDS)
    if unknown:
        raise InvalidRequest(
            "unknown setting", file=file, setting=unknown[0], cure=f"one of {sorted(FIELDS)}"
        )
    for field in ("shard", "name", "where"):
        if not isinstance(raw.get(field), str) or not raw[field].strip():
            raise InvalidRequest("a text is needed", file=file, setting=field, value=raw.get(field))
    columns = raw.get("columns") or []
    if not isinstance(columns, list):
        raise InvalidRequest("a list is needed", file=file, setting="columns", value=columns)
    return RegisteredFilter(
        check_name(raw["shard"]),
        check_name(raw["name"]),
        raw["where"].strip(),
        _span(raw.get("now"), file),
        tuple(str(column) for column in columns),
    )


def uses_column(filter: RegisteredFilter, name: str) -> bool:
    """Return whether a filter names a column, in its condition or among those it shows.

    Errs: a field, a function or an alias of the same name counts as well.
    """
    found = {(m[1] or "").replace("``", "`") or (m[2] or "") for m in _WORDS.finditer(filter.where)}
    return name.lower() in {word.lower() for word in (*found, *filter.columns)}


def _span(value: Any, file: str) -> tuple[int, int] | None:
    if value is None:
        return None
    ends = [parse_time(_text(v)) for v in (value if isinstance(value, list) else [value, value])]
    if len(ends) != 2 or ends[0] > ends[1]:
        raise InvalidRequest(
            "now is one time or a span", file=file, setting="now", value=value, cure="[from, to]"
        )
    return ends[0], ends[1]


def _text(value: Any) -> str | int:
    """Return a YAML scalar as `parse_time` reads it; YAML makes dates of unquoted times."""
    return value if isinstance(value, int) else str(value)


def load_filters(directory: str, shard: str | None = None) -> list[RegisteredFilter]:
    """Return the registered filters, of one shard or of all, by shard and name.

    A missing directory holds no filters.
    Raises: InvalidRequest naming the file for what is not a filter, or twice the same name.
    """
    found: dict[tuple[str, str], RegisteredFilter] = {}
    for path in sorted(Path(directory).glob("*.y*ml")):
        try:
            raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise InvalidRequest("not YAML", file=str(path), reason=str(error)) from error
        if not isinstance(raw, dict):
            raise InvalidRequest("a filter is a mapping", file=str(path))
        one = parse_filter(raw, str(path))
        if (one.shard, one.name) in found:
            raise InvalidRequest("a filter is registered twice", file=str(path), name=one.name)
        found[one.shard, one.name] = one
    return [found[key] for key in sorted(found) if shard is None or key[0] == shard]
