"""Reads the smallest items of protobuf messages: numbers, lengths, frames, fields.

Nothing is read outside the array, and every returned end is at or before the given `stop`: a length
is trusted only if that many bytes exist. A beginning or an end of -1 says that the item does not
exist. These kernels are inlined into their callers.
"""

from typing import Any, Final

import numpy as np

from strata.kernels.arrays import Bytes
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import bit_length, load64

TOPS: Final = np.uint64(0x8080808080808080)
ALL: Final = np.uint64(2**64 - 1)
ROLES: Final = np.uint64(1 << 0x08 | 1 << 0x10 | 1 << 0x1A | 1 << 0x20)  # tags of roles' fields


@inlined
def word_at(data: Bytes, at: int) -> np.uint64:
    """Return the eight bytes at `at`; bytes after the array are zero."""
    if at + 8 <= len(data):
        return load64(data, at)
    word = np.uint64(0)
    for j in range(at, len(data)):
        word |= np.uint64(data[j]) << np.uint64(8 * (j - at))
    return word


@inlined
def _squeeze(word: np.uint64) -> np.uint64:
    """Return the lower seven bits of each byte, put together."""
    x = word & ~TOPS
    x = (x & np.uint64(0x007F007F007F007F)) | ((x & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
    x = (x & np.uint64(0x00003FFF00003FFF)) | ((x & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    return (x & np.uint64(0x0FFFFFFF)) | ((x & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))


@inlined
def varint_at(data: Bytes, at: int, stop: int) -> tuple[np.uint64, Any]:
    """Return the number at `at` and what follows it; -1: not there, or longer than needed."""
    word = word_at(data, at) if 0 <= at < stop else TOPS
    last = ~word & TOPS
    if last == np.uint64(0):
        return _long_varint(data, at, stop)
    bits = np.uint64(bit_length(last & (~last + np.uint64(1))))
    end = at + np.int64(bits >> np.uint64(3))
    word &= ALL >> (np.uint64(64) - bits)
    exact = bits == np.uint64(8) or word >> (bits - np.uint64(8)) != np.uint64(0)
    return _squeeze(word), end if exact and end <= stop else -1


@inlined
def whole_varint(word: np.uint64, size: int, stop: int) -> tuple[np.uint64, int]:
    """Return the number that fills the first bytes of a word, and `stop`; -1: it does not fill."""
    keep = ALL >> np.uint64(64 - 8 * size)
    word &= keep
    exact = word & TOPS == TOPS & keep >> np.uint64(8)
    exact = exact and (size == 1 or word >> np.uint64(8 * size - 8) != np.uint64(0))
    return _squeeze(word), stop if exact else -1


@lean
def _long_varint(data: Bytes, at: int, stop: int) -> tuple[np.uint64, int]:
    """Return the number at `at` and what follows it; -1: not there, or longer than needed."""
    value, shift = np.uint64(0), np.uint64(0)
    while 0 <= at < stop and shift < np.uint64(64):
        byte = np.uint64(data[at])
        at += 1
        if byte < np.uint64(128):
            if shift and (byte == 0 or (shift == np.uint64(63) and byte > np.uint64(1))):
                return value, -1
            return value | byte << shift, at
        value |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
    return value, -1


@inlined
def sized(data: Bytes, at: int, stop: int) -> tuple[int, Any]:
    """Return where the bytes after the length at `at` begin and end; -1: not before `stop`."""
    if 0 <= at < stop and data[np.uint64(at)] < 128:
        size = np.int64(data[np.uint64(at)])
        at += 1
    else:
        value, at = varint_at(data, at, stop)
        if at < 0 or value > np.uint64(stop - at):
            return -1, -1
        size = np.int64(value)
    return (at, at + size) if size <= stop - at else (-1, -1)


@inlined
def framed(data: Bytes, at: int, stop: int, frame: int) -> tuple[int, Any]:
    """Return where the message with this frame at `at` begins and ends; -1: it does not exist."""
    if at < 0 or at + 2 > stop or data[np.uint64(at)] != frame:
        return -1, -1
    size = np.int64(data[np.uint64(at + 1)])
    if size >= 128:
        return sized(data, at + 1, stop)
    return (at + 2, at + 2 + size) if size <= stop - at - 2 else (-1, -1)


@inlined
def content(word: np.uint64, start: int, stop: int, tag: int, head: int) -> int:
    """Return the place after a datum's tag; -1: another tag. `word`: the datum's first bytes."""
    mask = np.uint64(0xFFFF) if head == 2 else np.uint64(0xFF)
    return start + head if stop - start >= head and word & mask == np.uint64(tag) else -1


@inlined
def is_null(word: np.uint64, start: int, stop: int) -> bool:
    """Return whether a datum is null. `word`: its first bytes."""
    return stop - start == 2 and word & np.uint64(0xFFFF) == np.uint64(0x0108)


@inlined
def number_field(data: Bytes, at: int, stop: int, wanted: int) -> tuple[Any, np.uint64, int]:
    """Return tag, number and end of the field at `at`; tag 0: unwanted. `wanted` 0: any role."""
    word = word_at(data, at) if at < stop else np.uint64(0)
    tag = np.int64(word & np.uint64(0xFF))
    if at >= stop or (wanted and tag != wanted):
        return 0, np.uint64(0), at
    if stop - at >= 2 and word & np.uint64(0x8000) == np.uint64(0):
        value, end = word >> np.uint64(8) & np.uint64(0x7F), at + 2
    else:
        value, end = varint_at(data, at + 1, stop)
    if not wanted:
        known = tag < 64 and ROLES >> np.uint64(tag) & np.uint64(1)
        if not known or (tag == 0x1A and value):
            end = -1
    return tag, value, end
