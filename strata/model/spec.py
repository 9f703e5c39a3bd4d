"""A shard's declaration, as the YAML files in `config/shards/` write it.

`parse_spec` turns the loaded mapping into frozen values and refuses what it does not know, by
name: a misspelled setting must never be ignored. The declaration gives names; ids are given
when the shard is created (`relation`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from strata.errors import InvalidRequest
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, parse_type

T = TypeVar("T")

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
LAYOUTS: Final = ("row", "both", "structured")
READ_FORMATS: Final = ("row", "structured", "row_with_validate")
MODES: Final = ("off", "soft", "audit", "on")
DELIMITER: Final = ","
DELIMITERS: Final = frozenset("\t !#$%&'()*+,-./:;<=>?@[]^_`{|}~")
NULLS: Final = ("", "NA")
FORMATS: Final = ("avro", "csv", "json", "jsonl", "orc", "parquet")
ENVELOPES: Final = ("append", "upsert", "debezium", "diff")
ORDERED: Final = ("upsert", "debezium")  # envelopes whose rows say what becomes of a key
RESERVED: Final = frozenset({"t", "d", "__part", "__maps"})  # columns that readers add
KEEP_DEFAULT: Final = (
    "ts",
    "*_at",
    "*_time",
    "*timestamp",
    "*_tstamp",
    "last_*",
    "received*",
    "createdat",
)


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One declared column."""

    name: str
    type: ColumnType
    nullable: bool = True
    default: object = None  # a JSON value, for rows that lack the column; None means null


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Where updates come from and how a source row becomes updates."""

    paths: tuple[str, ...] = ()  # files or folders, relative to the landing root
    format: str = "jsonl"  # one of FORMATS
    envelope: str = "append"  # one of ENVELOPES
    diff_column: str = "diff"  # envelope diff: the column that holds +n or -n
    max_rejected: float = 0.05  # a run with a larger share of unreadable rows commits nothing
    same_content: str = "once"  # once: the same bytes under another name are not taken | each
    late_files: str = "unless_ordered"  # take | refuse | unless_ordered: refuse for change streams
    deleted_column: str = ""  # envelope upsert: a column that is true in tombstones, not stored
    contradictions: str = "fail"  # changes that the shard contradicts: fail | quarantine | count
    snapshots: str = "refuse"  # of a table, into a shard with rows: refuse | replace | merge
    schema_changes: str = "refuse"  # columns come or go in a change stream: refuse | report
    delimiter: str = DELIMITER  # of CSV: the character between two fields
    nulls: tuple[str, ...] = NULLS  # of CSV: what an unquoted field says that is null
    verify: str = "sampled"  # rows are read twice and compared: sampled (settings) | always | never


@dataclass(frozen=True, slots=True)
class TimeSpec:
    """Where an update's time `t` comes from."""

    origin: str = "interval"  # interval: the interval's lower | column | source
    column: str | None = None  # for column and source: a timestamp column or epoch milliseconds
    late: str = "advance"  # t before lower: advance (to lower) | refuse | quarantine
    early: str = ""  # t at or after upper: refuse | quarantine | last (to upper - 1); "": as late


@dataclass(frozen=True, slots=True)
class StatsSpec:
    """How much statistics a part may carry."""

    budget_bytes: int = 1024  # per part, measured on the stored encoding
    keep: tuple[str, ...] = KEEP_DEFAULT  # name patterns that survive every budget


@dataclass(frozen=True, slots=True)
class RolloutSpec:
    """The filter mode that a new shard starts in: `off` or `soft`; see `strata.state.rollout`."""

    mode: str = "off"  # one of MODES
    audit_percent: int = 0  # share of skipped parts that is fetched and checked all the same


@dataclass(frozen=True)
class ShardSpec:
    """A whole declaration."""

    name: str
    columns: tuple[ColumnSpec, ...]
    key: tuple[str, ...]
    order: tuple[str, ...] = ()
    source: SourceSpec = field(default_factory=SourceSpec)
    time: TimeSpec = field(default_factory=TimeSpec)
    write_format: str = "both"  # one of LAYOUTS
    read_format: str = "structured"  # one of READ_FORMATS
    part_bytes: int = 128 * 1024 * 1024  # a part is cut when its encoded size reaches this
    row_group_bytes: int = 8 * 1024 * 1024
    stats: StatsSpec = field(default_factory=StatsSpec)
    rollout: RolloutSpec = field(default_factory=RolloutSpec)

    def relation(self) -> Relation:
        """Return version 0 of the relation, ids counted from 1 in declared order."""
        columns = tuple(
            Column(number, c.name, c.type, c.nullable, c.default)
            for number, c in enumerate(self.columns, 1)
        )
        ids = {column.name: column.id for column in columns}
        for name in (*self.key, *self.order):
            if name not in ids:
                raise InvalidRequest(
                    "key or order names an undeclared column", shard=self.name, column=name
                )
        return Relation(
            0, columns, tuple(ids[n] for n in self.key), tuple(ids[n] for n in self.order)
        )


def check_name(name: str) -> str:
    """Return `name` if it may name a shard, a filter or a token; it becomes part of a path.

    Raises: InvalidRequest.
    """
    if not NAME.fullmatch(name) or ".." in name:
        raise InvalidRequest(
            "not a usable name", name=name, cure="letters, digits, _ . -, at most 128"
        )
    return name


def parse_spec(raw: Mapping[str, Any]) -> ShardSpec:
    """Return the declaration in `raw`, a loaded YAML mapping.

    Raises: InvalidRequest naming the shard, the setting, its value and what is allowed.
    """
    name = check_name(str(raw.get("name", "")))
    allowed = {f.name for f in fields(ShardSpec)}
    _refuse_unknown(name, raw, allowed)
    columns = tuple(_column(name, item) for item in _sequence(name, raw, "columns"))
    key = tuple(str(k) for k in raw.get("key") or [c.name for c in columns])
    sections: dict[str, Any] = {
        "source": _source(name, raw.get("source") or {}),
        "time": _time(name, raw.get("time") or {}),
        "stats": _section(name, StatsSpec, raw.get("stats") or {}),
        "rollout": _section(name, RolloutSpec, raw.get("rollout") or {}),
    }
    names = ("write_format", "read_format", "part_bytes", "row_group_bytes")
    plain = {name: raw[name] for name in names if name in raw}
    spec = ShardSpec(
        name, columns, key, tuple(str(o) for o in raw.get("order") or ()), **sections, **plain
    )
    _check(spec)
    spec.relation()
    return spec


def check_column_names(shard: str, names: Iterable[str]) -> None:
    """Refuse column names that readers could not tell apart; Spark ignores case.

    Raises: InvalidRequest, naming the column.
    """
    seen: set[str] = set()
    for column in names:
        name = column.lower()
        if not name.strip():
            raise InvalidRequest("a column needs a name", shard=shard, column=column)
        if name in RESERVED:
            raise InvalidRequest(
                "this column name is taken by every update",
                shard=shard,
                column=column,
                cure="rename it in the source and here",
            )
        if name in seen:
            raise InvalidRequest(
                "two columns have this name (case does not count)",
                shard=shard,
                column=column,
                cure="rename one",
            )
        seen.add(name)


def _check(spec: ShardSpec) -> None:
    check_column_names(spec.name, (column.name for column in spec.columns))
    choices = (
        ("write_format", spec.write_format, LAYOUTS),
        ("read_format", spec.read_format, READ_FORMATS),
        ("source.format", spec.source.format, FORMATS),
        ("source.envelope", spec.source.envelope, ENVELOPES),
        ("source.same_content", spec.source.same_content, ("once", "each")),
        (
            "source.late_files",
            spec.source.late_files,
            ("unless_ordered", "take", "refuse"),
        ),
        (
            "source.contradictions",
            spec.source.contradictions,
            ("fail", "quarantine", "count"),
        ),
        ("source.snapshots", spec.source.snapshots, ("refuse", "replace", "merge")),
        ("source.schema_changes", spec.source.schema_changes, ("refuse", "report")),
        ("source.verify", spec.source.verify, ("sampled", "always", "never")),
        ("time.early", spec.time.early, ("", "refuse", "quarantine", "last")),
        ("time.from", spec.time.origin, ("interval", "source", "column")),
        ("time.late", spec.time.late, ("advance", "refuse", "quarantine")),
        ("rollout.mode", spec.rollout.mode, MODES),
    )
    for setting, value, allowed in choices:
        if value not in allowed:
            raise InvalidRequest(
                "not an allowed value",
                shard=spec.name,
                setting=setting,
                value=value,
                cure=f"one of {', '.join(allowed)}",
            )
    for setting, number in (
        ("part_bytes", spec.part_bytes),
        ("row_group_bytes", spec.row_group_bytes),
    ):
        if not isinstance(number, int) or number < 1024:
            raise InvalidRequest(
                "not a size", shard=spec.name, setting=setting, value=number, cure="bytes >= 1024"
            )
    by_source = spec.time.origin == "source" and spec.source.envelope == "debezium"
    _check_csv(spec)
    if spec.time.origin != "interval" and not by_source and not spec.time.column:
        raise InvalidRequest(
            "time.from needs a column", shard=spec.name, cure="time: {from: column, column: NAME}"
        )


def _check_csv(spec: ShardSpec) -> None:
    where: dict[str, Any] = {"shard": spec.name}
    delimiter, nulls = spec.source.delimiter, spec.source.nulls
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter not in DELIMITERS:
        raise InvalidRequest(
            "not a delimiter of CSV",
            **where,
            setting="source.delimiter",
            value=delimiter,
            cure="one ASCII character that is no letter, digit, quote, line break or backslash",
        )
    if not isinstance(nulls, tuple) or not all(isinstance(text, str) for text in nulls):
        raise InvalidRequest(
            "not a list of texts",
            **where,
            setting="source.nulls",
            value=nulls,
            cure='for example ["", "NA"], texts in quotes',
        )


def _column(shard: str, item: Any) -> ColumnSpec:
    if not isinstance(item, Mapping) or "name" not in item or "type" not in item:
        raise InvalidRequest(
            "malformed column", shard=shard, column=item, cure="{name: NAME, type: TYPE}"
        )
    _refuse_unknown(shard, item, {"name", "type", "nullable", "default"})
    return ColumnSpec(
        str(item["name"]),
        parse_type(str(item["type"])),
        bool(item.get("nullable", True)),
        item.get("default"),
    )


def _source(shard: str, raw: Mapping[str, Any]) -> SourceSpec:
    raw = dict(raw)
    if isinstance(raw.get("paths"), str):
        raw["paths"] = [raw["paths"]]
    return _section(shard, SourceSpec, raw)


def _time(shard: str, raw: Mapping[str, Any]) -> TimeSpec:
    raw = dict(raw)
    if "from" in raw:
        raw["origin"] = raw.pop("from")
    return _section(shard, TimeSpec, raw)


def _section(shard: str, kind: type[T], raw: Mapping[str, Any]) -> T:
    _refuse_unknown(shard, raw, {f.name for f in fields(kind)})  # type: ignore[arg-type]
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()})


def _sequence(shard: str, raw: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = raw.get(key)
    if not isinstance(value, list) or not value:
        raise InvalidRequest("a list is needed", shard=shard, setting=key, value=value)
    return value


def _refuse_unknown(shard: str, raw: Mapping[str, Any], allowed: set[str]) -> None:
    unknown = sorted(set(raw) - allowed)
    if unknown:
        raise InvalidRequest(
            "unknown setting", shard=shard, setting=unknown[0], cure=f"one of {sorted(allowed)}"
        )
