"""Changes of a shard's relation: add, drop, rename, widen, sort; each makes a new version.

Stored data is never changed. A part names the version that it was written with, its columns are
named by id, and readers convert it to the newest version. Hence the rules: a change after which
this conversion would fail is refused, with the reason.

    ids       a new column gets `State.next_column_id`, which no column ever had: if a dropped
              name comes back, it is another column
    versions  all are kept; version n is the n-th change, even if its columns are gone

Source: docs/how-to/schema.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import orjson

from strata.errors import Conflict, InvalidRequest
from strata.format.encodings import encoding
from strata.format.values.json_value import why_cut
from strata.format.values.migrate import (
    default_array,
    default_scalar,
    not_wider,
    reads_otherwise,
    widen,
    widens,
)
from strata.model.names import followed
from strata.model.schema import Column, Relation
from strata.model.spec import (
    ANY,
    FORMS_OF,
    ORDERED,
    ColumnSpec,
    ShardSpec,
    SourceSpec,
    check_column_names,
)
from strata.model.types import ColumnType, Kind
from strata.state.state import State
from strata.state.step import step

TIME_KINDS: Final = (  # types of a column that may give the time of an update
    Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ,
    Kind.DATE,
    Kind.INT64,
)


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new value column after the others; existing rows have `default` in it."""

    name: str
    type: ColumnType
    nullable: bool = True
    default: object = None  # a JSON value; None means null
    key: bool = False  # requested as a key column: refused, with the reason

    def __str__(self) -> str:
        """Return the change as the command line writes it."""
        null = "" if self.nullable else " not null"
        default = "" if self.default is None else f" default {self.default!r}"
        return f"add {self.name} {self.type}{null}{default}"


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A value column that readers no longer see; its id is never reused."""

    name: str

    def __str__(self) -> str:
        """Return the change as the command line writes it."""
        return f"drop {self.name}"


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Another name for the same column."""

    name: str
    to: str

    def __str__(self) -> str:
        """Return the change as the command line writes it."""
        return f"rename {self.name} {self.to}"


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A type that holds every value of the present one, or null allowed, or both."""

    name: str
    type: ColumnType | None = None  # None: unchanged
    nullable: bool | None = None  # None: unchanged; True: null is allowed from now on

    def __str__(self) -> str:
        """Return the change as the command line writes it."""
        kind = "" if self.type is None else f" {self.type}"
        return f"widen {self.name}{kind}{' null' if self.nullable else ''}"


@dataclass(frozen=True, slots=True)
class SortBy:
    """Another sort order: these columns first, then the rest of key and value.

    Stored parts keep their order until a merge rewrites them; see `docs/explanation/compaction.md`.
    """

    order: tuple[str, ...]  # names; () is the order of the key

    def __str__(self) -> str:
        """Return the change as the command line writes it."""
        return f"sort {' '.join(self.order)}".rstrip()


Change: TypeAlias = AddColumn | DropColumn | RenameColumn | WidenColumn | SortBy


@dataclass(frozen=True, slots=True)
class Evolved:
    """The result of a change of the relation."""

    relation: Relation
    already: bool  # it was done before this call


def evolve(
    state: State, now_ms: int, *, change: Change, expected_version: int | None = None
) -> tuple[State, Evolved]:
    """Make a new version of the relation, and update the declaration to it.

    `expected_version` is the version that the caller has seen. Repeating the last successful call,
    with the version it expected, succeeds without effect.

    Raises: Conflict when the version differs; InvalidRequest for an impossible change, with the
    reason.
    """
    current = state.relation
    if expected_version is not None and expected_version != current.version:
        if _is_done(state, change, expected_version):
            return state, Evolved(current, already=True)
        raise Conflict(
            "the relation was changed meanwhile",
            shard=state.name,
            expected=expected_version,
            version=current.version,
            cure=f"look at it with `strata schema show {state.name}`, then decide again",
        )
    relation = changed(state.spec, current, change, state.next_column_id)
    following = step(
        state,
        now_ms,
        relations=(*state.relations, relation),
        spec=_declaration(state.spec, relation, change),
        next_column=max(state.next_column_id, relation.highest_id + 1),
    )
    return following, Evolved(relation, already=False)


def changed(spec: ShardSpec, current: Relation, change: Change, next_id: int) -> Relation:
    """Return the next version of a relation; a new column gets the id `next_id`.

    Raises: InvalidRequest for an impossible change, with the reason.
    """
    match change:
        case SortBy():
            return _sorted(spec, current, change)
        case AddColumn():
            columns = _added(spec, current, change, next_id)
        case DropColumn():
            columns = _dropped(spec, current, change)
        case RenameColumn():
            columns = _renamed(spec, current, change)
        case WidenColumn():
            columns = _widened(spec, current, change)
    check_column_names(spec.name, (column.name for column in columns))
    return Relation(current.version + 1, tuple(columns), current.key, current.order)


def check_defaults(shard: str, columns: Sequence[Column]) -> None:
    """Refuse defaults that are not values of their columns, or would lose some of theirs.

    Raises: InvalidRequest.
    """
    for column in columns:
        encoding(column.type)
        if column.default is None:
            continue
        if not _is_json(column.default) or not default_scalar(column).is_valid:
            raise InvalidRequest(
                "a default does not fit its column",
                shard=shard,
                column=column.name,
                type=str(column.type),
                value=column.default,
            )
        cut = why_cut(column.default, column.type)
        if cut is not None:
            raise InvalidRequest(
                "a default would lose some of its value",
                shard=shard,
                column=column.name,
                type=str(column.type),
                reason=cut,
            )


def _is_json(value: object) -> bool:
    """Return whether a state document preserves this value exactly: no NaN, no huge integer."""
    try:
        kept: object = orjson.loads(orjson.dumps(value))
    except TypeError:
        return False
    return kept == value


def _is_done(state: State, change: Change, expected: int) -> bool:
    """Return whether the newest version is the result of `change` on the expected one."""
    before = next((r for r in state.relations if r.version == expected), None)
    if before is None or state.relation.version != expected + 1:
        return False
    try:  # the last added column has the highest id
        return changed(state.spec, before, change, state.relation.highest_id) == state.relation
    except InvalidRequest:
        return False


def _added(spec: ShardSpec, current: Relation, change: AddColumn, next_id: int) -> list[Column]:
    where: dict[str, Any] = {"shard": spec.name, "column": change.name}
    if change.key:
        raise InvalidRequest(
            "a column cannot join the key",
            **where,
            reason="the key orders every run, and rows that are stored have no value for it",
            cure="add it as a value column, or create a new shard and ingest into it",
        )
    if change.name.lower() in {name.lower() for name in current.by_name}:
        raise InvalidRequest(
            "there is a column of this name (case does not count)",
            **where,
            cure="another name; or `strata schema widen` or `rename` for the column there is",
        )
    if not change.nullable and change.default is None:
        raise InvalidRequest(
            "a column that may not be null needs a default",
            **where,
            reason="rows that are stored have no value for it",
            cure="give a default, or allow null",
        )
    _check_source(spec, change.name, change.type)
    column = Column(next_id, change.name, change.type, change.nullable, change.default)
    check_defaults(spec.name, [column])
    return [*current.columns, column]


def _check_source(spec: ShardSpec, name: str, kind: ColumnType, former: str = "") -> None:
    """Refuse a column name that has another meaning in the source; `former`: what it replaces."""
    where: dict[str, Any] = {"shard": spec.name, "column": name}
    if spec.source.envelope == "diff" and name == spec.source.diff_column:
        raise InvalidRequest("the diff column of the source cannot be stored", **where)
    called = spec.source.names_of_source
    other = next((column for column, one in called.items() if one == name), None)
    if other is not None and name not in called and former not in called:
        raise InvalidRequest(
            "the source's column of this name is read as another one",
            **where,
            other=other,
            cure="another name; or say in source.names what the source calls either, by apply",
        )
    if spec.time.column == name and kind.kind not in TIME_KINDS:
        raise InvalidRequest(
            "the source's time is read from this name",
            **where,
            type=str(kind),
            cure=f"another name, or one of the types {', '.join(TIME_KINDS)}",
        )


def _dropped(spec: ShardSpec, current: Relation, change: DropColumn) -> list[Column]:
    column = current.column(change.name)
    where: dict[str, Any] = {"shard": spec.name, "column": column.name}
    if len(current.columns) == 1:
        raise InvalidRequest("the only column cannot be dropped", **where)
    if column.id in current.key:
        raise InvalidRequest(
            "a key column cannot be dropped",
            **where,
            reason="rows of different keys would become one; where no key is declared, every "
            "column is in it",
            cure="create a shard with another key and ingest into it",
        )
    if column.id in current.order:
        raise InvalidRequest(
            "a column of the declared order cannot be dropped",
            **where,
            reason="every run is sorted by it first",
            cure=f"`strata schema sort {spec.name}` by other columns first",
        )
    return [c for c in current.columns if c.id != column.id]


def _renamed(spec: ShardSpec, current: Relation, change: RenameColumn) -> list[Column]:
    column = current.column(change.name)
    where: dict[str, Any] = {"shard": spec.name, "column": column.name, "to": change.to}
    if change.to == column.name:
        raise InvalidRequest("the column has this name already", **where)
    if change.to.lower() in {c.name.lower() for c in current.columns if c.id != column.id}:
        raise InvalidRequest("there is a column of this name (case does not count)", **where)
    _check_source(spec, change.to, column.type, column.name)
    return [_with(c, column, name=change.to) for c in current.columns]


def _widened(spec: ShardSpec, current: Relation, change: WidenColumn) -> list[Column]:
    column = current.column(change.name)
    kind = column.type if change.type is None else change.type
    nullable = column.nullable if change.nullable is None else change.nullable
    where: dict[str, Any] = {"shard": spec.name, "column": column.name}
    if (kind, nullable) == (column.type, column.nullable):
        raise InvalidRequest("this would change nothing", **where, type=str(kind))
    if column.nullable and not nullable:
        raise InvalidRequest(
            "a column that may be null cannot forbid it",
            **where,
            reason="stored rows may hold null",
        )
    if not widens(column.type, kind):
        raise InvalidRequest(
            "this is no wider type",
            **where,
            type=str(column.type),
            to=str(kind),
            reason=not_wider(column.type, kind),
            cure="add a column of the new type and drop this one",
        )
    reason = reads_otherwise(column.type, kind)
    if reason is not None and column.id in met_by_value(spec, current):
        raise InvalidRequest(
            "rows of this shard are retracted by value, and would not be met any more",
            **where,
            type=str(column.type),
            to=str(kind),
            reason=reason,
            cure=f"add a column of type {kind} beside it, or create a shard and ingest into it",
        )
    wide = [_with(c, column, type=kind, nullable=nullable) for c in current.columns]
    check_defaults(spec.name, wide)
    _check_default_stays(spec.name, column, replace(column, type=kind))
    return wide


def _check_default_stays(shard: str, old: Column, new: Column) -> None:
    """Refuse a wider type in which the default is another value than rows with it hold.

    Parts that lack the column would show the one, those that were written with it the other.
    """
    held, read = widen(default_array(old, 1), new).to_pylist(), default_array(new, 1).to_pylist()
    if repr(held) != repr(read):  # NaN is not equal to itself
        raise InvalidRequest(
            "the default of this column would be another value in the wider type",
            shard=shard,
            column=old.name,
            type=str(old.type),
            to=str(new.type),
            default=old.default,
            reason=f"rows that have it hold {held[0]!r}, and others would get {read[0]!r}",
            cure=f"add a column of type {new.type} beside it and drop this one",
        )


def met_by_value(spec: ShardSpec, relation: Relation) -> frozenset[int]:
    """Return the ids of the columns whose values match ingested rows with stored ones.

    A source with diffs retracts a row by all its values; a change stream finds a row by its key; a
    source that only appends matches no row.
    """
    if spec.source.envelope == "diff":
        return frozenset(relation.by_id)
    return frozenset(relation.key) if spec.source.envelope in ORDERED else frozenset()


def _sorted(spec: ShardSpec, current: Relation, change: SortBy) -> Relation:
    if len(set(change.order)) != len(change.order):
        raise InvalidRequest("a column is named twice", shard=spec.name, order=change.order)
    new = replace(
        current,
        version=current.version + 1,
        order=tuple(current.column(name).id for name in change.order),
    )
    if new.sort_ids == current.sort_ids:
        raise InvalidRequest("the shard is sorted so already", shard=spec.name, order=change.order)
    return new


def _with(column: Column, chosen: Column, **changes: Any) -> Column:
    return replace(column, **changes) if column.id == chosen.id else column


def _declaration(spec: ShardSpec, relation: Relation, change: Change) -> ShardSpec:
    """Return the declaration of today; settings that name a column follow its new name."""
    names = {column.id: column.name for column in relation.columns}
    new = replace(
        spec,
        columns=tuple(ColumnSpec(c.name, c.type, c.nullable, c.default) for c in relation.columns),
        key=tuple(names[i] for i in relation.key),
        order=tuple(names[i] for i in relation.order),
    )
    former = change.name if isinstance(change, RenameColumn) else None
    new = replace(new, source=_with_forms(new, former, getattr(change, "to", "")))
    if not isinstance(change, RenameColumn):
        return new
    time, stats = new.time, new.stats
    if time.column == change.name:
        time = replace(time, column=change.to)
    keep = tuple(change.to if pattern == change.name else pattern for pattern in stats.keep)
    return replace(new, time=time, stats=replace(stats, keep=keep))


def _with_forms(spec: ShardSpec, former: str | None, name: str) -> SourceSpec:
    """Return the source; its names and forms follow a column's name, wider type, and end."""
    kinds = {column.name: column.type.kind for column in spec.columns}
    found: dict[str, list[tuple[str, ...]]] = {setting: [] for setting in FORMS_OF.values()}
    for setting in found:
        for column, form in getattr(spec.source, setting):
            now = name if column == former else column
            where = setting if now == ANY else FORMS_OF.get(kinds.get(now, Kind.BOOL))
            if where is not None:
                found[where].append((now, form))
    dates, timestamps = (tuple(found[name]) for name in ("dates", "timestamps"))
    pairs = followed(spec.source.names, kinds, former, name)
    header = spec.source.header  # its fields have no other names that they could keep
    if former not in spec.source.names_of_source and name not in header:
        header = tuple(name if field == former else field for field in header)
    return replace(spec.source, dates=dates, timestamps=timestamps, names=pairs, header=header)
