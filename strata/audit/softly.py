"""Evaluate filters softly on a shard, within a budget: what is looked at, and what it comes to."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from strata.audit.budget import FORMAT_SHARE, Clock, Pile, affordable, evidence_of, in_chunks
from strata.audit.cost import AuditCost, costs
from strata.audit.scope import Check, Scope
from strata.audit.seen import known_pairs, pairs_of
from strata.audit.soft import Evaluated, Evaluator, confirmed, judge
from strata.audit.verdict import Summary, Verdict, count
from strata.decide.skips import Decisions, Numbers, Skipped, Skips, decide_all
from strata.model.time import format_time
from strata.rollout.basis import basis_of
from strata.state.state import Evidence, State
from strata.store.open import Stores


@dataclass(frozen=True)
class _Planned:
    """What one check is to look at: parts, and kept parts that lose row groups."""

    check: Check
    decisions: Decisions
    began: float
    piles: tuple[Pile, Pile]

    @property
    def evidence(self) -> int:
        """Return how much evidence there is of its kind."""
        return sum(pile.evidence for pile in self.piles)


def softly(
    stores: Stores,
    state: State,
    checks: Sequence[Check],
    evaluate: Evaluator,
    scope: Scope,
    clock: Clock,
) -> list[tuple[Summary, list[Verdict], list[AuditCost]]]:
    """Evaluate all checks within the budget, those with the least evidence first."""
    planned = [_planned(stores, state, check, scope) for check in checks]
    bytes_max = 0 if scope.parts else scope.budget.size_bytes
    if scope.check_format:
        bytes_max -= bytes_max // FORMAT_SHARE
    chosen = affordable([pile for one in planned for pile in one.piles], bytes_max)
    done = {}
    for number in sorted(range(len(planned)), key=lambda n: planned[n].evidence):
        mine = (chosen[2 * number], chosen[2 * number + 1])
        done[number] = _soft(stores, state, planned[number], mine, evaluate, scope, clock.begin())
    return [done[number] for number in range(len(planned))]


def _planned(stores: Stores, state: State, check: Check, scope: Scope) -> _Planned:
    began = time.monotonic()
    decisions = decide_all(stores, state, check.filter)
    old = state.rollout.evidence
    valid = old if old.basis == basis_of(state) else Evidence()

    def pile(skips: Skips, *, groups: bool) -> Pile:
        numbers = _chosen(state, skips, scope)
        known = np.zeros(len(numbers), np.bool_)
        if scope.budget.limited and valid.seen is not None:
            keys = skips.keys
            pairs = pairs_of([(check.filter.expr, keys[n]) for n in numbers.tolist()])
            known = known_pairs(stores.blob, valid.seen, pairs)
        return Pile(skips, numbers, known, evidence_of(valid, check.filter, groups=groups))

    piles = (pile(decisions.skipped, groups=False), pile(decisions.tightened, groups=True))
    return _Planned(check, decisions, began, piles)


def _soft(  # noqa: PLR0913, PLR0917 - what to look at, and for how long
    stores: Stores,
    state: State,
    planned: _Planned,
    numbers: tuple[Numbers, Numbers],
    evaluate: Evaluator,
    scope: Scope,
    until: float | None,
) -> tuple[Summary, list[Verdict], list[AuditCost]]:
    check, decisions, started = planned.check, planned.decisions, planned.began
    filter = check.filter
    came: dict[str, Evaluated] = {}
    chosen: list[Skipped] = []
    for pile, some, groups in zip(planned.piles, numbers, (False, True), strict=True):
        for chunk in in_chunks(pile.skips, some, until):
            made = pile.skips.make(chunk)
            refs = [one.ref for one in made]
            left = {one.ref.key: one.groups for one in made}
            found = evaluate(filter, refs, left) if groups else evaluate(filter, refs)
            came |= {one.part: one for one in found}
            chosen += made
    came = confirmed(evaluate, filter, came, {one.ref.key: one for one in chosen})
    pairs = [(one, came.get(one.ref.key)) for one in chosen]
    witness = getattr(evaluate, "witness", None)
    verdicts = judge(stores, state, filter, pairs, run=scope.run, check=check.name, witness=witness)
    summary = _soft_summary(state, check, decisions, scope, verdicts, started)
    wanted = sum(len(pile.numbers) for pile in planned.piles)
    wanted_bytes = sum(int(pile.skips.sizes[pile.numbers].sum()) for pile in planned.piles)
    summary = replace(
        summary,
        left_out_parts=wanted - len(chosen),
        left_out_bytes=wanted_bytes - sum(one.size_bytes for one in chosen),
    )
    cost = costs(
        decisions,
        filter,
        run=scope.run,
        least=_least(scope),
        seconds=summary.seconds,
        audited_bytes=summary.audited_bytes,
    )
    return summary, verdicts, cost


def audited_share(percent: int, summaries: Sequence[Summary]) -> int:
    """Return the share of what reads skip that was audited: what the budget left out is not."""
    for one in summaries:
        wanted = one.checked_parts + one.left_out_parts
        if one.left_out_parts:
            percent = min(percent, percent * one.checked_parts // wanted)
    return percent


def _chosen(state: State, skips: Skips, scope: Scope) -> Numbers:
    if scope.parts is not None:
        return skips.places(scope.parts)
    return skips.drawn(scope.share(state), scope.run, _least(scope))


def _least(scope: Scope) -> int:
    return scope.policy.gates.sample_parts if scope.percent is None else 0


def _soft_summary(
    state: State,
    check: Check,
    decisions: Decisions,
    scope: Scope,
    verdicts: Sequence[Verdict],
    started: float,
) -> Summary:
    filter = check.filter
    return Summary(
        scope.run,
        state.name,
        check.name,
        filter.sql,
        now=format_time(filter.now_low // 1000),
        parts_total=decisions.parts_total,
        bytes_total=decisions.bytes_total,
        parts_skipped=len(decisions.skipped),
        bytes_skipped=decisions.skipped.size_bytes,
        parts_tightened=len(decisions.tightened),
        bytes_tightened=decisions.tightened.size_bytes,
        checked_parts=len(verdicts),
        parts_without_stats=decisions.parts_without_stats,
        percent=scope.share(state),
        seconds=round(time.monotonic() - started, 3),
        **counts_of(verdicts),
    )


def counts_of(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return the counts of a summary; an audited part is one with any judgement."""
    judged = [v for v in verdicts if v.outcome in ("clean", "mismatch")]
    return {
        "audited_parts": len(judged),
        "audited_bytes": sum(v.size_bytes for v in judged),
        "rows": sum(v.rows for v in verdicts),
        "mismatches": count(verdicts, "mismatch"),
        "errors": count(verdicts, "failed"),
        "missing": count(verdicts, "missing"),
    }
