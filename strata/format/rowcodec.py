"""The row codec: a row as protobuf bytes, a batch of rows at once.

`ProtoRow { repeated ProtoDatum datums = 1 }`; the field numbers are those of docs/format.md.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from strata.errors import Corrupt
from strata.format.physical import from_objects
from strata.format.rowcodec_scalar import decode_row
from strata.model.types import ColumnType


def encode_rows(
    columns: Sequence[pa.Array], types: Sequence[ColumnType], rows: int | None = None
) -> pa.BinaryArray:
    """TEMPORARY slow."""
    from strata.format._slow import encode_rows_slow

    if not columns:
        return pa.repeat(pa.scalar(b"", pa.binary()), rows or 0)
    return encode_rows_slow(columns, types)


def decode_rows(
    data: pa.BinaryArray,
    types: Sequence[ColumnType],
    *,
    wanted: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    first_row: int = 0,
) -> list[pa.Array]:
    """Return the columns of encoded rows.

    Raises: Corrupt with the row number and the column's position.
    """
    out: list[list[Any]] = [[] for _ in types]
    for number, row in enumerate(data.to_pylist(), first_row):
        if row is None:
            raise Corrupt("a row is null", row=number)
        try:
            values = decode_row(row, types)
        except Corrupt as error:
            raise Corrupt(error.message, row=number, **error.details) from error
        for column, value in zip(out, values, strict=True):
            column.append(value)
    arrays = [from_objects(values, t) for values, t in zip(out, types, strict=True)]
    return [arrays[i] for i in (range(len(types)) if wanted is None else wanted)]
