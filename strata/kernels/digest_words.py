"""Kernels of the content digest: `strata.format.digest` says what they compute.

Whole words are read where they lie inside the data, single bytes at its end. Nothing is allocated.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Ints, Words
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import load64

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(0xBF58476D1CE4E5B9)
_TWO: Final = np.uint64(0x94D049BB133111EB)
_A: Final = np.uint64(30)
_B: Final = np.uint64(27)
_C: Final = np.uint64(31)
_WORD: Final = 8


@inlined
def _mix(x: np.uint64) -> np.uint64:
    """Return splitmix64's finaliser of a word."""
    x = (x ^ (x >> _A)) * _ONE
    x = (x ^ (x >> _B)) * _TWO
    return x ^ (x >> _C)


@lean
def text_digests(offsets: Ints, data: Bytes, out: Words) -> None:
    """Write w(text) of each text."""
    end = len(data)
    for i in range(len(out)):
        at, high = offsets[i], offsets[i + 1]
        total = np.uint64(high - at)
        step = _STEP
        while at < high:
            word = np.uint64(0)
            size = high - at
            if at + _WORD <= end:
                word = load64(data, at)
                if size < _WORD:
                    word &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
            else:
                for j in range(min(size, _WORD)):
                    word |= np.uint64(data[at + j]) << np.uint64(8 * j)
            total += _mix(word + step)
            step += _STEP
            at += _WORD
        out[i] = _mix(total)


@lean
def add_hashes(words: Words, seed: np.uint64, sums: Words) -> None:
    """Add the hash of each value of a column to the sum of its row."""
    for i in range(len(words)):
        sums[i] += _mix(words[i] ^ seed)


@lean
def add_hashes_of(words: Words, valid: Bools, seed: np.uint64, sums: Words) -> None:
    """Add the hash of each value that is not null to the sum of its row."""
    for i in range(len(words)):
        if valid[i]:
            sums[i] += _mix(words[i] ^ seed)


@lean
def mix_all(words: Words) -> None:
    """Mix each word in its place."""
    for i in range(len(words)):
        words[i] = _mix(words[i])
