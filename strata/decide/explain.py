"""Explain which parts of a shard a filter skips, and what keeps the rest: `strata explain`.

The verdicts are those of a read with pushdown on, from the same descent (`strata.decide.descent`).
The reasons come from the same evaluation (`strata.decide.reasons`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.decide.blooms import with_bits
from strata.decide.causes import Cause
from strata.decide.descent import (
    BatchStep,
    Groups,
    Piece,
    WholePages,
    descend,
    narrowed_ahead,
    resolve_as_of,
)
from strata.decide.question import Question
from strata.decide.reasons import Reason, explain, reasons
from strata.decide.static import Outlook, outlook
from strata.expr.filter import Filter
from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.kernels.arrays import Bools, Ints
from strata.model.shown import json_of
from strata.model.time import MIN_TIME
from strata.parts.unions import batch_stats
from strata.state.state import State
from strata.stats.counted import kept_paths
from strata.store.open import Stores

# Parts whose reason is worked out unless every part is requested; takes seconds
REASONS_MAX: Final = 2_000
_QUARANTINED: Final = Reason(
    keep=True,
    cause=Cause.QUARANTINE,
    expression="",
    text="kept: this part is in quarantine",
    help="see what the mismatch was with `strata validate`, then approve again",
)
_BY_KEY: Final = "by their first keys"
_ALONE: Final = "the part is one row group"
_MORE: Final = "the reason of each part is shown if all parts are (--parts)"
_UNSAID: Final = {
    True: Reason(keep=True, cause=Cause.OVERLAP, expression="", text="kept", help=_MORE),
    False: Reason(keep=False, cause=Cause.PROVEN, expression="", text="skipped", help=_MORE),
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
    """What keys say about the row groups of one kept part."""

    total: int
    kept: int
    because: str  # by key; or why keys bound nothing in this part
    text: str = ""  # what skips the first skipped group, what keeps the first kept one


@dataclass(frozen=True, slots=True)
class Explained:
    """One part, why it is kept or skipped, and at which level."""

    ref: PartRef
    # "batch" or "page" if the union of its batch or page skips it, "bloom" if a filter does
    level: str  # else "part"
    reason: Reason
    groups: RowGroups | None = None  # of a kept part


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

    def to_json(self, *, parts: bool = False) -> dict[str, Any]:
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
            "levels": [json_of(level, name="level") for level in self.levels],
            "row_groups": _inside(self.parts),
            "kept_because": [json_of(group) for group in self.stopped],
            "skipped_because": [json_of(group) for group in self.proved],
            "static": json_of(self.outlook),
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
    """Return what a filter skips in a shard and why. The shard's mode plays no role.

    `every_part` False works out the reasons of at most `REASONS_MAX` kept parts; the others are
    counted without a reason.
    Raises: as `plan_read`. Cost: every manifest; about a millisecond for each reason.
    """
    at = resolve_as_of(state, as_of)
    question = Question.about(state, filter)
    found = _Explaining(state, question, None if every_part else REASONS_MAX)
    steps = () if at is None else descend(stores, state, question, at)
    for step, pieces in narrowed_ahead(stores, steps, SCHEMA.names, open_all=True):
        found.visit(step, pieces)
    kept = sum(part.reason.keep for part in found.parts)
    levels = (
        Level("batches", found.batches, found.kept_batches),
        Level("parts", len(found.parts), kept),
        Level("row groups", sum(len(part.ref.splits) for part in found.parts), found.kept_groups),
    )
    return Explanation(
        state.name,
        MIN_TIME if at is None else at,
        filter,
        outlook(filter, state.rollout.quarantine),
        levels,
        _grouped(p for p in found.parts if p.reason.keep),
        _grouped(p for p in found.parts if not p.reason.keep),
        tuple(found.parts),
    )


class _Explaining:
    """The findings of one descent, with reasons."""

    def __init__(self, state: State, question: Question, left: int | None) -> None:
        self._state, self._question = state, question
        self._left = left  # how many more reasons to work out; None: all
        self.parts: list[Explained] = []
        self.batches = self.kept_batches = self.kept_groups = 0

    def visit(self, step: BatchStep, pieces: Iterable[Piece | WholePages]) -> None:
        """Explain the parts of a batch, all of whose pages are open."""
        found: list[Explained] = []
        for piece in pieces:
            assert isinstance(piece, Piece)  # every page is opened
            found += self._explained(piece)
        self.parts += found
        self.batches += 1
        self.kept_batches += bool(found) and not step.ruled_out

    def _explained(self, piece: Piece) -> list[Explained]:
        refs = part_refs(piece.table)
        if piece.verdict is None:
            level = "batch" if piece.page is None else "page"
            reason = self._of_union(piece)
            return [Explained(ref, level, reason) for ref in refs]
        rows = _chosen(piece.keep, self._left)
        if self._left is not None:
            self._left = max(0, self._left - len(refs))
        reasons = dict(zip(rows, self._reasons(piece, piece.verdict.stats, rows), strict=True))
        looked_up = piece.verdict.looked_up
        blooms = {row for row in rows if looked_up is not None and looked_up[row]}
        reasons |= self._of_blooms(piece, piece.verdict.stats, sorted(blooms))
        groups = self._groups(piece)
        counts = np.array([len(ref.splits) for ref in refs], np.int64)
        self.kept_groups += int(counts[piece.keep].sum())
        self.kept_groups -= 0 if groups is None else int((~groups.verdict.keep).sum())
        suspects = piece.verdict.suspects
        plain = [row for row in rows if piece.keep[row] and not suspects[row]]
        inside = self._row_groups(counts, groups, plain)
        return [
            Explained(
                ref,
                "bloom" if looked_up is not None and looked_up[row] else "part",
                _QUARANTINED if suspects[row] else reasons.get(row, _UNSAID[bool(piece.keep[row])]),
                inside.get(row),
            )
            for row, ref in enumerate(refs)
        ]

    def _groups(self, piece: Piece) -> Groups | None:
        return piece.groups(piece.keep, piece.table.filter(pa.array(piece.keep)))

    def _row_groups(
        self, counts: Ints, groups: Groups | None, rows: Sequence[int]
    ) -> dict[int, RowGroups]:
        """Return what keys say about the row groups of some kept parts, by row.

        Cost: two reasons for each part with several row groups.
        """
        question, relation = self._question, self._question.relation
        first = relation.by_id[relation.sort_ids[0]].name
        if question.wants_groups:
            because = f"keys of an order or types that begin otherwise, or no statistics of {first}"
        else:
            because = f"the filter does not look at {first}, by which rows are sorted"
        found = {
            row: RowGroups(
                int(counts[row]), int(counts[row]), because if counts[row] > 1 else _ALONE
            )
            for row in rows
        }
        for index, row in enumerate(() if groups is None else groups.places.tolist()):
            if groups is None or row not in found:
                continue
            kept, known = groups.verdict.of(index), groups.verdict.known
            start = int(np.searchsorted(known.owner, index))
            firsts = [start + int(np.argmax(flags)) for flags in (~kept, kept) if flags.any()]
            texts = explain(
                question.filter, known.stats, relation, firsts, quarantine=question.quarantine
            )
            found[row] = RowGroups(len(kept), int(kept.sum()), _BY_KEY, "; ".join(texts))
        return found

    def _reasons(self, piece: Piece, stats: pa.Table, rows: Sequence[int]) -> list[Reason]:
        return reasons(
            self._question.filter,
            stats,
            self._question.relation,
            rows,
            versions=piece.table["stats_version"].to_pylist(),
            quarantine=self._question.quarantine,
            shard=self._state.name,
            paths_kept=_PathCounts(piece).of,
        )

    def _of_blooms(self, piece: Piece, stats: pa.Table, rows: Sequence[int]) -> dict[int, Reason]:
        """Return the reasons of parts that fetched bloom filters rule out."""
        found = {}
        for row in rows:  # one by one: a filter may be large
            one = with_bits(piece.step.stores.blob, stats.slice(row, 1))
            (reason,) = reasons(
                self._question.filter,
                one,
                self._question.relation,
                [0],
                quarantine=self._question.quarantine,
                shard=self._state.name,
            )
            found[row] = replace(reason, text=f"{reason.text}, by its bloom filter")
        return found

    def _of_union(self, piece: Piece) -> Reason:
        """Return why the union of a batch's or page's statistics skips all of its parts."""
        question, step = self._question, piece.step
        if piece.page is not None:
            stats = piece.page.stats
        else:
            known = batch_stats(step.stores.blob, step.shard, step.batch)
            found = question.union_of(step.batch, known)
            assert found is not None  # else the union could not have proven anything
            stats = found
        (reason,) = reasons(
            question.filter, stats, question.relation, [0], quarantine=question.quarantine
        )
        return reason


class _PathCounts:
    """How many paths of JSON columns have statistics in the parts of a piece.

    Cost: decodes all statistics of the piece when it is first asked.
    """

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._counts: dict[int, Ints] = {}

    def of(self, row: int, column_id: int) -> int:
        """Return the number of paths below the root of a column, in a part of the piece."""
        if column_id not in self._counts:
            self._counts[column_id] = kept_paths(self._whole, column_id)
        return int(self._counts[column_id][self._piece.rows[row]])

    @cached_property
    def _whole(self) -> pa.Table:
        return self._piece.stored.read()


def _inside(parts: Sequence[Explained]) -> list[dict[str, Any]]:
    """Return the row groups of kept parts by what keys say about them, largest group first."""
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


def _chosen(keep: Bools, left: int | None) -> list[int]:
    """Return the rows to work out a reason for: all, or some kept and some skipped ones."""
    if left is None or len(keep) <= left:
        return list(range(len(keep)))
    half = left // 2
    rows = np.concatenate([np.flatnonzero(keep)[: left - half], np.flatnonzero(~keep)[:half]])
    return [int(row) for row in np.sort(rows)]


def _grouped(parts: Iterable[Explained]) -> tuple[Group, ...]:
    """Return the parts grouped by reason, most bytes first."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for part in parts:
        reason = part.reason
        key = (str(reason.cause), reason.expression, reason.help)
        sizes = found.setdefault(key, [0, 0])
        sizes[0] += 1
        sizes[1] += part.ref.size_bytes
    groups = [Group(*key, *sizes) for key, sizes in found.items()]
    return tuple(sorted(groups, key=lambda group: -group.size_bytes))


def _part(part: Explained) -> dict[str, Any]:
    reason = part.reason
    return {
        "key": part.ref.key,
        "verdict": "keep" if reason.keep else "skip",
        "reason": reason.text,
        "level": part.level,
        "cause": str(reason.cause),
        "expression": reason.expression,
        "help": reason.help,
        "rows": part.ref.rows,
        "bytes": part.ref.size_bytes,
        "row_groups": None if part.groups is None else json_of(part.groups, text="reason"),
    }
