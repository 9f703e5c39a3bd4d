"""The one order of updates, and its stand-in as bytes.

Updates sort by `relation.sort_ids` ascending, then by t. In each column nulls are last and NaN
stands after every number; strings and bytes sort by (UTF-8) byte, false before true. That is
what Arrow's `sort_indices` gives by default; the rest of this file only agrees with it.

`encode_keys` turns the sort columns of a row (without t) into bytes, so that manifests can hold
and compare key bounds without knowing types:

    row a <= row b   exactly when   bytes(a) <= bytes(b)

A column is a tag (1: value, 2: null), then the value: numbers big-endian with the sign turned
round, texts with 00 written as 00 FF and ended by 00 01. A prefix of a key sorts at or before
it (a low bound); `round_up` of a prefix sorts after all that begin with it (a high bound).
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.columns import T, child
from strata.model.schema import Relation

VALUE_TAG: Final = b"\x01"
NULL_TAG: Final = b"\x02"
ESCAPED_ZERO: Final = b"\x00\xff"
END: Final = b"\x00\x01"

Rows: TypeAlias = pa.Table | pa.RecordBatch
Signs: TypeAlias = npt.NDArray[np.int8]
Mask: TypeAlias = npt.NDArray[np.bool_]


def sort_names(relation: Relation) -> list[str]:
    """Return the names of the columns that order updates, t last."""
    return [*(child(i) for i in relation.sort_ids), T]


def sort_updates(table: pa.Table, relation: Relation) -> pa.Table:
    """Return the rows of `table` in the order of the relation, in one chunk; ties stay as they are.

    Cost: n log n.
    """
    table = table.combine_chunks()
    keys = [(name, "ascending") for name in sort_names(relation)]
    # A record batch takes Arrow's radix path, a table its slower generic one.
    rows = table.to_batches()[0] if table.num_rows else table
    return table.take(pc.sort_indices(rows, sort_keys=keys))


def is_sorted(table: Rows, relation: Relation) -> bool:
    """Return whether every row of `table` sorts at or after the one before it."""
    return not bool((compare_adjacent(table, sort_names(relation)) > 0).any())


def compare_adjacent(table: Rows, names: Sequence[str]) -> Signs:
    """Return for each row but the last how it compares with the next one: -1, 0 or 1.

    Shape: n-1 signs. Only rows that are equal in all columns before look at the next column.
    """
    count = max(table.num_rows - 1, 0)
    signs = np.zeros(count, np.int8)
    open_rows: npt.NDArray[np.int64] | None = None  # None: all of them
    for name in names:
        if open_rows is not None and not len(open_rows):
            break
        column = one_chunk(table.column(name))
        if open_rows is None:
            here, following = column.slice(0, count), column.slice(1)
            signs = _compare(here, following)
        else:
            taken = _compare(column.take(pa.array(open_rows)), column.take(pa.array(open_rows + 1)))
            signs[open_rows] = taken
        open_rows = np.flatnonzero(signs == 0)
    return signs


def equal_adjacent(table: Rows, names: Sequence[str]) -> Mask:
    """Return for each row but the last whether it equals the next one in all columns `names`.

    Null equals null, NaN equals NaN.
    """
    count = max(table.num_rows - 1, 0)
    equal = np.ones(count, np.bool_)
    open_rows: npt.NDArray[np.int64] | None = None
    for name in names:
        if open_rows is not None and not len(open_rows):
            break
        column = one_chunk(table.column(name))
        if open_rows is None:
            equal = _equal(column.slice(0, count), column.slice(1))
        else:
            here, following = pa.array(open_rows), pa.array(open_rows + 1)
            equal[open_rows] = _equal(column.take(here), column.take(following))
        open_rows = np.flatnonzero(equal)
    return equal


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):  # more than 2 GiB of text: cannot be one array
        raise InvalidRequest(
            "too many bytes of one column in one batch of updates",
            bytes=column.nbytes, cause="Arrow strings end at 2 GiB", cure="use smaller batches",
        )  # fmt: skip
    return combined


def _compare(a: pa.Array, b: pa.Array) -> Signs:
    a, b = plain(a), plain(b)
    signs = _true(pc.greater(a, b)).astype(np.int8) - _true(pc.less(a, b)).astype(np.int8)
    rank_a, rank_b = _rank(a), _rank(b)
    if rank_a is None and rank_b is None:
        return signs
    zeros = np.zeros(len(a), np.int8)
    by_rank = np.sign((zeros if rank_a is None else rank_a) - (zeros if rank_b is None else rank_b))
    return np.where(by_rank != 0, by_rank, signs).astype(np.int8)


def _equal(a: pa.Array, b: pa.Array) -> Mask:
    a, b = plain(a), plain(b)
    equal = _true(pc.equal(a, b))
    rank_a, rank_b = _rank(a), _rank(b)
    if rank_a is None or rank_b is None:  # a null or NaN on one side only equals nothing
        return equal
    both: Mask = (rank_a == rank_b) & (rank_a > 0)
    return equal | both


def _rank(a: pa.Array) -> Signs | None:
    """Return 0 for values, 1 for NaN, 2 for null; None when all are plain values."""
    rank: Signs | None = None
    if pa.types.is_floating(a.type):
        nans = _true(pc.is_nan(a))
        if nans.any():
            rank = nans.astype(np.int8)
    if a.null_count:
        nulls = _true(pc.is_null(a)).astype(np.int8) * np.int8(2)
        rank = nulls if rank is None else np.maximum(rank, nulls)
    return rank


def plain(a: pa.Array) -> pa.Array:
    """Return times as the integers they are: Arrow compares those fastest."""
    if pa.types.is_date32(a.type) or pa.types.is_time32(a.type):
        return a.view(pa.int32())
    if pa.types.is_temporal(a.type):
        return a.view(pa.int64())
    return a


def _true(mask: pa.BooleanArray) -> Mask:
    """Return where `mask` is true; null is not."""
    if mask.null_count:
        mask = mask.fill_null(False)
    trues: Mask = mask.to_numpy(zero_copy_only=False)
    return trues


def encode_keys(rows: Rows, relation: Relation, limit_bytes: int | None = None) -> pa.BinaryArray:
    """Return the sort columns of each row, without t, as bytes that sort like the rows.

    `limit_bytes` cuts each key to a prefix, a low bound. For a high bound: `high_key`.
    Raises: InvalidRequest for a type that has no order.
    """
    columns = [_encode_column(one_chunk(rows.column(child(i)))) for i in relation.sort_ids]
    keys = columns[0]
    if len(columns) > 1:
        keys = pc.binary_join_element_wise(*columns, b"")
    return keys if limit_bytes is None else pc.binary_slice(keys, 0, limit_bytes)


def high_key(key: bytes, limit_bytes: int) -> bytes | None:
    """Return bytes within the budget that sort at or after `key`; None if there are none."""
    return key if len(key) <= limit_bytes else round_up(key[:limit_bytes])


def round_up(prefix: bytes) -> bytes | None:
    r"""Return the least bytes that sort after everything that begins with `prefix`.

    None means that nothing does: no high bound.

    >>> round_up(b"ab"), round_up(b"a\xff"), round_up(b"\xff")
    (b'ac', b'b', None)
    """
    rest = prefix.rstrip(b"\xff")
    return rest[:-1] + bytes([rest[-1] + 1]) if rest else None


def _encode_column(a: pa.Array) -> pa.BinaryArray:
    a = plain(a)
    if pa.types.is_large_string(a.type) or pa.types.is_string(a.type):
        a = a.cast(pa.binary())
    if pa.types.is_large_binary(a.type) or pa.types.is_fixed_size_binary(a.type):
        a = a.cast(pa.binary())
    body = _text(a) if pa.types.is_binary(a.type) else _number(a)
    tagged = pc.binary_join_element_wise(pa.scalar(VALUE_TAG), body, b"")
    if not a.null_count:
        return tagged
    return pc.if_else(a.is_valid(), tagged, pa.scalar(NULL_TAG))


def _text(a: pa.BinaryArray) -> pa.BinaryArray:
    escaped = pc.replace_substring(a, pattern=b"\x00", replacement=ESCAPED_ZERO)
    return pc.binary_join_element_wise(escaped, pa.scalar(END), b"")


def _number(a: pa.Array) -> pa.BinaryArray:
    """Return fixed-width values big-endian, the sign turned so that bytes sort like numbers."""
    kind = a.type
    if pa.types.is_boolean(kind):
        values = a.cast(pa.uint8()).fill_null(0).to_numpy()
    elif pa.types.is_decimal128(kind):
        return _binary(_decimal_bytes(a.fill_null(0)))
    elif pa.types.is_floating(kind):
        values = _float_words(a.fill_null(0.0).to_numpy())
    elif pa.types.is_signed_integer(kind):
        signed = a.fill_null(0).to_numpy()
        unsigned = np.dtype(f"u{signed.dtype.itemsize}")
        top = unsigned.type(1 << (8 * signed.dtype.itemsize - 1))
        values = signed.view(unsigned) ^ top
    elif pa.types.is_unsigned_integer(kind):
        values = a.fill_null(0).to_numpy()
    else:
        raise InvalidRequest("this type has no order of bytes yet", type=str(kind))
    big_endian = values.astype(values.dtype.newbyteorder(">"))
    return _binary(big_endian.view(np.uint8).reshape(len(a), values.dtype.itemsize))


def _float_words(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    canonical = np.where(np.isnan(floats), np.nan, floats) + floats.dtype.type(0)  # -0.0 to 0.0
    canonical = np.abs(canonical, where=np.isnan(floats), out=canonical)  # NaN without a sign
    width = floats.dtype.itemsize
    words = canonical.astype(floats.dtype).view(np.dtype(f"u{width}"))
    top = words.dtype.type(1 << (8 * width - 1))
    turned: npt.NDArray[Any] = np.where(words & top, ~words, words | top)
    return turned


def _decimal_bytes(a: pa.Array) -> npt.NDArray[np.uint8]:
    raw = np.frombuffer(a.buffers()[1], np.uint8)[a.offset * 16 : (a.offset + len(a)) * 16]
    big_endian = raw.reshape(len(a), 16)[:, ::-1].copy()
    big_endian[:, 0] ^= 0x80
    return big_endian


def _binary(rows: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    """Return each row of a byte matrix as one binary value."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    data = np.ascontiguousarray(rows)
    return pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
