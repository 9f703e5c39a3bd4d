"""What a filter skips of a shard and why, and what keeps the rest: `strata explain`.

The levels of a read are gone through in its order: batches by the union of their statistics, then
parts by their own, then the row groups of what is left. The verdicts are those of `plan_read`
with pushdown on; the reasons come from the same evaluation (`strata.prune.explain`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.filter import Filter
from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.groups import group_stats, wants_groups
from strata.plan import (
    batch_stats,
    load_manifest,
    may_matter,
    part_stats,
    plan_read,
    readable_batches,
    resolve_as_of,
)
from strata.prune import Outlook, Reason, decide, explain, needed_columns, outlook, reasons
from strata.prune.causes import Cause
from strata.state.state import Batch, State
from strata.stats.absent import fill_absent
from strata.store.open import Stores

REASONS_MAX: Final = 2_000  # parts whose reason is worked out where nobody asked for each: seconds
_QUARANTINED: Final = Reason(
    keep=True, cause=Cause.QUARANTINE, expression="", text="kept: this part is in quarantine",
    help="see what the mismatch was with `strata validate`, then approve again",
)  # fmt: skip
_BY_KEY: Final = "by the keys at which they begin"
_ALONE: Final = "the part is one row group"
_TELL: Final = "--parts works out the reason of each"
_UNTOLD: Final = {
    True: Reason(keep=True, cause=Cause.OVERLAP, expression="", text="kept", help=_TELL),
    False: Reason(keep=False, cause=Cause.PROVEN, expression="", text="skipped", help=_TELL),
}


@dataclass(frozen=True, slots=True)
class Level:
    """How much of one level is left."""

    name: str  # batches | parts | row groups
    total: int
    kept: int


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that are kept, or skipped, for the same reason."""

    cause: str
    expression: str
    help: str
    parts: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RowGroups:
    """What keys tell of the row groups of one kept part."""

    total: int
    kept: int
    because: str  # by key; or why keys tell nothing of this part
    text: str = ""  # what skips the first that is skipped, what keeps the first that is kept

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "total": self.total, "kept": self.kept, "because": self.because, "reason": self.text
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Explained:
    """One part, why it is kept or skipped, and at which level."""

    ref: PartRef
    level: str  # batch: the union of its batch skips it; part
    reason: Reason
    groups: RowGroups | None = None  # of a part that is kept


@dataclass(frozen=True)
class Explanation:
    """What a filter skips and why."""

    shard: str
    as_of: int
    filter: Filter
    outlook: Outlook
    levels: tuple[Level, ...]
    stopped: tuple[Group, ...]  # kept, the most bytes first
    proved: tuple[Group, ...]  # skipped, the most bytes first
    parts: tuple[Explained, ...]

    def document(self, *, parts: bool = False) -> dict[str, Any]:
        """Return it as JSON: the summary first, each part on request."""
        kept = [p.ref.size_bytes for p in self.parts if p.reason.keep]
        found: dict[str, Any] = {
            "shard": self.shard,
            "as_of": self.as_of,
            "filter": self.filter.sql,
            "parts_total": len(self.parts),
            "parts_kept": len(kept),
            "bytes_total": sum(p.ref.size_bytes for p in self.parts),
            "bytes_kept": sum(kept),
            "levels": [
                {"level": level.name, "total": level.total, "kept": level.kept}
                for level in self.levels
            ],
            "row_groups": _inside(self.parts),
            "kept_because": [_shown(group) for group in self.stopped],
            "skipped_because": [_shown(group) for group in self.proved],
            "static": self.outlook.document(),
        }
        if parts:
            found["parts"] = [_part(part) for part in self.parts]
        return found


def explain_filter(
    stores: Stores,
    state: State,
    filter: Filter,
    as_of: int | None = None,
    *,
    every_part: bool = True,
) -> Explanation:
    """Return what a filter skips of a shard and why, whatever the shard's mode.

    `every_part` False works out the reason of no more than `REASONS_MAX` kept parts; the others
    are counted without one.
    Raises: as `plan_read`. Cost: every manifest, twice; about a millisecond for each reason.
    """
    at = resolve_as_of(state, as_of)
    batches = [] if at is None else readable_batches(state, at)
    left = None if every_part else REASONS_MAX
    parts: list[Explained] = []
    kept_batches = 0
    for batch in batches:
        assert at is not None
        found = _batch(stores, state, batch, filter, at, left)
        kept_batches += any(part.level == "part" for part in found)
        parts += found
        if left is not None:
            left = max(0, left - len(found))
    kept = [part.ref for part in parts if part.reason.keep]
    # Which row groups of a kept part are read is the planner's business.
    read = {} if at is None else plan_read(stores, state, as_of=at, filter=filter, mode="on").groups
    groups = [len(read[ref.key]) if ref.key in read else len(ref.splits) for ref in kept]
    levels = (
        Level("batches", len(batches), kept_batches),
        Level("parts", len(parts), len(kept)),
        Level("row groups", sum(len(part.ref.splits) for part in parts), sum(groups)),
    )
    return Explanation(
        state.name, state.upper - 1 if at is None else at, filter,
        outlook(filter, state.rollout.quarantine), levels,
        _grouped(p for p in parts if p.reason.keep),
        _grouped(p for p in parts if not p.reason.keep), tuple(parts),
    )  # fmt: skip


def _batch(
    stores: Stores, state: State, batch: Batch, filter: Filter, at: int, left: int | None
) -> list[Explained]:
    """Return the parts of one batch and why each is kept or skipped."""
    columns = {*SCHEMA.names, *needed_columns(filter)}
    manifest = load_manifest(stores, state, batch, columns)
    manifest = manifest.filter(pc.less_equal(manifest["t_low"], at))
    refs, quarantine = part_refs(manifest), state.rollout.quarantine
    if not may_matter(state, batch, filter):
        reason = _of_union(state, batch, filter)
        return [Explained(ref, "batch", reason) for ref in refs if ref.key not in quarantine] + [
            Explained(ref, "part", _QUARANTINED) for ref in refs if ref.key in quarantine
        ]
    stats = part_stats(state, manifest, filter)
    keep = decide(filter, stats, state.relation, quarantine=quarantine).keep
    rows = _chosen(np.asarray(keep, bool), left)
    told = dict(zip(rows, _reasons(state, manifest, stats, filter, rows), strict=True))
    plain = [row for row in rows if keep[row] and refs[row].key not in quarantine]
    inside = _row_groups(state, manifest, stats, filter, plain)
    found = []
    for row, ref in enumerate(refs):
        reason = told.get(row, _UNTOLD[bool(keep[row])])
        reason = _QUARANTINED if ref.key in quarantine else reason
        found.append(Explained(ref, "part", reason, inside.get(row)))
    return found


def _row_groups(
    state: State, manifest: pa.Table, stats: pa.Table, filter: Filter, rows: Sequence[int]
) -> dict[int, RowGroups]:
    """Return what keys tell of the row groups of some kept parts, by their row.

    Cost: two reasons a part of several row groups.
    """
    relation, quarantine = state.relation, state.rollout.quarantine
    counts = pc.list_value_length(manifest["splits"]).to_pylist()
    first = relation.by_id[relation.sort_ids[0]].name
    if wants_groups(filter, relation):
        because = f"keys of an order or types that begin otherwise, or no statistics of {first}"
    else:
        because = f"the filter does not look at {first}, by which rows are sorted"
    told = {
        row: RowGroups(counts[row], counts[row], because if counts[row] > 1 else _ALONE)
        for row in rows
    }
    chosen = np.array([row for row in rows if counts[row] > 1], np.int64)
    some = manifest.take(pa.array(chosen)), stats.take(pa.array(chosen))
    found = None
    if len(chosen) and wants_groups(filter, relation):
        found = group_stats(*some, state.relations)
    if found is None:
        return told
    keep = decide(filter, found.stats, relation, quarantine=quarantine).keep
    for index, part in enumerate(found.parts):
        kept = keep[found.owner == index]
        start = int(np.searchsorted(found.owner, index))
        firsts = [start + int(np.argmax(flags)) for flags in (~kept, kept) if flags.any()]
        texts = explain(filter, found.stats, relation, firsts, quarantine=quarantine)
        row = int(chosen[part])
        told[row] = RowGroups(len(kept), int(kept.sum()), _BY_KEY, "; ".join(texts))
    return told


def _inside(parts: Sequence[Explained]) -> list[dict[str, Any]]:
    """Return the row groups of kept parts by what keys tell of them, most first."""
    found: dict[str, list[int]] = {}
    for groups in (part.groups for part in parts if part.groups is not None):
        sums = found.setdefault(groups.because, [0, 0, 0])
        for place, more in enumerate((1, groups.total, groups.kept)):
            sums[place] += more
    shown = [
        {"because": because, "parts": parts, "total": total, "kept": kept}
        for because, (parts, total, kept) in found.items()
    ]
    return sorted(shown, key=lambda line: -int(line["total"]))


def _chosen(keep: np.ndarray[Any, np.dtype[np.bool_]], left: int | None) -> list[int]:
    """Return the rows whose reason is worked out: all, or some kept and some skipped ones."""
    if left is None or len(keep) <= left:
        return list(range(len(keep)))
    half = left // 2
    rows = np.concatenate([np.flatnonzero(keep)[: left - half], np.flatnonzero(~keep)[:half]])
    return [int(row) for row in np.sort(rows)]


def _reasons(
    state: State, manifest: pa.Table, stats: pa.Table, filter: Filter, rows: Sequence[int]
) -> list[Reason]:
    return reasons(
        filter, stats, state.relation, rows, versions=manifest["stats_version"].to_pylist(),
        quarantine=state.rollout.quarantine, shard=state.name,
    )  # fmt: skip


def _of_union(state: State, batch: Batch, filter: Filter) -> Reason:
    """Return why the union of a batch's statistics skips all of its parts."""
    stats = batch_stats(batch)
    assert stats is not None  # else nothing could be proven of the batch
    versions = [max(batch.versions)]
    stats = fill_absent(stats, versions, state.relations, needed_columns(filter))
    (reason,) = reasons(filter, stats, state.relation, [0], quarantine=state.rollout.quarantine)
    return reason


def _grouped(parts: Iterable[Explained]) -> tuple[Group, ...]:
    """Return the parts by reason, those of the most bytes first."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for part in parts:
        reason = part.reason
        key = (str(reason.cause), reason.expression, reason.help)
        sizes = found.setdefault(key, [0, 0])
        sizes[0] += 1
        sizes[1] += part.ref.size_bytes
    groups = [Group(*key, *sizes) for key, sizes in found.items()]
    return tuple(sorted(groups, key=lambda group: -group.size_bytes))


def _shown(group: Group) -> dict[str, Any]:
    return {
        "cause": group.cause, "expression": group.expression, "parts": group.parts,
        "bytes": group.size_bytes, "help": group.help,
    }  # fmt: skip


def _part(part: Explained) -> dict[str, Any]:
    reason = part.reason
    return {
        "key": part.ref.key, "verdict": "keep" if reason.keep else "skip", "reason": reason.text,
        "level": part.level, "cause": str(reason.cause), "expression": reason.expression,
        "help": reason.help, "rows": part.ref.rows, "bytes": part.ref.size_bytes,
        "row_groups": None if part.groups is None else part.groups.document(),
    }  # fmt: skip
