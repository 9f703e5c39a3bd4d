"""Give an existing shard another declaration: what may change, what follows, and what may not.

`compared_with` has a line for each setting, and `redeclare` makes the change as one transition. The
rules are in `RULES`: a setting without a rule cannot exist, because a test compares them with the
fields of a declaration. What is stored is never rewritten here. Where stored parts differ from what
is declared now, the line says by which command they follow.

Source: docs/how-to/declare.md.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from shlex import quote
from typing import Any, Final

from strata.errors import Conflict, InvalidRequest
from strata.model.schema import Relation
from strata.model.spec import FORMS_OF, ORDERED, ColumnSpec, ShardSpec, forms_in_file
from strata.state.schema import AddColumn, Change, DropColumn, SortBy, WidenColumn, changed
from strata.state.state import State
from strata.state.step import step


class Effect(StrEnum):
    """What becomes of a setting."""

    KEPT = "kept"
    AT_ONCE = "changes at once"
    FOLLOWED = "changes at once; stored parts follow"
    REFUSED = "may not change"


class Follow(StrEnum):
    """How stored parts follow a declaration."""

    MIGRATE = "migrate"  # rewritten by a merge
    COLLECT = "collect"  # read again for statistics: a backfill
    ADD = "add"  # read for the statistics that they lack: a backfill
    TRIM = "trim"  # only manifests are rewritten
    MERGE = "merge"  # everything becomes one run; no change of a declaration asks for it


@dataclass(frozen=True, slots=True)
class Rule:
    """What a change of one setting means."""

    effect: Effect
    note: str = ""
    cure: str = ""  # of what is refused; {0} is the shard


@dataclass(frozen=True, slots=True)
class Line:
    """One setting of a declaration, as it is and as it shall be. Values are as in the YAML file."""

    setting: str
    before: object
    after: object
    effect: Effect
    note: str = ""
    cure: str = ""
    change: Change | None = None  # of the relation
    follow: Follow | None = None

    @property
    def differs(self) -> bool:
        """Return whether the setting changes, or is refused to."""
        return self.effect != Effect.KEPT


@dataclass(frozen=True, slots=True)
class Comparison:
    """A declaration compared with a shard, and what the shard becomes if nothing is refused."""

    lines: tuple[Line, ...]
    spec: ShardSpec
    relations: tuple[Relation, ...]
    next_column: int

    @property
    def differences(self) -> tuple[Line, ...]:
        """Return the lines of settings that change."""
        return tuple(line for line in self.lines if line.differs)

    @property
    def refused(self) -> tuple[Line, ...]:
        """Return the lines that forbid the whole change."""
        return tuple(line for line in self.lines if line.effect == Effect.REFUSED)


_NEXT: Final = Rule(Effect.AT_ONCE, "from the next ingest on")
_NEW_PARTS: Final = Rule(
    Effect.AT_ONCE, "of new parts; a stored part keeps its size until a merge rewrites it"
)
_LADDER: Final = Rule(
    Effect.REFUSED,
    "it says where a shard begins, and this one has begun; only an approved request leads higher",
    "leave it as it was declared; `strata rollout request {0}` asks for a step",
)
RULES: Final[Mapping[str, Rule]] = {
    "name": Rule(Effect.REFUSED, "a shard has its name for ever", "create a shard of that name"),
    "columns": Rule(Effect.AT_ONCE, "each by its own rule"),  # `_columns`
    "key": Rule(
        Effect.REFUSED,
        "it decides which rows are one, and stored rows were sorted and merged by it",
        "create a shard with this key under another name, and ingest into it",
    ),
    "order": Rule(Effect.FOLLOWED, "new parts are sorted so; reads and merges sort the others"),
    **{f"source.{name}": _NEXT for name in (
        "paths", "format", "envelope", "diff_column", "max_rejected", "same_content", "late_files",
        "deleted_column", "contradictions", "snapshots", "tables", "schema_changes", "delimiter",
        "nulls", "dates", "timestamps", "verify", "names", "in_place", "encoding", "decimal",
        "thousands", "header", "escape", "skip_blanks",
    )},
    **{f"time.{name}": Rule(Effect.AT_ONCE, "from the next ingest on; stored updates keep their "
                            "times") for name in ("from", "column", "late", "early")},
    "write_format": Rule(Effect.FOLLOWED, "new parts are written so; readers take any"),
    "read_format": Rule(Effect.AT_ONCE, "from the next read on"),
    "part_bytes": _NEW_PARTS,
    "row_group_bytes": _NEW_PARTS,
    "stats.budget_bytes": Rule(
        Effect.FOLLOWED, "evidence for skipping begins anew, and until a step is approved again "
        "the mode is at most soft",
    ),
    **{f"stats.{name}": Rule(Effect.FOLLOWED, "new parts have them")
       for name in ("keep", "sets", "blooms", "pairs")},
    "stats.bloom_bits": Rule(Effect.AT_ONCE, "of new bloom filters; stored ones stay, and hold"),
    "rollout.mode": _LADDER,
    "rollout.audit_percent": _LADDER,
    **{f"about.{name}": Rule(Effect.AT_ONCE, "shown by `strata catalog`; nothing else changes")
       for name in ("owner", "description", "tags")},
    **{f"sums.{name}": Rule(Effect.REFUSED, "stored rows were added up so", "sums in a new shard")
       for name in ("of", "sum", "min", "max", "where")},
}  # fmt: skip
_CALLED: Final = {"time.origin": "time.from"}
_IN_FILE: Final[Mapping[str, Callable[[Any], object]]] = {
    **{f"source.{name}": forms_in_file for name in FORMS_OF.values()},
    "source.names": dict,
}


def compared_with(state: State, asked: ShardSpec) -> Comparison:
    """Return what becomes of each setting if the shard gets the declaration `asked`."""
    lines: list[Line] = []
    here = replace(state.spec.source, names=asked.source.names)  # new columns may be named in it
    moving = _Moving(replace(state.spec, source=here), state.relation, state.next_column_id)
    before, after = settings_of(state.spec), settings_of(asked)
    for name, value in before.items():
        if name == "columns":
            lines += _columns(moving, asked)
            continue
        if name == "order":
            lines.append(_order(moving, state, asked))
            lines += _drops(moving, asked)
            continue
        lines.append(_setting(name, value, after[name], state, asked))
    spec = replace(asked, columns=moving.spec.columns, key=moving.spec.key, order=moving.spec.order)
    return Comparison(tuple(lines), spec, moving.relations, moving.next_column)


def redeclare(
    state: State, now_ms: int, *, asked: ShardSpec, seen: ShardSpec
) -> tuple[State, Comparison]:
    """Give the shard the declaration `asked`; `seen` is the one that the caller compared it with.

    A repetition changes nothing and succeeds.
    Raises: InvalidRequest when a difference may not be; Conflict when the declaration was changed
    meanwhile.
    """
    found = compared_with(state, asked)
    if not found.differences:
        return state, found
    if state.spec != seen:
        raise Conflict(
            "the declaration was changed meanwhile",
            shard=state.name,
            cure="look at the plan again, then decide",
        )
    check_allowed(state.name, found.refused)
    if found.relations:
        return step(
            state,
            now_ms,
            spec=found.spec,
            relations=(*state.relations, *found.relations),
            next_column=found.next_column,
        ), found
    return step(state, now_ms, spec=found.spec), found


def check_allowed(shard: str, refused: Sequence[Line]) -> None:
    """Refuse a change that has a refused line. Raises: InvalidRequest."""
    if refused:
        first = refused[0]
        raise InvalidRequest(
            "the declaration cannot become this one",
            shard=shard,
            setting=first.setting,
            before=first.before,
            value=first.after,
            reason=first.note,
            refused=[line.setting for line in refused],
            cure=first.cure,
        )


def settings_of(spec: ShardSpec) -> dict[str, Any]:
    """Return the settings of a declaration by name, as in `stats.keep`, with JSON values."""
    found: dict[str, Any] = {}
    for field in fields(ShardSpec):
        value = getattr(spec, field.name)
        if not is_dataclass(value):
            found[field.name] = _plain(value)
            continue
        for inner in fields(value):
            name = f"{field.name}.{inner.name}"
            plain = _plain(getattr(value, inner.name))
            found[_CALLED.get(name, name)] = _IN_FILE.get(name, _as_is)(plain)
    return found


def _as_is(value: Any) -> object:
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_column_words(v) if isinstance(v, ColumnSpec) else _plain(v) for v in value]
    return value


def _column_words(column: ColumnSpec | None) -> str | None:
    """Return a column in words, as the commands of a schema write it."""
    if column is None:
        return None
    null = "" if column.nullable else " not null"
    default = "" if column.default is None else f" default {column.default!r}"
    return f"{column.type}{null}{default}"


def _setting(name: str, before: object, after: object, state: State, asked: ShardSpec) -> Line:
    """Return the line of a setting that is not about columns."""
    if before == after:
        return Line(name, before, after, Effect.KEPT)
    rule = RULES[name]
    if name == "source.envelope" and (why := _other_envelope(state, asked)):
        cure = f"create a shard with envelope {after} under another name, and ingest into it"
        return Line(name, before, after, Effect.REFUSED, why, cure)
    if name == "key" and _grown_whole_key(state, asked):
        cure = f"declare key: [{', '.join(state.spec.key)}], so that a new column is no part of it"
        return Line(name, before, after, Effect.REFUSED, rule.note, cure)
    follow = _follow(name, before, after) if rule.effect == Effect.FOLLOWED else None
    stored = any(batch.manifest for batch in state.batches)
    effect = rule.effect
    if effect == Effect.FOLLOWED and (follow is None or not stored):
        effect, follow = Effect.AT_ONCE, None
    cure = rule.cure.format(state.name)
    return Line(name, before, after, effect, rule.note, cure, follow=follow)


def _grown_whole_key(state: State, asked: ShardSpec) -> bool:
    """Return whether the key differs only because none is declared and there is a new column."""
    whole = asked.key == tuple(column.name for column in asked.columns)
    return whole and set(state.spec.key) < set(asked.key)


def _other_envelope(state: State, asked: ShardSpec) -> str:
    """Return why the rows of a shard forbid another envelope; empty if they do not."""
    if not {state.spec.source.envelope, asked.source.envelope}.intersection(ORDERED):
        return ""  # both add rows, and no row replaces another
    if not any(batch.updates for batch in state.batches):
        return ""
    return (
        "under upsert and debezium a key stands at most once, under the others any number of "
        "times; the rows that are stored were taken in by one of the two"
    )


def _follow(name: str, before: Any, after: Any) -> Follow | None:
    """Return how stored parts follow another value; None if they need not."""
    if name == "write_format":
        return Follow.MIGRATE
    if name == "stats.budget_bytes":
        return Follow.COLLECT if after > before else Follow.TRIM
    if all(one in before for one in after):
        return None  # less is wanted than there is
    return Follow.COLLECT if name == "stats.keep" else Follow.ADD


@dataclass
class _Moving:
    """A relation on its way to what is declared, change by change."""

    spec: ShardSpec
    relation: Relation
    next_column: int
    relations: tuple[Relation, ...] = ()  # the new versions

    def line(self, setting: str, before: object, after: object, change: Change) -> Line:
        """Return the line of a change, and make it; or the line of its refusal."""
        try:
            relation = changed(self.spec, self.relation, change, self.next_column)
        except InvalidRequest as error:
            reason = error.details.get("reason")
            why = f"{error.message}: {reason}" if reason else error.message
            return Line(setting, before, after, Effect.REFUSED, why, error.cure or "")
        self.relation, self.relations = relation, (*self.relations, relation)
        self.next_column = max(self.next_column, relation.highest_id + 1)
        names = {column.id: column.name for column in relation.columns}
        self.spec = replace(
            self.spec,
            columns=tuple(
                ColumnSpec(c.name, c.type, c.nullable, c.default) for c in relation.columns
            ),
            key=tuple(names[i] for i in relation.key),
            order=tuple(names[i] for i in relation.order),
        )
        return Line(setting, before, after, Effect.AT_ONCE, _NOTES[type(change)], change=change)


_NOTES: Final[Mapping[type, str]] = {
    AddColumn: "rows that are stored have its default, or null",
    DropColumn: "readers no longer see it, and compaction leaves it out",
    WidenColumn: "stored values are read in the wider type",
    SortBy: RULES["order"].note,
}


def _columns(moving: _Moving, asked: ShardSpec) -> Iterator[Line]:
    """Yield the lines of columns that stay, become wider, or are new."""
    here = {column.name: column for column in moving.spec.columns}
    gone = [column for name, column in here.items() if name not in _names(asked)]
    for wanted in asked.columns:
        name, there = f"columns.{wanted.name}", here.get(wanted.name)
        before, after = _column_words(there), _column_words(wanted)
        if there is None:
            twins = [column.name for column in gone if column.type == wanted.type]
            if twins:
                yield _renamed(asked.name, twins[0], wanted)
                continue
            yield moving.line(
                name,
                None,
                after,
                AddColumn(wanted.name, wanted.type, wanted.nullable, wanted.default),
            )
        elif there == wanted:
            yield Line(name, before, after, Effect.KEPT)
        elif there.default != wanted.default:
            yield Line(
                name,
                before,
                after,
                Effect.REFUSED,
                "stored parts that lack the column would show another value than before",
                "leave its default as it was declared",
            )
        else:
            kind = None if there.type == wanted.type else wanted.type
            null = None if there.nullable == wanted.nullable else wanted.nullable
            yield moving.line(name, before, after, WidenColumn(wanted.name, kind, null))


def _renamed(shard: str, old: str, new: ColumnSpec) -> Line:
    """Return the line of a column that may be another one under a new name."""
    return Line(
        f"columns.{new.name}",
        None,
        _column_words(new),
        Effect.REFUSED,
        f"{old} of the same type is declared no longer: a renamed column keeps its values, a new "
        "one has none",
        f"`strata schema rename {shard} {quote(old)} {quote(new.name)}`, or, if it is another "
        f"column, `strata schema drop {shard} {quote(old)}`; then apply again",
    )


def _drops(moving: _Moving, asked: ShardSpec) -> Iterator[Line]:
    """Yield the lines of columns that go; a column of the old order can go by now."""
    here = {column.name: column for column in moving.spec.columns}
    new = [c.type for c in asked.columns if c.name not in here]  # refused: perhaps renamed
    for name, column in here.items():
        if name not in _names(asked) and column.type not in new:
            yield moving.line(f"columns.{name}", _column_words(column), None, DropColumn(name))


def _order(moving: _Moving, state: State, asked: ShardSpec) -> Line:
    before, after = list(state.spec.order), list(asked.order)
    if before == after:
        return Line("order", before, after, Effect.KEPT)
    if not set(after) <= set(moving.relation.by_name):
        missing = next(name for name in after if name not in moving.relation.by_name)
        why = f"the shard has no column {missing} yet, because that is refused too"
        return Line("order", before, after, Effect.REFUSED, why, "cure that first")
    if _sorts_alike(moving.relation, after):
        return Line("order", before, after, Effect.KEPT, "it is the same sort order")
    line = moving.line("order", before, after, SortBy(tuple(after)))
    if line.change is not None and any(batch.manifest for batch in state.batches):
        return replace(line, effect=Effect.FOLLOWED, follow=Follow.MIGRATE)
    return line


def _sorts_alike(relation: Relation, order: Sequence[str]) -> bool:
    ids = tuple(relation.by_name[name].id for name in order)
    return replace(relation, order=ids).sort_ids == relation.sort_ids


def _names(spec: ShardSpec) -> frozenset[str]:
    return frozenset(column.name for column in spec.columns)
