"""One validation of one shard: decide, fetch, judge, record, and trip the shard if need be.

The verdict table is written first; then one commit points to it and, if there is a mismatch,
sets the shard's mode back to `off` and quarantines the statistics that lied. The step down
needs nobody, and it does not matter whether Airflow is up.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.audit.parts import PartTask, check_part
from strata.audit.soft import Evaluator, Skipped, decide_all, judge, quarantine_of, sample
from strata.audit.verdict import FORMAT_CHECK, Summary, Verdict, count, verdict_table
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.format.manifest import part_refs, stats_rows
from strata.machine import Machine
from strata.model.runner import Runner
from strata.model.settings import RolloutSettings
from strata.model.time import format_time
from strata.plan import load_manifest
from strata.rollout.evidence import Counts
from strata.rollout.ladder import SKIPPING, record
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores

DEFAULT_GATES: Final = RolloutSettings()  # what evidence is counted by


@dataclass(frozen=True, slots=True)
class Check:
    """One filter to evaluate softly."""

    name: str
    filter: Filter


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """What one validation of one shard found."""

    shard: str
    run: str
    summaries: tuple[Summary, ...]
    verdicts: tuple[Verdict, ...]
    mode_before: str
    mode_after: str
    verdict_key: str | None  # the blob that holds the verdicts; None when nothing was checked

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
    """Which parts of a shard are checked, and under which name."""

    run: str  # names the run; the sample depends on it
    percent: int | None = None  # share of the would-be-skipped parts that is fetched; see `share`
    parts: frozenset[str] | None = None  # only these part keys, to replay a finding; None: all
    check_format: bool = True
    gates: RolloutSettings = DEFAULT_GATES

    def share(self, state: State) -> int:
        """Return the percentage that is audited; None means all, or as the mode says.

        Where readers skip, the shard's own share is enough: the rest was seen before.
        """
        if self.percent is not None:
            return self.percent
        return state.rollout.audit_percent if state.rollout.mode in SKIPPING else 100


def validate_shard(
    stores: Stores,
    name: str,
    checks: Sequence[Check],
    evaluate: Evaluator,
    runner: Runner,
    scope: Scope,
) -> ValidationReport:
    """Check the shard's parts and record what was found.

    Cost: reads the chosen parts, and to check the format every part once more.
    Raises: InvalidRequest when the scope names a part that the shard does not have.
    """
    machine = Machine(stores)
    state = machine.load(name)
    _require(state, stores, scope)
    found = [_soft(stores, state, check, evaluate, scope) for check in checks]
    if scope.check_format:
        found.append(_format(stores, state, runner, scope))
    verdicts = [verdict for _, some in found for verdict in some]
    after, key = _record(machine, stores, state, scope, verdicts)
    return ValidationReport(
        name, scope.run, tuple(summary for summary, _ in found), tuple(verdicts),
        state.rollout.mode, after.rollout.mode, key,
    )  # fmt: skip


def _manifests(state: State, stores: Stores) -> Iterator[pa.Table]:
    for batch in state.batches:
        if batch.manifest is not None:
            yield load_manifest(stores, state, batch)


def _require(state: State, stores: Stores, scope: Scope) -> None:
    if scope.parts is None:
        return
    known = {ref.key for manifest in _manifests(state, stores) for ref in part_refs(manifest)}
    for part in scope.parts - known:
        raise InvalidRequest(
            "the shard has no such part (any more)",
            shard=state.name, part=part, cure="compaction may have replaced it",
        )  # fmt: skip


def _soft(
    stores: Stores, state: State, check: Check, evaluate: Evaluator, scope: Scope
) -> tuple[Summary, list[Verdict]]:
    started = time.monotonic()
    filter = check.filter
    decisions = decide_all(stores, state, filter)
    least = scope.gates.sample_parts if scope.percent is None else 0
    chosen: list[Skipped] = sample(decisions.skipped, scope.share(state), scope.run, least)
    if scope.parts is not None:
        chosen = [s for s in decisions.skipped if s.ref.key in scope.parts]
    results = evaluate(filter, [s.ref for s in chosen]) if chosen else []
    by_part = {result.part: result for result in results}
    pairs = [(skipped, by_part.get(skipped.ref.key)) for skipped in chosen]
    verdicts = judge(stores, state, filter, pairs, run=scope.run, check=check.name)
    summary = Summary(
        scope.run, state.name, check.name, filter.sql,
        now=format_time(filter.now_low // 1000),
        parts_total=decisions.parts_total, bytes_total=decisions.bytes_total,
        parts_skipped=len(decisions.skipped),
        bytes_skipped=sum(s.ref.size_bytes for s in decisions.skipped),
        checked_parts=len(chosen), parts_without_stats=decisions.parts_without_stats,
        seconds=round(time.monotonic() - started, 3), **_counts(verdicts),
    )  # fmt: skip
    return summary, verdicts


def _format(
    stores: Stores, state: State, runner: Runner, scope: Scope
) -> tuple[Summary, list[Verdict]]:
    started = time.monotonic()
    tasks = [
        PartTask(scope.run, state.name, stores.settings, ref, state.relations, _row_bytes(row))
        for manifest in _manifests(state, stores)
        for ref, row in zip(part_refs(manifest), stats_rows(manifest), strict=True)
        if scope.parts is None or ref.key in scope.parts
    ]
    verdicts = list(runner(check_part, tasks))
    summary = Summary(
        scope.run, state.name, FORMAT_CHECK, sql="", now="",
        parts_total=len(tasks), bytes_total=sum(t.ref.size_bytes for t in tasks),
        parts_skipped=0, bytes_skipped=0, checked_parts=len(tasks),
        parts_without_stats=sum(t.stats is None for t in tasks),
        seconds=round(time.monotonic() - started, 3), **_counts(verdicts),
    )  # fmt: skip
    return summary, verdicts


def _row_bytes(row: pa.RecordBatch | None) -> bytes | None:
    if row is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_batch(row)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return the counts of a summary; an audited part was judged, whatever the judgement."""
    return {
        "audited_parts": count(verdicts, "clean") + count(verdicts, "mismatch"),
        "rows": sum(verdict.rows for verdict in verdicts),
        "mismatches": count(verdicts, "mismatch"),
        "errors": count(verdicts, "failed"),
        "missing": count(verdicts, "missing"),
    }


def _record(
    machine: Machine,
    stores: Stores,
    state: State,
    scope: Scope,
    verdicts: Sequence[Verdict],
) -> tuple[State, str | None]:
    """Write the verdict table, then commit the pointer, the evidence and, on a mismatch, the trip.

    A replay of single parts is no evidence: what it looks at was chosen by hand.
    """
    if not verdicts:
        return state, None
    sink = BytesIO()
    pq.write_table(verdict_table(verdicts), sink, compression="zstd")
    data = sink.getvalue()
    key = keys.verdict_key(state.name, keys.content_hash(data))
    stores.blob.set(key, data)
    bad = [verdict for verdict in verdicts if verdict.outcome == "mismatch"]
    found = f"{len(bad)} mismatches in {scope.run}, the first in {bad[0].part}" if bad else ""
    move = partial(
        record, key=key, counts=_evidence(state, scope, verdicts), settings=scope.gates,
        mismatch=found, quarantine=quarantine_of(bad),
    )  # fmt: skip
    machine.apply(state.name, move)
    return machine.load(state.name), key


def _evidence(state: State, scope: Scope, verdicts: Sequence[Verdict]) -> Counts:
    """Return what the soft evaluations of a run looked at; format checks are not counted."""
    soft = [v for v in verdicts if v.check != FORMAT_CHECK and scope.parts is None]
    clean = [v for v in soft if v.outcome == "clean"]
    return Counts(
        len(clean), sum(v.rows for v in clean), sum(v.size_bytes for v in clean),
        count(soft, "failed"), count(soft, "missing"), scope.share(state),
        Counter(v.stratum for v in clean),
    )  # fmt: skip
