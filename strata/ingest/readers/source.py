"""A source file as read: raw columns, and the way back from a row to its line.

A reader for a format (`csv`, `jsonl`, `parquet`) returns a `RawFile`. `typed_rows` converts its
wanted columns to their types and sorts out the rows in which that fails. A file has the wrong shape
if a column is unreadable in every row; it is refused as a whole.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.encodings import arrow_type
from strata.ingest.land.recode import forbidden, said_header, why_no_text
from strata.ingest.readers.cures import TOO_FINE, VARIANT, Problem, has_variant, is_too_fine
from strata.ingest.readers.position import Places
from strata.ingest.readers.rejects import SHOWN, Reject, details
from strata.ingest.readers.side_by_side import read_alike
from strata.ingest.readers.stream_tables import NO_TABLES, StreamTables
from strata.ingest.values.cast import Cast, Rows
from strata.ingest.values.column import choose
from strata.ingest.values.shown import FAILS, clean
from strata.ingest.values.written import from_written
from strata.kernels.arrays import Bools
from strata.model.charsets import UTF_8
from strata.model.names import as_pair
from strata.model.types import OF_TEXTS, ColumnType, Kind
from strata.model.written import WrittenForm

NEAR: Final = 0.5  # the least likeness of a column's name and of what it may have been renamed to
NAMED: Final = 12  # undeclared columns in an error
ONLY_IN_PATH: Final = (
    "write it into the files as well (Spark: partitionBy a copy of the column); or read the folder "
    "by a library that knows partitions (DuckDB: hive_partitioning) and hand the rows to "
    "strata.ingest.write; or do not declare it: a time in the path counts anyway"
)
NULL: Final = "null in a column that may not be null"
WRONG_SHAPE_ROWS: Final = 2  # a single unreadable row is a bad row, not a bad file

Raw = Any  # a column as the format has it: Arrow array or list of objects
Located = tuple[int | None, str]  # physical line from 1, raw text


class BadValue(NamedTuple):
    """Why a row is rejected."""

    column: str
    reason: str
    of_moment: bool = False  # the value cannot be read as a time with microseconds


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column to take from the source."""

    name: str
    type: ColumnType
    nullable: bool
    default: pa.Array | None = None  # one value, for rows in which the source lacks the column
    form: WrittenForm | None = None  # in which its texts are written; None: the type's own

    @property
    def bad_value(self) -> BadValue:
        """Return why a value is rejected that cannot be read."""
        form = "" if self.form is None else f", written {self.form.text}"
        of_moment = self.form is None and self.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
        return BadValue(self.name, f"not readable as {self.type}{form}", of_moment)


@dataclass(frozen=True, slots=True)
class MessageNames:
    """The names that rows of change streams have."""

    told: tuple[frozenset[str], ...]  # of each shape, also of rejected rows, as messages have them
    names: tuple[frozenset[str], ...]  # the same, but present ones in place of former ones
    of_row: Rows  # the number of its shape

    def have(self, names: Collection[str]) -> Bools:
        """Return which rows have one of some names in their messages."""
        having = np.array([not told.isdisjoint(names) for told in self.told], bool)
        found: Bools = having[self.of_row]
        return found


@dataclass(frozen=True, slots=True)
class RawFile:
    """One source file, its rows not yet typed."""

    file: str
    count: int  # well-formed rows
    columns: Mapping[str, Raw]
    convert: Callable[[Raw, ColumnType], Cast]
    shown: Callable[[Raw, int], str | None]  # the value of one row as text, for people
    locate: Callable[[Rows], list[Located]]  # of rows by number, ascending
    malformed: Sequence[Reject] = ()  # rows without the format's structure
    original: Mapping[str, Raw] = field(default_factory=dict)  # columns as people know them
    lacking: Mapping[str, Sequence[bool]] = field(default_factory=dict)  # rows without a column
    header: str | None = None  # of a CSV file, in one line
    ops: npt.NDArray[np.uint8] | None = None  # of change streams: see `change`
    same: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)  # unchanged values
    passed: int = 0  # messages that are not changes: tombstones, transactions, schema changes
    undeclared: frozenset[str] = frozenset()  # columns in changes that the shard does not declare
    defaulted: Mapping[str, int] = field(default_factory=dict)  # see `read_debezium.defaulted`
    places: Places | None = None  # of change streams: places in the database's log
    tables: StreamTables = NO_TABLES  # of change streams
    message_names: MessageNames | None = None  # None: whole rows of changes have the declared ones
    are_read: Bools | None = None  # of change streams: the rows of snapshots; None: see `places`
    number: int = 0  # of the file in its batch
    before: int = 0  # rows of the file, or lines, that come before the first
    whole: bool = True  # these are all rows of the file
    # For rows that are not text; with the ids of the shard's columns by name.
    keep: Callable[[Mapping[str, Raw], int, Mapping[str, int]], str | None] | None = None
    ids: Mapping[str, int] = field(default_factory=dict)  # of the shard's columns, by its names
    called: Mapping[str, str] = field(default_factory=dict)  # the file's names of some columns
    nulls: Collection[str] = ()  # of CSV: null where they are quoted, too, if the type has no texts
    encoding: str = UTF_8  # of CSV


@dataclass(frozen=True, slots=True)
class TypedRows:
    """The readable rows of one file."""

    file: str
    columns: Mapping[str, pa.Array]  # all rows, unreadable values null
    count: int
    bad: Mapping[int, BadValue] = field(default_factory=dict)  # by row


def typed_rows(
    raw: RawFile, wanted: Sequence[WantedColumn], *, exempt: Rows | None = None
) -> TypedRows:
    """Return the wanted columns of a file, typed; a bad row reports its first bad column.

    `exempt` rows may lack any column.

    Raises: InvalidRequest for a file of the wrong shape.
    """
    columns: dict[str, pa.Array] = {}
    bad: dict[int, BadValue] = {}
    plain = {column.name: column.type for column in wanted if column.form is None}
    folders = _folders(raw.file) if raw.ops is None else {}
    read = read_alike(raw.columns, plain, partial(guarded, raw.convert))
    for column in wanted:
        cast = _nulls_forgiven(raw, column, _converted(raw, column, read.get(column.name)))
        columns[column.name] = cast.values
        there = raw.called.get(column.name, column.name)
        if there in folders and _is_nowhere(raw, column.name, cast):
            raise _only_in_path(raw.file, there, folders[there])
        _note(raw, column.bad_value, cast.bad, bad)
        if not column.nullable and cast.values.null_count:
            nulls = np.flatnonzero(cast.values.is_null().to_numpy(zero_copy_only=False))
            missing = np.setdiff1d(nulls, cast.bad)
            if exempt is not None:
                missing = np.setdiff1d(missing, exempt)
            _note(raw, BadValue(column.name, NULL), missing, bad)
    return TypedRows(raw.file, columns, raw.count, bad)


def _nulls_forgiven(raw: RawFile, column: WantedColumn, cast: Cast) -> Cast:
    """Return a column in which quoted texts that mean null are null, unless its type has texts.

    Programs that quote every field write `""` for null; as a number or a time it can mean only
    that.
    """
    if not len(cast.bad) or not raw.nulls or column.type.kind in OF_TEXTS:
        return cast
    texts = raw.columns[column.name].take(pa.array(cast.bad))
    words = pa.array([word.encode() for word in raw.nulls], pa.binary())
    null = pc.is_in(texts.cast(pa.binary()), words).to_numpy(zero_copy_only=False)
    return Cast(cast.values, cast.bad[~null])


def _converted(raw: RawFile, column: WantedColumn, read: Cast | None) -> Cast:
    """Return a column, with its default if the source lacks it, in the file or in single rows.

    `read`: the column, if it has been read.
    """
    if column.default is None:
        return read or _typed(raw, column)
    if column.name not in raw.columns:
        filled = column.default.take(pa.array(np.zeros(raw.count, np.int64)))
        return Cast(filled, np.array([], np.int64))
    cast = read or _typed(raw, column)
    lacking = np.asarray(raw.lacking.get(column.name, ()), bool)
    if not lacking.any():
        return cast
    where = np.where(lacking, raw.count, np.arange(raw.count))
    both = pa.concat_arrays([cast.values, column.default])
    return Cast(both.take(pa.array(where)), cast.bad)


def _typed(raw: RawFile, column: WantedColumn) -> Cast:
    """Return a column that the source has; its texts are read by their form, if one is declared.

    A value that a schema has turned into text was no text in the source, and has no form.
    """
    values = raw.columns[column.name]
    if column.form is None:
        return guarded(raw.convert, values, column.type)
    read = partial(from_written, form=column.form, convert=raw.convert)
    before = raw.original.get(column.name)
    if not isinstance(before, list) or not isinstance(values, list):
        return guarded(read, values, column.type)
    text = [isinstance(value, str) for value in before]
    pairs = list(zip(values, text, strict=True))
    texts = guarded(read, [value if is_text else None for value, is_text in pairs], column.type)
    others = [None if is_text else value for value, is_text in pairs]
    return choose(text, texts, guarded(raw.convert, others, column.type))


def guarded(convert: Callable[[Raw, ColumnType], Cast], values: Raw, target: ColumnType) -> Cast:
    """Return a column typed; a value that makes a library raise is bad.

    Whether a value is readable depends on it alone, so a column can be converted in halves.
    Cost: one conversion if no value raises, else about log2(n) for each value that does.
    """
    waiting = [(0, len(values))]
    pieces: list[pa.Array] = []
    bad: list[Rows] = []
    while waiting:
        start, length = waiting.pop()
        try:
            cast = convert(values[start : start + length], target)
        except FAILS:
            if length > 1:
                half = length // 2
                waiting += [(start + half, length - half), (start, half)]
                continue
            cast = Cast(pa.nulls(length, arrow_type(target)), np.arange(length))
        pieces.append(cast.values)
        bad.append(cast.bad + start)
    if len(pieces) == 1:
        return Cast(pieces[0], bad[0])
    return Cast(pa.concat_arrays(pieces), np.concatenate(bad))


def rejects(raw: RawFile, bad: Mapping[int, BadValue]) -> list[Reject]:
    """Return the malformed and the bad rows of a file in the order of their lines."""
    rows = np.array(sorted(bad), np.int64)
    found = [
        _reject(raw, row, bad[row], located)
        for row, located in zip(rows.tolist(), raw.locate(rows), strict=True)
    ]
    return sorted([*raw.malformed, *found], key=lambda reject: reject.line or 0)


def _note(raw: RawFile, value: BadValue, rows: Rows, bad: dict[int, BadValue]) -> None:
    if raw.whole and len(rows) == raw.count >= WRONG_SHAPE_ROWS:
        raise InvalidRequest(
            "every row of the file is unreadable in one column",
            **details(_reject(raw, 0, value, raw.locate(rows[:1])[0])),
            cure=_problem(raw, 0, value).cure,
        )
    for row in rows.tolist():
        bad.setdefault(row, value)


def _reject(raw: RawFile, row: int, value: BadValue, located: Located) -> Reject:
    line, text = located
    column, reason, _ = value
    columns = raw.original if column in raw.original else raw.columns
    shown = raw.shown(columns[column], row) if column in columns else None
    match _problem(raw, row, value):
        case Problem.NOT_UTF8 | Problem.OTHER_ENCODING:
            field = columns[column][row].as_py() or b""
            reason = f"{reason}: {why_no_text(field, raw.encoding)}"
        case Problem.TOO_FINE:
            reason = f"{reason}: {TOO_FINE}"
        case Problem.VARIANT:
            reason = f"{reason}: {VARIANT}"
    if column in raw.called:
        reason = f"{reason} (the source calls the column {clean(raw.called[column][:SHOWN])!r})"
    header = said_header(raw.header, text, raw.encoding)
    header = header if raw.keep is None else raw.keep(raw.columns, row, raw.ids)
    return Reject(raw.file, line, column, shown, reason, text, header)


def _problem(raw: RawFile, row: int, value: BadValue) -> Problem:
    """Return what is wrong with a value, as far as its bytes show it."""
    columns = raw.original if value.column in raw.original else raw.columns
    if value.column not in columns:
        return Problem.OTHER
    values = columns[value.column]
    if raw.header is not None and not _is_text(values, row):
        foreign = raw.encoding != UTF_8 and forbidden(values[row].as_py() or b"") is not None
        return Problem.OTHER_ENCODING if foreign else Problem.NOT_UTF8
    if has_variant(values) and value.reason != NULL:
        return Problem.VARIANT
    return Problem.TOO_FINE if value.of_moment and is_too_fine(values, row) else Problem.OTHER


def _is_text(values: Raw, row: int) -> bool:
    """Return whether a field of CSV is UTF-8."""
    value = values[row].as_py() or b""
    text = value.decode(errors="surrogateescape")
    return clean(text) == text


_NO_NAMES: Final = (
    "; if the first line is a row, name the fields: source.header, or --header of create --infer"
)


def check_columns(
    file: str,
    found: Sequence[str],
    wanted: Sequence[str],
    *,
    optional: Collection[str] = (),
    line: int | None = None,
    by_source: bool = False,
) -> None:
    """Refuse a file that lacks a declared column, has an undeclared one, or has a column twice.

    `optional` are the declared columns that have a default. `line`: of the names, if they are in
    one. `by_source`: the source declares them, and its files have none.

    Raises: InvalidRequest naming file and column.
    """
    where: dict[str, object] = {} if line is None else {"line": line}
    twice = sorted(name for name, count in Counter(found).items() if count > 1)
    folders = _folders(file)
    for name in wanted:
        if name in folders and name not in found:
            raise _only_in_path(file, name, folders[name])
    known, present, all_names = set(wanted), set(found), ",".join(found[:SHOWN])
    lacking = [name for name in wanted if name not in present and name not in optional]
    spare = [name for name in found if name not in known]
    no_names = "" if line is None or present & known else _NO_NAMES
    if by_source:
        where["setting"] = "source.header"
    for problem, names, cure in (
        (
            "the file has a column twice",
            twice,
            f"give every column its own name{'' if line is None else _NO_NAMES}",
        ),
        (
            "the file lacks a declared column",
            lacking,
            "name the field in source.header, or give the column a default"
            if by_source
            else "add the column to the file, or ingest into a shard that does not declare it, or "
            f"that has a default for it{no_names}",
        ),
        (
            "the file has a column that the shard does not declare",
            spare,
            "declare the column: each field of a row is stored"
            if by_source
            else "declare the column, or leave it out of the file",
        ),
    ):
        if names:
            others = spare if names is lacking else [n for n in wanted if n not in present]
            meant = _meant(names[0], others)
            if names is lacking and spare:
                where["undeclared"] = [clean(name[:SHOWN]) for name in spare[:NAMED]]
            raise InvalidRequest(
                problem,
                file=file,
                column=clean(names[0][:SHOWN]),
                value=clean(all_names[: 10 * SHOWN]),
                cure=f"{meant}{cure}",
                **where,
            )


def _is_nowhere(raw: RawFile, name: str, cast: Cast) -> bool:
    """Return whether no row of a file has a column; JSON has no header that says so."""
    lacking = raw.lacking.get(name, ())
    none = cast.values.null_count == raw.count > len(cast.bad)
    return none or (raw.count > 0 and len(lacking) == raw.count and all(lacking))


def _folders(file: str) -> dict[str, str]:
    """Return the folders of a file that say the value of a column, as Hive's partitions do."""
    folders = (folder for folder in file.split("/")[:-1] if "=" in folder)
    return {unquote(folder.partition("=")[0]): folder for folder in folders}


def _only_in_path(file: str, name: str, folder: str) -> InvalidRequest:
    return InvalidRequest(
        "a declared column stands in the path of the file only",
        file=file,
        column=clean(name[:SHOWN]),
        folder=clean(folder[:SHOWN]),
        cure=ONLY_IN_PATH,
    )


def _meant(name: str, others: Sequence[str]) -> str:
    """Return the beginning of a cure: the nearest of the other names, if one is near."""
    near = nearest(name, others)
    return "" if near is None else f"is it the column {clean(near[:SHOWN])!r}? if not: "


def nearest(name: str, others: Sequence[str]) -> str | None:
    """Return the one of the other names that is most like a name; None: none is like it."""
    spelt = {other.lower(): other for other in others}
    near = get_close_matches(name.lower(), spelt, n=1, cutoff=NEAR)
    return spelt[near[0]] if near else None


def named_before(error: InvalidRequest, renamed: Mapping[str, str]) -> InvalidRequest:
    """Return the error of a file whose header has a column by another name than the shard.

    The cure says how the shard takes the name of the file. `renamed`: former names of columns, each
    with the present one.
    """
    column = str(error.details.get("column_of_shard", error.details.get("column")))
    undeclared = error.details.get("undeclared")
    if not isinstance(undeclared, list):
        return error
    former = next((name for name in undeclared if renamed.get(name) == column), None)
    if former is None:
        near = nearest(str(error.details["column"]), undeclared)
        pair = "" if near is None else f"; if it is {near!r}, declare {as_pair(near, column)}"
        return InvalidRequest(error.message, **error.details, cure=f"{error.cure}{pair}")
    return InvalidRequest(
        error.message,
        **error.details,
        cure=f"the shard called this column {former!r} before it was renamed: call it {column!r} "
        f"in {error.details.get('setting', 'the file')}, or declare {as_pair(former, column)}, or "
        "rename the column back with `strata schema rename`",
    )
