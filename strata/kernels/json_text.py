"""The tokens of JSON texts: white space, strings with escapes, literals."""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bytes, Int, Ints
from strata.kernels.jit import inlined, lean
from strata.kernels.json_state import WIDE
from strata.kernels.memory import load32, load64, trailing_zeros

QUOTE: Final = 0x22
BACKSLASH: Final = 0x5C
REFUSE: Final = -1  # instead of a position: not JSON, or beyond the limits of readers

_ESCAPES: Final = np.zeros(256, np.uint8)  # the byte after a backslash -> the byte it means
for _letter, _byte in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPES[_letter] = _byte

NOTHING: Final = np.uint64(0)
ONES: Final = np.uint64(0x0101010101010101)
BLANKS: Final = np.uint64(0x2020202020202020)
QUOTES: Final = np.uint64(0x2222222222222222)
BACKSLASHES: Final = np.uint64(0x5C5C5C5C5C5C5C5C)
TOPS: Final = np.uint64(0x8080808080808080)


@inlined
def at(text: Bytes, i: Int, end: Int) -> Int:
    """Return the byte at a position; after the end 0, which begins no token."""
    return np.int64(text[np.uint64(i)]) if i < end else np.int64(0)


@inlined
def space(text: Bytes, i: Int, end: Int) -> Int:
    """Return the position of the first byte from `i` on that is not white space."""
    while i < end:
        byte = text[np.uint64(i)]
        if byte > 0x20 or (byte != 0x20 and byte != 0x0A and byte != 0x0D and byte != 0x09):
            break
        i += 1
    return i


@inlined
def string_end(used: Ints, text: Bytes, i: Int, end: Int) -> Int:
    """Return where the first quote or backslash from `i` on is; REFUSE if there is neither.

    Bytes that are not ASCII are noted, because their encoding must be checked.
    """
    while i < end:
        odd = _unlike_text(load64(text, i))
        if odd == NOTHING:
            i += 8
            continue
        i += trailing_zeros(odd) >> 3
        if i >= end or text[np.uint64(i)] < 0x20:
            return REFUSE
        if text[np.uint64(i)] >= 0x80:
            used[WIDE] = 1
        elif _ends(text[np.uint64(i)]):
            return i
        i += 1
        while i < end and text[np.uint64(i)] >= 0x80:
            i += 1
    return REFUSE


@inlined
def _ends(byte: np.uint8) -> bool:
    return byte == QUOTE or byte == BACKSLASH


@inlined
def _unlike_text(word: np.uint64) -> np.uint64:
    """Return the highest bits of the bytes that are special in a string.

    A borrow may add some above the lowest of them, never below it.
    """
    quote, backslash = word ^ QUOTES, word ^ BACKSLASHES
    found = (quote - ONES) & ~quote | (backslash - ONES) & ~backslash | (word - BLANKS) & ~word
    return (found | word) & TOPS


@lean
def unescape(used: Ints, scratch: Bytes, text: Bytes, i: Int, end: Int) -> tuple[Int, Int]:
    """Write the string whose content starts at `i` to the scratch, without its escapes.

    Returns the position of the closing quote, or REFUSE, and the length of what was written.
    """
    length: Int = 0
    while i < end:
        byte = text[i]
        if byte == QUOTE:
            return i, length
        if byte < 0x20:
            return REFUSE, 0
        if byte >= 0x80:
            used[WIDE] = 1
        if byte != BACKSLASH:
            scratch[length] = byte
            length += 1
            i += 1
        elif at(text, i + 1, end) == 0x75:  # u
            i, length = _code(scratch, length, text, i, end)
            if i < 0:
                return REFUSE, 0
        else:
            plain = _ESCAPES[at(text, i + 1, end)]
            if plain == 0:
                return REFUSE, 0
            scratch[length] = plain
            length += 1
            i += 2
    return REFUSE, 0


@inlined
def _code(out: Bytes, length: Int, text: Bytes, i: Int, end: Int) -> tuple[Int, Int]:
    r"""Write the character of the `\uXXXX` at `i`, or of two that are a surrogate pair.

    Returns the position after it, or REFUSE, and the new length.
    """
    code = _hex(text, i + 2, end)
    i += 6
    if 0xD800 <= code < 0xDC00:
        if at(text, i, end) != BACKSLASH or at(text, i + 1, end) != 0x75:
            return REFUSE, 0
        low = _hex(text, i + 2, end)
        i += 6
        if low < 0xDC00 or low > 0xDFFF:
            return REFUSE, 0
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
    elif code < 0 or 0xDC00 <= code <= 0xDFFF:
        return REFUSE, 0
    if code < 0x80:
        out[length] = code
        return i, length + 1
    if code < 0x800:
        out[length] = 0xC0 | (code >> 6)
        out[length + 1] = 0x80 | (code & 0x3F)
        return i, length + 2
    if code < 0x10000:
        out[length] = 0xE0 | (code >> 12)
        out[length + 1] = 0x80 | ((code >> 6) & 0x3F)
        out[length + 2] = 0x80 | (code & 0x3F)
        return i, length + 3
    out[length] = 0xF0 | (code >> 18)
    out[length + 1] = 0x80 | ((code >> 12) & 0x3F)
    out[length + 2] = 0x80 | ((code >> 6) & 0x3F)
    out[length + 3] = 0x80 | (code & 0x3F)
    return i, length + 4


@inlined
def _hex(text: Bytes, i: Int, end: Int) -> Int:
    """Return the value of four hexadecimal digits, -1 if they are not."""
    if i + 4 > end:
        return -1
    value: Int = 0
    for place in range(i, i + 4):
        byte = np.int64(text[place])
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x41 <= byte <= 0x46 or 0x61 <= byte <= 0x66:
            digit = (byte & 0x0F) + 9
        else:
            return -1
        value = value * 16 + digit
    return value


@inlined
def is_word(text: Bytes, i: Int, end: Int, word: np.uint64) -> bool:
    """Return whether the four letters of `word`, the first one lowest, are at `i`."""
    return bool(i + 4 <= end and load32(text, i) == word)
