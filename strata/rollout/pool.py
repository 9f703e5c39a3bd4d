"""Pooled evidence of several shards, for a shard that is too small to collect enough alone.

Shards belong to one class when the same code decides the same about them: equal columns in equal
order, equal key and sort order, equal budget for statistics, and audits by the current code. Their
audits together count for the number of parts, for strata and for failed checks. Runs and days stay
the shard's own, and it must have some evidence of each kind itself. A class shares nothing while
the statistics of any member are in quarantine, even after a single lie, and even if it was dropped:
to drop a shard takes one person, a release takes two. A shard whose state cannot be loaded may be a
member that lied, so that no class shares anything until it can.

The same rows in several shards count once: of shards that hold a batch of equal rows, the one with
the most audited parts counts, and beside the shard itself none of its copies. Their failures count.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from strata.model.sums import MODULUS
from strata.rollout.basis import basis_of
from strata.state.state import Evidence, State, Stratum


@dataclass(frozen=True, slots=True)
class Pool:
    """The evidence of the other shards of a class."""

    shards: tuple[str, ...] = ()  # sorted by name
    evidence: Evidence = field(default_factory=Evidence)
    lied: tuple[str, ...] = ()  # members with a quarantine; if there are any, nothing is shared
    copies: tuple[str, ...] = ()  # members with rows of the shard, or of others that count
    unknown: tuple[str, ...] = ()  # whose state cannot be loaded; as `lied`


def pool_of(state: State, all_states: Iterable[State], unknown: Iterable[str] = ()) -> Pool:
    """Return the evidence of the other shards in a shard's class; `all_states`: of all shards.

    `unknown`: the names of the shards whose states are not among them.
    """
    mine, basis = class_of(state), basis_of(state)
    members = [one for one in all_states if one.name != state.name and class_of(one) == mine]
    lied = tuple(sorted(m.name for m in members if m.rollout.quarantine))
    missing = tuple(sorted(name for name in unknown if name != state.name))
    if lied or missing:
        return Pool(lied=lied, unknown=missing)
    some = [
        m
        for m in members
        if m.dropped is None and m.rollout.evidence.basis == basis and m.rollout.evidence.parts
    ]
    counting, copies = _apart(state, some)
    evidence = [m.rollout.evidence for m in counting] + [_failures(m) for m in copies]
    return Pool(
        tuple(sorted(m.name for m in counting)),
        together(Evidence(basis=basis), evidence),
        copies=tuple(sorted(m.name for m in copies)),
    )


def _apart(state: State, members: list[State]) -> tuple[list[State], list[State]]:
    """Return the members that share no rows, and those that are copies.

    Errs: takes two shards for copies if one batch of each has equal rows. Rows that lie among
    others in each batch are not noticed.
    """
    taken = _contents(state)
    counting, copies = [], []
    for member in sorted(members, key=lambda m: (-m.rollout.evidence.parts, m.name)):
        rows = _contents(member)
        if taken.isdisjoint(rows):
            counting.append(member)
            taken |= rows
        else:
            copies.append(member)
    return counting, copies


def _contents(state: State) -> set[tuple[int, int]]:
    """Return two sums for the rows of each batch, and for those of all batches together.

    Merges and times do not change them: equal rows have equal sums.
    """
    sums = [(batch.digest, batch.diffs_sum % MODULUS) for batch in state.batches if batch.updates]
    whole = (sum(digest for digest, _ in sums) % MODULUS, sum(d for _, d in sums) % MODULUS)
    return {one for one in (*sums, whole) if one[0]}


def _failures(state: State) -> Evidence:
    seen = state.rollout.evidence
    return Evidence(failed=seen.failed, missing=seen.missing)


def class_of(state: State) -> tuple[object, ...]:
    """Return a key that equal classes share; ids count, because evidence is by column."""
    relation = state.relation
    columns = tuple((c.id, c.name, str(c.type), c.nullable) for c in relation.columns)
    return columns, relation.key, relation.order, state.spec.stats


def together(own: Evidence, others: list[Evidence]) -> Evidence:
    """Return a shard's evidence plus the parts, strata and failures of the others."""
    strata: Counter[str] = Counter()
    for one in (own, *others):
        strata.update({stratum.name: stratum.parts for stratum in one.strata})
    return replace(
        own,
        parts=own.parts + sum(o.parts for o in others),
        repeats=own.repeats + sum(o.repeats for o in others),
        rows=own.rows + sum(o.rows for o in others),
        size_bytes=own.size_bytes + sum(o.size_bytes for o in others),
        failed=own.failed + sum(o.failed for o in others),
        missing=own.missing + sum(o.missing for o in others),
        strata=tuple(Stratum(name, parts) for name, parts in sorted(strata.items())),
    )
