"""The batches of one shard in one job, in figures and in words."""

from collections.abc import Sequence
from typing import Any

from strata.ingest.counts import Counts, total
from strata.ingest.task import IngestReport
from strata.model.time import format_time


def summary_of(shard: str, reports: Sequence[IngestReport], seconds: float) -> dict[str, Any]:
    """Return what a job did to a shard.

    Counts are those of the new batches; the skipped files are those of all reports.
    """
    new = [report for report in reports if not report.already_committed]
    known = [report for report in reports if report.already_committed]
    passed_over = Counts(taken_before=sum(report.counts.taken_before for report in known))
    return {
        "shard": shard,
        "batches": len(new),
        "already_committed": len(known),
        "updates": sum(report.updates for report in new),
        **(total(report.counts for report in new) + passed_over).to_json(),
        "changed": sorted({name for report in reports for name in report.changed}),
        "copies": sorted({name for report in reports for name, _ in report.copies}),
        "parts": sum(report.parts for report in new),
        "bytes": sum(report.size_bytes for report in new),
        **_span(reports),
        "seconds": round(seconds, 3),
        "quarantine": [key for report in new for key in report.quarantine],
    }


def _span(reports: Sequence[IngestReport]) -> dict[str, int | None]:
    if not reports:
        return dict.fromkeys(("lower", "upper", "seqno"))
    seqno = max(report.seqno for report in reports)
    return {"lower": reports[0].lower, "upper": reports[-1].upper, "seqno": seqno}


def line(report: IngestReport, number: int, of: int) -> str:
    """Return one line of progress: which batch, and its outcome."""
    where = f"{report.shard} {number}/{of} {format_time(report.lower)}"
    if report.already_committed:
        done = "already committed, left alone"
    else:
        files = report.counts.files
        done = f"{report.updates:,} updates in {report.parts} parts from {files} files"
    return ", ".join([f"{where}: {done}", *_remarkable(report)])


def _remarkable(report: IngestReport) -> list[str]:
    """Return what an operator should know about a batch in addition to its size."""
    if not report.already_committed:
        return report.counts.remarks() + _files(report)
    return _files(report)


def _files(report: IngestReport) -> list[str]:
    """Return which files were not taken, in words."""
    counts = [
        (len(report.changed), "files have changed since they were taken in"),
        (len(report.copies), "files not taken, as their bytes are in under another name"),
    ]
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
