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
from typing import Any, Final

import pyarrow.parquet as pq

from strata.audit.batches import Looked, look, readable, verdicts_of
from strata.audit.budget import (
    FORMAT_SHARE,
    Clock,
    affordable_parts,
    over,
)
from strata.audit.compare import ColumnCount, total
from strata.audit.contain import contain
from strata.audit.cost import AuditCost
from strata.audit.cost import total as total_cost
from strata.audit.format import check_parts, forget, rest_of_share, share_of
from strata.audit.scope import Check, Scope
from strata.audit.seen import pairs_of, with_pairs
from strata.audit.soft import Evaluator, quarantine_of
from strata.audit.softly import audited_share, counts_of, softly
from strata.audit.verdict import FORMAT_CHECK, Summary, Verdict, count, verdict_table
from strata.errors import Conflict, Fenced, InvalidRequest
from strata.expr.nodes import Expr
from strata.machine.ledger import is_of_life
from strata.machine.machine import Machine
from strata.model.runner import Runner
from strata.rollout.basis import basis_of, recorded_basis
from strata.rollout.evidence import AuditCounts
from strata.rollout.ladder import record
from strata.state.state import Evidence, State
from strata.store import keys
from strata.store.open import Stores

__all__ = ["Check", "Scope", "ValidationReport", "validate_shard"]

CHECKS_MAX: Final = 64  # filters whose figures of a night the history keeps
_SKIPPED: Final = ("parts_total", "parts_skipped", "bytes_total", "bytes_skipped")
RACES: Final = 5  # races lost to other validations, before Conflict is raised


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
    evidence: Evidence | None = None  # after this run, of all runs together; None: not looked up

    @property
    def mismatches(self) -> tuple[Verdict, ...]:
        """Return the verdicts that trip the shard."""
        return tuple(v for v in self.verdicts if v.outcome == "mismatch")

    def totals(self) -> dict[str, int]:
        """Return the counts over all checks, as `strata validate --json` prints them."""
        names = (
            "checked_parts",
            "audited_parts",
            "rows",
            "mismatches",
            "errors",
            "missing",
            "left_out_parts",
            "left_out_bytes",
        )
        return {name: sum(getattr(s, name) for s in self.summaries) for name in names}

    def recorded(self) -> dict[str, Any]:
        """Return what the history of operations keeps for each night: evidence, and filters.

        `checks` has the parts and bytes that each filter would skip, `CHECKS_MAX` filters at most.
        """
        seen = self.evidence
        evidence = (
            {}
            if seen is None
            else {
                "evidence_parts": seen.parts,
                "evidence_repeats": seen.repeats,
                "evidence_distinct_parts": seen.distinct_parts,
            }
        )
        filters = [s for s in self.summaries if s.check != FORMAT_CHECK][:CHECKS_MAX]
        return evidence | {"checks": {s.check: _skipped(s) for s in filters}}


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
    Raises: InvalidRequest when the scope names a part that the shard does not have, or the code was
    replaced beneath this process.
    """
    machine = Machine(stores)
    state = machine.load(name)
    recorded_basis(state)  # refused before anything is read
    looked = look(stores, state)
    _require(state, looked, scope)
    whole = readable(state, looked)
    clock = Clock(0.0 if scope.parts else scope.budget.seconds, len(checks) + scope.check_format)
    found_softly = softly(stores, whole, checks, evaluate, scope, clock)
    found = [(summary, some) for summary, some, _ in found_softly]
    cost = total_cost([of_filter for _, _, of_filter in found_softly])
    columns: tuple[ColumnCount, ...] = ()
    if scope.check_format:
        spent = sum(verdict.size_bytes for _, some in found for verdict in some)
        summary, some, columns = _format(stores, state, looked, runner, scope, clock, spent)
        found.append((summary, some))
    elif bad := [v for v in verdicts_of(state, looked, scope.run) if v.outcome != "clean"]:
        found.append((_format_summary(scope, state, looked, [], bad, 0.0), bad))
    verdicts = [scope.repeatable(verdict) for _, some in found for verdict in some]
    exprs = {check.name: check.filter.expr for check in checks}
    audited = audited_share(scope.share(state), [summary for summary, _, _ in found_softly])
    after, key = _record(machine, state, scope, verdicts, exprs, audited)
    lowered = contain(machine, name, verdicts)
    forget(stores, name, scope.run)
    return ValidationReport(
        name,
        scope.run,
        tuple(summary for summary, _ in found),
        tuple(verdicts),
        state.rollout.mode,
        after.rollout.mode,
        key,
        columns,
        lowered=tuple(lowered),
        costs=cost,
        evidence=after.rollout.evidence,
    )


def _skipped(summary: Summary) -> dict[str, int]:
    return {name: getattr(summary, name) for name in _SKIPPED}


def _require(state: State, looked: Sequence[Looked], scope: Scope) -> None:
    if not scope.parts:
        return
    unknown = set(scope.parts)
    for table in (table for one in looked for table in one.slices(["key"])):
        unknown.difference_update(table["key"].to_pylist())
    for part in unknown:
        raise InvalidRequest(
            "the shard has no such part (any more)",
            shard=state.name,
            part=part,
            cure="compaction may have replaced it",
        )


def _format(  # noqa: PLR0913, PLR0917 - what to look at, and for how long
    stores: Stores,
    state: State,
    looked: Sequence[Looked],
    runner: Runner,
    scope: Scope,
    clock: Clock,
    spent: int,
) -> tuple[Summary, list[Verdict], tuple[ColumnCount, ...]]:
    started = time.monotonic()
    parts: list[Verdict] = []
    columns: tuple[ColumnCount, ...] = ()
    only, most = scope.parts, scope.budget.size_bytes
    if most and not only:
        left = max(most - spent, most // FORMAT_SHARE)
        wanted = partial(share_of, scope.run, scope.format_percent)
        only = affordable_parts(looked, wanted, scope.run, left)
    newest = sorted(looked, key=lambda one: -one.batch.upper) if scope.budget.limited else looked
    clock.begin()
    for one in check_parts(
        stores,
        state,
        newest,
        runner,
        run=scope.run,
        percent=scope.format_percent,
        parts=only,
    ):
        parts.append(one.verdict)
        columns = total((*columns, *one.columns))
        if over(clock.until):
            break
    manifests = verdicts_of(state, looked, scope.run)
    if scope.parts is not None:
        manifests = [v for v in manifests if v.outcome != "clean"]
    took = time.monotonic() - started
    summary = _format_summary(scope, state, looked, parts, manifests, took)
    if scope.budget.limited and not scope.parts:
        checked = {verdict.part for verdict in parts}
        rest, size = rest_of_share(looked, scope.run, scope.format_percent, checked)
        summary = replace(summary, left_out_parts=rest, left_out_bytes=size)
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
    counts = counts_of(parts)
    counts["mismatches"] += count(manifests, "mismatch")
    return Summary(
        scope.run,
        state.name,
        FORMAT_CHECK,
        sql="",
        now="",
        parts_total=sum(one.parts for one in looked),
        bytes_total=sum(one.size_bytes for one in looked),
        parts_skipped=0,
        bytes_skipped=0,
        parts_tightened=0,
        bytes_tightened=0,
        checked_parts=len(parts),
        parts_without_stats=sum(one.without_stats for one in looked),
        percent=scope.format_percent,
        seconds=round(took, 3),
        **counts,
    )


def _record(
    machine: Machine,
    state: State,
    scope: Scope,
    verdicts: Sequence[Verdict],
    exprs: Mapping[str, Expr],
    percent: int,
) -> tuple[State, str | None]:
    """Write the verdict table, then commit the pointer, the evidence and, on a mismatch, the trip.

    A replay of single parts is no evidence, because its parts were chosen by hand. `exprs`: the
    filters by the names of their checks. `percent`: the audited share.
    """
    if not verdicts:
        return state, None
    sink = BytesIO()
    pq.write_table(verdict_table(verdicts), sink, compression="zstd")
    data = sink.getvalue()
    key = keys.verdict_key(state.name, keys.content_hash(data))
    machine.stores.blob.set(key, data)
    bad = [verdict for verdict in verdicts if verdict.outcome == "mismatch"]
    number = "1 mismatch" if len(bad) == 1 else f"{len(bad)} mismatches"
    found = f"{number} in {scope.run}, the first in {bad[0].part}" if bad else ""
    for race in range(RACES):
        newest = machine.load(state.name)
        if not bad and not is_of_life(machine.stores.blob, newest, state):
            raise Fenced(
                "the shard was dropped, or restored, while it was validated: this is no evidence",
                shard=state.name,
                cure="validate it again",
            )
        counts = _evidence(machine, newest, scope, verdicts, exprs, percent)
        move = partial(
            record,
            key=key,
            counts=counts,
            policy=scope.policy,
            mismatch=found,
            quarantine=quarantine_of(bad),
        )
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
    percent: int,
) -> AuditCounts:
    """Return the evidence of a run's soft evaluations; format checks do not count."""
    soft = [v for v in verdicts if v.check != FORMAT_CHECK and scope.parts is None]
    clean = [v for v in soft if v.outcome == "clean"]
    old = state.rollout.evidence
    seen, news = None, clean
    if clean:
        pairs = pairs_of([(exprs[v.check], v.part) for v in clean])
        anew = old.basis != basis_of(state)
        seen, fresh = with_pairs(machine.stores.blob, state.name, old.seen, pairs, anew=anew)
        news = [v for v, is_new in zip(clean, fresh.tolist(), strict=True) if is_new]
    return AuditCounts(
        len(news),
        sum(v.rows for v in clean),
        sum(v.size_bytes for v in clean),
        count(soft, "failed"),
        count(soft, "missing"),
        percent,
        Counter(v.stratum for v in news),
        len(clean) - len(news),
        seen,
    )
