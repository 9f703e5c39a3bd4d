"""A job's result file: read, counted, shown as a table, and judged when the job failed.

A job writes JSON with its outcome for each shard, even when it fails; its exit code says how it
ended (0 done, 1 failed, 2 bad request, 3 mismatch found, 4 overtaken by another writer). The result
says more than the code: a corrupt part and a lost network both end a job with 1, but only the lost
network is worth another try.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill, shorten
from typing import Any, Final

# Another try cannot help, or would hide a problem that must be seen.
FINAL_CODES: Final = {
    2: "bad request",
    3: "soft evaluation found a mismatch",
}
LOST_CODE: Final = 4
WIDTH: Final = 120  # of a line in Airflow's log, before it has to be scrolled
CELL: Final = 80  # of a text in a table; the result file has it whole
# Fenced is not final: the try took too long and lost its handle; the next try gets a new one.
FINAL_KINDS: Final = frozenset({"InvalidRequest", "Corrupt"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job failed, and whether another try could end otherwise."""

    final: bool
    reason: str
    lost: bool = False  # another writer was faster: retry at once


def read_result(file: Path) -> dict[str, Any]:
    """Return the result in `file`; empty if the job died before it wrote one."""
    try:
        loaded = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def shard_results(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each shard's own result by its name, whether the job wrote a list or a mapping.

    >>> shard_results({"shards": [{"shard": "a", "rows": 3}]})
    {'a': {'shard': 'a', 'rows': 3}}
    """
    shards = result.get("shards") or {}
    if isinstance(shards, Mapping):
        return {str(name): dict(value) for name, value in shards.items()}
    return {str(item.get("shard", n)): dict(item) for n, item in enumerate(shards)}


def counts(result: Mapping[str, Any]) -> dict[str, int]:
    """Return the whole numbers of the shards' results, added up, and the number of shards.

    >>> counts({"shards": {"a": {"rows": 3, "mode": "on"}, "b": {"rows": 4, "done": True}}})
    {'shards': 2, 'rows': 7}
    """
    shards = shard_results(result)
    total: dict[str, int] = {"shards": len(shards)}
    for shard in shards.values():
        for name, value in numbers(shard):
            total[name] = total.get(name, 0) + value
    return total


def numbers(shard: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    """Yield the counts in one shard's result: whole numbers that can be added across shards."""
    for name, value in shard.items():
        if isinstance(value, int) and not isinstance(value, bool) and name not in NOT_COUNTS:
            yield name, value


TIMES: Final = frozenset({"lower", "upper", "since", "as_of"})
BEGINNING_S: Final = -62_135_596_800  # the year 1, in seconds: no update is earlier
NOT_COUNTS: Final = frozenset({"seqno", "lower", "upper", "since", "as_of", "audit_percent"})


def headline(job: str, result: Mapping[str, Any], *, dry: bool) -> str:
    """Return what a job did, in one line that fits a log.

    >>> headline("ingest", {"shards": [{"shard": "a", "rows": 3915, "late": 0}]}, dry=True)
    'ingest, dry run: 1 shard; rows 3,915'
    """
    shards = shard_results(result)
    failed = sum(1 for one in shards.values() if one.get("error"))
    found = [f"{len(shards):,} shard{'' if len(shards) == 1 else 's'}"]
    found += [f"{failed:,} of them failed"] if failed else []
    said = f"{job}{', dry run' if dry else ''}: {', '.join(found)}"
    done = [f"{n} {v:,}" for n, v in counts(result).items() if v and n != "shards"]
    return shorten("; ".join(filter(None, (said, ", ".join(done)))), WIDTH, placeholder=" ...")


def table(result: Mapping[str, Any]) -> str:
    """Return the result as a table for a log: a line for each shard, a column for each count.

    Counts that are zero in every shard are named below it. A table wider than the log is cut into
    several.

    >>> print(table({"shards": [{"shard": "a", "rows": 3, "late": 0}, {"shard": "b", "rows": 4}]}))
    shard  rows
    a         3
    b         4
    zero: late
    """
    shards = shard_results(result)
    every = dict.fromkeys(n for shard in shards.values() for n, _ in numbers(shard))
    names = [n for n in every if any(dict(numbers(one)).get(n) for one in shards.values())]
    rows = [["shard", *names]]
    for shard, values in shards.items():
        present = dict(numbers(values))
        rows.append([shard, *(f"{present[n]:,}" if n in present else "-" for n in names)])
    zero = ", ".join(n for n in every if n not in names)
    return _aligned(rows) + (f"\n{fill(f'zero: {zero}', WIDTH)}" if zero else "")


def details(result: Mapping[str, Any]) -> str:
    """Return the lists in the shards' results as tables: one for each list of each shard.

    >>> print(details({"shards": {"a": {"filters": [{"name": "n9", "parts": 4}], "damaged": []}}}))
    a: filters
    name  parts
    n9        4
    """
    tables = []
    for shard, values in shard_results(result).items():
        for name, items in values.items():
            if isinstance(items, list) and items and all(isinstance(i, Mapping) for i in items):
                columns = list(items[0])
                rows = [[_cell(item.get(name), name) for name in columns] for item in items]
                tables.append(f"{shard}: {name}\n{_aligned([columns, *rows])}")
    return "\n\n".join(tables)


def _cell(value: Any, column: str) -> str:
    if isinstance(value, int) and column in TIMES:
        return _moment(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return shorten(str(value), CELL, placeholder=" ...") or str(value)[:CELL]


def _moment(ms: int) -> str:
    """Return a time of updates as people read it.

    >>> _moment(1_795_046_400_000), _moment(-62_135_596_800_000)
    ('2026-11-19T00:00:00Z', 'the beginning')
    """
    seconds = ms // 1000
    if seconds <= BEGINNING_S:
        return "the beginning"
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):
        return f"{ms:,}"


def _aligned(rows: list[list[str]]) -> str:
    """Return rows as aligned columns, in blocks that fit the log; each begins with the first."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    blocks, wide = [[0]], widths[0]
    for column, width in enumerate(widths[1:], 1):
        if wide + 2 + width > WIDTH and len(blocks[-1]) > 1:
            blocks.append([0])
            wide = widths[0]
        blocks[-1].append(column)
        wide += 2 + width
    return "\n".join(_block([[row[n] for n in block] for row in rows]) for block in blocks)


def _block(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(lines)


def alerts(result: Mapping[str, Any]) -> list[str]:
    """Return one line for each alert in the result: what was found wrong, and where."""
    found = list(result.get("alerts") or [])
    for shard in shard_results(result).values():
        found.extend(shard.get("alerts") or [])
    lines = [
        " ".join(f"{k}={v!r}" for k, v in alert.items())
        if isinstance(alert, Mapping)
        else str(alert)
        for alert in found
    ]
    return list(dict.fromkeys(lines))


def failures(result: Mapping[str, Any]) -> list[str]:
    """Return one line for each failed shard of a run with several shards.

    >>> failed = {"kind": "Corrupt", "message": "digest"}
    >>> failures({"shards": [{"shard": "a", "error": failed}, {"shard": "b", "rows": 3}]})
    ['a: Corrupt: digest']
    """
    shards = shard_results(result)
    failed = [(name, one["error"]) for name, one in shards.items() if one.get("error")]
    return [f"{n}: {e['kind']}: {e['message']}" for n, e in failed] if len(shards) > 1 else []


def remarks(result: Mapping[str, Any]) -> list[str]:
    """Return one line for each finding that a person should know although the job ended well.

    >>> remarks({"shards": [{"shard": "a", "rejected": 2, "files": 1, "batches": 1}]})
    ['a: 2 rows rejected: strata quarantine show a']
    """
    if result.get("dry_run"):
        return []
    lines = []
    for name, shard in shard_results(result).items():
        for field, text in REMARKABLE.items():
            value = shard.get(field)
            count = len(value) if isinstance(value, list | dict) else value
            if count:
                lines.append(f"{name}: {count:,} {text.format(shard=name)}")
        if shard.get("batches") and shard.get("files") == 0:
            lines.append(f"{name}: no file came for the interval; readers see it as complete")
    return lines + list(filter(None, [str(result.get("report_problem") or "")]))


# Counts of an ingest that committed anyway, for a person to look at.
REMARKABLE: Final = {
    "rejected": "rows rejected: strata quarantine show {shard}",
    "contradictions": "changes that contradict the shard",
    "late_files": "files came late, for intervals that were closed",
    "late": "rows late, taken in at a later time than theirs",
    "early": "rows early",
    "changed": "files have changed since they were taken in; the change was not taken",
    "copies": "files not taken: their bytes are in under another name",
    "undeclared": "columns that are not declared",
    "defaulted": "columns with values that are their DEFAULT and may have been null: set "
    "value.converter.replace.null.with.default=false",
}


def judge(exit_code: int, result: Mapping[str, Any]) -> Verdict:
    """Return why the job failed and whether that is final.

    Errs: unknown failures are worth another try; the jobs are safe to repeat.
    """
    error = result.get("error") or {}
    if isinstance(error, str):
        error = {"message": error}
    kind = str(error.get("kind", ""))
    said = str(error.get("message", "")) or FINAL_CODES.get(exit_code, "the job failed")
    first = f"{kind or f'exit code {exit_code}'}: {said}"
    reason = "\n".join([first, *alerts(result), *failures(result)])
    final = exit_code in FINAL_CODES or kind in FINAL_KINDS
    return Verdict(final, reason, lost=not final and exit_code == LOST_CODE)
