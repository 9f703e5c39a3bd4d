"""Statistics that no budget drops: those of the sort order, and those on the keep list.

A declaration whose budget cannot hold them is refused, so that a budget is what a part costs.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase, translate
from typing import Final

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.encodings import encoding
from strata.model.schema import Relation
from strata.model.spec import ShardSpec
from strata.model.types import ColumnType
from strata.stats.flat import COLLECT_BYTES
from strata.stats.json_bounds import STRING_BYTES
from strata.stats.nested import places
from strata.stats.size import LENGTH_BITS
from strata.stats.trim_plan import ancestors
from strata.stats.wire import (
    DOCUMENTS,
    JSON_PATH,
    Path,
    column_name,
    inside_name,
    parse_inside,
    parse_name,
    path_name,
    scalar_type,
)

_COUNT_BITS: Final = 32  # of a count in a part; parts have fewer than 2**31 rows
_WILD: Final = frozenset("*?[")


def protected_names(
    names: Sequence[str], relation: Relation, keep: Sequence[str]
) -> frozenset[str]:
    """Return the statistics columns that no budget may drop, ancestors included."""
    return kept_names(names, relation, keep) | sort_statistics(names, relation)


def sort_statistics(names: Sequence[str], relation: Relation) -> frozenset[str]:
    """Return the statistics columns of the sort order: as declared, at least its first column."""
    ids = _sort_ids(relation)
    found = ((name, parse_inside(name)) for name in names)
    return frozenset(name for name, inside in found if inside is not None and inside[0] in ids)


def kept_names(names: Sequence[str], relation: Relation, keep: Sequence[str]) -> frozenset[str]:
    """Return the statistics columns that the keep list protects, ancestors included.

    Patterns are globs, regardless of case. They match the name of a column or of a field of a
    record; with a dot also the whole way as in `payload.sched.at`, which is the only way to name a
    JSON path. A matching JSON column keeps its root, a matching record itself; places below must
    match, too. Steps that no user has named match like their parent.
    """
    kept: set[str] = set()
    for name in names:
        way, declared = _way(name, relation)
        if way and _matches(way, keep, declared=declared):
            kept |= {name, *ancestors(name)}
    return frozenset(kept)


def kept_paths(column: str, keep: Sequence[str]) -> Callable[[Path], bool] | None:
    """Return whether the keep list protects a path of a JSON column; None: it protects none."""
    patterns = [pattern.lower() for pattern in keep if "." in pattern]
    if not patterns:
        return None
    matches = re.compile("|".join(map(translate, patterns))).fullmatch
    return lambda path: matches(".".join((column, *path)).lower()) is not None


def keep_pattern(name: str, relation: Relation) -> str:
    """Return the pattern of a keep list that protects a statistics column; "" for no such place."""
    return ".".join(re.sub(r"[*?\[]", r"[\g<0>]", step) for step in _way(name, relation)[0])


def _matches(way: Sequence[str], patterns: Sequence[str], *, declared: bool) -> bool:
    """Return whether a pattern matches the way to a place.

    `declared`: the last name is one of the declaration, not a key of JSON.
    """
    last, whole = way[-1].lower(), ".".join(way).lower()
    return any(
        (declared and fnmatchcase(last, pattern))
        or (("." in pattern or len(way) == 1) and fnmatchcase(whole, pattern))
        for pattern in map(str.lower, patterns)
    )


def most_bytes(relation: Relation, keep: Sequence[str]) -> int:
    """Return the most that protected statistics can cost in one part. Units: bytes.

    JSON paths count where a pattern without wildcards names them: how many match another pattern
    is known only from data.
    """
    costs: dict[str, int] = {}
    for column in relation.columns:
        if encoding(column.type).stats == "json":
            costs[column_name(column.id)] = _most_bits(DOCUMENTS)
            paths = {(), *_named_paths(column.name, keep)}
            costs |= {path_name(column.id, path): _most_bits(JSON_PATH) for path in paths}
            continue
        for place in places(column.type):
            shape = scalar_type(place.type, counted=place.counted)
            costs[inside_name(column.id, place.steps)] = _most_bits(shape)
    chosen = protected_names(list(costs), relation, keep)
    return (sum(costs[name] for name in chosen) + 7) // 8


def check_budget(spec: ShardSpec) -> None:
    """Refuse a declaration whose protected statistics may exceed its budget.

    Raises: InvalidRequest, with the sum.
    """
    most = most_bytes(spec.relation(), spec.stats.keep)
    if most > spec.stats.budget_bytes:
        raise InvalidRequest(
            "the statistics of the sort order and of stats.keep may exceed the budget",
            shard=spec.name,
            setting="stats.budget_bytes",
            value=spec.stats.budget_bytes,
            needed=most,
            cure=f"raise it to {most}, or shorten order or stats.keep",
        )


def _sort_ids(relation: Relation) -> frozenset[int]:
    return frozenset({*relation.order, relation.sort_ids[0]})


def _way(name: str, relation: Relation) -> tuple[tuple[str, ...], bool]:
    """Return the users' names of the way to a statistics column, and whether all are declared."""
    parsed, inside = parse_name(name), parse_inside(name)
    column = relation.by_id.get(parsed[0]) if parsed is not None else None
    if parsed is None or column is None:
        return (), False
    if inside is None:
        return (column.name, *(parsed[1] or ())), not parsed[1]
    return (column.name, *_names(column.type, inside[1])), True


def _names(declared: ColumnType, steps: Sequence[str]) -> tuple[str, ...]:
    found = [place.names for place in places(declared) if place.steps == tuple(steps)]
    return found[0] if found else ()


def _named_paths(column: str, keep: Sequence[str]) -> Iterator[Path]:
    """Yield the JSON paths of a column that patterns without wildcards name, and those above."""
    for pattern in keep:
        first, *keys = pattern.split(".")
        if first.lower() == column.lower() and not _WILD.intersection(pattern):
            yield from (tuple(keys[:length]) for length in range(1, len(keys) + 1))


def _most_bits(shape: pa.StructType) -> int:
    return 1 + sum(_field_bits(field.type, shape == JSON_PATH) for field in shape)


def _field_bits(kind: pa.DataType, json: bool) -> int:
    if pa.types.is_boolean(kind):
        return 1
    if pa.types.is_int64(kind) and json:
        return _COUNT_BITS
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 8 * (STRING_BYTES if json else COLLECT_BYTES) + LENGTH_BITS
    return int(kind.bit_width)
