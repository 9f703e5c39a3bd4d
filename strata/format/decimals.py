"""128-bit integers as packed decimals, and back.

Packed decimal: two digits a byte, most significant first, the last half byte a sign (C plus, D
minus), a leading zero digit where that fills the first byte. `+101` is `10 1C`, `-12` is `01 2D`.
In words, a packed decimal is a number in base 16; 38 digits and the sign need three of them.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from strata.format.words import Ints, Words

Bools = npt.NDArray[np.bool_]

PLUS: Final = 0xC
MINUS: Final = 0xD
BILLION: Final = np.uint64(10**9)
LOW32: Final = np.uint64(2**32 - 1)
TOP: Final = np.uint64(1 << 63)
TRIPLES: Final = np.array(  # the digits of 0 to 999 in base 16
    [int(str(i), 16) for i in range(1000)], np.uint64
)
TENS: Final = np.array([10**i for i in range(20)], np.uint64)
MAX_DIGITS: Final = 38
MAX_BYTES: Final = 20


def packed_decimals(values: Words) -> tuple[list[tuple[Words, Ints]], Ints]:
    """Return two's complement integers as packed decimals, in pieces, and their length in bytes.

    Shape: `values` (n, 2): low and high word. Pieces as in `rowcodec_encode`; three at most.
    """
    low, high = values[:, 0], values[:, 1]
    negative = high >= TOP
    low, high = _absolute(low, high, negative)
    sign = np.where(negative, np.uint64(MINUS), np.uint64(PLUS))
    if not high.any() and int(low.max(initial=0)) < 10**9:
        digits = [_bcd9(low)]
    else:
        digits = [_bcd9(part) for part in _base_billion(low, high)]
    words = _join(digits, sign)
    length = (_digits(words) + 2) >> 1
    longest = int(length.max(initial=1))
    pieces: list[tuple[Words, Ints]] = []
    for i in range((longest + 7) // 8 - 1, -1, -1):
        used = np.clip(length - 8 * i, 0, 8)
        shift = np.minimum(64 - 8 * used, 63).view(np.uint64)
        # Unused pieces shift by 63 and not 64, which is undefined; their length is 0 anyway.
        pieces.append(((words[i] << shift).byteswap(), used))
    return pieces, length


def _absolute(low: Words, high: Words, negative: Bools) -> tuple[Words, Words]:
    if not negative.any():
        return low, high
    flipped = ~low + np.uint64(1)
    carry = (flipped == 0).astype(np.uint64)
    return np.where(negative, flipped, low), np.where(negative, ~high + carry, high)


def _base_billion(low: Words, high: Words) -> list[Words]:
    """Return a 128-bit number's digits in base 10**9, least significant first."""
    shift = np.uint64(32)
    limbs = [high >> shift, high & LOW32, low >> shift, low & LOW32]
    parts: list[Words] = []
    while any(limb.any() for limb in limbs):
        rest = np.zeros(len(low), np.uint64)
        for i, limb in enumerate(limbs):
            current = rest << shift | limb
            limbs[i] = current // BILLION
            rest = current - limbs[i] * BILLION
        parts.append(rest)
    return parts or [np.zeros(len(low), np.uint64)]


def _bcd9(values: Words) -> Words:
    """Return numbers below 10**9 in base 16 with the same digits."""
    thousand = np.uint64(1000)
    upper = values // thousand
    top = upper // thousand
    digits: Words = (
        TRIPLES[values - upper * thousand]
        | TRIPLES[upper - top * thousand] << np.uint64(12)
        | TRIPLES[top] << np.uint64(24)
    )
    return digits


def _join(parts: list[Words], sign: Words) -> list[Words]:
    """Return groups of nine digits behind one another, the sign last, as three words."""
    words = [sign, np.zeros_like(sign), np.zeros_like(sign)]
    for i, part in enumerate(parts):
        word, bit = divmod(4 + 36 * i, 64)
        words[word] = words[word] | part << np.uint64(bit)
        if bit > 28 and word < 2:
            words[word + 1] = words[word + 1] | part >> np.uint64(64 - bit)
    return words


def _digits(words: list[Words]) -> Ints:
    """Return the number of digits in front of the sign; 1 for zero."""
    count = np.zeros(len(words[0]), np.int64)
    for i, word in enumerate(words):
        before = 16 * i - 1  # digits in the words before, one half byte being the sign
        for nibble in range(1 if i == 0 else 0, 16):
            some = word >= np.uint64(1 << (4 * nibble))
            if not some.any():
                break
            count = np.where(some, before + nibble + 1, count)
    return np.maximum(count, 1)


def unpack_decimals(words: list[Words]) -> tuple[Words, Words, Words, Bools]:
    """Return low and high word of the absolute value, the sign, and which are packed decimals.

    Shape: three words a number, least significant first, as `_join` makes them.
    """
    sign = words[0] & np.uint64(15)
    good = (sign == PLUS) | (sign == MINUS)
    shift, back = np.uint64(4), np.uint64(60)
    groups = [
        words[0] >> shift | words[1] << back,
        words[1] >> shift | words[2] << back,
        words[2] >> shift,
    ]
    low = np.zeros(len(sign), np.uint64)
    high = np.zeros(len(sign), np.uint64)
    for group in reversed(groups):
        if not group.any() and not low.any() and not high.any():
            continue
        good &= _all_digits(group)
        for _ in range(2):
            low, high = _times(low, high, 10**8)
        low, high = _plus(low, high, _binary(group))
    return low, high, sign, good


def signed_pairs(low: Words, high: Words, sign: Words) -> Words:
    """Return (n, 2) two's complement words of absolute values with sign nibbles."""
    negative = sign == MINUS
    flipped, flipped_high = ~low + np.uint64(1), ~high
    flipped_high = flipped_high + (flipped == 0).astype(np.uint64)
    pairs = np.empty((len(low), 2), np.uint64)
    pairs[:, 0] = np.where(negative, flipped, low)
    pairs[:, 1] = np.where(negative, flipped_high, high)
    return pairs


def below(low: Words, high: Words, precision: int) -> Bools:
    """Return which absolute values have at most `precision` digits."""
    limit_high, limit_low = divmod(10**precision, 2**64)
    top, bottom = np.uint64(limit_high), np.uint64(limit_low)
    answer: Bools = (high < top) | ((high == top) & (low < bottom))
    return answer


def _all_digits(words: Words) -> Bools:
    """Return which words have only decimal digits: no 8 bit beside a 4 or a 2 bit."""
    mask = np.uint64(0x8888888888888888)
    answer: Bools = (words & mask & (words << np.uint64(1) | words << np.uint64(2))) == 0
    return answer


def _binary(words: Words) -> Words:
    """Return the number that 16 decimal digits in base 16 spell."""
    x = words
    for bits, mask, ten in (
        (4, 0x0F0F0F0F0F0F0F0F, 10),
        (8, 0x00FF00FF00FF00FF, 100),
        (16, 0x0000FFFF0000FFFF, 10_000),
        (32, 0x00000000FFFFFFFF, 100_000_000),
    ):
        keep = np.uint64(mask)
        x = (x & keep) + (x >> np.uint64(bits) & keep) * np.uint64(ten)
    return x


def _times(low: Words, high: Words, factor: int) -> tuple[Words, Words]:
    """Return a 128-bit number times a factor below 2**32, modulo 2**128."""
    by, shift = np.uint64(factor), np.uint64(32)
    first = (low & LOW32) * by
    second = (low >> shift) * by + (first >> shift)
    return second << shift | (first & LOW32), high * by + (second >> shift)


def _plus(low: Words, high: Words, more: Words) -> tuple[Words, Words]:
    total = low + more
    return total, high + (total < low).astype(np.uint64)
