"""A shard's declaration, as the YAML files in `config/shards/` write it.

`parse_spec` turns the loaded mapping into frozen values. It refuses unknown settings by name,
because a misspelled setting must never be ignored. The declaration gives names; ids are assigned
when the shard is created (`relation`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_letters, digits
from typing import Annotated, Any, Final

from strata.errors import InvalidRequest
from strata.model.charsets import UTF_8, parse_encoding
from strata.model.declared import Declared, OneOf, Parsed, Range, as_declared
from strata.model.names import as_pair, check_source_names
from strata.model.near import one_of
from strata.model.schema import Column, Relation
from strata.model.settings import Count, Percent
from strata.model.types import ColumnType, Kind, parse_type
from strata.model.written import WrittenForm, parse_form

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
LAYOUTS: Final = ("row", "both", "structured")
READ_FORMATS: Final = ("row", "structured", "row_with_validate")
MODES: Final = ("off", "soft", "audit", "on")
DELIMITER: Final = ","
DELIMITERS: Final = frozenset(map(chr, range(1, 127))) - {*ascii_letters, *digits, *'"\n\r\\'}
NULLS: Final = ("", "NA")
POINT: Final = "."
ESCAPES: Final = ("", "\\")
DECIMALS: Final = (POINT, ",")
THOUSANDS: Final = ("", POINT, ",", " ", "'", "\u2019", "_", "\u00a0", "\u202f")
FORMATS: Final = ("avro", "csv", "json", "jsonl", "orc", "parquet")
ENVELOPES: Final = ("append", "upsert", "debezium", "diff")
ORDERED: Final = ("upsert", "debezium")  # envelopes whose rows set or delete a key
ANY: Final = "*"  # of the forms of dates: every column that is not named
FORMS_OF: Final = {Kind.DATE: "dates", Kind.TIMESTAMP: "timestamps", Kind.TIMESTAMPTZ: "timestamps"}
ADOPTED: Final = "adopt."  # of tokens; they say which version of a table a shard holds
RESERVED: Final = frozenset({"t", "d", "__part", "__maps"})  # columns that readers add
# Of the metadata of a field whose default is for ever the same. Stored documents leave it out, so
# that programs without the field read them.
UNWRITTEN: Final = "unwritten"
IN_PLACE: Final = ("parquet", "append")  # format and envelope of files that can stay
FEW_COLUMNS: Final = 32  # a row group has room for these at any size
COLUMN_BYTES: Final = 4096  # of a row group for each further column
PartBytes = Annotated[int, Range(1024)]
BloomBits = Annotated[int, Range(4, 32)]
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
class ColumnSpec(Declared):
    """One declared column."""

    name: str
    type: Annotated[ColumnType, Parsed(parse_type)]
    nullable: bool = True
    default: object = None  # a JSON value, for rows that lack the column; None means null


@dataclass(frozen=True, slots=True)
class SourceSpec(Declared):
    """Where updates come from and how a source row becomes updates."""

    paths: tuple[str, ...] = ()  # files or folders, relative to the landing root
    format: Annotated[str, OneOf(*FORMATS)] = "jsonl"
    envelope: Annotated[str, OneOf(*ENVELOPES)] = "append"
    diff_column: str = "diff"  # envelope diff: the column that holds +n or -n
    max_rejected: float = 0.05  # a run with a larger share of unreadable rows commits nothing
    # once: the same bytes under another name are skipped
    same_content: Annotated[str, OneOf("once", "each")] = "once"
    # unless_ordered: refused for change streams
    late_files: Annotated[str, OneOf("unless_ordered", "take", "refuse")] = "unless_ordered"
    deleted_column: str = ""  # envelope upsert: a column that is true in tombstones, not stored
    # changes that the shard contradicts
    contradictions: Annotated[str, OneOf("fail", "quarantine", "count")] = "fail"
    # a snapshot of a table, into a shard that has rows
    snapshots: Annotated[str, OneOf("refuse", "replace", "merge")] = "refuse"
    # envelope debezium: the tables whose changes are taken, or patterns; empty: any one table
    tables: tuple[str, ...] = ()
    # columns come or go in a change stream
    schema_changes: Annotated[str, OneOf("refuse", "report")] = "refuse"
    delimiter: str = DELIMITER  # CSV: the character between two fields
    nulls: tuple[str, ...] = NULLS  # CSV: the texts of unquoted fields that are null
    # How texts of date, and of timestamp and timestamptz, are written: (column, form); ANY: of the
    # other columns. In the file a form for all columns, or a mapping by column
    dates: tuple[tuple[str, ...], ...] = ()
    timestamps: tuple[tuple[str, ...], ...] = ()
    # rows are read twice and compared; sampled: as the settings say
    verify: Annotated[str, OneOf("sampled", "always", "never")] = "sampled"
    # (name in the source, column) where they differ; in the file a mapping
    names: tuple[tuple[str, ...], ...] = field(default=(), metadata={UNWRITTEN: True})
    # Parquet files that are sorted runs are not copied; parts refer to them
    in_place: bool = field(default=False, metadata={UNWRITTEN: True})
    # CSV: how the bytes of files are letters, by the name that Python has for it
    encoding: Annotated[str, Parsed(parse_encoding)] = field(
        default=UTF_8, metadata={UNWRITTEN: True}
    )
    # CSV: how numbers are written: the mark before a fraction, and that between groups of three
    decimal: Annotated[str, OneOf(*DECIMALS)] = field(default=POINT, metadata={UNWRITTEN: True})
    thousands: Annotated[str, OneOf(*THOUSANDS)] = field(default="", metadata={UNWRITTEN: True})
    # CSV: the names of the fields, in order, of files without a line of names; empty: they have one
    header: tuple[str, ...] = field(default=(), metadata={UNWRITTEN: True})
    # CSV: what stands before a quote, and before itself, within quotes; empty: quotes are doubled
    escape: Annotated[str, OneOf(*ESCAPES)] = field(default="", metadata={UNWRITTEN: True})
    # CSV: blanks and tabs before a field, and behind its closing quote, are no part of it
    skip_blanks: bool = field(default=False, metadata={UNWRITTEN: True})

    @property
    def names_of_source(self) -> Mapping[str, str]:
        """Return the source's name of each column that it calls otherwise."""
        return {column: name for name, column in self.names}

    def form_text(self, column: str, kind: Kind) -> str:
        """Return the form in which the texts of a column are written; empty: the type's own."""
        name = FORMS_OF.get(kind)
        forms: dict[str, str] = {} if name is None else dict(map(_pair, getattr(self, name)))
        return forms.get(column, forms.get(ANY, ""))

    def written(self, column: str, kind: Kind) -> WrittenForm | None:
        """Return that form as it is read; None: the type's own. Raises: InvalidRequest."""
        text = self.form_text(column, kind)
        return parse_form(text, kind) if text else None


@dataclass(frozen=True, slots=True)
class TimeSpec(Declared):
    """Where an update's time `t` comes from."""

    # `from` in the file; interval: the interval's lower
    origin: Annotated[str, OneOf("interval", "source", "column")] = "interval"
    column: str | None = None  # for column and source: a timestamp column or epoch milliseconds
    # t before lower; advance: to lower
    late: Annotated[str, OneOf("advance", "refuse", "quarantine")] = "advance"
    # t at or after upper; last: to upper - 1; "": as late
    early: Annotated[str, OneOf("", "refuse", "quarantine", "last")] = ""


@dataclass(frozen=True, slots=True)
class StatsSpec(Declared):
    """How much statistics a part may carry."""

    budget_bytes: Count = 1024  # per part, measured on the stored encoding
    keep: tuple[str, ...] = KEEP_DEFAULT  # patterns of names that survive every budget
    sets: tuple[str, ...] = ()  # places whose values are recorded where they are few
    blooms: tuple[str, ...] = ()  # places that get a bloom filter where they are many
    bloom_bits: BloomBits = 8  # of a bloom filter, for each distinct value
    pairs: tuple[tuple[str, ...], ...] = ()  # two places each, whose difference is recorded


@dataclass(frozen=True, slots=True)
class AboutSpec(Declared):
    """What people want to know of a shard; nothing is decided by it."""

    owner: str = ""  # a person, a team or an address
    description: str = ""
    tags: tuple[str, ...] = ()  # words to find it by


@dataclass(frozen=True, slots=True)
class SumsSpec(Declared):
    """Of a shard that holds sums: what is added up. Its key is the group."""

    of: str = ""  # the shard whose rows are added up; empty: this shard holds no sums
    sum: tuple[str, ...] = ()  # columns with sum_c and count_c
    min: tuple[str, ...] = ()  # columns with min_c
    max: tuple[str, ...] = ()  # columns with max_c
    where: str = ""  # a plain filter of the rows that count; empty: all


@dataclass(frozen=True, slots=True)
class RolloutSpec(Declared):
    """The filter mode that a new shard starts in: `off` or `soft`; see `strata.state.rollout`."""

    mode: Annotated[str, OneOf(*MODES)] = "off"
    audit_percent: Percent = 0  # share of skipped parts that is fetched and checked anyway


@dataclass(frozen=True)
class ShardSpec(Declared):
    """A whole declaration."""

    name: str
    columns: tuple[ColumnSpec, ...]
    key: tuple[str, ...]
    order: tuple[str, ...] = ()
    source: SourceSpec = field(default_factory=SourceSpec)
    time: TimeSpec = field(default_factory=TimeSpec)
    write_format: Annotated[str, OneOf(*LAYOUTS)] = "both"
    read_format: Annotated[str, OneOf(*READ_FORMATS)] = "structured"
    part_bytes: PartBytes = 128 * 1024 * 1024  # a part is cut when its encoded size reaches this
    row_group_bytes: PartBytes = 8 * 1024 * 1024
    stats: StatsSpec = field(default_factory=StatsSpec)
    rollout: RolloutSpec = field(default_factory=RolloutSpec)
    about: AboutSpec = field(default_factory=AboutSpec)
    sums: SumsSpec = field(default_factory=SumsSpec)

    @property
    def group_bytes(self) -> int:
        """Return the size at which a row group ends: `row_group_bytes`, and more for wide rows.

        A row group costs every reader about 25 microseconds for each of its columns.
        """
        wide = sum(column.type.leaves for column in self.columns) - FEW_COLUMNS
        return max(self.row_group_bytes, min(wide * COLUMN_BYTES, self.part_bytes))

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
    """Return `name` if a shard, a filter or a token may have it; it becomes part of a path.

    Raises: InvalidRequest.
    """
    if not NAME.fullmatch(name) or ".." in name:
        raise InvalidRequest(
            "not a usable name", name=name, cure="letters, digits, _ . -, at most 128"
        )
    return name


def given_token(token: str | None) -> str | None:
    """Return the token that somebody gives a write; None stays None.

    Raises: InvalidRequest for one that says what a shard holds, as those of adoptions do.
    """
    if token is not None and token.startswith(ADOPTED):
        raise InvalidRequest(
            "a token like this is for adoptions alone", token=token, cure="another token, or none"
        )
    return token


def parse_spec(raw: Mapping[str, Any], file: str = "") -> ShardSpec:
    """Return the declaration in `raw`, a loaded YAML mapping.

    Raises: InvalidRequest naming file, shard, setting, value and what is allowed.
    """
    name = check_name(str(raw.get("name", "")))
    given = {key: value for key, value in raw.items() if value is not None}
    for key, change in (("source", _source), ("time", _time)):
        if isinstance(given.get(key), dict):
            given[key] = change(given[key])
    if "key" not in given and isinstance(given.get("columns"), list):
        given["key"] = [c["name"] for c in given["columns"] if isinstance(c, dict) and "name" in c]

    def where(setting: str) -> dict[str, str]:
        called = {"setting": "time.from"} if setting == "time.origin" else {}
        return called | {"shard": name} | ({"file": file} if file else {})

    spec = as_declared(ShardSpec, given, where)
    _check(spec)
    spec.relation()
    return spec


def check_column_names(shard: str, names: Iterable[str]) -> None:
    """Refuse column names that readers cannot distinguish; Spark ignores case.

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
                cure="call it otherwise here; if the source has this name, declare "
                f"{as_pair(column, f'{column}_')}",
            )
        if name in seen:
            raise InvalidRequest(
                "two columns have this name (case does not count)",
                shard=shard,
                column=column,
                cure="call one otherwise here; if the source has this name, declare "
                f"{as_pair(column, f'{column}_2')}",
            )
        seen.add(name)


def _check(spec: ShardSpec) -> None:
    """Refuse combinations of settings that contradict each other. Raises: InvalidRequest."""
    if not spec.columns:
        raise InvalidRequest("a shard needs a column", shard=spec.name, setting="columns")
    check_column_names(spec.name, (column.name for column in spec.columns))
    delimiter = spec.source.delimiter
    if len(delimiter) != 1 or delimiter not in DELIMITERS:
        raise InvalidRequest(
            "not a delimiter of CSV",
            shard=spec.name,
            setting="source.delimiter",
            value=delimiter,
            cure="one ASCII character that is no letter, digit, quote, line break or backslash",
        )
    _check_marks(spec)
    _check_header(spec)
    _check_forms(spec)
    if spec.source.names:
        names = (column.name for column in spec.columns)
        check_source_names(spec.name, spec.source.names, names, _other_names(spec))
    by_source = spec.time.origin == "source" and spec.source.envelope == "debezium"
    if spec.time.origin != "interval" and not by_source and not spec.time.column:
        raise InvalidRequest(
            "time.from needs a column", shard=spec.name, cure="time: {from: column, column: NAME}"
        )


def _check_marks(spec: ShardSpec) -> None:
    """Refuse one mark that means two things in a number. Raises: InvalidRequest."""
    if spec.source.decimal == spec.source.thousands:
        raise InvalidRequest(
            "one mark cannot stand before the fraction and between thousands",
            shard=spec.name,
            setting="source.thousands",
            value=spec.source.thousands,
            cure='two marks, as in decimal: "," and thousands: "."',
        )


def _check_header(spec: ShardSpec) -> None:
    """Refuse names of fields that are no names, or come twice. Raises: InvalidRequest.

    An empty one behind others is none: each row ends with a delimiter.
    """
    header = spec.source.header
    ends = len(header) > 1 and not header[-1]
    for name, count in Counter(header[: len(header) - ends]).items():
        if count > 1 or not name.strip():
            raise InvalidRequest(
                "the fields of a file need names of their own",
                shard=spec.name,
                setting="source.header",
                value=name,
                cure="a name for each field, in the order of the files",
            )


def _other_names(spec: ShardSpec) -> dict[str, str]:
    """Return the names of the source that are no columns of the shard, each with its setting."""
    found = {}
    if spec.source.envelope == "diff":
        found[spec.source.diff_column] = "source.diff_column"
    if spec.source.envelope == "upsert" and spec.source.deleted_column:
        found[spec.source.deleted_column] = "source.deleted_column"
    time = spec.time.column if spec.time.origin != "interval" else None
    if time is not None and all(column.name != time for column in spec.columns):
        found[time] = "time.column"
    return found


def _check_forms(spec: ShardSpec) -> None:
    """Refuse forms of dates that no column has, or that cannot be read. Raises: InvalidRequest."""
    kinds = {column.name: column.type.kind for column in spec.columns}
    for setting, usual in (("dates", Kind.DATE), ("timestamps", Kind.TIMESTAMPTZ)):
        where = {"shard": spec.name, "setting": f"source.{setting}"}
        named = [_pair(pair) for pair in getattr(spec.source, setting)]
        if named and spec.source.envelope == "debezium":
            cure = "leave it out; the schema of the connector says how dates are encoded"
            raise InvalidRequest("Debezium has forms of its own", **where, cure=cure)
        for column, text in named:
            kind = usual if column == ANY else kinds.get(column)
            if kind is None or FORMS_OF.get(kind) != setting:
                raise InvalidRequest(
                    f"a form is for a declared column of {setting}",
                    **where,
                    column=column,
                    cure=one_of(
                        column, [n for n, k in kinds.items() if FORMS_OF.get(k) == setting]
                    ),
                )
            others = {k for n, k in kinds.items() if spec.source.form_text(n, k) == text}
            for meant in {kind, *(k for k in others if FORMS_OF[k] == setting)}:
                try:
                    parse_form(text, meant)
                except InvalidRequest as error:
                    details = {**where, "column": column, **error.details}
                    raise InvalidRequest(error.message, **details, cure=error.cure) from error


def forms_in_file(forms: Sequence[Sequence[str]]) -> str | list[str] | dict[str, str]:
    """Return forms of dates as a declaration has them: one for all columns, or by column."""
    by_column = {column: form for column, form in forms}
    if by_column.keys() == {ANY}:
        return by_column[ANY]
    return by_column or []


def _pair(pair: tuple[str, ...]) -> tuple[str, str]:
    """Return a column and its form. Raises: InvalidRequest."""
    if len(pair) != 2:
        raise InvalidRequest("a form of dates needs a column and a form", value=list(pair))
    return pair[0], pair[1]


def _source(raw: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(raw)
    for name in ("paths", "tables"):
        if isinstance(raw.get(name), str):
            found[name] = [raw[name]]
    for name in set(FORMS_OF.values()) & raw.keys():
        forms = {ANY: raw[name]} if isinstance(raw[name], str) else raw[name]
        if isinstance(forms, dict):
            found[name] = [[column, form] for column, form in forms.items()]
    if isinstance(raw.get("names"), dict):
        found["names"] = [[name, column] for name, column in raw["names"].items()]
    return found


def _time(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {"origin" if name == "from" else name: value for name, value in raw.items()}
