"""Filters that say which values a part certainly does not hold.

Of few values a filter is Parquet's split-block Bloom filter: blocks of eight 32-bit words, a block
chosen by the upper half of XXH64 of the value, one bit in each of its words by the lower half and
eight salts. It has no header; its number of blocks is its size. Of more values, and wherever its
size is not one of whole blocks, it is a ribbon filter of the same hashes (`strata.stats.ribbon`).
Errs: says that a value may be there although it is not, never the reverse.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.format.values.physical import kernel_bytes, offsets
from strata.kernels.arrays import Bools, Words
from strata.stats.ribbon import LEAST, ribbon_of, ribbons_may_hold

BLOCK_BYTES: Final = 32
_WORDS: Final = 8  # of a block
SALTS: Final = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    np.uint64,
)
_HALF: Final = np.uint64(32)


def bloom_hashes(values: pa.BinaryArray) -> Words:
    """Return XXH64, seed 0, of each value. Shape: no nulls."""
    from strata.kernels.xxhash import hash_texts  # loads the compiler

    hashes: Words = np.empty(len(values), np.uint64)
    data = kernel_bytes(values.buffers()[2])
    hash_texts(offsets(values), data, hashes)
    return hashes


def filter_of(hashes: Words, bits_each: int) -> bytes:
    """Return the filter that holds distinct hashes, of `bits_each` bits for each of them.

    Split blocks are whole ones, so a filter of few values takes a little more.
    """
    ribbon = ribbon_of(hashes, bits_each) if len(hashes) >= LEAST else None
    return split_blocks_of(hashes, bits_each) if ribbon is None else ribbon


def split_blocks_of(hashes: Words, bits_each: int) -> bytes:
    """Return the split-block filter that holds distinct hashes."""
    from strata.kernels.xxhash import set_bits  # loads the compiler

    blocks = max(1, -(-len(hashes) * bits_each // (8 * BLOCK_BYTES)))
    words = np.zeros(_WORDS * blocks, np.int32)
    set_bits(hashes, SALTS, words)
    return words.tobytes()


def may_hold(filters: pa.BinaryArray, value: bytes) -> Bools:
    """Return which filters may hold a value. Shape: one element a filter.

    A null, or bytes that are no filter, may hold any value.
    """
    found = bloom_hashes(pa.array([value], pa.binary()))[0]
    starts = offsets(filters)
    sizes = np.diff(starts)
    blocked = (sizes > 0) & (sizes % BLOCK_BYTES == 0)
    held: Bools = np.ones(len(filters), np.bool_)
    ribbons = np.flatnonzero(~blocked)
    if len(ribbons):
        held[ribbons] = ribbons_may_hold(filters, ribbons, np.full(len(ribbons), found))
    rows = np.flatnonzero(np.asarray(filters.is_valid()) & blocked)
    data = kernel_bytes(filters.buffers()[2])
    blocks = (sizes[rows] // BLOCK_BYTES).astype(np.uint64)
    block = ((found >> _HALF) * blocks) >> _HALF
    first = starts[:-1][rows] + BLOCK_BYTES * block.astype(np.int64)
    words = np.ascontiguousarray(data[first[:, None] + np.arange(BLOCK_BYTES)]).view("<u4")
    masks = _masks(np.array([found]))
    held[rows] = ((words & masks) == masks).all(axis=1)
    return held


def hold_all(bits: bytes, values: pa.BinaryArray) -> Bools:
    """Return which values a filter may hold. Shape: one element a value, no nulls."""
    if not bits:
        return np.ones(len(values), np.bool_)
    hashes = bloom_hashes(values)
    if len(bits) % BLOCK_BYTES:
        return ribbons_may_hold(pa.array([bits]), np.zeros(len(hashes), np.int64), hashes)
    words = np.frombuffer(bits, "<u4").reshape(-1, _WORDS)
    block = ((hashes >> _HALF) * np.uint64(len(words))) >> _HALF
    masks = _masks(hashes)
    held: Bools = ((words[block.astype(np.int64)] & masks) == masks).all(axis=1)
    return held


def _masks(hashes: Words) -> npt.NDArray[np.uint32]:
    """Return the bit of each word of a block. Shape: (n, 8)."""
    low = (hashes & np.uint64(0xFFFFFFFF))[:, None]
    bits = ((low * SALTS) & np.uint64(0xFFFFFFFF)) >> np.uint64(27)
    return np.left_shift(np.uint32(1), bits.astype(np.uint32))


def warm() -> None:
    """Call the kernels once, so that they are compiled and cached."""
    for values in ([b"x" * 45], [b"%d" % n for n in range(LEAST)]):
        may_hold(pa.array([filter_of(bloom_hashes(pa.array(values)), 8)]), b"x")
