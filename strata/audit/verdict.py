"""Verdicts: what a check found about one part, as data.

One row for each (part, check). A check is a filter (soft evaluation) or `format`. A missing
verdict is not a pass: a part that was planned for checking and did not come back gets the
outcome `missing`. The table is written as Parquet beside the shard and never changed.
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
    rows: int  # rows that were read and judged
    accepted: int  # rows that the filter accepted although the part would be skipped
    size_bytes: int  # of the part
    layout: str
    stats_version: int  # 0: the part has no statistics
    code_version: str
    stratum: str  # column types × functions of the filter × layout: what evidence is counted by
    column: str = ""  # name of the column at fault
    bound: str = ""  # the statistic that lied: recorded against found
    error: str = ""  # what went wrong, redacted of row values
    replay: str = ""  # the command that repeats this check on this part
    suspects: str = ""  # what goes to quarantine: column ids, functions, part keys; by spaces


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
    parts_skipped: int  # would be skipped
    bytes_skipped: int
    parts_tightened: int  # kept, but some of their row groups would be skipped
    bytes_tightened: int  # of these row groups
    percent: int  # share of the skipped parts, or of all for the format, that was to be fetched
    checked_parts: int  # planned for fetching
    audited_parts: int  # fetched and judged: clean or mismatch
    audited_bytes: int  # stored bytes of these
    rows: int
    mismatches: int
    errors: int  # checks that failed: neither match nor mismatch
    missing: int
    parts_without_stats: int
    seconds: float


def check_run(name: str) -> str:
    """Return the name of a run if it can be one: it names folders, and stands in every verdict.

    >>> check_run("manual__2013-01-02T00:00:00+00:00")
    'manual__2013-01-02T00:00:00+00:00'

    Raises: InvalidRequest.
    """
    bad = sorted({c for c in name if c in "/\\<>\"'&" or not c.isprintable()})
    if bad or not name.strip() or name.startswith(".") or len(name) > NAME_MAX:
        raise InvalidRequest(
            "this cannot be the name of a run", run=name[:NAME_MAX], not_allowed=bad,
            cure=f"letters, digits and . _ - : + ~, no dot in front, at most {NAME_MAX} characters",
        )  # fmt: skip
    return name


def count(verdicts: Sequence[Verdict], outcome: Outcome) -> int:
    """Return how many verdicts have this outcome."""
    return sum(verdict.outcome == outcome for verdict in verdicts)
