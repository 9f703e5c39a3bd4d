"""A digest of contents that can be added up: sum over updates of d * H(key, value), mod 2**64.

Being a sum, it does not depend on order, on how updates are split into parts, on times, or on
consolidation: equal collections have equal digests, and +1 and -1 of a row cancel. It detects
accidents, not attacks.

    H(row)      = mix(START + sum over non-null columns of h(column))     never 0 by construction
    h(column)   = mix(w(value) ^ mix(column id))
    w(number)   = 64 bits: integers, days, microseconds, bools sign-extended; floats as float64
    w(numeric)  = mix(low 64 bits of the unscaled integer) ^ high 64 bits
    w(text)     = mix(length + sum over 8-byte words j = 0, 1, ... of mix(word_j + (j + 1) * STEP))
                  words are little-endian, the last one padded with zero bytes
    mix(x)      = the finaliser of splitmix64

A null adds nothing, so that a new column without default changes no digest, nor does widening a
column. All arithmetic is modulo 2**64. The algorithm is part of the format: batches store digests.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.format.columns import D, child
from strata.format.physical import DTYPES, TEXTS, numbers, offsets, valid_mask
from strata.format.words import mask_tail, word_view
from strata.model.schema import Column, Relation
from strata.model.types import Kind

Words = npt.NDArray[np.uint64]

START: Final = 0x243F6A8885A308D3
STEP: Final = 0x9E3779B97F4A7C15
CHUNK_ROWS: Final = 65_536


def content_digest(updates: pa.Table, relation: Relation) -> int:
    """Return the digest of updates, 0 for none.

    Shape: the relation's columns, named by id, and d; other columns are not looked at.
    """
    total = 0
    for batch in updates.to_batches(max_chunksize=CHUNK_ROWS):
        diffs = numbers(batch.column(D), np.dtype("<u8"))
        total += int(np.sum(diffs * row_hashes(batch, relation), dtype=np.uint64))
    return total % 2**64


def row_hashes(batch: pa.RecordBatch, relation: Relation) -> Words:
    """Return H(key, value) of each row."""
    sums = np.full(batch.num_rows, START, np.uint64)
    for column in relation.columns:
        array = batch.column(child(column.id))
        seed = mix(np.array([column.id], np.uint64))
        hashes = mix(_words(array, column) ^ seed)
        valid = valid_mask(array)
        sums += hashes if valid is None else np.where(valid, hashes, np.uint64(0))
    return mix(sums)


def mix(x: Words) -> Words:
    """Return splitmix64's finaliser of each word."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _words(array: pa.Array, column: Column) -> Words:
    kind = column.type.kind
    if kind in TEXTS:
        return _text_words(array)
    if kind is Kind.BOOL:
        bits: Words = array.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.uint64)
        return bits
    if kind is Kind.NUMERIC:
        pairs = _pairs(array)
        return mix(pairs[:, 0]) ^ pairs[:, 1]
    raw = numbers(array, DTYPES[kind])
    if kind is Kind.FLOAT32:
        return raw.view(np.float32).astype(np.float64).view(np.uint64)
    return raw.astype(np.int64).view(np.uint64) if kind is not Kind.FLOAT64 else raw


def _pairs(array: pa.Array) -> Words:
    flat = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)
    return flat[array.offset : array.offset + len(array)]


def _text_words(array: pa.Array) -> Words:
    """Return w(text) of each value, all words of all values at once."""
    ends = offsets(array)
    starts, lengths = ends[:-1], np.diff(ends)
    counts = (lengths + 7) >> 3
    first = np.cumsum(counts) - counts  # number of each value's first word
    total = int(counts.sum())
    if total == 0:
        return mix(lengths.view(np.uint64))
    j = np.arange(total, dtype=np.int64) - np.repeat(first, counts)
    at = np.repeat(starts, counts) + 8 * j
    rest = np.repeat(lengths, counts) - 8 * j
    words = word_view(array.buffers()[2], int(ends[0]), int(ends[-1]))[at - int(ends[0])]
    words = mask_tail(words, np.minimum(rest, 8))
    mixed = mix(words + (j + 1).view(np.uint64) * np.uint64(STEP))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return mix(lengths.view(np.uint64) + sums[first + counts] - sums[first])
