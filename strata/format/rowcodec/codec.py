"""The row codec: encode each row as a protobuf message, a column of rows at a time.

`message ProtoRow { repeated ProtoDatum datums = 1; }` has one datum per column. Field numbers are
in docs/reference/format.md, which also marks those known to match the system that Strata follows.
Equal rows of canonical values have equal bytes.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.errors import Corrupt, InvalidRequest
from strata.format.encodings import arrow_type
from strata.format.rowcodec.fields import check_depth
from strata.format.rowcodec.objects import from_objects
from strata.format.rowcodec.scalar import decode_row
from strata.kernels.arrays import Bools
from strata.model.types import ColumnType

BATCH: Final = 16384  # rows per batch: its data stay in the cache while they are written and read
MAX_BYTES: Final = 2**31 - 1  # the most that a binary array can hold


def encode_rows(
    columns: Sequence[pa.Array], types: Sequence[ColumnType], rows: int | None = None
) -> pa.BinaryArray:
    """Return the rows of equally long columns as row codec bytes, none of them null.

    `rows`: the number of rows, needed only if there are no columns.
    Raises: InvalidRequest for more than 2 GiB of rows at once.
    """
    count = len(columns[0]) if columns else rows or 0
    if not columns or not count:
        return pa.array([b""] * count, pa.binary())
    batches = encode_batches(columns, types)
    if sum(batch.nbytes for batch in batches) > MAX_BYTES:
        raise InvalidRequest("rows are too big to be encoded together", rows=count)
    return _concat(batches)


def encode_batches(
    columns: Sequence[pa.Array], types: Sequence[ColumnType]
) -> list[pa.BinaryArray]:
    """Return the rows of at least one column in batches of BATCH, not concatenated.

    Raises: InvalidRequest for types nested too deeply.
    """
    from strata.format.rowcodec.encode import encode_batch  # loads the compiler

    for column_type in types:
        check_depth(column_type)
    return [
        encode_batch([column.slice(start, BATCH) for column in columns], types)
        for start in range(0, len(columns[0]), BATCH)
    ]


def decode_rows(
    rows: pa.BinaryArray,
    types: Sequence[ColumnType],
    *,
    wanted: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    first_row: int = 0,
) -> list[pa.Array]:
    """Return the columns of encoded rows, or those at the positions `wanted`, in that order.

    Messages use the `names` of the columns and the number of the first row.
    Raises: Corrupt naming row, column and reason. Columns that are not wanted are checked only as
    far as needed to find the others.
    """
    from strata.format.rowcodec.decode import decode_batch  # loads the compiler

    for column_type in types:
        check_depth(column_type)
    positions = list(range(len(types))) if wanted is None else list(wanted)
    if rows.null_count:
        row = first_row + int(np.flatnonzero(rows.is_null())[0])
        raise Corrupt("a row is null", row=row)
    if not len(rows):
        return [pa.array([], arrow_type(types[i])) for i in positions]
    batches = []
    for start in range(0, len(rows), BATCH):
        batch = rows.slice(start, BATCH)
        arrays, odd = decode_batch(batch, types, positions)
        if odd.any():
            slow = [
                _decode_one(batch[i].as_py(), types, names, first_row + start + i)
                for i in np.flatnonzero(odd).tolist()
            ]
            arrays = [
                _patched(array, odd, [row[i] for row in slow], types[i])
                for array, i in zip(arrays, positions, strict=True)
            ]
        batches.append(arrays)
    return [_concat(arrays) for arrays in zip(*batches, strict=True)]


def _patched(
    array: pa.Array, odd: Bools, values: Sequence[Any], column_type: ColumnType
) -> pa.Array:
    """Return a column whose odd rows have the values from the patient decoder."""
    order = np.arange(len(array))
    order[odd] = len(array) + np.arange(len(values))
    return pa.concat_arrays([array, from_objects(values, column_type)]).take(pa.array(order))


def _decode_one(
    row: bytes, types: Sequence[ColumnType], names: Sequence[str] | None, number: int
) -> list[Any]:
    try:
        return decode_row(row, types)
    except Corrupt as error:
        details = dict(error.details)
        position = details.pop("column", None)
        if isinstance(position, int):
            details["column"] = names[position] if names else position
        raise _corrupt(error.message, {"row": number, **details}) from error


def _corrupt(message: str, details: dict[str, Any]) -> Corrupt:
    return Corrupt(message, **details)


def _concat(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
