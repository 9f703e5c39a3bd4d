"""Kernels that split days and decimals into parts, and join the parts again.

Packed decimals of protobuf have two digits per byte, most significant first; the last half byte is
the sign (C plus, D minus). Here such a number is three words in base 16, lowest word first, with
the sign as the lowest digit. Decimals of Strata are 128-bit integers in two words, or the 40 bytes
of `strata.format.values.packed`.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Ints, Words
from strata.kernels.jit import compiled, inlined, lean
from strata.kernels.memory import byte_swap, load64

TRIPLES: Final = np.array([int(str(i), 16) for i in range(1000)], np.uint64)  # digits in base 16
BILLION: Final = np.uint64(10**9)
ALL: Final = np.uint64(2**64 - 1)
EIGHTS: Final = np.uint64(0x8888888888888888)
LOW32: Final = np.uint64(2**32 - 1)
FLAGS_AT: Final = 34  # where a packed decimal of 40 bytes has its flag byte
UNITS_AT: Final = 8  # where its 13 units of three digits begin


@lean
def split_days(days: Ints, year: Ints, ordinal: Ints) -> None:
    """Write year and day of the year, from 1, of days since 1970-01-01 (proleptic Gregorian)."""
    for i in range(len(days)):
        # Days since 1 January, 15,000 cycles of 400 years before year 1: never negative.
        rest = np.uint64(days[i] + 719_162 + 15_000 * 146_097)
        cycles = rest // np.uint64(146_097)
        rest -= cycles * np.uint64(146_097)
        hundreds = min(rest // np.uint64(36_524), np.uint64(3))  # the last day is not in a fifth
        rest -= hundreds * np.uint64(36_524)
        fours = rest // np.uint64(1461)
        rest -= fours * np.uint64(1461)
        ones = min(rest // np.uint64(365), np.uint64(3))
        years = cycles * np.uint64(400) + hundreds * np.uint64(100) + fours * np.uint64(4) + ones
        year[i] = np.int64(years) - 5_999_999
        ordinal[i] = np.int64(rest - ones * np.uint64(365)) + 1


@inlined
def _put_digits(words: Words, i: int, group: int, digits: np.uint64) -> None:
    """Put a group of nine digits in base 16 above the sign and above `group` other groups."""
    bit = 4 + 36 * group
    word, shift = bit >> 6, np.uint64(bit & 63)
    words[i, word] |= digits << shift
    if shift > np.uint64(28) and word < 2:
        words[i, word + 1] |= digits >> (np.uint64(64) - shift)


@inlined
def _nine_digits(value: np.uint64) -> np.uint64:
    upper = value // np.uint64(1000)
    top = upper // np.uint64(1000)
    digits: np.uint64 = (
        TRIPLES[value - upper * np.uint64(1000)]
        | TRIPLES[upper - top * np.uint64(1000)] << np.uint64(12)
        | TRIPLES[top] << np.uint64(24)
    )
    return digits


@compiled
def decimal_digits(pairs: Words, valid: Bools) -> Words:
    """Return 128-bit integers as digits in base 16 with the sign (C or D) lowest.

    Shape: `pairs` (n, 2), low and high word, two's complement; (n, 3) words, lowest first.
    """
    words = np.zeros((len(pairs), 3), np.uint64)
    for i in range(len(pairs)):
        if not valid[i]:
            continue
        low, high = pairs[i, 0], pairs[i, 1]
        words[i, 0] = np.uint64(0xC)
        if high >> np.uint64(63):
            words[i, 0] = np.uint64(0xD)
            low, high = ~low + np.uint64(1), ~high
            if not low:
                high += np.uint64(1)
        group = 0
        while high:
            a, b = high >> np.uint64(32), high & LOW32
            c, d = low >> np.uint64(32), low & LOW32
            b |= (a % BILLION) << np.uint64(32)
            c |= (b % BILLION) << np.uint64(32)
            d |= (c % BILLION) << np.uint64(32)
            high = (a // BILLION) << np.uint64(32) | b // BILLION
            low = (c // BILLION) << np.uint64(32) | d // BILLION
            _put_digits(words, i, group, _nine_digits(d % BILLION))
            group += 1
        while low:
            rest = low // BILLION
            _put_digits(words, i, group, _nine_digits(low - rest * BILLION))
            low = rest
            group += 1
    return words


@compiled
def packed_digits(raw: Bytes, valid: Bools) -> tuple[Words, Ints, Bytes]:
    """Return packed decimals (40 bytes each) like `decimal_digits`, their scales, and codes.

    Codes: 1 for a null, 6, 7, 8 for the infinities and NaN, 0 for a number.
    """
    count = len(valid)
    words = np.zeros((count, 3), np.uint64)
    scales = np.zeros(count, np.int64)
    others = np.zeros(count, np.uint8)
    for i in range(count):
        base = 40 * i
        flags = raw[base + FLAGS_AT]
        if not valid[i]:
            others[i] = 1
        elif flags & 0x20:
            others[i] = 8
        elif flags & 0x40:
            others[i] = 7 if flags & 0x80 else 6
        else:
            exponent = np.uint32(0)
            for j in range(4):
                exponent |= np.uint32(raw[base + 4 + j]) << np.uint32(8 * j)
            scales[i] = -np.int64(np.int32(exponent))
            words[i, 0] = np.uint64(0xD) if flags & 0x80 else np.uint64(0xC)
            for unit in range(13):
                low, high = raw[base + UNITS_AT + 2 * unit], raw[base + UNITS_AT + 2 * unit + 1]
                digits = TRIPLES[min(np.int64(low) + np.int64(high) * 256, np.int64(999))]
                bit = 4 + 12 * unit
                word, shift = bit >> 6, np.uint64(bit & 63)
                words[i, word] |= digits << shift
                if shift > np.uint64(52) and word < 2:
                    words[i, word + 1] |= digits >> (np.uint64(64) - shift)
    return words, scales, others


@inlined
def _decimal_end(data: Bytes, at: int, stop: int) -> int:
    """Return where the packed decimal of a numeric message ends, -1 if it is not the first field.

    It has at most 20 bytes; all half bytes are digits, except the last, which is C or D.
    """
    if stop - at < 3 or data[at] != 0x0A:
        return -1
    size = int(data[at + 1])
    end = at + 2 + size
    if size < 1 or size > 20 or end > stop:
        return -1
    last = data[end - 1]
    if (last & 15 != 0xC and last & 15 != 0xD) or last >> 4 > 9:
        return -1
    if size <= 8 and at + 10 <= len(data):  # a digit with bit 8 has neither bit 4 nor bit 2
        x = load64(data, at + 2) & (ALL >> np.uint64(64 - 8 * size))
        x &= ~(np.uint64(15) << np.uint64(8 * size - 8))
        wrong = x & EIGHTS & (x << np.uint64(1) | x << np.uint64(2))
        return end if wrong == np.uint64(0) else -1
    for j in range(at + 2, end - 1):
        if data[j] >> 4 > 9 or data[j] & 15 > 9:
            return -1
    return end


@inlined
def _short_decimal(word: np.uint64, size: int) -> tuple[np.uint64, np.uint64]:
    """Return absolute value and sign of a packed decimal of at most 8 bytes."""
    x = byte_swap(word) >> np.uint64(64 - 8 * size)
    sign = x & np.uint64(15)
    x >>= np.uint64(4)
    x = (x & np.uint64(0x0F0F0F0F0F0F0F0F)) + (
        x >> np.uint64(4) & np.uint64(0x0F0F0F0F0F0F0F0F)
    ) * np.uint64(10)
    x = (x & np.uint64(0x00FF00FF00FF00FF)) + (
        x >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    ) * np.uint64(100)
    x = (x & np.uint64(0x0000FFFF0000FFFF)) + (
        x >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    ) * np.uint64(10_000)
    return (x & LOW32) + (x >> np.uint64(32)) * np.uint64(100_000_000), sign


@inlined
def _hundredfold(low: np.uint64, high: np.uint64, more: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return a 128-bit number times 100 plus a number below 100, modulo 2**128."""
    first = (low & LOW32) * np.uint64(100) + more
    second = (low >> np.uint64(32)) * np.uint64(100) + (first >> np.uint64(32))
    high = high * np.uint64(100) + (second >> np.uint64(32))
    return second << np.uint64(32) | first & LOW32, high


@compiled
def read_decimals(  # noqa: C901, PLR0912 -- one loop
    data: Bytes, begins: Ints, ends: Ints, scale: int, limit: Words, odd: Bools
) -> Words:
    """Return 128-bit integers (n, 2), low and high word, of numeric messages.

    Messages are odd if their scale is not the column's, or if their number is not below `limit`
    (low and high word). Messages that begin at -1 do not exist.
    """
    pairs = np.zeros((len(begins), 2), np.uint64)
    for i in range(len(begins)):
        if begins[i] < 0:
            continue
        end = _decimal_end(data, begins[i], ends[i])
        rest = 2 if scale else 0
        if end < 0 or end + rest != ends[i]:
            odd[i] = True
            continue
        if rest and (data[end] != 0x10 or data[end + 1] != scale):
            odd[i] = True
            continue
        if end - begins[i] <= 10 and begins[i] + 10 <= len(data):
            value, sign = _short_decimal(load64(data, begins[i] + 2), end - begins[i] - 2)
            if value >= limit[0] and limit[1] == np.uint64(0):
                odd[i] = True
            elif sign == np.uint64(0xD):
                pairs[i, 0] = ~value + np.uint64(1)
                pairs[i, 1] = ALL if value else np.uint64(0)
            else:
                pairs[i, 0] = value
            continue
        low, high = np.uint64(0), np.uint64(0)
        for j in range(begins[i] + 2, end - 1):
            pair = np.uint64(data[j] >> 4) * np.uint64(10) + np.uint64(data[j] & 15)
            if j < begins[i] + 10:  # 16 digits fit one word
                low = low * np.uint64(100) + pair
            else:
                low, high = _hundredfold(low, high, pair)
        digit = np.uint64(data[end - 1] >> 4)
        if end - begins[i] < 11:
            low = low * np.uint64(10) + digit
        else:  # the last half byte is the sign: times ten, not a hundred
            first = (low & LOW32) * np.uint64(10) + digit
            second = (low >> np.uint64(32)) * np.uint64(10) + (first >> np.uint64(32))
            high = high * np.uint64(10) + (second >> np.uint64(32))
            low = second << np.uint64(32) | first & LOW32
        # 39 digits overflow 128 bits at most three times; a number of 20 bytes exceeds any limit.
        too_big = high > limit[1] or (high == limit[1] and low >= limit[0])
        if too_big or (end - begins[i] == 22 and data[begins[i] + 2] >> 4):
            odd[i] = True
            continue
        if data[end - 1] & 15 == 0xD:
            low, high = ~low + np.uint64(1), ~high
            if not low:
                high += np.uint64(1)
        pairs[i, 0], pairs[i, 1] = low, high
    return pairs


@inlined
def _scale(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return the scale field at `at`, and whether it is the only rest of its message."""
    if at == stop:
        return 0, 1
    if data[at] != 0x10:
        return 0, 0
    value, shift = np.uint64(0), np.uint64(0)
    for j in range(at + 1, min(stop, at + 11)):
        byte = np.uint64(data[j])
        value |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            exact = j + 1 == stop and (byte != np.uint64(0) or j == at + 1)
            exact = exact and (j < at + 10 or byte == np.uint64(1))
            return int(np.int64(value)), 1 if exact else 0
        shift += np.uint64(7)
    return 0, 0


@compiled
def read_packed(  # noqa: C901 -- one loop
    data: Bytes, begins: Ints, ends: Ints, odd: Bools
) -> Bytes:
    """Return the 40 bytes of each number: no zeros at its end, zero without sign and exponent.

    Messages that begin at -1 do not exist; their bytes are zero.
    """
    raw = np.zeros(40 * len(begins), np.uint8)
    digits = np.zeros(40, np.uint8)  # least significant first
    for i in range(len(begins)):
        if begins[i] < 0:
            continue
        end = _decimal_end(data, begins[i], ends[i])
        if end < 0:
            odd[i] = True
            continue
        scale, read = _scale(data, end, ends[i])
        count, zeros = 0, 0
        for j in range(2 * (end - begins[i] - 2) - 1):
            byte = data[end - 1 - ((j + 1) >> 1)]
            digit = byte & 15 if j & 1 else byte >> 4
            if digit == 0 and count == 0:
                zeros += 1
                continue
            digits[count] = digit
            count += 1
        while count and digits[count - 1] == 0:
            count -= 1
        exponent = zeros - scale
        if not read or not -(2**31) <= exponent < 2**31 or abs(scale) > 2**31:
            odd[i] = True
            continue
        base = 40 * i
        if count == 0:
            raw[base] = 1
            continue
        raw[base] = count
        for j in range(4):
            raw[base + 4 + j] = exponent >> (8 * j) & 255
        for j in range(0, count, 3):
            unit = int(digits[j])
            unit += 10 * int(digits[j + 1]) if j + 1 < count else 0
            unit += 100 * int(digits[j + 2]) if j + 2 < count else 0
            raw[base + UNITS_AT + 2 * (j // 3)] = unit & 255
            raw[base + UNITS_AT + 2 * (j // 3) + 1] = unit >> 8
        if data[end - 1] & 15 == 0xD:
            raw[base + FLAGS_AT] = 0x80
    return raw
