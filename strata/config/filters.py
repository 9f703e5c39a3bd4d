"""Registered filters: the YAML files that say which filters soft evaluation watches.

One filter a file: `shard`, `name`, `where` (Spark SQL), and optionally `now` (one time, or a
list of two: the span in which `now()` stands) and `columns` (what the filter's users read).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from strata.config.folder import yaml_mappings
from strata.errors import InvalidRequest
from strata.model.declared import Declared, Parsed, as_declared
from strata.model.spec import check_name
from strata.model.time import parse_time

# Texts, quoted names, and bare names of Spark SQL; what stands in texts is no name.
_WORDS: Final = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`((?:[^`]|``)*)`|([^\W\d]\w*)""", re.DOTALL
)


def _span(value: Any) -> tuple[int, int]:
    """Return the span that a time, or a list of two, stands for."""
    ends = [parse_time(end) for end in (value if isinstance(value, list) else [value, value])]
    if len(ends) != 2 or ends[0] > ends[1]:
        raise InvalidRequest(
            "now is one time or a span", setting="now", value=value, cure="[from, to]"
        )
    return ends[0], ends[1]


@dataclass(frozen=True, slots=True)
class RegisteredFilter(Declared):
    """One registered filter."""

    shard: Annotated[str, Parsed(check_name)]
    name: Annotated[str, Parsed(check_name)]
    where: str  # Spark SQL, boolean
    # Milliseconds, both inclusive; None: when it is run.
    now: Annotated[tuple[int, int] | None, Parsed(_span)] = None
    columns: tuple[str, ...] = ()  # empty: all


def parse_filter(raw: Mapping[str, Any], file: str = "") -> RegisteredFilter:
    """Return the filter in `raw`, a loaded YAML mapping.

    Raises: InvalidRequest naming the file, the setting and its value.
    """
    given = {key: value for key, value in raw.items() if value is not None}
    found = as_declared(RegisteredFilter, given, lambda _: {"file": file})
    if not found.where.strip():
        raise InvalidRequest("a filter is a condition", file=file, setting="where", value="")
    return replace(found, where=found.where.strip())


def uses_column(filter: RegisteredFilter, name: str) -> bool:
    """Return whether a filter names a column, in its condition or among those it shows.

    Errs: a field, a function or an alias of the same name counts as well.
    """
    found = {(m[1] or "").replace("``", "`") or (m[2] or "") for m in _WORDS.finditer(filter.where)}
    return name.lower() in {word.lower() for word in (*found, *filter.columns)}


def load_filters(directory: str, shard: str | None = None) -> list[RegisteredFilter]:
    """Return the registered filters, of one shard or of all, by shard and name.

    A missing directory holds no filters.
    Raises: InvalidRequest naming the file for what is not a filter, or twice the same name.
    """
    found: dict[tuple[str, str], RegisteredFilter] = {}
    for file, raw in yaml_mappings(directory):
        one = parse_filter(raw, file)
        if (one.shard, one.name) in found:
            raise InvalidRequest("a filter is registered twice", file=file, name=one.name)
        found[one.shard, one.name] = one
    return [found[key] for key in sorted(found) if shard is None or key[0] == shard]
