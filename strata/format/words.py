"""Numbers of the protobuf wire format, spread and squeezed in words for a whole column at a time.

They are called "varints": seven bits a byte, least significant first, the top bit saying that
more follow. Words have eight bytes and are little-endian.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

KEEP: Final = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)  # the first n bytes
MORE: Final = np.array(  # top bits of a varint of n bytes, as far as they lie in its first word
    [sum(0x80 << (8 * i) for i in range(min(max(n - 1, 0), 8))) for n in range(11)], np.uint64
)
_LENGTHS: Final = np.arange(64, dtype=np.int64) // 7 + 1  # bytes of a varint by its highest bit
TOPS: Final = np.uint64(0x8080808080808080)


def varint_lengths(values: Words) -> Ints:
    """Return how many bytes (1 to 10) each number takes."""
    top = int(values.max(initial=0))
    if top < 1 << 53:  # exact as float64, whose exponent is the position of the highest bit
        floats = (values | np.uint64(1)).astype(np.float64)
        found: Ints = _LENGTHS[(floats.view(np.uint64) >> np.uint64(52)).view(np.int64) - 1023]
        return found
    lengths = np.ones(len(values), np.int64)
    for bits in range(7, 64, 7):
        if top >> bits == 0:
            break
        lengths += values >= np.uint64(1 << bits)
    return lengths


def varints(values: Words) -> tuple[Words, Words, Ints]:
    """Return numbers as varints: their first eight bytes, the two that may follow, the length."""
    lengths = varint_lengths(values)
    low = spread(values) | MORE[lengths]
    high = values >> np.uint64(56)
    high = (high & np.uint64(0x7F)) | ((high >> np.uint64(7)) << np.uint64(8))
    high |= np.where(lengths == 10, np.uint64(0x80), np.uint64(0))
    return low, high, lengths


def small_varints(values: Words) -> tuple[Words, Ints]:
    """Return numbers below 2**56 as varints of at most eight bytes, and their lengths."""
    lengths = varint_lengths(values)
    return spread(values) | MORE[lengths], lengths


def spread(values: Words) -> Words:
    """Return the low 56 bits of each word, seven to a byte."""
    x = values & np.uint64((1 << 56) - 1)
    x = (x & np.uint64(0x000000000FFFFFFF)) | ((x & np.uint64(0x00FFFFFFF0000000)) << np.uint64(4))
    x = (x & np.uint64(0x00003FFF00003FFF)) | ((x & np.uint64(0x0FFFC0000FFFC000)) << np.uint64(2))
    return (x & np.uint64(0x007F007F007F007F)) | (
        (x & np.uint64(0x3F803F803F803F80)) << np.uint64(1)
    )


def squeeze(words: Words) -> Words:
    """Return the low seven bits of each byte, put together: the inverse of `spread`."""
    x = words & ~TOPS
    x = (x & np.uint64(0x007F007F007F007F)) | ((x & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
    x = (x & np.uint64(0x00003FFF00003FFF)) | ((x & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    return (x & np.uint64(0x000000000FFFFFFF)) | (
        (x & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4)
    )


def read_varints(view: Words, at: Ints) -> tuple[Words, Ints]:
    """Return the varints at offsets `at`, and their lengths; length 11: no varint ends there.

    `at + 8` must lie inside the view.
    """
    first = view[at]
    ends = ~first & TOPS
    lengths = (np.bitwise_count((ends & -ends) - np.uint64(1)).astype(np.int64) >> 3) + 1
    values = squeeze(first & KEEP[np.minimum(lengths, 8)])
    long = np.flatnonzero(lengths > 8)
    if len(long):
        second = view[at[long] + 8]
        more = (second & np.uint64(0x80)) != 0
        end = np.where(more, (second & np.uint64(0x8000)) == 0, True)
        # Of the tenth byte only its lowest bit fits 64 bits.
        fits = np.where(more, (second >> np.uint64(8)) & np.uint64(0x7F) <= 1, True)
        lengths[long] = np.where(end & fits, 9 + more.astype(np.int64), 11)
        values[long] |= (second & np.uint64(0x7F)) << np.uint64(56)
        values[long] |= np.where(more, (second >> np.uint64(8)) << np.uint64(63), np.uint64(0))
    return values, lengths
