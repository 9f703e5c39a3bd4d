"""The suite of one shard and night: one table, and what is expected of it, with its numbers.

The table has a line for each verdict, each check, each compared column and each merge. A column
belongs to one kind of line, and is empty in the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from strata.audit.compare import ColumnCount
from strata.audit.run import ValidationReport
from strata.audit.verdict import FORMAT_CHECK, Summary, Verdict, count
from strata.jobs.validate.escaped import text
from strata.state.state import Merge
from strata.sums.check import SUMS_CHECK, SumsCheck

NAMED: Final = ["line", "part", "check", "column", "bound", "error", "replay"]  # of a failed line
_NUMBERS: Final = (
    "planned",
    "audited",
    "differing",
    "lies",
    "kept missing",
    "updates in",
    "updates out",
    "parts out",
    "parts kept",
    "differing groups",
)
_KEPT: Final = "kept"


@dataclass(frozen=True)
class Suite:
    """One table, and its expectations as Great Expectations knows them."""

    name: str
    table: pd.DataFrame
    expectations: tuple[Any, ...]


def suite_of(
    report: ValidationReport, merges: Sequence[Merge], most: int, sums: SumsCheck | None = None
) -> Suite:
    """Return the suite of one shard with at most `most` failed verdicts of each check.

    `sums`: how the sums that the shard keeps compare with their source. Each text is escaped.
    """
    rows = [
        {"line": "mode", "mode": _mode(report)},
        *_lines_of_verdicts(report, most),
        *(_line_of_check(one) for one in report.summaries),
        *(_line_of_column(one) for one in report.columns),
        *(_line_of_merge(one) for one in merges),
        *([] if sums is None else [_line_of_sums(report.shard, sums)]),
    ]
    found = (*_expectations(report, merges), *_of_sums(sums))
    wanted = {one.column for one in found if hasattr(one, "column")}
    wanted |= {
        name for one in found if hasattr(one, "column_A") for name in (one.column_A, one.column_B)
    }
    table = pd.DataFrame(rows, columns=[*dict.fromkeys((*NAMED, *sorted(wanted)))], dtype=object)
    for name in wanted.intersection(_NUMBERS):
        table[name] = table[name].astype("Int64")
    return Suite(report.shard, table, found)


def _mode(report: ValidationReport) -> str:
    before, after = report.mode_before, report.mode_after
    return _KEPT if before == after else f"{before} before, {after} after"


def _judged(report: ValidationReport) -> Iterator[tuple[int, Summary | None, list[Verdict]]]:
    """Yield each check: its number, its summary if there is one, its verdicts."""
    known = {summary.check: summary for summary in report.summaries}
    names = dict.fromkeys((*known, *(verdict.check for verdict in report.verdicts)))
    for number, name in enumerate(names, 1):
        yield number, known.get(name), [v for v in report.verdicts if v.check == name]


def _lines_of_verdicts(report: ValidationReport, most: int) -> Iterator[dict[str, Any]]:
    """Yield a line for each verdict; each failure has a number.

    Great Expectations shows equal values as one line, with all their names side by side.
    """
    failures = 0
    for number, _, verdicts in _judged(report):
        bad = [v for v in verdicts if v.outcome != "clean"][:most]
        for verdict in (*bad, *(v for v in verdicts if v.outcome == "clean")):
            clean = verdict.outcome == "clean"
            failures += not clean
            rows = f"{verdict.accepted:,} rows, finding {failures}"
            yield {
                "line": "verdict",
                "part": verdict.part,
                "check": verdict.check,
                "column": verdict.column,
                "bound": verdict.bound,
                "error": verdict.error,
                "replay": verdict.replay,
                f"verdict {number}": "clean" if clean else f"{verdict.outcome} {failures}",
                f"accepted rows {number}": rows if verdict.accepted else "none",
                "failure": f"error {failures}" if verdict.error else "none",
                "statistics": f"lie {failures}" if verdict.bound else "enclose",
            }


def _line_of_check(one: Summary) -> dict[str, Any]:
    counts = {"planned": one.checked_parts, "audited": one.audited_parts}
    return {"line": "check", "check": one.check, **counts}


def _line_of_column(one: ColumnCount) -> dict[str, Any]:
    return {
        "line": "column",
        "column": one.column,
        "differing": one.differing,
        "lies": one.lies,
        "kept missing": one.kept_missing,
    }


def _line_of_merge(one: Merge) -> dict[str, Any]:
    return {
        "line": f"merge of state {one.seqno}",
        "updates in": one.updates_in,
        "updates out": one.updates_out,
        "parts out": one.parts_out,
        "parts kept": one.parts_kept,
    }


def _line_of_sums(shard: str, check: SumsCheck) -> dict[str, Any]:
    """Return the line of kept sums; what was not compared has no number."""
    return {
        "line": "sums",
        "check": SUMS_CHECK,
        "differing groups": None if check.left_out_bytes else check.different,
        "error": check.said if check.different else "",
        "replay": check.replay(shard),
    }


def _expectations(report: ValidationReport, merges: Sequence[Merge]) -> Iterator[Any]:
    from strata.jobs.validate import expectations as ours

    mode = f"Mode {report.mode_before} before the night, {report.mode_after} after it."
    yield ours.values(ours.ExpectTheShardToKeepItsMode, "mode", _KEPT, mode)
    for number, summary, verdicts in _judged(report):
        yield from _of_check(number, summary, verdicts)
    judged = report.verdicts
    if judged:
        failed = sum(bool(v.error) for v in judged)
        said = f"{len(judged) - failed:,} of {len(judged):,} parts were checked without an error."
        yield ours.values(ours.ExpectPartsToBeReadable, "failure", "none", said)
        lied = sum(bool(v.bound) for v in judged)
        said = (
            f"The statistics of {len(judged) - lied:,} of {len(judged):,} parts enclose the rows."
        )
        yield ours.values(ours.ExpectStatisticsToEncloseTheirRows, "statistics", "enclose", said)
    if report.summaries:
        planned = sum(one.checked_parts for one in report.summaries)
        audited = sum(one.audited_parts for one in report.summaries)
        said = f"{audited:,} of {planned:,} planned checks came back with a verdict."
        yield ours.equal(ours.ExpectPlannedPartsToBeAudited, "planned", "audited", said)
    if report.columns:
        yield from _of_columns(report.columns)
    if merges:
        yield from _of_merges(merges)


def _of_check(number: int, summary: Summary | None, verdicts: Sequence[Verdict]) -> Iterator[Any]:
    from strata.jobs.validate import expectations as ours

    name = summary.check if summary is not None else verdicts[0].check
    clean, rows = count(verdicts, "clean"), sum(verdict.rows for verdict in verdicts)
    if name == FORMAT_CHECK:
        said = f"Format: {clean:,} of {len(verdicts):,} checked parts are as their manifests say"
    else:
        empty = sum(v.outcome in ("clean", "mismatch") and not v.accepted for v in verdicts)
        said = (
            f"{empty:,} of {len(verdicts):,} parts that {text(name)} would skip hold no accepted"
            f" row: {rows:,} rows read"
        )
        if verdicts:
            yield ours.values(
                ours.ExpectSkippedPartsToHoldNoAcceptedRow,
                f"accepted rows {number}",
                "none",
                f"{said}.",
            )
        said = f"{text(name)}: {clean:,} of {len(verdicts):,} checks came back clean"
    if summary is not None:
        if name == FORMAT_CHECK:
            said += f"; the shard has {summary.parts_total:,}"
        else:
            skipped, total = summary.parts_skipped, summary.parts_total
            said += f"; {skipped:,} of {total:,} parts would be skipped"
        if summary.left_out_parts:
            said += f"; the budget left out {summary.left_out_parts:,}, which are no evidence"
    if verdicts:
        column = f"verdict {number}"
        yield ours.values(ours.ExpectPlannedChecksToComeBackClean, column, "clean", f"{said}.")


def _of_columns(columns: Sequence[ColumnCount]) -> Iterator[Any]:
    from strata.jobs.validate import expectations as ours

    values, differing = sum(c.values for c in columns), sum(c.differing for c in columns)
    said = f"{values - differing:,} of {values:,} values are the same in row codec and columns."
    yield ours.values(ours.ExpectBothCodecsToHoldTheSameValues, "differing", 0, said)
    places, lies = sum(c.statistics for c in columns), sum(c.lies for c in columns)
    said = f"{lies:,} of {places:,} statistics leave out a row (columns: {len(columns):,})."
    yield ours.values(ours.ExpectStatisticsToEncloseTheirRows, "lies", 0, said)
    missing = sum(c.kept_missing for c in columns)
    said = f"{missing:,} statistics are missing that the declaration says to keep."
    yield ours.values(ours.ExpectKeptStatisticsToBeThere, "kept missing", 0, said)


def _of_merges(merges: Sequence[Merge]) -> Iterator[Any]:
    from strata.jobs.validate import expectations as ours

    into, out = sum(m.updates_in for m in merges), sum(m.updates_out for m in merges)
    said = f"Last merges: {len(merges):,}; {into:,} updates in, {out:,} out."
    yield ours.at_least(ours.ExpectMergesToMakeNoUpdates, "updates in", "updates out", said)
    parts, kept = sum(m.parts_out for m in merges), sum(m.parts_kept for m in merges)
    said = f"Parts that merges kept: {kept:,} of the {parts:,} in their results."
    yield ours.at_least(ours.ExpectKeptPartsToBeInTheResult, "parts out", "parts kept", said)


def _of_sums(check: SumsCheck | None) -> Iterator[Any]:
    from strata.jobs.validate import expectations as ours

    if check is not None:
        said = f"Kept sums: {text(check.said)}."
        yield ours.values(ours.ExpectKeptSumsToEqualTheirSource, "differing groups", 0, said)
