"""Verdicts: the finding of a check about one part, as data.

There is one row for each (part, check). A check is a filter (soft evaluation) or `format`. A
missing result is not a pass: a planned part that does not come back gets the outcome `missing`. The
table is written as Parquet beside the shard and never changed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal

import pyarrow as pa

from strata.errors import InvalidRequest

Outcome = Literal["clean", "mismatch", "failed", "missing"]

FORMAT_CHECK: Final = "format"
NAME_MAX: Final = 200  # characters of a run's name: it is a folder of the report


@dataclass(frozen=True, slots=True)
class Verdict:
    """One finding."""

    run: str  # names the validation run
    shard: str
    check: str  # the filter's name, or FORMAT_CHECK
    sql: str  # the filter's text; empty for the format check
    part: str  # blob key
    outcome: Outcome
    rows: int  # rows read and judged
    accepted: int  # rows that the filter accepted although the part would be skipped
    size_bytes: int  # of the part
    layout: str
    stats_version: int  # 0: the part has no statistics
    code_version: str
    stratum: str  # column types × functions of the filter × layout; evidence is counted by it
    column: str = ""  # name of the column at fault
    bound: str = ""  # the statistic that lied: recorded against found
    error: str = ""  # what went wrong, without row values
    replay: str = ""  # the command that repeats this check on this part
    # Words for the quarantine: column ids, functions, part keys; separated by spaces
    suspects: str = ""


SCHEMA: Final = pa.schema(
    [
        pa.field(f.name, pa.int64() if f.type in (int, "int") else pa.string(), nullable=False)
        for f in fields(Verdict)
    ]
)


def verdict_table(verdicts: Sequence[Verdict]) -> pa.Table:
    """Return the verdicts as a table.

    Shape: one column a field of `Verdict`, none nullable; rows in the given order.
    """
    return pa.Table.from_pylist([asdict(verdict) for verdict in verdicts], schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Summary:
    """The verdicts of one check on one shard, counted."""

    run: str
    shard: str
    check: str
    sql: str
    now: str  # ISO 8601; what now() meant; empty for the format check
    parts_total: int
    bytes_total: int
    parts_skipped: int  # parts that would be skipped
    bytes_skipped: int
    parts_tightened: int  # kept parts with row groups that would be skipped
    bytes_tightened: int  # stored bytes of these row groups
    percent: int  # intended share of the skipped parts, or of all parts for the format
    checked_parts: int  # parts planned for fetching
    audited_parts: int  # fetched and judged: clean or mismatch
    audited_bytes: int  # stored bytes of these parts
    rows: int
    mismatches: int
    errors: int  # checks that failed: neither match nor mismatch
    missing: int
    parts_without_stats: int
    seconds: float
    left_out_parts: int = 0  # parts of the intended share that the budget left out: not a pass
    left_out_bytes: int = 0


def check_run(name: str) -> str:
    """Return the name of a run if it is valid: it names folders, and every verdict has it.

    >>> check_run("manual__2013-01-02T00:00:00+00:00")
    'manual__2013-01-02T00:00:00+00:00'

    Raises: InvalidRequest.
    """
    bad = sorted({c for c in name if c in "/\\<>\"'&" or not c.isprintable()})
    if bad or not name.strip() or name.startswith(".") or len(name) > NAME_MAX:
        raise InvalidRequest(
            "this cannot be the name of a run",
            run=name[:NAME_MAX],
            not_allowed=bad,
            cure=f"letters, digits and . _ - : + ~, no dot in front, at most {NAME_MAX} characters",
        )
    return name


def count(verdicts: Sequence[Verdict], outcome: Outcome) -> int:
    """Return how many verdicts have this outcome."""
    return sum(verdict.outcome == outcome for verdict in verdicts)
