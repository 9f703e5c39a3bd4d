"""Judge batches, parts and row groups by a filter: the one place where statistics decide.

A batch is judged by the union of its statistics, a part by its own, a row group by its first key
and the next one's. Columns younger than a part get statistics filled in, and nothing is concluded
about anything in quarantine. Both hold at every level and for every caller.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.credit import conjuncts, proofs
from strata.decide.decision import Decision, Proof, decide, needed_columns
from strata.decide.row_groups import GroupStats, group_stats, wants_groups
from strata.expr.filter import Filter
from strata.format.manifest import stats_columns
from strata.kernels.arrays import Bools, Ints
from strata.model.schema import Relation
from strata.state.state import Batch, State
from strata.stats.absent import fill_absent


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdict on some parts. Shape: one element, or row, a part."""

    keep: Bools  # a read needs it: by its statistics, or because it is in quarantine
    suspects: Bools  # in quarantine: nothing may be concluded about it
    # The statistics behind the verdict, younger columns included, bits of bloom filters left out
    stats: pa.Table
    proofs: tuple[int, ...]  # parts that each conjunct rules out
    looked_up: Bools | None = None  # ruled out by fetched bloom filters; None: none was fetched


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """The verdict on some pages, by their unions. Shape: one element, or row, a page."""

    keep: Bools  # a read may need some part of it
    proof: Proof  # of what is ruled out: the conjunct that did it
    stats: pa.Table  # the unions behind the verdict, younger columns included

    def slice(self, start: int, end: int) -> "PageVerdict":
        """Return the verdict on some neighbouring pages."""
        stats = self.stats.slice(start, end - start)
        return PageVerdict(self.keep[start:end], self.proof[start:end], stats)

    def proofs(self, parts: Ints, conjuncts: int) -> tuple[int, ...]:
        """Return how many parts each conjunct rules out. Shape: `parts` has the parts a page."""
        out = ~self.keep
        found = np.bincount(self.proof[out], weights=parts[out], minlength=conjuncts)
        return tuple(found.astype(np.int64).tolist())


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on the row groups of those parts whose keys bound something."""

    keys: tuple[str, ...]  # of these parts
    known: GroupStats  # its `parts` are rows of the manifest in question
    keep: Bools  # an element a group

    def of(self, index: int) -> Bools:
        """Return the verdict on the groups of one of the parts."""
        first, end = np.searchsorted(self.known.owner, (index, index + 1))
        return self.keep[first:end]

    def narrowed(self) -> list[int]:
        """Return the parts that a read needs only some groups of."""
        starts = np.searchsorted(self.known.owner, np.arange(len(self.keys)))
        kept_whole = np.logical_and.reduceat(self.keep, starts)
        return [int(index) for index in np.flatnonzero(~kept_whole)]

    def chosen(self) -> dict[str, tuple[int, ...]]:
        """Return the groups to read for each part that a read needs only some groups of."""
        return {self.keys[i]: tuple(np.flatnonzero(self.of(i)).tolist()) for i in self.narrowed()}


@dataclass(frozen=True)
class Question:
    """A filter, and all of a shard's state that the answer depends on; picklable."""

    filter: Filter
    relations: tuple[Relation, ...]  # up to and including the one that readers see
    # Column ids, function names, and keys of parts (which have a slash)
    quarantine: tuple[str, ...] = ()

    @classmethod
    def about(cls, state: State, filter: Filter) -> "Question":
        """Return the question that a filter asks of a state."""
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
        """Return whether the keys of row groups may rule any out."""
        return wants_groups(self.filter, self.relation)

    @cached_property
    def needed(self) -> frozenset[str]:
        """Return the statistics that the filter is decided by."""
        return frozenset(needed_columns(self.filter))

    @cached_property
    def columns(self) -> frozenset[str]:
        """Return the columns of a manifest that parts are judged by."""
        key = ("key",) if self.names_parts else ()
        return frozenset({"relation_version", *self.needed, *key})

    def union_of(self, batch: Batch, stats: pa.Table | None) -> pa.Table | None:
        """Return what is known of a batch as a whole, one row; None when nothing is.

        `stats` is the union of its parts' statistics, if that is known.
        """
        if self.names_parts:
            # A part with wrong statistics may be in any batch's union: ask the manifests
            return None
        if stats is None or "rows" not in stats.column_names:
            return None
        # The union does not describe the batch's updates
        if stats["rows"][0].as_py() != batch.updates:
            return None
        # A column that exists now was never dropped, so all parts predate what the youngest part
        # predates.
        return fill_absent(stats, [max(batch.versions)], self.relations, self.needed)

    def of_batch(self, batch: Batch, stats: pa.Table | None) -> Decision | None:
        """Return the verdict on a whole batch; None where nothing is known of it.

        `stats`: as in `union_of`.
        """
        union = self.union_of(batch, stats)
        return None if union is None else self.of_statistics(union)

    def of_pages(self, index: pa.Table) -> "PageVerdict | None":
        """Return the verdict on some pages of a manifest; None if parts in quarantine forbid one.

        Shape: `index` has the columns of `strata.format.pages`, one row a page.
        """
        if self.names_parts:
            # A part with wrong statistics may be in any page's union: ask the parts
            return None
        known = known_of(index, self.relations, self.needed)
        decision = self.of_statistics(known)
        return PageVerdict(np.asarray(decision.keep, np.bool_), decision.proof, known)

    def of_parts(self, manifest: pa.Table, stats: pa.Table | None = None) -> Verdicts:
        """Return the verdict on some parts.

        Shape: `manifest` has the columns of `Question.columns`, one row a part. `stats`, also one
        row a part, replace those of the manifest; a caller that is changing them passes new ones.
        """
        known = known_of(manifest, self.relations, self.needed, stats)
        decision = self.of_statistics(known)
        suspects = np.zeros(manifest.num_rows, np.bool_)
        if self.names_parts:
            suspects = suspects_of(manifest, self.quarantine)
            decision = replace(decision, keep=decision.keep | suspects)
        found = tuple(proofs(decision, self.conjuncts))
        return Verdicts(np.asarray(decision.keep, np.bool_), suspects, known, found)

    def of_groups(self, manifest: pa.Table, stats: pa.Table) -> GroupVerdict | None:
        """Return the verdict on the row groups of some kept parts; None if keys bound nothing.

        Shape: `manifest` has `key`, `order`, `splits`, `relation_version`; `stats` are those of
        `of_parts`, one row for each of the manifest. A part in quarantine gets no verdict and is
        read whole.
        Errs: may keep a group that is not needed, never leaves out one that is.
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
        keep = np.asarray(self.of_statistics(found.stats).keep, np.bool_)
        return GroupVerdict(tuple(keys), replace(found, parts=rows[found.parts]), keep)

    def of_statistics(self, stats: pa.Table, *, hopeful: bool = False) -> Decision:
        """Return the verdict on statistics alone; `hopeful`: see `decide`."""
        return decide(
            self.filter, stats, self.relation, quarantine=self.quarantine, hopeful=hopeful
        )


def known_of(
    manifest: pa.Table,
    relations: tuple[Relation, ...],
    wanted: Collection[str] | None = None,
    stats: pa.Table | None = None,
) -> pa.Table:
    """Return the statistics of a manifest's parts, with columns younger than a part filled in.

    `wanted` names the statistics to return, None all; `stats` replace the manifest's own.
    """
    versions = manifest["relation_version"].to_numpy()
    own = stats_columns(manifest) if stats is None else stats
    return fill_absent(own, versions, relations, wanted)


def suspects_of(manifest: pa.Table, quarantine: Collection[str]) -> Bools:
    """Return which parts of a manifest are in quarantine."""
    words = pa.array(sorted(quarantine), pa.string())
    mask: Bools = pc.is_in(manifest["key"], value_set=words).to_numpy()
    return mask
