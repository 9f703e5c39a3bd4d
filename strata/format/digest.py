"""An additive digest of contents: the sum over updates of d * H(key, value), mod 2**64.

Because it is a sum, it does not depend on order, on the split into parts, on times, or on
consolidation: equal collections have equal digests, and +1 and -1 of a row cancel. It detects
accidents, not attacks.

    H(row)      = mix(START + sum over non-null columns of h(column))     never 0 by construction
    h(column)   = mix(w(value) ^ mix(column id))
    w(number)   = 64 bits: integers, days, microseconds, bools sign-extended; floats as float64
    w(numeric)  = mix(low 64 bits of the unscaled integer) ^ high 64 bits
    w(text)     = mix(length + sum over 8-byte words j = 0, 1, ... of mix(word_j + (j + 1) * STEP))
                  words are little-endian, the last one padded with zero bytes; the same for bytes
                  of fixed width, and for the 40 packed bytes of a numeric without precision
    w(list)     = mix(length + sum over items j = 0, 1, ... of mix(e(item_j) + (j + 1) * STEP))
    e(item)     = 0 for null, otherwise mix(w(item) + STEP)
    w(record)   = H of its fields, with positions 1, 2, ... as column ids; the same for the parts
                  of arrays and ranges, and for key and value of a map's entries; a map is a list
    mix(x)      = the finaliser of splitmix64

A null adds nothing, so a new column without a default changes no digest. Widening a column, or the
items in it, changes none either. All arithmetic is modulo 2**64. The algorithm is part of the
format: batches store digests.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from strata.format.columns import D, child
from strata.format.values.coded import is_coded, of_codes
from strata.format.values.nested import is_listed, items
from strata.format.values.packed import UNBOUNDED_NUMERIC
from strata.format.values.physical import kernel_bytes, numbers, offsets, valid_mask
from strata.kernels.arrays import Words
from strata.model.schema import Relation
from strata.model.sums import wrapped

START: Final = 0x243F6A8885A308D3
STEP: Final = 0x9E3779B97F4A7C15
CHUNK_ROWS: Final = 65_536


def content_digest(updates: pa.Table, relation: Relation) -> int:
    """Return the digest of updates, 0 for none.

    Shape: the relation's columns, named by id, and d; other columns are ignored.
    """
    total = 0
    for batch in updates.to_batches(max_chunksize=CHUNK_ROWS):
        diffs = numbers(batch.column(D), np.dtype("<u8"))
        total += int(np.sum(diffs * row_hashes(batch, relation), dtype=np.uint64))
    return total % 2**64


def diffs_sum(updates: pa.Table) -> int:
    """Return the sum of the diffs of updates in its recorded form, see `strata.model.sums`."""
    chunks = [numbers(chunk, np.dtype("<u8")) for chunk in updates.column(D).chunks]
    return wrapped(sum(int(np.sum(diffs, dtype=np.uint64)) for diffs in chunks))


def row_hashes(batch: pa.RecordBatch, relation: Relation) -> Words:
    """Return H(key, value) of each row."""
    columns = [(c.id, batch.column(child(c.id))) for c in relation.columns]
    return _hashes(batch.num_rows, columns)


def hashes_of(rows: int, columns: Iterable[tuple[int, pa.Array]]) -> Words:
    """Return H of rows of some columns only, each with its id."""
    return _hashes(rows, columns)


def _hashes(rows: int, columns: Iterable[tuple[int, pa.Array]]) -> Words:
    """Return H of rows made of columns and their ids."""
    from strata.kernels.digest_words import add_hashes, add_hashes_of, mix_all  # the compiler

    sums = np.full(rows, START, np.uint64)
    for number, array in columns:
        words, valid = _words(array), valid_mask(array)
        words.flags.writeable = False  # as those that are Arrow's own
        if valid is None:
            add_hashes(words, _seed(number), sums)
        else:
            add_hashes_of(words, valid, _seed(number), sums)
    mix_all(sums)
    return sums


@lru_cache(maxsize=4096)
def _seed(number: int) -> np.uint64:
    seed: np.uint64 = mix(np.array([number], np.uint64))[0]
    return seed


def mix(x: Words) -> Words:
    """Return splitmix64's finaliser of each word."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _words(array: pa.Array) -> Words:
    """Return w(value) of each value; anything where null."""
    kind = array.type
    if is_coded(kind):
        return of_codes(array, _text_words(array.dictionary))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _text_words(array)
    if pa.types.is_fixed_size_binary(kind):
        return _text_words(array.cast(pa.binary()))
    if kind == UNBOUNDED_NUMERIC:
        return _words(array.flatten()[1])
    if pa.types.is_struct(kind):
        return _hashes(len(array), enumerate(array.flatten(), start=1))
    if is_listed(kind):
        return _list_words(array)
    if pa.types.is_boolean(kind):
        bits: Words = array.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.uint64)
        return bits
    if pa.types.is_decimal128(kind):
        pairs = _pairs(array)
        return mix(pairs[:, 0]) ^ pairs[:, 1]
    if pa.types.is_floating(kind):
        floats = numbers(array, np.dtype(f"<f{kind.bit_width // 8}"))
        return floats.astype(np.float64, copy=False).view(np.uint64)
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    whole = numbers(array, np.dtype(f"<{sign}{kind.bit_width // 8}"))
    return whole.astype(np.uint64 if sign == "u" else np.int64, copy=False).view(np.uint64)


def _list_words(array: pa.Array) -> Words:
    """Return w(list) of each list or map, all values of all lists at once."""
    from strata.kernels.digest_words import list_digests  # loads the compiler

    lengths, inner = items(array)
    valid = valid_mask(inner)
    known = np.ones(0, np.bool_) if valid is None else valid
    found = np.empty(len(lengths), np.uint64)
    list_digests(lengths, _words(inner).copy(), known, found)
    return found


def _pairs(array: pa.Array) -> Words:
    flat = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)
    return flat[array.offset : array.offset + len(array)]


def _text_words(array: pa.Array) -> Words:
    """Return w(text) of each value."""
    from strata.kernels.digest_words import text_digests  # loads the compiler

    found = np.empty(len(array), np.uint64)
    text_digests(offsets(array), kernel_bytes(array.buffers()[2] if len(array) else None), found)
    return found
