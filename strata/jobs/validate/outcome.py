"""The outcome of a validation run: the result document, the log lines, the alerts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from strata.audit.cost import cost_counts
from strata.audit.run import ValidationReport
from strata.audit.verdict import Verdict
from strata.sums.check import SUMS_CHECK, SumsCheck

if TYPE_CHECKING:
    from strata.jobs.validate.report import WrittenReport

NO_SUMS: Final[Mapping[str, SumsCheck]] = MappingProxyType({})
MISMATCH: Final = 3  # exit code
FAILED: Final = 1


def document(
    reports: Sequence[ValidationReport],
    report: "WrittenReport",
    sums: Mapping[str, SumsCheck] = NO_SUMS,
) -> dict[str, Any]:
    """Return the result file's document; counts of a shard add up its checks.

    `sums`: the shards of kept sums that were compared with their sources.
    """
    return {
        "shards": [_shard(one) for one in reports],
        "report": str(report.index),
        "report_url": report.url,
        "report_problem": report.problem,
        "expectations_failed": list(report.failed),
        "alerts": [
            *(alert(one, v) for one in reports for v in one.mismatches),
            *(sums_alert(name, check) for name, check in sums.items() if check.different),
        ],
    }


def _shard(report: ValidationReport) -> dict[str, Any]:
    filters = [asdict(summary) for summary in report.summaries if summary.sql]
    return {
        "shard": report.shard,
        **report.totals(),
        "mode_before": report.mode_before,
        "mode_after": report.mode_after,
        "verdicts": report.verdict_key,
        "filters": filters,
        "format": [asdict(summary) for summary in report.summaries if not summary.sql],
        "columns": [asdict(column) for column in report.columns],
        "audit_cost": [asdict(cost) for cost in report.costs],
        **cost_counts(report.costs),
        **report.recorded(),
        "unusable_filters": list(report.unusable),
        "shards_lowered": list(report.lowered),
    }


def exit_code(reports: Sequence[ValidationReport], sums: Mapping[str, SumsCheck] = NO_SUMS) -> int:
    """Return 3 when a mismatch was found, 1 when a check failed or is missing, else 0."""
    if any(report.mismatches for report in reports) or any(c.different for c in sums.values()):
        return MISMATCH
    counts = [report.totals() for report in reports]
    return FAILED if any(c["errors"] or c["missing"] for c in counts) else 0


def alert(report: ValidationReport, verdict: Verdict) -> dict[str, Any]:
    """Return one alert: what lied, where, and how to replay it; no values of rows."""
    return {
        "shard": verdict.shard,
        "part": verdict.part,
        "check": verdict.check,
        "filter": verdict.sql,
        "column": verdict.column,
        "bound": verdict.bound,
        "error": verdict.error,
        "accepted_rows": verdict.accepted,
        "mode_before": report.mode_before,
        "mode_after": report.mode_after,
        **({"lowered": " ".join(report.lowered)} if report.lowered else {}),
        "replay": verdict.replay,
    }


def sums_alert(shard: str, check: SumsCheck) -> dict[str, Any]:
    """Return an alert: which sums differ from their source; no values of rows."""
    return {
        "shard": shard,
        "check": SUMS_CHECK,
        "error": check.said,
        "as_of": check.as_of,
        "replay": check.replay(shard),
    }


def sums_counts(check: SumsCheck) -> dict[str, int]:
    """Return what the result has of kept sums of a shard."""
    return {
        "sums_groups": check.groups,
        "sums_different": check.different,
        "sums_left_out_bytes": check.left_out_bytes,
    }


def sums_line(check: SumsCheck) -> str:
    """Return the line of the task's log about kept sums."""
    word = "ALERT " if check.different else ""
    return f"  {word}{SUMS_CHECK}: {check.said}"


def lines(report: ValidationReport) -> Iterator[str]:
    """Yield the lines of the task's log about one shard."""
    yield f"{report.shard}: mode {report.mode_before} -> {report.mode_after}"
    for s in report.summaries:
        yield (
            f"  {s.check}: {s.parts_skipped} of {s.parts_total} parts and {s.bytes_skipped} of"
            f" {s.bytes_total} bytes would be skipped, {s.audited_parts} of {s.checked_parts}"
            f" audited, {s.rows} rows, {s.mismatches} mismatches, {s.errors} errors,"
            f" {s.missing} missing, {s.percent} % = {s.audited_bytes} bytes in {s.seconds:.1f} s"
        )
        if s.left_out_parts:
            yield (
                f"  {s.check}: the budget left out {s.left_out_parts} parts,"
                f" {s.left_out_bytes} bytes; they are no evidence"
            )
    for cost in report.costs:
        yield (
            f"  an audit of {cost.percent} %: {cost.parts} parts, {cost.size_bytes} bytes in"
            f" {cost.requests} requests, {cost.seconds:.1f} s"
        )
    for verdict in report.mismatches:
        yield (
            f"  ALERT shard={verdict.shard} part={verdict.part} column={verdict.column}"
            f" filter={verdict.sql or verdict.check!r} bound: {verdict.bound}"
            f" replay: {verdict.replay}"
        )
    if report.lowered:
        yield f"  a rule is at fault, so these went back to soft: {', '.join(report.lowered)}"
