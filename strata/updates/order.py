"""The one order of updates, and keys in bytes that sort alike.

Updates sort by `relation.sort_ids` ascending, then by t. In each column nulls are last and NaN
comes after every number; strings and bytes sort by (UTF-8) byte, false before true. This is the
default of Arrow's `sort_indices`; the rest of this file only agrees with it.

Arrow cannot sort lists, maps and structs. They are turned into sortable columns: structs into their
children, lists into bytes (`strata.format.values.sortable`).

`encode_keys` turns the sort columns of a row (without t) into bytes, so manifests can hold and
compare key bounds without knowing types:

    row a <= row b   exactly when   bytes(a) <= bytes(b)

A prefix of a key sorts at or before it (a low bound); `round_up` of a prefix sorts after all keys
that begin with it (a high bound).
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.columns import T, child
from strata.format.values.coded import decoded
from strata.format.values.sortable import as_integers, flat_columns, sortable_bytes
from strata.kernels.arrays import Bools, Ints
from strata.model.schema import Relation

Rows: TypeAlias = pa.Table | pa.RecordBatch
SMALL_ENDS_BYTES: Final = 256 * 1024  # first and last rows that are copied whole
Signs: TypeAlias = npt.NDArray[np.int8]


def sort_names(relation: Relation) -> list[str]:
    """Return the names of the columns that order updates, t last."""
    return [*(child(i) for i in relation.sort_ids), T]


def sort_updates(table: pa.Table, relation: Relation) -> pa.Table:
    """Return the rows of `table` in the order of the relation, in one chunk. Stable.

    Cost: n log n.
    """
    table = table.combine_chunks()
    if not table.num_rows:
        return table
    names = sort_names(relation)
    # A record batch takes Arrow's radix path, a table its slower generic one.
    rows = table.select(names).to_batches()[0]
    if any(pa.types.is_nested(field.type) for field in rows.schema):
        rows = _flat(rows)
    keys = [(name, "ascending") for name in rows.schema.names]
    return table.take(pc.sort_indices(rows, sort_keys=keys))


def _flat(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return columns without nested values that sort like the given ones."""
    columns = [flat for column in rows.columns for flat in flat_columns(column)]
    useful = [column for column in columns if not _all_false(column)]
    return pa.record_batch(useful, [str(i) for i in range(len(useful))])


def _all_false(column: pa.Array) -> bool:
    """Return whether a column says "not null" in all rows, so sorting by it has no effect."""
    return bool(
        pa.types.is_boolean(column.type) and not column.null_count and not column.true_count
    )


def is_sorted(table: Rows, relation: Relation) -> bool:
    """Return whether every row of `table` sorts at or after the one before it."""
    return not bool((compare_adjacent(table, sort_names(relation)) > 0).any())


def compare_adjacent(table: Rows, names: Sequence[str]) -> Signs:
    """Return for each row but the last how it compares with the next one: -1, 0 or 1.

    Shape: n-1 signs. Only rows that tie in all earlier columns compare the next column.
    """
    count = max(table.num_rows - 1, 0)
    signs = np.zeros(count, np.int8)
    open_rows: Ints | None = None  # None: all of them
    for name in names:
        if open_rows is not None and not len(open_rows):
            break
        pairs = _neighbours(one_chunk(table.column(name)), open_rows)
        found = _compare(*pairs[0])
        for here, following in pairs[1:]:
            found = np.where(found != 0, found, _compare(here, following))
        if open_rows is None:
            signs = found
        else:
            signs[open_rows] = found
        open_rows = np.flatnonzero(signs == 0)
    return signs


def equal_adjacent(table: Rows, names: Sequence[str]) -> Bools:
    """Return for each row but the last whether it equals the next one in all columns `names`.

    Null equals null, NaN equals NaN.
    """
    count = max(table.num_rows - 1, 0)
    equal = np.ones(count, np.bool_)
    open_rows: Ints | None = None
    for name in names:
        if open_rows is not None and not len(open_rows):
            break
        pairs = _neighbours(one_chunk(table.column(name)), open_rows)
        found = _equal(*pairs[0])
        for here, following in pairs[1:]:
            found &= _equal(here, following)
        if open_rows is None:
            equal = found
        else:
            equal[open_rows] = found
        open_rows = np.flatnonzero(equal)
    return equal


def _neighbours(column: pa.Array, open_rows: Ints | None) -> list[tuple[pa.Array, pa.Array]]:
    """Return rows and their successors as flat columns; None: all rows but the last."""
    if open_rows is None:
        count = max(len(column) - 1, 0)
        return [(flat.slice(0, count), flat.slice(1)) for flat in flat_columns(column)]
    here, following = column.take(pa.array(open_rows)), column.take(pa.array(open_rows + 1))
    return list(zip(flat_columns(here), flat_columns(following), strict=True))


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
            bytes=column.nbytes,
            cause="Arrow strings end at 2 GiB",
            cure="use smaller batches",
        )
    return combined


def _compare(a: pa.Array, b: pa.Array) -> Signs:
    a, b = as_integers(a), as_integers(b)
    signs = _true(pc.greater(a, b)).astype(np.int8) - _true(pc.less(a, b)).astype(np.int8)
    rank_a, rank_b = _rank(a), _rank(b)
    if rank_a is None and rank_b is None:
        return signs
    zeros = np.zeros(len(a), np.int8)
    by_rank = np.sign((zeros if rank_a is None else rank_a) - (zeros if rank_b is None else rank_b))
    return np.where(by_rank != 0, by_rank, signs).astype(np.int8)


def _equal(a: pa.Array, b: pa.Array) -> Bools:
    a, b = as_integers(a), as_integers(b)
    equal = _true(pc.equal(a, b))
    rank_a, rank_b = _rank(a), _rank(b)
    if rank_a is None or rank_b is None:  # a null or NaN on only one side equals nothing
        return equal
    both: Bools = (rank_a == rank_b) & (rank_a > 0)
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


def _true(mask: pa.BooleanArray) -> Bools:
    """Return where `mask` is true; null counts as false."""
    if mask.null_count:
        mask = mask.fill_null(False)
    trues: Bools = mask.to_numpy(zero_copy_only=False)
    return trues


def encode_keys(
    rows: Rows, relation: Relation, limit_bytes: int | None = None, first: int | None = None
) -> pa.BinaryArray:
    """Return the sort columns of each row, without t, as bytes that sort like the rows.

    `limit_bytes` cuts each key to a prefix, a low bound. For a high bound see `high_key`. With
    `first`, only that number of leading columns is encoded, which gives a prefix as well.
    Raises: InvalidRequest for a type that has no order.
    """
    ids = relation.sort_ids[:first]
    arrays = [decoded(one_chunk(rows.column(child(i)))) for i in ids]
    if limit_bytes is not None:
        return _first_keys(arrays, limit_bytes)
    columns = [sortable_bytes(array) for array in arrays]
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, b"")


def _first_keys(arrays: Sequence[pa.Array], limit_bytes: int) -> pa.BinaryArray:
    """Return the first bytes of keys without encoding columns beyond them."""
    keys = sortable_bytes(_first_bytes(arrays[0], limit_bytes))
    for array in arrays[1:]:
        if not len(keys) or pc.min(pc.binary_length(keys)).as_py() >= limit_bytes:
            break
        keys = pc.binary_join_element_wise(
            keys, sortable_bytes(_first_bytes(array, limit_bytes)), b""
        )
    return pc.binary_slice(keys, 0, limit_bytes)


def _first_bytes(array: pa.Array, limit_bytes: int) -> pa.Array:
    """Return texts cut to the bytes that can appear in `limit_bytes` of a key.

    Each byte of a text takes at least one byte of the key. Only the beginning of a huge text is
    copied.
    """
    array = _as_bytes(array)
    return pc.binary_slice(array, 0, limit_bytes) if pa.types.is_binary(array.type) else array


def _as_bytes(array: pa.Array) -> pa.Array:
    return array.cast(pa.binary()) if pa.types.is_string(array.type) else array


def rows_at(rows: pa.Table, relation: Relation, places: Sequence[int]) -> pa.Table:
    """Return copies of some rows for `encode_keys`."""
    names = [child(i) for i in relation.sort_ids]
    some = rows.select(names).take(pa.array(places, pa.int64()))
    return pa.table([_as_bytes(one_chunk(decoded(c))) for c in some.columns], names)


def first_and_last(rows: pa.Table, relation: Relation, limit_bytes: int) -> pa.Table:
    """Return copies of the first and the last row for `encode_keys`, with huge texts cut."""
    names = [child(i) for i in relation.sort_ids]
    ends = [rows.slice(at, 1).select(names) for at in (0, rows.num_rows - 1)]
    if sum(end.nbytes for end in ends) <= SMALL_ENDS_BYTES:  # as one, for rows may be wide
        both = pa.concat_tables(ends).combine_chunks()
        return pa.table([_as_bytes(one_chunk(decoded(c))) for c in both.columns], names)
    arrays = {}
    for name in names:
        found = [_first_bytes(one_chunk(decoded(end.column(name))), limit_bytes) for end in ends]
        arrays[name] = pa.concat_arrays(found)
    return pa.table(arrays)


def high_key(key: bytes, limit_bytes: int) -> bytes | None:
    """Return bytes within the budget that sort at or after `key`; None if there are none."""
    return key if len(key) <= limit_bytes else round_up(key[:limit_bytes])


def shared_bytes(a: bytes, b: bytes) -> int:
    """Return the length of the common prefix of two keys.

    >>> shared_bytes(b"abc", b"abd"), shared_bytes(b"ab", b"abd")
    (2, 2)
    """
    differing = (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(differing, min(len(a), len(b)))


def round_up(prefix: bytes) -> bytes | None:
    r"""Return the least bytes that sort after everything that begins with `prefix`.

    None means that there are no such bytes, hence no high bound.

    >>> round_up(b"ab"), round_up(b"a\xff"), round_up(b"\xff")
    (b'ac', b'b', None)
    """
    rest = prefix.rstrip(b"\xff")
    return rest[:-1] + bytes([rest[-1] + 1]) if rest else None
