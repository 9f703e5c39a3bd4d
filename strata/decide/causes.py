"""What stopped a proof, and what cures that: a statistic, a rule, another way to write it.

The statistics themselves show the cause: a missing path was trimmed or never collected; an inexact
bound was shortened; a path that holds both numbers and texts fails a cast for any ranges. In all
other cases the ranges really overlap.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from shlex import quote
from typing import Any, Final

import pyarrow as pa

from strata.decide.places import READS, statistics_of
from strata.expr.nodes import Call, Column, Expr
from strata.expr.render import render
from strata.expr.spec import Spec
from strata.format.encodings import encoding
from strata.model.schema import Relation
from strata.model.types import ColumnType, Kind
from strata.stats import STATS_VERSION
from strata.stats.counted import CountedPaths
from strata.stats.protected import keep_pattern
from strata.stats.wire import column_name, parse_name

_EXACT: Final[Mapping[str, tuple[str, ...]]] = {  # flags of exactness, by the kind of JSON
    "": ("low_exact", "high_exact"),
    "numbers": ("num_exact",),
    "texts": ("str_low_exact", "str_high_exact"),
}
_FLAGS: Final = frozenset({"complete", *(flag for flags in _EXACT.values() for flag in flags)})
_SAFE: Final[Mapping[str, str]] = {
    "cast": "write try_cast: it gives null instead of an error",
    **{
        name: f"write try_{name}: it gives null instead of an error"
        for name in ("add", "subtract", "multiply", "divide")
    },
    **{
        name: f"write {instead}: it gives null instead of an error"
        for name, instead in {
            "remainder": "try_mod",
            "element_at": "try_element_at",
            "get_array_item": "get",
            "get_timestamp": "try_to_timestamp",
            "make_timestamp": "try_make_timestamp",
            "parse_json": "try_parse_json",
            "variant_get": "try_variant_get",
        }.items()
    },
    **{
        name: "write nullif(divisor, 0): a quotient of null is null, not an error"
        for name in ("integral_divide", "pmod")
    },
}
_KINDS: Final = {
    "bools": "booleans",
    "numbers": "numbers",
    "strings": "texts",
    "lists": "lists",
    "maps": "maps",
}


class Cause(StrEnum):
    """Why a part is kept, most curable cause first; or that it is proven not to matter."""

    QUARANTINE = "in quarantine"
    NOT_COLLECTED = "no statistics"
    OUTDATED = "statistics of an older version"
    TRIMMED = "statistics trimmed away"
    NO_RULE = "function without a rule"
    NOT_KEPT = "type without statistics"
    MIXED = "JSON of several kinds"
    FAILS = "may fail"
    LOOSE = "shortened bound"
    OVERLAP = "rows may satisfy it"
    PROVEN = "proven"

    @property
    def rank(self) -> int:
        """Return how hard the cause is to cure; the lowest rank is reported first."""
        return list(Cause).index(self)


@dataclass(frozen=True, slots=True)
class Stopped:
    """The sub-expression at which a proof stopped."""

    expr: Expr
    trace: Mapping[int, Spec]  # what every node of the filter may yield on the part
    opened: str | None  # why nothing is known of it; None if something is
    fails: bool  # it stopped the proof because it may fail, not because it may be true


@dataclass(frozen=True)
class Known:
    """What the statistics of one part say, and how complete they are."""

    stats: pa.Table | pa.RecordBatch
    relation: Relation
    row: int
    version: int | None  # of the part's statistics; None: it has none
    version_known: bool  # that version is known to the caller
    quarantine: Collection[str]
    shard: str
    # How many paths of a JSON column have statistics in the part; None: nobody looks
    paths_kept: Callable[[int], int] | None = None

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names of the statistics columns."""
        return frozenset(self.stats.schema.names)

    def fields(self, name: str) -> Mapping[str, Any] | None:
        """Return which fields of one statistics column are set, and the flags of exactness."""
        if name not in self.names:
            return None
        value = self.stats.column(name)[self.row]
        if not value.is_valid:
            return None
        if not isinstance(value, pa.StructScalar):
            return {}
        # Values may lie outside Python's calendar; only their presence matters.
        flags = {n: v.as_py() for n, v in value.items() if n in _FLAGS}
        return {n: v.is_valid for n, v in value.items()} | flags

    def paths(self, column_id: int) -> int | None:
        """Return how many paths a JSON column has in the part; None if the part does not say."""
        name = column_name(column_id)
        if name not in self.names:
            return None
        value = self.stats.column(name)[self.row]
        counted = value.is_valid and value.type.get_field_index("paths") >= 0
        return value["paths"].as_py() if counted else None

    def kinds(self, name: str) -> list[str]:
        """Return the kinds of JSON that occur at a path."""
        if name not in self.names:
            return []
        value = self.stats.column(name)[self.row]
        if not value.is_valid or not isinstance(value, pa.StructScalar):
            return []
        counted = dict(value.items())
        return [
            shown for kind, shown in _KINDS.items() if kind in counted and counted[kind].as_py()
        ]


def ranged_leaves(expr: Expr) -> Iterator[Expr]:
    """Yield the leaves that have a range: columns and their fields, JSON paths, clocks."""
    path = isinstance(expr, Call) and expr.function in (*READS, "variant_get", "parse_json")
    if isinstance(expr, Column) or path or (isinstance(expr, Call) and not expr.args):
        yield expr
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from ranged_leaves(arg)


def cause_of(stopped: Stopped, known: Known) -> tuple[Cause, str]:
    """Return why a proof stopped at an expression, and what would help."""
    if stopped.opened is not None:
        return _of_opened(stopped.opened, stopped.expr, known)
    found = [_of_leaf(leaf, stopped, known) for leaf in ranged_leaves(stopped.expr)]
    own = _of_call(stopped.expr) if stopped.fails else None
    causes = [cause for cause in found if cause is not None]
    if own is not None:
        causes.append(own)
    return min(causes, key=lambda pair: pair[0].rank, default=(Cause.OVERLAP, ""))


def left_out(expr: Expr, known: Known) -> str:
    """Return how many paths have no statistics, of the JSON columns whose paths lack some.

    Empty where the part does not say how many paths it has, as parts of earlier versions.
    """
    said: dict[str, None] = {}
    for leaf in ranged_leaves(expr):
        own = max(statistics_of(leaf), key=len, default="")
        place = parse_name(own)
        if place is None or not place[1] or known.fields(own) is not None:
            continue
        column, paths = known.relation.by_id.get(place[0]), known.paths(place[0])
        if column is None or paths is None or known.paths_kept is None:
            continue
        kept = known.paths_kept(place[0])
        said[f"; {CountedPaths(paths, kept).said(column.name)}"] = None
    return "".join(said)


def _of_opened(opened: str, expr: Expr, known: Known) -> tuple[Cause, str]:
    if "quarantine" in opened:
        return Cause.QUARANTINE, (
            f"see what the mismatch was with `strata validate {known.shard}`, then approve again"
        )
    return Cause.NO_RULE, (
        f"there is no rule for {opened}; a conjunct that has one, written in front of it, can "
        "still skip parts"
    )


def _of_call(expr: Expr) -> tuple[Cause, str]:
    name = expr.function if isinstance(expr, Call) else ""
    again = "put a condition in front that excludes the failing rows"
    return Cause.FAILS, _SAFE.get(name, again)


def _of_leaf(leaf: Expr, stopped: Stopped, known: Known) -> tuple[Cause, str] | None:
    """Return what is missing for a column or path; None for a clock."""
    names = sorted(statistics_of(leaf), key=len)
    if not names:
        return None
    shown, own = render(leaf), names[-1]
    place = parse_name(own)
    column = None if place is None else known.relation.by_id.get(place[0])
    if column is None:
        return Cause.OVERLAP, ""
    if str(column.id) in known.quarantine:
        return Cause.QUARANTINE, (
            f"the statistics of {column.name} are in quarantine: `strata stats backfill "
            f"{known.shard} --columns {quote(column.name)}`, then `strata validate {known.shard}`"
        )
    fields = known.fields(own)
    if fields is None:
        return _missing(column.name, column.type, names, known)
    mixed = _mixed(shown, known.kinds(own), stopped)
    if mixed is not None:
        return mixed
    if _is_loose(fields, known.kinds(own)):
        return Cause.LOOSE, (
            f"the bounds of {shown} were shortened to fit; raise stats.budget_bytes, then "
            f"`strata stats backfill {known.shard} --columns {quote(column.name)}`"
        )
    return Cause.OVERLAP, ""  # whether another order helps is measured: `strata.advise`


def _missing(
    name: str, declared: ColumnType, names: list[str], known: Known
) -> tuple[Cause, str] | None:
    """Return why nothing is known of a place."""
    backfill = f"`strata stats backfill {known.shard} --columns {quote(name)}`"
    if not _keeps_statistics(declared):
        return Cause.NOT_KEPT, f"{declared} has no bounds; store what is filtered by as a column"
    if any((known.fields(above) or {}).get("complete") for above in names[:-1]):
        return Cause.OVERLAP, ""  # no row has the path
    if not known.version_known or known.version is None:
        return Cause.NOT_COLLECTED, f"collect them: {backfill}"
    if known.version < STATS_VERSION:
        return Cause.OUTDATED, f"collect them again: {backfill}"
    pattern = keep_pattern(names[-1], known.relation)
    return Cause.TRIMMED, (
        f"add {pattern} to stats.keep of {known.shard}, or raise stats.budget_bytes, then "
        f"{backfill}"
    )


def _keeps_statistics(declared: ColumnType) -> bool:
    return encoding(declared).stats != "nested" or declared.kind in (
        Kind.RECORD,
        Kind.RANGE,
        Kind.NUMERIC,
        Kind.LIST,
        Kind.MAP,
        Kind.ARRAY,
        Kind.INT2VECTOR,
    )


def _mixed(shown: str, kinds: Sequence[str], stopped: Stopped) -> tuple[Cause, str] | None:
    """Return the cause where a JSON path holds values of several kinds."""
    if len(kinds) < 2:
        return None
    help = f"{shown} holds {' and '.join(kinds)}"
    name = stopped.expr.function if isinstance(stopped.expr, Call) else ""
    safe = "try_variant_get" if name == "variant_get" else "try_cast"
    return Cause.MIXED, help + (f": use {safe}, or write one kind" if stopped.fails else "")


def _is_loose(fields: Mapping[str, Any], kinds: Sequence[str]) -> bool:
    """Return whether a bound is missing or inexact although the place has values.

    `kinds`: those of JSON that occur there; a kind that does not occur has no bounds to shorten.
    """
    if any(fields.get(flag) is False for kind in kinds for flag in _EXACT.get(kind, ())):
        return True
    if "low" not in fields:
        return False
    sides = [bool(fields[side]) for side in ("low", "high")]
    cut = any(fields.get(flag) is False for flag in _EXACT[""])
    return any(sides) and (cut or not all(sides))
