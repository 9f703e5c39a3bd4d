"""Kernels of ribbon filters: an equation over bits for each value (`strata.stats.ribbon`).

A value's hash chooses where its equation starts, which of the next 128 slots it adds up, and what
the sum is. Each equation is kept at its first slot, so that all of them form a band. Source:
Dillinger and Walzer, "Ribbon filter: practically smaller than Bloom and Xor" (2021).
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int, Ints, Words
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import load64, multiply_high, trailing_zeros

WIDTH: Final = 128  # slots that one equation may add up
_WORD: Final = 64
_ONE: Final = np.uint64(1)
_SEEDS: Final = np.uint64(0xD6E8FEB86659FD93)
_LOW: Final = np.uint64(0x9E3779B97F4A7C15)
_HIGH: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_SUM: Final = np.uint64(0xA0761D6478BD642F)
_MIX: Final = np.uint64(0xFF51AFD7ED558CCD)
_MIX2: Final = np.uint64(0xC4CEB9FE1A85EC53)


@inlined
def _mixed(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> np.uint64(33))) * _MIX
    word = (word ^ (word >> np.uint64(33))) * _MIX2
    return word ^ (word >> np.uint64(33))


@inlined
def _parity(word: np.uint64) -> np.uint64:
    word ^= word >> np.uint64(32)
    word ^= word >> np.uint64(16)
    word ^= word >> np.uint64(8)
    word ^= word >> np.uint64(4)
    word ^= word >> np.uint64(2)
    return (word ^ (word >> _ONE)) & _ONE


@lean
def ribbon_words(hashes: Words, seed: int, words: Words) -> None:
    """Write the word that each equation is made from; a greater one starts no earlier."""
    for i in range(len(hashes)):
        words[i] = _mixed(hashes[i] + np.uint64(seed) * _SEEDS)


@lean
def ribbon_equations(words: Words, low: Words, high: Words, sums: Words) -> bool:
    """Bring the equations of distinct words into a band; return False if two contradict.

    Shape: `low`, `high` (the slots that an equation adds up, the first one lowest) and `sums` have
    one element a slot, all zero at first. Sorted words are taken several times as fast.
    """
    span = np.uint64(len(low) - WIDTH + 1)
    for i in range(len(words)):
        word = words[i]
        at = np.int64(multiply_high(word, span))
        near, far = _mixed(word + _LOW) | _ONE, _mixed(word + _HIGH)
        total = _mixed(word + _SUM)
        while low[at] != 0:
            near, far, total = near ^ low[at], far ^ high[at], total ^ sums[at]
            if near == 0:
                if far == 0:
                    break
                near, far, at = far, np.uint64(0), at + _WORD
            by = trailing_zeros(near)
            if by:
                near = (near >> np.uint64(by)) | (far << np.uint64(_WORD - by))
                far >>= np.uint64(by)
                at += by
        if near == 0 and far == 0:
            return False
        low[at], high[at], sums[at] = near, far, total
    return True


@lean
def ribbon_solution(low: Words, high: Words, sums: Words) -> None:
    """Write the value of each slot into `sums`, from the last equation of a band to the first."""
    for at in range(len(low) - 1, -1, -1):
        total = sums[at]
        near, far = low[at] & ~_ONE, high[at]
        while near:
            total ^= sums[at + trailing_zeros(near)]
            near &= near - _ONE
        while far:
            total ^= sums[at + _WORD + trailing_zeros(far)]
            far &= far - _ONE
        sums[at] = total


@inlined
def _window_parity(data: Bytes, start: Int, at: Int, near: np.uint64, far: np.uint64) -> np.uint64:
    """Return the sum of chosen bits among the 128 from bit `at` of the plane at byte `start`."""
    byte, shift = start + at // 8, np.uint64(at % 8)
    one, two = load64(data, byte), load64(data, byte + 8)
    if shift:
        back = np.uint64(_WORD) - shift
        one = (one >> shift) | (two << back)
        two = (two >> shift) | (np.uint64(data[byte + 16]) << back)
    return _parity((one & near) ^ (two & far))


@lean
def ribbons_hold(
    data: Bytes, starts: Ints, sizes: Ints, seeds: Ints, which: Ints, hashes: Words, held: Bools
) -> None:
    """Write whether filters may hold hashes.

    Shape: `starts` (of the first plane in `data`) and `seeds` have one element a filter, `sizes`
    three: slots, planes of all slots, slots of a last plane of fewer. `which` filter is asked,
    `hashes` and `held` have one element a question.
    """
    for i in range(len(hashes)):
        one = which[i]
        slots, planes, rest = sizes[3 * one], sizes[3 * one + 1], sizes[3 * one + 2]
        word = _mixed(hashes[i] + np.uint64(seeds[one]) * _SEEDS)
        at = np.int64(multiply_high(word, np.uint64(slots - WIDTH + 1)))
        near, far = _mixed(word + _LOW) | _ONE, _mixed(word + _HIGH)
        total = _mixed(word + _SUM)
        if at + WIDTH <= rest:
            planes += 1
        start, found = starts[one], True
        for _ in range(planes):
            if _window_parity(data, start, at, near, far) != total & _ONE:
                found = False
                break
            total >>= _ONE
            start += (slots + 7) // 8
        held[i] = found
