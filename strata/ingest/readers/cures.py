"""Why a value cannot be read, where its bytes show it, and what to do about a file of such."""

from typing import Any, Final

import pyarrow as pa

NOT_UTF8: Final = "its bytes are not UTF-8"
TOO_FINE: Final = "it is finer than a microsecond"
OF_MOMENTS: Final = ("not readable as timestamp", "not readable as timestamptz")
_CURES: Final = {
    NOT_UTF8: "convert the file, for example by iconv -f WINDOWS-1252 -t UTF-8",
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
    'convert the file'
    """
    known = next((cure for why, cure in _CURES.items() if why in reason), _OTHERWISE)
    return f"{known}; {AGAIN}"
