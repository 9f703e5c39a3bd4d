"""Source rows that could not be read: what was wrong with each, and where it stands."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from strata.ingest.values.shown import clean, exact_bytes

SHOWN: Final = 200  # characters of a value that a message repeats; the quarantine has all


@dataclass(frozen=True, slots=True)
class Reject:
    """One row that is not in the shard, and why."""

    file: str
    line: int | None  # physical line on which the row begins, from 1; None: the format has none
    column: str | None  # None: the row as a whole is malformed
    value: str | None  # the column's text; None where there is no column or the value is null
    reason: str
    raw: str  # the row as it stands in the file, what is no UTF-8 escaped; else its columns as JSON
    header: str | None = None  # of a CSV file, in one line; of a row that is no text the row itself
    data: bytes | None = None  # the row's bytes where `raw` does not say them

    def __post_init__(self) -> None:
        """Take a text with bytes in it (`surrogateescape`) apart: for people, and exactly."""
        shown = clean(self.raw)
        if shown != self.raw:
            object.__setattr__(self, "data", exact_bytes(self.raw))
            object.__setattr__(self, "raw", shown)


def encode_rejects(rejects: Sequence[Reject]) -> bytes:
    """Return a quarantine file: JSON lines in the order given.

    Shape: {"file", "line", "column", "value", "reason", "raw", "header"} each; where `raw` cannot
    say it, because it is no UTF-8, its bytes are in "raw_base64".
    """
    return b"".join(
        orjson.dumps(_document(reject), option=orjson.OPT_APPEND_NEWLINE) for reject in rejects
    )


def _document(reject: Reject) -> dict[str, Any]:
    told = {k: clean(v) if isinstance(v, str) else v for k, v in asdict(reject).items()}
    del told["data"]
    exact = {} if reject.data is None else {"raw_base64": b64encode(reject.data).decode()}
    return told | exact


def details(reject: Reject) -> dict[str, object]:
    """Return what an error message says of a rejected row."""
    value = reject.raw if reject.column is None else reject.value
    shown = value if value is None or len(value) <= SHOWN else value[:SHOWN] + "…"
    found = {"file": reject.file, "line": reject.line, "column": reject.column}
    return {k: v for k, v in found.items() if v is not None} | {
        "value": shown if shown is None else clean(shown),
        "reason": reject.reason,
    }
