"""A filter, asked of batches, parts and row groups: the one place where statistics decide.

A batch is judged by the union of its statistics, a part by its own, a row group by the keys at
which it begins. Statistics of columns that are younger than a part are filled in, and nothing is
concluded of what is in quarantine: for every level, and for everybody who asks.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.credit import conjuncts, proofs
from strata.decide.decision import Decision, decide, needed_columns
from strata.decide.row_groups import GroupStats, group_stats, wants_groups
from strata.expr.filter import Filter
from strata.format.manifest import stats_columns
from strata.kernels.arrays import Bools
from strata.model.schema import Relation
from strata.state.state import Batch, State
from strata.stats.absent import fill_absent


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdict on some parts. Shape: one element, or row, a part."""

    keep: Bools  # a read needs it: by its statistics, or because it is in quarantine
    suspects: Bools  # in quarantine: nothing may be concluded about it
    stats: pa.Table  # what the verdict is made of, younger columns included
    proofs: tuple[int, ...]  # parts that each conjunct rules out


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on the row groups of those parts of which keys tell something."""

    keys: tuple[str, ...]  # of these parts
    known: GroupStats  # whose `parts` are rows of the manifest that was asked about
    keep: Bools  # an element a group

    def of(self, index: int) -> Bools:
        """Return the verdict on the groups of one of the parts."""
        first, end = np.searchsorted(self.known.owner, (index, index + 1))
        return self.keep[first:end]

    def narrowed(self) -> list[int]:
        """Return the parts of which a read does not need all groups."""
        starts = np.searchsorted(self.known.owner, np.arange(len(self.keys)))
        kept_whole = np.logical_and.reduceat(self.keep, starts)
        return [int(index) for index in np.flatnonzero(~kept_whole)]

    def chosen(self) -> dict[str, tuple[int, ...]]:
        """Return the groups to read, for each part of which a read does not need all."""
        return {self.keys[i]: tuple(np.flatnonzero(self.of(i)).tolist()) for i in self.narrowed()}


@dataclass(frozen=True)
class Question:
    """A filter, and all of a shard's state that the answer depends on; picklable."""

    filter: Filter
    relations: tuple[Relation, ...]  # up to the one that readers see
    quarantine: tuple[str, ...] = ()  # column ids, functions, and parts: words with a slash

    @classmethod
    def about(cls, state: State, filter: Filter) -> "Question":
        """Return the question that a reader of this state asks."""
        return cls(filter, tuple(state.relations), tuple(state.rollout.quarantine))

    @property
    def relation(self) -> Relation:
        """Return the relation that readers see."""
        return self.relations[-1]

    @cached_property
    def names_parts(self) -> bool:
        """Return whether parts are in quarantine."""
        return any("/" in word for word in self.quarantine)

    @cached_property
    def conjuncts(self) -> int:
        """Return how many conjuncts the filter has."""
        return conjuncts(self.filter, self.quarantine)

    @cached_property
    def wants_groups(self) -> bool:
        """Return whether the keys of row groups may tell anything."""
        return wants_groups(self.filter, self.relation)

    @cached_property
    def columns(self) -> frozenset[str]:
        """Return the columns of a manifest that parts are judged by."""
        key = ("key",) if self.names_parts else ()
        return frozenset({"relation_version", *needed_columns(self.filter), *key})

    def union_of(self, batch: Batch, stats: pa.Table | None) -> pa.Table | None:
        """Return what is known of a batch as a whole, one row; None when nothing is.

        `stats` is the union of its parts' statistics, if that is known.
        """
        if self.names_parts:
            return None  # a part that lied may be in any batch, and in its union: ask the manifests
        if stats is None or "rows" not in stats.column_names:
            return None
        if stats["rows"][0].as_py() != batch.updates:  # not about these updates
            return None
        # A column that is there now was never dropped: what the youngest part predates, all do.
        needed = needed_columns(self.filter)
        return fill_absent(stats, [max(batch.versions)], self.relations, needed)

    def of_batch(self, batch: Batch, stats: pa.Table | None) -> Decision | None:
        """Return the verdict on a whole batch; None where nothing is known of it.

        `stats`: as in `union_of`.
        """
        union = self.union_of(batch, stats)
        return None if union is None else self._decide(union)

    def of_parts(self, manifest: pa.Table, stats: pa.Table | None = None) -> Verdicts:
        """Return the verdict on some parts.

        Shape: `manifest` has the columns of `Question.columns`, one row a part. `stats`, a row a
        part as well, stand for those of the manifest where these are about to become others.
        """
        known = known_of(manifest, self.relations, needed_columns(self.filter), stats)
        decision = self._decide(known)
        suspects = np.zeros(manifest.num_rows, np.bool_)
        if self.names_parts:
            suspects = suspects_of(manifest, self.quarantine)
            decision = replace(decision, keep=decision.keep | suspects)
        found = tuple(proofs(decision, self.conjuncts))
        return Verdicts(np.asarray(decision.keep, np.bool_), suspects, known, found)

    def of_groups(self, manifest: pa.Table, stats: pa.Table) -> GroupVerdict | None:
        """Return the verdict on the row groups of some kept parts; None if keys tell nothing.

        Shape: `manifest` has `key`, `order`, `splits`, `relation_version`; `stats` are those of
        `of_parts`, a row for each of the manifest. A part in quarantine has none: it is read whole.
        Errs: may keep a group in vain, never leaves one out.
        """
        if not self.wants_groups:
            return None
        rows = np.arange(manifest.num_rows)
        if self.names_parts:
            rows = np.flatnonzero(~suspects_of(manifest, self.quarantine))
            manifest, stats = manifest.take(pa.array(rows)), stats.take(pa.array(rows))
        found = group_stats(manifest, stats, self.relations)
        if found is None:
            return None
        keys = manifest["key"].take(pa.array(found.parts)).to_pylist()
        keep = np.asarray(self._decide(found.stats).keep, np.bool_)
        return GroupVerdict(tuple(keys), replace(found, parts=rows[found.parts]), keep)

    def _decide(self, stats: pa.Table) -> Decision:
        return decide(self.filter, stats, self.relation, quarantine=self.quarantine)


def known_of(
    manifest: pa.Table,
    relations: tuple[Relation, ...],
    wanted: Collection[str] | None = None,
    stats: pa.Table | None = None,
) -> pa.Table:
    """Return what is known of a manifest's parts, columns that are younger than a part included.

    `wanted` names the statistics that matter, None all; `stats` stand for the manifest's own.
    """
    versions = manifest["relation_version"].to_numpy()
    own = stats_columns(manifest) if stats is None else stats
    return fill_absent(own, versions, relations, wanted)


def suspects_of(manifest: pa.Table, quarantine: Collection[str]) -> Bools:
    """Return which parts of a manifest are in quarantine."""
    words = pa.array(sorted(quarantine), pa.string())
    mask: Bools = pc.is_in(manifest["key"], value_set=words).to_numpy()
    return mask
