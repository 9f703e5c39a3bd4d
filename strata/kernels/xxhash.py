"""Kernels that hash texts by XXH64 and set bits of split-block bloom filters: `strata.stats.bloom`.

The hash is the one that Parquet's bloom filters use: XXH64 with the seed 0. Callers check offsets.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bytes, Int, Int32s, Ints, Words
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import load32, load64

_P1: Final = np.uint64(11400714785074694791)
_P2: Final = np.uint64(14029467366897019727)
_P3: Final = np.uint64(1609587929392839161)
_P4: Final = np.uint64(9650029242287828579)
_P5: Final = np.uint64(2870177450012600261)
_BITS: Final = np.uint64(64)
_STRIPE: Final = 32  # bytes that are mixed at once
_WORD: Final = 8
_HALF: Final = 4


@inlined
def _turned(word: np.uint64, by: int) -> np.uint64:
    """Return a word rotated to the left."""
    left = np.uint64(by)
    return (word << left) | (word >> (_BITS - left))


@inlined
def _round(state: np.uint64, word: np.uint64) -> np.uint64:
    return _turned(state + word * _P2, 31) * _P1


@inlined
def _merged(state: np.uint64, lane: np.uint64) -> np.uint64:
    return (state ^ _round(np.uint64(0), lane)) * _P1 + _P4


@inlined
def _stripes(data: Bytes, at: Int, end: Int) -> np.uint64:
    """Return the state after all whole stripes of a text of at least one stripe."""
    a, b = _P1 + _P2, _P2
    c, d = np.uint64(0), np.uint64(0) - _P1
    while at + _STRIPE <= end:
        a = _round(a, load64(data, at))
        b = _round(b, load64(data, at + 8))
        c = _round(c, load64(data, at + 16))
        d = _round(d, load64(data, at + 24))
        at += _STRIPE
    state = _turned(a, 1) + _turned(b, 7) + _turned(c, 12) + _turned(d, 18)
    return _merged(_merged(_merged(_merged(state, a), b), c), d)


@inlined
def _hash(data: Bytes, start: Int, end: Int) -> np.uint64:
    size, at = end - start, start
    if size >= _STRIPE:
        state = _stripes(data, at, end)
        at += size // _STRIPE * _STRIPE
    else:
        state = _P5
    state += np.uint64(size)
    while at + _WORD <= end:
        state = _turned(state ^ _round(np.uint64(0), load64(data, at)), 27) * _P1 + _P4
        at += _WORD
    if at + _HALF <= end:
        state = _turned(state ^ (np.uint64(load32(data, at)) * _P1), 23) * _P2 + _P3
        at += _HALF
    while at < end:
        state = _turned(state ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    state = (state ^ (state >> np.uint64(33))) * _P2
    state = (state ^ (state >> np.uint64(29))) * _P3
    return state ^ (state >> np.uint64(32))


@lean
def hash_texts(offsets: Ints, data: Bytes, hashes: Words) -> None:
    """Write the hash of each text."""
    for i in range(len(offsets) - 1):
        hashes[i] = _hash(data, offsets[i], offsets[i + 1])


@lean
def set_bits(hashes: Words, salts: Words, words: Int32s) -> None:
    """Set eight bits for each hash, one in each word of its block. Shape: `words` eight a block."""
    blocks = np.uint64(len(words) // 8)
    for i in range(len(hashes)):
        block = np.int64(((hashes[i] >> np.uint64(32)) * blocks) >> np.uint64(32))
        low = hashes[i] & np.uint64(0xFFFFFFFF)
        for j in range(8):
            bit = ((low * salts[j]) & np.uint64(0xFFFFFFFF)) >> np.uint64(27)
            words[8 * block + j] |= np.int32(np.uint32(1) << np.uint32(bit))
