"""Ribbon filters: which values a part certainly does not hold, in fewer bits than a Bloom filter.

Each distinct value is a linear equation over bits, and a filter is a solution of all of them. A
value that is not there meets its equation by chance only: once in 2**planes, 2**(bits - 0.2) at a
size of `bits` for each value, where a Bloom filter of 8 bits errs eight times as often.

    4 bytes   RBN1
    1         planes: bits of the solution that all slots have
    1         seed
    2         0
    4         slots, little-endian, at least 128
    4         slots of one more plane, 0 or at least 128: it uses up the bits that are left
    …         the planes, one bit a slot, each of whole bytes
    0 or 1    a zero, so that the size is never that of split blocks (`strata.stats.bloom`)

Errs: says that a value may be there although it is not, never the reverse.
"""

import struct
from typing import Final

import numpy as np
import pyarrow as pa

from strata.format.values.physical import kernel_bytes, offsets
from strata.kernels.arrays import Bools, Bytes, Ints, Words

WIDTH: Final = 128  # slots that the equation of one value may add up, as of `strata.kernels.ribbon`
LEAST: Final = WIDTH  # values; fewer take less in split blocks
_HEADER: Final = struct.Struct("<4sBBHII")
_MAGIC: Final = b"RBN1"
_SPARE: Final = (64, 48, 32, 16, 8)  # values for each slot beyond them; the next where none solves
_SEEDS: Final = 6  # tried with each
_BLOCK_BYTES: Final = 32  # of split blocks


def ribbon_of(hashes: Words, bits_each: int) -> bytes | None:
    """Return the filter that holds distinct hashes, of at most `bits_each` bits for each of them.

    Shape: at least 128 hashes, and 4 bits. None: no solution was found, which random hashes make as
    good as impossible.
    """
    for spare in _SPARE:
        slots = max(WIDTH, len(hashes) + -(-len(hashes) // spare))
        for seed in range(_SEEDS):
            solution = _solved(hashes, slots, seed)
            if solution is not None:
                return _packed(solution, bits_each * len(hashes), seed)
    return None


def _solved(hashes: Words, slots: int, seed: int) -> Words | None:
    """Return the value of each slot; None if two equations contradict."""
    # Loads the compiler
    from strata.kernels.ribbon import ribbon_equations, ribbon_solution, ribbon_words

    words: Words = np.empty_like(hashes)
    ribbon_words(hashes, seed, words)
    words.sort()
    low, high, sums = (np.zeros(slots, np.uint64) for _ in range(3))
    if not ribbon_equations(words, low, high, sums):
        return None
    ribbon_solution(low, high, sums)
    return sums


def _packed(solution: Words, bits: int, seed: int) -> bytes:
    """Return a header and the planes that fit into a number of bits."""
    slots = len(solution)
    left = bits - 8 * (_HEADER.size + 1)
    planes, rest = divmod(left, 8 * _plane_bytes(slots))
    rest = 0 if rest < WIDTH else rest // 8 * 8
    found = [_HEADER.pack(_MAGIC, planes, seed, 0, slots, rest)]
    for plane in range(planes + bool(rest)):
        taken = solution if plane < planes else solution[:rest]
        ones = (taken >> np.uint64(plane)).astype(np.uint8) & np.uint8(1)
        found.append(np.packbits(ones, bitorder="little").tobytes())
    data = b"".join(found)
    return data if len(data) % _BLOCK_BYTES else data + b"\0"


def _plane_bytes(slots: int) -> int:
    """Return the bytes of a plane."""
    return -(-slots // 8)


def ribbons_may_hold(filters: pa.BinaryArray, which: Ints, hashes: Words) -> Bools:
    """Return which hashes may be in a filter. Shape: one of `filters` is asked for each hash.

    A null, or bytes that are no ribbon filter, may hold any value.
    """
    from strata.kernels.ribbon import ribbons_hold  # loads the compiler

    held: Bools = np.ones(len(hashes), np.bool_)
    starts = offsets(filters)
    data = kernel_bytes(filters.buffers()[2])
    valid = np.asarray(filters.is_valid(), np.bool_)
    usable: Bools = np.zeros(len(filters), np.bool_)
    sizes: Ints = np.zeros((len(filters), 3), np.int64)
    seeds: Ints = np.zeros(len(filters), np.int64)
    for row in np.flatnonzero(valid):
        found = _header(data[starts[row] : starts[row + 1]])
        if found is not None:
            usable[row], seeds[row], sizes[row] = True, found[0], found[1:]
    asked = np.flatnonzero(usable[which])
    some: Bools = np.empty(len(asked), np.bool_)
    first = starts[:-1].astype(np.int64) + _HEADER.size
    ribbons_hold(data, first, sizes.reshape(-1), seeds, which[asked], hashes[asked], some)
    held[asked] = some
    return held


def _header(data: Bytes) -> tuple[int, int, int, int] | None:
    """Return seed, slots, whole planes and the slots of a last one; None: not a ribbon filter."""
    if len(data) <= _HEADER.size or not len(data) % _BLOCK_BYTES:
        return None
    magic, planes, seed, zero, slots, rest = _HEADER.unpack(data[: _HEADER.size].tobytes())
    if magic != _MAGIC or zero or slots < WIDTH or rest > slots or 0 < rest < WIDTH:
        return None
    if not 1 <= planes + bool(rest) <= 64:
        return None
    size = _HEADER.size + planes * _plane_bytes(slots) + _plane_bytes(rest)
    return (seed, slots, planes, rest) if len(data) - size in (0, 1) else None
