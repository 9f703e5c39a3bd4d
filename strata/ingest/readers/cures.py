"""Why a value cannot be read, where its bytes show it, and what to do about a file of such."""

from enum import Enum
from typing import Any, Final

import pyarrow as pa

AGAIN: Final = (
    "then ingest again: nothing was committed, and no row waits for `strata quarantine retry`"
)
TOO_FINE: Final = "it is finer than a microsecond"
VARIANT: Final = "it has a VARIANT, whose bytes Strata does not decode"


class Problem(Enum):
    """What is wrong with a value, as far as its cure depends on it; the value is the cure."""

    OTHER = "compare the file with the columns that the shard declares"
    NOT_UTF8 = "declare how the file is written, as in source.encoding: windows-1252"
    OTHER_ENCODING = "declare another source.encoding, or mend the file"
    TOO_FINE = (
        "declare the column as jsonb, which keeps all nine places as a text, or write the file "
        "with microseconds"
    )
    VARIANT = (
        "declare the column as jsonb, and write it as JSON text (to_json(v) in Spark, v::JSON in "
        "DuckDB)"
    )

    @property
    def cure(self) -> str:
        """Return what to do about a file without a readable row."""
        return f"{self.value}; {AGAIN}"


def is_too_fine(values: Any, row: int) -> bool:
    """Return whether a moment of Arrow has nanoseconds that a column of moments cannot store."""
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        return False
    if not pa.types.is_timestamp(values.type) or values.type.unit != "ns":
        return False
    return bool((values[row].value or 0) % 1000)


def has_variant(values: Any) -> bool:
    """Return whether a column of Arrow is one of VARIANT, or has one inside.

    Writers do not always say so: its fields show it.
    """
    return isinstance(values, pa.Array | pa.ChunkedArray) and is_variant(values.type)


def is_variant(kind: pa.DataType) -> bool:
    """Return whether a type of Arrow is that of a VARIANT, or has one inside."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_variant(kind.storage_type)
    inner = [kind.field(n) for n in range(kind.num_fields)]
    if pa.types.is_struct(kind):
        names = {field.name for field in inner} | {"value", "typed_value"}
        binary = any(f.name == "metadata" and pa.types.is_binary(f.type) for f in inner)
        if binary and names == {"metadata", "value", "typed_value"} and len(inner) > 1:
            return True
    return any(is_variant(field.type) for field in inner)
