"""One validation of one shard: decide, fetch, judge, record, and trip the shard if need be.

The verdict table is written first; then one commit points to it and, if there is a mismatch,
sets the shard's mode back to `off` and quarantines the statistics that lied. The step down
needs nobody, and it does not matter whether Airflow is up.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from io import BytesIO

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
from strata.model.time import format_time
from strata.read import load_manifest
from strata.state.rollout import record_verdicts
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores


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


def validate_shard(
    stores: Stores,
    name: str,
    checks: Sequence[Check],
    evaluate: Evaluator,
    runner: Runner,
    *,
    run: str,
    percent: int = 100,
    parts: Collection[str] | None = None,
    check_format: bool = True,
) -> ValidationReport:
    """Check the shard's parts and record what was found.

    `percent` of the parts that would be skipped are fetched, chosen by hash of part and run;
    `parts` restricts everything to some part keys (to replay a finding).
    Cost: reads the chosen parts, and with `check_format` every part once more.
    Raises: InvalidRequest when `parts` names a part that the shard does not have.
    """
    machine = Machine(stores)
    state = machine.load(name)
    summaries: list[Summary] = []
    verdicts: list[Verdict] = []
    if parts is not None:
        _require(state, stores, parts)
    for check in checks:
        summary, found = _soft(stores, state, check, evaluate, run, percent, parts)
        summaries.append(summary)
        verdicts += found
    if check_format:
        summary, found = _format(stores, state, runner, run, parts)
        summaries.append(summary)
        verdicts += found
    after, key = _record(machine, stores, state, run, verdicts)
    return ValidationReport(
        name, run, tuple(summaries), tuple(verdicts), state.rollout.mode, after.rollout.mode, key
    )


def _require(state: State, stores: Stores, parts: Collection[str]) -> None:
    known = {
        ref.key
        for batch in state.batches
        if batch.manifest
        for ref in part_refs(load_manifest(stores, state, batch))
    }
    for part in parts:
        if part not in known:
            raise InvalidRequest(
                "the shard has no such part (any more)",
                shard=state.name, part=part, cure="compaction may have replaced it",
            )  # fmt: skip


def _soft(
    stores: Stores,
    state: State,
    check: Check,
    evaluate: Evaluator,
    run: str,
    percent: int,
    parts: Collection[str] | None,
) -> tuple[Summary, list[Verdict]]:
    started = time.monotonic()
    decisions = decide_all(stores, state, check.filter)
    chosen: list[Skipped] = sample(decisions.skipped, percent, run)
    if parts is not None:
        chosen = [s for s in decisions.skipped if s.ref.key in parts]
    evaluated = evaluate(check.filter, [s.ref for s in chosen]) if chosen else []
    verdicts = judge(stores, state, check.filter, chosen, evaluated, run=run, check=check.name)
    summary = _summary(
        run, state.name, check.name, check.filter.sql, verdicts, started,
        now=format_time(check.filter.now_low // 1000),
        parts_total=decisions.parts_total, bytes_total=decisions.bytes_total,
        parts_skipped=len(decisions.skipped),
        bytes_skipped=sum(s.ref.size_bytes for s in decisions.skipped),
        parts_without_stats=decisions.parts_without_stats,
    )  # fmt: skip
    return summary, verdicts


def _format(
    stores: Stores, state: State, runner: Runner, run: str, parts: Collection[str] | None
) -> tuple[Summary, list[Verdict]]:
    started = time.monotonic()
    tasks: list[PartTask] = []
    for batch in state.batches:
        if batch.manifest is None:
            continue
        manifest = load_manifest(stores, state, batch)
        for ref, row in zip(part_refs(manifest), stats_rows(manifest), strict=True):
            if parts is None or ref.key in parts:
                stats = None if row is None else _row_bytes(row)
                tasks.append(
                    PartTask(run, state.name, stores.settings, ref, state.relations, stats)
                )
    found = {verdict.part: verdict for verdict in runner(check_part, tasks)}
    verdicts = [found[task.ref.key] for task in tasks if task.ref.key in found]
    summary = _summary(
        run, state.name, FORMAT_CHECK, "", verdicts, started, now="",
        parts_total=len(tasks), bytes_total=sum(t.ref.size_bytes for t in tasks),
        parts_skipped=0, bytes_skipped=0,
        parts_without_stats=sum(t.ref.stats_version is None for t in tasks),
        planned=len(tasks),
    )  # fmt: skip
    return summary, verdicts


def _row_bytes(row: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_batch(row)
    return sink.getvalue().to_pybytes()


def _summary(
    run: str,
    shard: str,
    check: str,
    sql: str,
    verdicts: Sequence[Verdict],
    started: float,
    *,
    now: str,
    parts_total: int,
    bytes_total: int,
    parts_skipped: int,
    bytes_skipped: int,
    parts_without_stats: int,
    planned: int | None = None,
) -> Summary:
    planned = len(verdicts) if planned is None else planned
    missing = count(verdicts, "missing") + planned - len(verdicts)
    return Summary(
        run, shard, check, sql, now, parts_total, bytes_total, parts_skipped, bytes_skipped,
        checked_parts=planned,
        audited_parts=count(verdicts, "clean") + count(verdicts, "mismatch"),
        rows=sum(verdict.rows for verdict in verdicts),
        mismatches=count(verdicts, "mismatch"),
        errors=count(verdicts, "failed"),
        missing=missing,
        parts_without_stats=parts_without_stats,
        seconds=round(time.monotonic() - started, 3),
    )  # fmt: skip


def _record(
    machine: Machine, stores: Stores, state: State, run: str, verdicts: Sequence[Verdict]
) -> tuple[State, str | None]:
    """Write the verdict table, then commit the pointer and, on a mismatch, the trip."""
    if not verdicts:
        return state, None
    sink = BytesIO()
    pq.write_table(verdict_table(verdicts), sink, compression="zstd")
    data = sink.getvalue()
    key = keys.verdict_key(state.name, keys.content_hash(data))
    stores.blob.set(key, data)
    bad = [verdict for verdict in verdicts if verdict.outcome == "mismatch"]
    found = f"{len(bad)} mismatches in {run}, the first in {bad[0].part}" if bad else ""
    lied = quarantine_of(bad, state)
    machine.apply(
        state.name,
        lambda before, now_ms: record_verdicts(
            before, now_ms, key=key, mismatch=found, quarantine=lied
        ),
    )
    return machine.load(state.name), key
