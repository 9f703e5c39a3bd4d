"""The batches of one shard in one job, in figures and in words."""

from collections.abc import Sequence
from typing import Any

from strata.ingest.task import IngestReport, added_up
from strata.model.time import format_time


def summarise(shard: str, reports: Sequence[IngestReport], seconds: float) -> dict[str, Any]:
    """Return what a job did to a shard; counts are of the new batches only."""
    new = [report for report in reports if not report.already_committed]
    return {
        "shard": shard,
        "batches": len(new),
        "already_committed": len(reports) - len(new),
        "files": sum(report.files for report in new),
        "updates": sum(report.updates for report in new),
        "rejected": sum(report.rejected for report in new),
        "late": sum(report.late for report in new),
        "early": sum(report.early for report in new),
        "late_files": sum(report.late_files for report in new),
        "contradictions": sum(report.contradictions for report in new),
        "passed": sum(report.passed for report in new),
        "verified": sum(report.verified for report in new),
        "changed": sorted({name for report in reports for name in report.changed}),
        "copies": sorted({name for report in reports for name, _ in report.copies}),
        "undeclared": sorted({name for report in new for name in report.undeclared}),
        "defaulted": dict(added_up(report.defaulted for report in new)),
        "parts": sum(report.parts for report in new),
        "bytes": sum(report.size_bytes for report in new),
        "stats_bytes": sum(report.stats_bytes for report in new),
        "stats_ms": round(sum(report.stats_seconds for report in new) * 1000),
        "lower": reports[0].lower if reports else None,
        "upper": reports[-1].upper if reports else None,
        "seqno": max((report.seqno for report in reports), default=None),
        "seconds": round(seconds, 3),
        "quarantine": [key for report in new for key in report.quarantine],
    }


def line(report: IngestReport, number: int, of: int) -> str:
    """Return one line of progress: which batch, and what became of it."""
    where = f"{report.shard} {number}/{of} {format_time(report.lower)}"
    if report.already_committed:
        told = "already committed, left alone"
    else:
        told = f"{report.updates:,} updates in {report.parts} parts from {report.files} files"
    return ", ".join([f"{where}: {told}", *_remarkable(report)])


def _remarkable(report: IngestReport) -> list[str]:
    """Return what an operator should know of a batch beside its size."""
    batch = [
        (report.rejected, "rows rejected"),
        (report.late, "rows late"),
        (report.early, "rows early"),
        (report.late_files, "files late"),
        (report.contradictions, "contradictions"),
        (len(report.undeclared), "undeclared columns"),
        (
            sum(count for _, count in report.defaulted),
            "values that are their column's DEFAULT and may have been null: set "
            "value.converter.replace.null.with.default=false",
        ),
    ]
    files = [
        (len(report.changed), "files have changed since they were taken in"),
        (len(report.copies), "files not taken, as their bytes are in under another name"),
    ]
    counts = files if report.already_committed else batch + files
    return [f"{count:,} {what}" for count, what in counts if count]


def table(summaries: Sequence[dict[str, Any]]) -> str:
    """Return a line for each shard under a header, columns aligned."""
    names = ["shard", "batches", "already_committed", "files", "updates", "rejected", "parts"]
    names += ["bytes", "seconds"]
    rows = [names] + [[_cell(summary[name]) for name in names] for summary in summaries]
    widths = [max(len(row[n]) for row in rows) for n in range(len(names))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if n else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
