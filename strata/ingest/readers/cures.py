"""Why a value cannot be read, where its bytes show it, and what to do about a file of such."""

from typing import Any, Final

import pyarrow as pa

NOT_UTF8: Final = "its bytes are not UTF-8"  # as `recode.why_no_text` says it, and the next
OTHER_ENCODING: Final = "is none of"
TOO_FINE: Final = "it is finer than a microsecond"
OF_MOMENTS: Final = ("not readable as timestamp", "not readable as timestamptz")
_CURES: Final = {
    NOT_UTF8: "declare how the file is written, as in source.encoding: windows-1252",
    OTHER_ENCODING: "declare another source.encoding, or mend the file",
    TOO_FINE: "declare the column as jsonb, which keeps all nine places as a text, or write the "
    "file with microseconds",
}
_OTHERWISE: Final = "compare the file with the columns that the shard declares"
AGAIN: Final = (
    "then ingest again: nothing was committed, and no row waits for `strata quarantine retry`"
)


def is_too_fine(values: Any, row: int) -> bool:
    """Return whether a moment of Arrow has nanoseconds that a column of moments cannot store."""
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        return False
    if not pa.types.is_timestamp(values.type) or values.type.unit != "ns":
        return False
    return bool((values[row].value or 0) % 1000)


def cure_for(reason: str) -> str:
    """Return what to do about a file without a readable row.

    >>> cure_for("not readable as string: its bytes are not UTF-8").partition(",")[0]
    'declare how the file is written'
    """
    known = next((cure for why, cure in _CURES.items() if why in reason), _OTHERWISE)
    return f"{known}; {AGAIN}"
