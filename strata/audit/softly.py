"""Evaluate filters softly on a shard, within a budget: what is looked at, and what it comes to."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from strata.audit.budget import (
    FORMAT_SHARE,
    Clock,
    Pile,
    affordable,
    evidence_of,
    in_chunks,
    pile_of,
)
from strata.audit.cost import AuditCost, Share, costs, shares_of
from strata.audit.scope import Check, Scope
from strata.audit.seen import are_judged, judged_parts
from strata.audit.soft import Confirming, Evaluator, judge
from strata.audit.verdict import Summary, Verdict, count
from strata.decide.skips import Decisions, Drawn, Skips, decide_all
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
    shares: Sequence[Share]


def softly(
    stores: Stores,
    state: State,
    checks: Sequence[Check],
    evaluate: Evaluator,
    scope: Scope,
    clock: Clock,
) -> list[tuple[Summary, list[Verdict], list[AuditCost]]]:
    """Evaluate all checks within the budget, those with the least evidence first.

    Memory: a bit for each part of the shard and its share of the parts, of one check at a time;
    with a budget of all checks, of their shares as far as its bytes reach.
    """
    limited = scope.budget.limited and not scope.parts
    bytes_max = scope.budget.size_bytes if limited else 0
    if scope.check_format:
        bytes_max -= bytes_max // FORMAT_SHARE
    evidence = [_evidence(state, check) for check in checks]
    ready: dict[int, tuple[_Planned, Sequence[Drawn]]] = {}
    if limited:
        planned = [_planned(stores, state, check, scope, bytes_max) for check in checks]
        chosen = affordable([pile for one in planned for pile in one.piles], bytes_max)
        ready = {n: (one, chosen[2 * n : 2 * n + 2]) for n, one in enumerate(planned)}
    done = {}
    for number in sorted(range(len(checks)), key=lambda n: sum(evidence[n])):
        if number not in ready:
            one = _planned(stores, state, checks[number], scope, 0)
            ready[number] = one, [pile.parts for pile in one.piles]
        found, parts = ready.pop(number)
        done[number] = _soft(stores, state, found, parts, evaluate, scope, clock.begin())
    return [done[number] for number in range(len(checks))]


def _valid(state: State) -> Evidence:
    old = state.rollout.evidence
    return old if old.basis == basis_of(state) else Evidence()


def _evidence(state: State, check: Check) -> tuple[int, int]:
    """Return how much evidence there is of a check's kind: of skipped parts, and of row groups."""
    valid = _valid(state)
    whole, groups = (evidence_of(valid, check.filter, groups=one) for one in (False, True))
    return whole, groups


def _planned(stores: Stores, state: State, check: Check, scope: Scope, bytes_max: int) -> _Planned:
    began = time.monotonic()
    decisions = decide_all(stores, state, check.filter)
    limited = scope.budget.limited and not scope.parts
    seen = _valid(state).seen if limited else None
    judged = judged_parts(stores.blob, seen, check.filter.expr)

    def pile(skips: Skips, evidence: int) -> Pile:
        drawn, known = _chosen(state, skips, scope), None
        if limited:
            known = np.zeros(len(drawn.numbers), np.bool_)
            if len(judged):
                each = [are_judged(some, judged) for some in skips.keys(drawn.numbers)]
                known = np.concatenate([known[:0], *each])
        return pile_of(skips, drawn, known, evidence, bytes_max)

    both = (decisions.skipped, decisions.tightened)
    evidence = _evidence(state, check)
    piles = (pile(both[0], evidence[0]), pile(both[1], evidence[1]))
    shares = shares_of(decisions, scope.run, _least(scope))
    for skips in both:
        skips.forget()
    return _Planned(check, decisions, began, piles, shares)


def _soft(  # noqa: PLR0913, PLR0917 - what to look at, and for how long
    stores: Stores,
    state: State,
    planned: _Planned,
    parts: Sequence[Drawn],
    evaluate: Evaluator,
    scope: Scope,
    until: float | None,
) -> tuple[Summary, list[Verdict], list[AuditCost]]:
    check, decisions, started = planned.check, planned.decisions, planned.began
    filter = check.filter
    confirming = Confirming(evaluate, filter)
    witness = getattr(evaluate, "witness", None)
    verdicts: list[Verdict] = []
    looked_bytes = 0
    for pile, some, groups in zip(planned.piles, parts, (False, True), strict=True):
        for chunk in in_chunks(some, until):
            made = pile.skips.make(chunk)
            refs = [one.ref for one in made]
            left = {one.ref.key: one.groups for one in made}
            found = evaluate(filter, refs, left) if groups else evaluate(filter, refs)
            came = confirming.confirmed(
                {one.part: one for one in found}, {one.ref.key: one for one in made}
            )
            pairs = [(one, came.get(one.ref.key)) for one in made]
            verdicts += judge(
                stores, state, filter, pairs, run=scope.run, check=check.name, witness=witness
            )
            looked_bytes += sum(one.size_bytes for one in made)
    summary = _soft_summary(state, check, decisions, scope, verdicts, started)
    summary = replace(
        summary,
        left_out_parts=sum(pile.wanted_parts for pile in planned.piles) - len(verdicts),
        left_out_bytes=sum(pile.wanted_bytes for pile in planned.piles) - looked_bytes,
    )
    cost = costs(
        planned.shares, filter, seconds=summary.seconds, audited_bytes=summary.audited_bytes
    )
    return summary, verdicts, cost


def audited_share(percent: int, summaries: Sequence[Summary]) -> int:
    """Return the share of what reads skip that was audited: what the budget left out is not."""
    for one in summaries:
        wanted = one.checked_parts + one.left_out_parts
        if one.left_out_parts:
            percent = min(percent, percent * one.checked_parts // wanted)
    return percent


def _chosen(state: State, skips: Skips, scope: Scope) -> Drawn:
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
