"""Kernels of the content digest: `strata.format.digest` says what they compute.

Whole words are read inside the data, single bytes at its end. Nothing is allocated.
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
    """Write w(text) of each text. Whole words have a loop of their own, which is vectorised."""
    end = len(data)
    for i in range(len(out)):
        at, high = offsets[i], offsets[i + 1]
        size = high - at
        total = np.uint64(size)
        whole = size // _WORD
        for j in range(whole):
            total += _mix(load64(data, at + _WORD * j) + np.uint64(j + 1) * _STEP)
        rest = size - _WORD * whole
        if rest:
            last = at + _WORD * whole
            word = np.uint64(0)
            if last + _WORD <= end:
                word = load64(data, last) & ((np.uint64(1) << np.uint64(8 * rest)) - np.uint64(1))
            else:
                for j in range(rest):
                    word |= np.uint64(data[last + j]) << np.uint64(8 * j)
            total += _mix(word + np.uint64(whole + 1) * _STEP)
        out[i] = _mix(total)


@lean
def list_digests(counts: Ints, items: Words, valid: Bools, out: Words) -> None:
    """Write w(list) of each list; `items` are w(item) of the items of all lists.

    If `valid` is empty, no item is null.
    """
    at = 0
    for i in range(len(out)):
        total = np.uint64(counts[i])
        for j in range(counts[i]):
            item = _mix(items[at + j] + _STEP)
            if len(valid) and not valid[at + j]:
                item = np.uint64(0)
            total += _mix(item + np.uint64(j + 1) * _STEP)
        at += counts[i]
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
    """Mix each word in place."""
    for i in range(len(words)):
        words[i] = _mix(words[i])
