"""Validate one shard: decide, fetch, judge, record, and trip the shard if necessary.

The verdict table is written first. Then one commit points to it and, if there is a mismatch, sets
the shard's mode back to `off` and quarantines the wrong statistics. The step down needs nobody's
approval, and it does not depend on Airflow.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from shlex import quote
from typing import Final

import pyarrow.parquet as pq

from strata.audit.batches import Looked, look, readable, verdicts_of
from strata.audit.compare import ColumnCount, total
from strata.audit.contain import contain
from strata.audit.cost import AuditCost, costs
from strata.audit.cost import total as total_cost
from strata.audit.format import check_parts, forget
from strata.audit.seen import pairs_of, with_pairs
from strata.audit.soft import Evaluator, confirmed, judge, quarantine_of
from strata.audit.verdict import FORMAT_CHECK, Summary, Verdict, count, verdict_table
from strata.decide.skips import Decisions, Skipped, Skips, decide_all
from strata.errors import Conflict, InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Expr
from strata.machine.machine import Machine
from strata.model.runner import Runner
from strata.model.time import format_time
from strata.rollout.basis import basis_of
from strata.rollout.evidence import AuditCounts
from strata.rollout.ladder import record
from strata.rollout.obey import SKIPPING
from strata.rollout.policy import Policy
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores

DEFAULT_POLICY: Final = Policy()  # rules by which evidence is counted
RACES: Final = 5  # races lost to other validations, before Conflict is raised


@dataclass(frozen=True, slots=True)
class Check:
    """One filter to evaluate softly."""

    name: str
    filter: Filter


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The findings of one validation of one shard."""

    shard: str
    run: str
    summaries: tuple[Summary, ...]
    verdicts: tuple[Verdict, ...]
    mode_before: str
    mode_after: str
    verdict_key: str | None  # the blob that holds the verdicts; None when nothing was checked
    columns: tuple[ColumnCount, ...] = ()  # the comparisons of the format check
    unusable: tuple[str, ...] = ()  # readers' filters that can no longer be evaluated
    lowered: tuple[str, ...] = ()  # other shards that no longer skip, because a rule is wrong
    costs: tuple[AuditCost, ...] = ()  # of the soft evaluations, also at other shares

    @property
    def mismatches(self) -> tuple[Verdict, ...]:
        """Return the verdicts that trip the shard."""
        return tuple(v for v in self.verdicts if v.outcome == "mismatch")

    def totals(self) -> dict[str, int]:
        """Return the counts over all checks, as `strata validate --json` prints them."""
        names = ("checked_parts", "audited_parts", "rows", "mismatches", "errors", "missing")
        return {name: sum(getattr(s, name) for s in self.summaries) for name in names}


@dataclass(frozen=True, slots=True)
class Scope:
    """The parts of a shard to check, and the name of the run."""

    run: str  # names the run; the sample depends on it
    percent: int | None = None  # share of the would-be-skipped parts to fetch; see `share`
    parts: frozenset[str] | None = None  # only these part keys, to replay a finding; None: all
    check_format: bool = True
    # Share of all parts to check the format of; manifests are always checked
    format_percent: int = 100
    policy: Policy = DEFAULT_POLICY
    config: str = ""  # settings file that the command of a finding names; empty: none

    def share(self, state: State) -> int:
        """Return the percentage to audit; None means all, or the share that the mode sets.

        Where readers skip, the shard's own share suffices, since the rest was audited before.
        """
        if self.percent is not None:
            return self.percent
        return state.rollout.audit_percent if state.rollout.mode in SKIPPING else 100

    def repeatable(self, verdict: Verdict) -> Verdict:
        """Return a verdict whose command names the settings file, so that it runs anywhere."""
        if not (verdict.replay and self.config):
            return verdict
        return replace(verdict, replay=f"{verdict.replay} --config {quote(self.config)}")


def validate_shard(
    stores: Stores,
    name: str,
    checks: Sequence[Check],
    evaluate: Evaluator,
    runner: Runner,
    scope: Scope,
) -> ValidationReport:
    """Check the shard's parts and record what was found.

    Cost: reads the chosen parts, and every part once more to check the format.
    Raises: InvalidRequest when the scope names a part that the shard does not have.
    """
    machine = Machine(stores)
    state = machine.load(name)
    looked = look(stores, state)
    _require(state, looked, scope)
    whole = readable(state, looked)
    softly = [_soft(stores, whole, check, evaluate, scope) for check in checks]
    found = [(summary, some) for summary, some, _ in softly]
    cost = total_cost([of_filter for _, _, of_filter in softly])
    columns: tuple[ColumnCount, ...] = ()
    if scope.check_format:
        summary, some, columns = _format(stores, state, looked, runner, scope)
        found.append((summary, some))
    elif bad := [v for v in verdicts_of(state, looked, scope.run) if v.outcome != "clean"]:
        found.append((_format_summary(scope, state, looked, [], bad, 0.0), bad))
    verdicts = [scope.repeatable(verdict) for _, some in found for verdict in some]
    exprs = {check.name: check.filter.expr for check in checks}
    after, key = _record(machine, state, scope, verdicts, exprs)
    forget(stores, name, scope.run)
    lowered = contain(machine, name, verdicts)
    return ValidationReport(
        name, scope.run, tuple(summary for summary, _ in found), tuple(verdicts),
        state.rollout.mode, after.rollout.mode, key, columns, lowered=tuple(lowered), costs=cost,
    )  # fmt: skip


def _require(state: State, looked: Sequence[Looked], scope: Scope) -> None:
    if not scope.parts:
        return
    for part in scope.parts.difference(*(one.keys.to_pylist() for one in looked)):
        raise InvalidRequest(
            "the shard has no such part (any more)",
            shard=state.name, part=part, cure="compaction may have replaced it",
        )  # fmt: skip


def _soft(
    stores: Stores, state: State, check: Check, evaluate: Evaluator, scope: Scope
) -> tuple[Summary, list[Verdict], list[AuditCost]]:
    started = time.monotonic()
    filter = check.filter
    decisions = decide_all(stores, state, filter)
    chosen = _chosen(state, decisions.skipped, scope)
    tightened = _chosen(state, decisions.tightened, scope)
    came = {r.part: r for r in evaluate(filter, [s.ref for s in chosen])} if chosen else {}
    if tightened:
        groups = {s.ref.key: s.groups for s in tightened}
        came |= {r.part: r for r in evaluate(filter, [s.ref for s in tightened], groups)}
    came = confirmed(evaluate, filter, came, {s.ref.key: s for s in (*chosen, *tightened)})
    pairs = [(one, came.get(one.ref.key)) for one in (*chosen, *tightened)]
    witness = getattr(evaluate, "witness", None)
    verdicts = judge(stores, state, filter, pairs, run=scope.run, check=check.name, witness=witness)
    summary = _soft_summary(state, check, decisions, scope, verdicts, started)
    cost = costs(
        decisions, filter, run=scope.run, least=_least(scope), seconds=summary.seconds,
        audited_bytes=summary.audited_bytes,
    )  # fmt: skip
    return summary, verdicts, cost


def _chosen(state: State, skips: Skips, scope: Scope) -> list[Skipped]:
    if scope.parts is not None:
        return skips.named(scope.parts)
    return skips.make(skips.drawn(scope.share(state), scope.run, _least(scope)))


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
        scope.run, state.name, check.name, filter.sql,
        now=format_time(filter.now_low // 1000),
        parts_total=decisions.parts_total, bytes_total=decisions.bytes_total,
        parts_skipped=len(decisions.skipped),
        bytes_skipped=decisions.skipped.size_bytes,
        parts_tightened=len(decisions.tightened),
        bytes_tightened=decisions.tightened.size_bytes,
        checked_parts=len(verdicts), parts_without_stats=decisions.parts_without_stats,
        percent=scope.share(state), seconds=round(time.monotonic() - started, 3),
        **_counts(verdicts),
    )  # fmt: skip


def _format(
    stores: Stores, state: State, looked: Sequence[Looked], runner: Runner, scope: Scope
) -> tuple[Summary, list[Verdict], tuple[ColumnCount, ...]]:
    started = time.monotonic()
    parts: list[Verdict] = []
    columns: tuple[ColumnCount, ...] = ()
    for one in check_parts(
        stores, state, looked, runner,
        run=scope.run, percent=scope.format_percent, parts=scope.parts,
    ):  # fmt: skip
        parts.append(one.verdict)
        columns = total((*columns, *one.columns))
    manifests = verdicts_of(state, looked, scope.run)
    if scope.parts is not None:
        manifests = [v for v in manifests if v.outcome != "clean"]
    took = time.monotonic() - started
    summary = _format_summary(scope, state, looked, parts, manifests, took)
    return summary, [*manifests, *parts], columns


def _format_summary(
    scope: Scope,
    state: State,
    looked: Sequence[Looked],
    parts: Sequence[Verdict],
    manifests: Sequence[Verdict],
    took: float,
) -> Summary:
    """Return the counts of a format check: parts, and also faults of manifests."""
    counts = _counts(parts)
    counts["mismatches"] += count(manifests, "mismatch")
    return Summary(
        scope.run, state.name, FORMAT_CHECK, sql="", now="",
        parts_total=sum(one.parts for one in looked),
        bytes_total=sum(one.size_bytes for one in looked),
        parts_skipped=0, bytes_skipped=0, parts_tightened=0, bytes_tightened=0,
        checked_parts=len(parts),
        parts_without_stats=sum(one.without_stats for one in looked),
        percent=scope.format_percent, seconds=round(took, 3), **counts,
    )  # fmt: skip


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
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


def _record(
    machine: Machine,
    state: State,
    scope: Scope,
    verdicts: Sequence[Verdict],
    exprs: Mapping[str, Expr],
) -> tuple[State, str | None]:
    """Write the verdict table, then commit the pointer, the evidence and, on a mismatch, the trip.

    A replay of single parts is no evidence, because its parts were chosen by hand. `exprs`: the
    filters by the names of their checks.
    """
    if not verdicts:
        return state, None
    sink = BytesIO()
    pq.write_table(verdict_table(verdicts), sink, compression="zstd")
    data = sink.getvalue()
    key = keys.verdict_key(state.name, keys.content_hash(data))
    machine.stores.blob.set(key, data)
    bad = [verdict for verdict in verdicts if verdict.outcome == "mismatch"]
    found = f"{len(bad)} mismatches in {scope.run}, the first in {bad[0].part}" if bad else ""
    for race in range(RACES):
        counts = _evidence(machine, machine.load(state.name), scope, verdicts, exprs)
        move = partial(
            record, key=key, counts=counts, policy=scope.policy, mismatch=found,
            quarantine=quarantine_of(bad),
        )  # fmt: skip
        try:
            machine.apply(state.name, move)
            break
        except Conflict:  # another validation was recorded meanwhile: count new evidence again
            if race == RACES - 1:
                raise
    return machine.load(state.name), key


def _evidence(
    machine: Machine,
    state: State,
    scope: Scope,
    verdicts: Sequence[Verdict],
    exprs: Mapping[str, Expr],
) -> AuditCounts:
    """Return the evidence of a run's soft evaluations; format checks do not count."""
    soft = [v for v in verdicts if v.check != FORMAT_CHECK and scope.parts is None]
    clean = [v for v in soft if v.outcome == "clean"]
    old = state.rollout.evidence
    seen, fresh = None, [True] * len(clean)
    if clean:
        pairs = pairs_of([(exprs[v.check], v.part) for v in clean])
        anew = old.basis != basis_of(state)
        seen, new = with_pairs(machine.stores.blob, state.name, old.seen, pairs, anew=anew)
        fresh = new.tolist()
    news = [v for v, is_new in zip(clean, fresh, strict=True) if is_new]
    return AuditCounts(
        len(news), sum(v.rows for v in clean), sum(v.size_bytes for v in clean),
        count(soft, "failed"), count(soft, "missing"), scope.share(state),
        Counter(v.stratum for v in news), len(clean) - len(news), seen,
    )  # fmt: skip
