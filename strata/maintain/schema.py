"""Show and change a shard's relation: its columns, its history, and the effect of a change.

The rules of change are in `strata.state.schema`; this module tries, commits and reports changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from strata.config.filters import RegisteredFilter, uses_column
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.journals import check_not_journal
from strata.model.schema import Column, Relation
from strata.state.schema import Change, DropColumn, Evolved, RenameColumn, evolve
from strata.state.state import State


@dataclass(frozen=True, slots=True)
class Evolution:
    """The effect of a change on a shard, done or only tried."""

    shard: str
    change: str
    version_before: int
    evolved: Evolved
    dry_run: bool
    filters: tuple[str, ...]  # registered filters with a column name that the change removes
    parts_older: int  # parts of older versions: readers convert them, compaction rewrites them

    def to_json(self) -> dict[str, Any]:
        """Return the document of `strata schema add|drop|rename|widen|sort --json`."""
        relation = self.evolved.relation
        return {
            "shard": self.shard,
            "change": self.change,
            "version_before": self.version_before,
            "version": relation.version,
            "already": self.evolved.already,
            "dry_run": self.dry_run,
            "filters": list(self.filters),
            "parts_older": self.parts_older,
            "columns": columns(relation),
            "order": sort_order(relation),
        }


def change_schema(  # noqa: PLR0913  the choices of one request
    machine: Machine,
    name: str,
    change: Change,
    *,
    expected_version: int | None = None,
    dry_run: bool = False,
    filters: Sequence[RegisteredFilter] = (),
    force: bool = False,
) -> Evolution:
    """Make a change, or only try it with `dry_run`, and return its effect.

    `filters` are the shard's registered filters: a drop or a rename that takes a column from one of
    them is refused unless `force`.

    Raises: as `strata.state.schema.evolve`; InvalidRequest for filters that would break.
    """
    check_not_journal(name)
    before = machine.load(name)
    _, tried = evolve(
        before, before.walltime_ms, change=change, expected_version=expected_version
    )  # the change's own reasons for a refusal come first
    broken = () if tried.already else _broken(change, filters)
    if broken and not (force or dry_run):
        raise InvalidRequest(
            "registered filters use this column",
            shard=name,
            change=str(change),
            filters=list(broken),
            cure="change or remove them first, or --force: they fail until then",
        )
    done = tried
    if not dry_run:
        # The version seen above, so that a change in between is noticed.
        seen = before.relation.version if expected_version is None else expected_version
        done = machine.apply(name, partial(evolve, change=change, expected_version=seen))
    return Evolution(
        name,
        str(change),
        done.relation.version - 1,
        done,
        dry_run,
        broken,
        _older(before, done.relation.version),
    )


def describe_schema(state: State) -> dict[str, Any]:
    """Return the document of `strata schema show`.

    Columns have the key `source` if the source calls any of them otherwise.
    """
    called = state.spec.source.names_of_source
    counts = {r.version: 0 for r in state.relations}
    for batch in state.batches:
        for version in batch.versions if batch.manifest else ():
            counts[version] = counts.get(version, 0) + batch.parts
    gone = {c.id: c for r in state.relations for c in r.columns if c.id not in state.relation.by_id}
    return {
        "shard": state.name,
        "version": state.relation.version,
        "next_column": state.next_column_id,
        "columns": [
            one | ({"source": called.get(one["name"], one["name"])} if called else {})
            for one in columns(state.relation)
        ],
        "order": sort_order(state.relation),
        "dropped": [_column(column, state.relation) for _, column in sorted(gone.items())],
        "versions": [
            {"version": r.version, "parts": counts[r.version], "changes": changes}
            for r, changes in zip(state.relations, _history(state.relations), strict=True)
        ],
    }


def columns(relation: Relation) -> list[dict[str, Any]]:
    """Return the columns of a relation, in declared order."""
    return [_column(column, relation) for column in relation.columns]


def sort_order(relation: Relation) -> list[str]:
    """Return the names of the sort columns of runs, before t."""
    return [relation.by_id[i].name for i in relation.sort_ids]


def difference(old: Relation, new: Relation) -> list[str]:
    """Return the changes of a version as text for people."""
    changes = [f"dropped {c.name} (id {i})" for i, c in old.by_id.items() if i not in new.by_id]
    for column in new.columns:
        before = old.by_id.get(column.id)
        if before is None:
            default = "null" if column.default is None else repr(column.default)
            changes.append(f"added {column.name} {column.type} (id {column.id}, default {default})")
            continue
        if before.name != column.name:
            changes.append(f"renamed {before.name} to {column.name}")
        if before.type != column.type:
            changes.append(f"widened {column.name} from {before.type} to {column.type}")
        if before.nullable != column.nullable:
            changes.append(f"{column.name} may be null")
    if old.order != new.order:
        changes.append(f"sorted by {', '.join(new.by_id[i].name for i in new.sort_ids)}")
    return changes


def _history(relations: Sequence[Relation]) -> list[list[str]]:
    return [["declared"], *(difference(old, new) for old, new in pairwise(relations))]


def _column(column: Column, relation: Relation) -> dict[str, Any]:
    if column.id not in relation.by_id:
        role = "dropped"
    else:
        role = "key" if column.id in relation.key else "value"
    return {
        "id": column.id,
        "name": column.name,
        "type": str(column.type),
        "nullable": column.nullable,
        "default": column.default,
        "role": role,
    }


def _broken(change: Change, filters: Sequence[RegisteredFilter]) -> tuple[str, ...]:
    if not isinstance(change, DropColumn | RenameColumn):
        return ()
    if isinstance(change, RenameColumn) and change.to.lower() == change.name.lower():
        return ()
    return tuple(f.name for f in filters if uses_column(f, change.name))


def _older(state: State, version: int) -> int:
    """Return the number of parts in batches that are not entirely of this version."""
    return sum(b.parts for b in state.batches if b.manifest and b.versions != (version,))
