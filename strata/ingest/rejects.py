"""Source rows that could not be read: what was wrong with each, and where it stands."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import orjson

SHOWN: Final = 200  # characters of a value that a message repeats; the quarantine has all


@dataclass(frozen=True, slots=True)
class Reject:
    """One row that is not in the shard, and why."""

    file: str
    line: int | None  # physical line on which the row begins, from 1; None: the format has none
    column: str | None  # None: the row as a whole is malformed
    value: str | None  # the column's text; None where there is no column or the value is null
    reason: str
    raw: str  # the row as it stands in the file; for Parquet its columns as JSON
    header: str | None = None  # of a CSV file, in one line


def encode_rejects(rejects: Sequence[Reject]) -> bytes:
    """Return a quarantine file: JSON lines in the order given.

    Shape: {"file", "line", "column", "value", "reason", "raw", "header"} each.
    """
    return b"".join(orjson.dumps(asdict(r), option=orjson.OPT_APPEND_NEWLINE) for r in rejects)


def details(reject: Reject) -> dict[str, object]:
    """Return what an error message says of a rejected row."""
    value = reject.raw if reject.column is None else reject.value
    shown = value if value is None or len(value) <= SHOWN else value[:SHOWN] + "…"
    found = {"file": reject.file, "line": reject.line, "column": reject.column}
    return {k: v for k, v in found.items() if v is not None} | {
        "value": shown,
        "reason": reject.reason,
    }
