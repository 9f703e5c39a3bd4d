"""Source rows that could not be read: what is wrong with each, and where it is."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from strata.ingest.values.shown import clean, exact_bytes

SHOWN: Final = 200  # characters of a value that a message repeats; the quarantine has all


@dataclass(frozen=True, slots=True)
class Reject:
    """One row that is not in the shard, and the reason."""

    file: str
    line: int | None  # physical line on which the row begins, from 1; None: the format has none
    column: str | None  # None: the row as a whole is malformed
    value: str | None  # the column's text; None if there is no column or the value is null
    reason: str
    raw: str  # the row's text, with bytes that are not UTF-8 escaped; else its columns as JSON
    header: str | None = None  # of a CSV file, in one line; for a row that is not text, the row
    data: bytes | None = None  # the row's bytes if `raw` cannot express them

    def __post_init__(self) -> None:
        """Split a text with bytes in it (`surrogateescape`): readable in `raw`, exact in `data`."""
        shown = clean(self.raw)
        if shown != self.raw:
            object.__setattr__(self, "data", exact_bytes(self.raw))
            object.__setattr__(self, "raw", shown)


def encode_rejects(rejects: Sequence[Reject], version: int | None = None) -> bytes:
    """Return a quarantine file: JSON lines in the order given.

    `version`: of the relation whose names the rows were read by.

    Shape: {"file", "line", "column", "value", "reason", "raw", "header", "version"} each; if
    the row is not UTF-8, so that `raw` cannot express it, its bytes are in "raw_base64".
    """
    named = {} if version is None else {"version": version}
    return b"".join(
        orjson.dumps(_document(reject) | named, option=orjson.OPT_APPEND_NEWLINE)
        for reject in rejects
    )


def _document(reject: Reject) -> dict[str, Any]:
    values = {k: clean(v) if isinstance(v, str) else v for k, v in asdict(reject).items()}
    del values["data"]
    exact = {} if reject.data is None else {"raw_base64": b64encode(reject.data).decode()}
    return values | exact


def details(reject: Reject) -> dict[str, object]:
    """Return the details of a rejected row for an error message."""
    value = reject.raw if reject.column is None else reject.value
    shown = value if value is None or len(value) <= SHOWN else value[:SHOWN] + "…"
    found = {"file": reject.file, "line": reject.line, "column": reject.column}
    return {k: v for k, v in found.items() if v is not None} | {
        "value": shown if shown is None else clean(shown),
        "reason": reject.reason,
    }
