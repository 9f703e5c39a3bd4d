"""JSON texts in their one spelling: usual ones, as they stand, without parsing them into objects.

A text is copied to the output value by value, without white space, and the members of each object
are put in order where it ends. Anything unusual (an escape by number, a long number, an exponent,
a byte that is no JSON) ends the attempt: the text is left to the caller's exact way. The
twin is `canonical_text`.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int, Ints
from strata.kernels.jit import inlined, lean

LEVELS: Final = 64  # of nesting
MEMBERS: Final = 1024  # of all objects that are open at once
SORTED_MOST: Final = 128  # members of an object that are put in order here
DIGITS: Final = 15  # of a number with a point: its float64 prints the same digits
WHOLE_DIGITS: Final = 18
# The rows of the scratch: where each open level begins in the output, and the first of its members
# (-1: an array); where each member begins, its key ends, and it ends; members by their keys.
STARTS, FIRSTS, BEGINS, KEYS, ENDS, ORDER = range(6)

_NO: Final = np.int64(-1)
_LOW: Final = np.int64(0xFFFFFFFF)
_QUOTE, _BACKSLASH, _COMMA, _COLON = (np.uint8(ord(char)) for char in '"\\,:')
_BRACE, _UNBRACE, _BRACKET, _UNBRACKET = (np.uint8(ord(char)) for char in "{}[]")
_MINUS, _POINT, _ZERO, _NINE, _SPACE, _DELETE = (np.uint8(ord(char)) for char in "-.09 \x7f")
_TAB, _LINE, _RETURN, _SLASH = (np.uint8(ord(char)) for char in "\t\n\r/")
_T, _F, _N = (np.uint8(ord(char)) for char in "tfn")


@lean
def canonical(
    source: Bytes,
    offsets: Ints,
    skip: Bools,
    out: Bytes,
    ends: Ints,
    done: Bools,
    words: Bytes,
    scratch: Ints,
    room: Bytes,
) -> None:
    """Write the canonical form of each text that is usual, one behind another.

    Shape: text n is source[offsets[n]:offsets[n + 1]]; `ends[n + 1]` is where its form ends in
    `out`, which is as long as all texts; `done` says which have one, and is false where `skip` is
    true. `words`: the bytes "truefalsenull". `scratch` has six rows of MEMBERS numbers, `room` is
    as long as the longest text.
    """
    place: Int = np.int64(0)
    ends[0] = 0
    for row in range(len(offsets) - 1):
        done[row] = False
        if not skip[row]:
            end = _text(source, offsets[row], offsets[row + 1], out, place, words, scratch, room)
            if end >= 0:
                done[row] = True
                place = end
        ends[row + 1] = place


@lean
def _text(  # noqa: C901, PLR0912, PLR0915 -- one loop
    source: Bytes,
    at: Int,
    stop: Int,
    out: Bytes,
    place: Int,
    words: Bytes,
    scratch: Ints,
    room: Bytes,
) -> Int:
    """Write one text; return where it ends in the output, or -1."""
    level, members = np.int64(-1), np.int64(0)
    at = _blank(source, at, stop)
    while at < stop:
        # A value begins here.
        char = source[at]
        opened = False
        if char == _BRACE or char == _BRACKET:
            level += 1
            if level >= LEVELS:
                return _NO
            scratch[STARTS, level] = place
            scratch[FIRSTS, level] = members if char == _BRACE else _NO
            out[place] = char
            place += 1
            at = _blank(source, at + 1, stop)
            last = _UNBRACE if char == _BRACE else _UNBRACKET
            opened = bool(at < stop and source[at] != last)
        else:
            moved = _scalar(source, at, stop, out, place, words)
            if moved < 0:
                return _NO
            place += moved >> 32
            at = _blank(source, at + (moved & _LOW), stop)
        # Levels end here; then another value of the same level follows, or nothing.
        while not opened:
            if level < 0:
                return place if at == stop else _NO
            if at >= stop:
                return _NO
            char = source[at]
            first = scratch[FIRSTS, level]
            empty = place == scratch[STARTS, level] + 1
            if first >= 0 and not empty:
                scratch[ENDS, members - 1] = place
            if char == _COMMA and not empty:
                out[place] = _COMMA
                place += 1
                at = _blank(source, at + 1, stop)
                break
            if char != (_UNBRACE if first >= 0 else _UNBRACKET):
                return _NO
            if first >= 0:
                place = _in_order(out, scratch, first, members, place, room)
                if place < 0:
                    return _NO
                members = first
            out[place] = char
            place += 1
            level -= 1
            at = _blank(source, at + 1, stop)
        if scratch[FIRSTS, level] >= 0:
            if members >= MEMBERS:
                return _NO
            scratch[BEGINS, members] = place
            moved = _key(source, at, stop, out, place)
            if moved < 0:
                return _NO
            place += moved >> 32
            at = _blank(source, at + (moved & _LOW), stop)
            scratch[KEYS, members] = place - 1
            members += 1
    return _NO


@inlined
def _scalar(source: Bytes, at: Int, stop: Int, out: Bytes, place: Int, words: Bytes) -> Int:
    """Write a string, a number or a word; return the bytes written << 32 | those read, or -1."""
    char = source[at]
    if char == _QUOTE:
        return _string(source, at, stop, out, place, False)
    if char == _MINUS or _ZERO <= char <= _NINE:
        return _number(source, at, stop, out, place)
    size = _word(source, at, stop, words)
    if size < 0:
        return _NO
    for n in range(size):
        out[place + n] = source[at + n]
    return size << 32 | size


@inlined
def _key(source: Bytes, start: Int, stop: Int, out: Bytes, place: Int) -> Int:
    """Write a key and its colon; return the bytes written << 32 | those read, or -1."""
    if start >= stop or source[start] != _QUOTE:
        return _NO
    moved = _string(source, start, stop, out, place, True)
    if moved < 0:
        return _NO
    at = _blank(source, start + (moved & _LOW), stop)
    if at >= stop or source[at] != _COLON:
        return _NO
    place += moved >> 32
    out[place] = _COLON
    return ((moved >> 32) + 1) << 32 | (at + 1 - start)


@inlined
def _blank(source: Bytes, at: Int, stop: Int) -> Int:
    """Return where the white space at a place ends."""
    while at < stop:
        char = source[at]
        if char != _SPACE and char != _LINE and char != _TAB and char != _RETURN:
            break
        at += 1
    return at


@inlined
def _word(source: Bytes, at: Int, stop: Int, words: Bytes) -> Int:
    """Return the length of `true`, `false` or `null` at a place, or -1."""
    char = source[at]
    if char == _T:
        first, size = 0, 4
    elif char == _F:
        first, size = 4, 5
    elif char == _N:
        first, size = 9, 4
    else:
        return _NO
    if at + size > stop:
        return _NO
    for n in range(size):
        if source[at + n] != words[first + n]:
            return _NO
    return np.int64(size)


@inlined
def _string(source: Bytes, start: Int, stop: Int, out: Bytes, place: Int, plain: bool) -> Int:
    """Copy a string with its quotes; return the bytes written << 32 | those read, or -1.

    `plain`: a string with an escape ends the attempt, because keys are compared by their bytes.
    """
    out[place] = _QUOTE
    at, to = start + 1, place + 1
    while at < stop:
        char = source[at]
        if char == _QUOTE:
            out[to] = char
            return (to + 1 - place) << 32 | (at + 1 - start)
        if char < _SPACE or char == _DELETE:
            return _NO
        if char == _BACKSLASH:
            at += 1
            if plain or at >= stop:
                return _NO
            char = source[at]
            if char == _SLASH:
                out[to] = char
            elif (
                char == _QUOTE
                or char == _BACKSLASH
                or char == 98  # b
                or char == 102  # f
                or char == 110  # n
                or char == 114  # r
                or char == 116  # t
            ):
                out[to] = _BACKSLASH
                to += 1
                out[to] = char
            else:
                return _NO
        else:
            out[to] = char
        at += 1
        to += 1
    return _NO


@inlined
def _number(source: Bytes, start: Int, stop: Int, out: Bytes, place: Int) -> Int:
    """Write a number of few digits; return the bytes written << 32 | those read, or -1."""
    first = start + (source[start] == _MINUS)
    at = _digits(source, first, stop)
    whole, zero = at - first, first < stop and source[first] == _ZERO
    if whole == 0 or (whole > 1 and zero):
        return _NO
    size = at - start  # of what is written
    if at < stop and source[at] == _POINT:
        end = _digits(source, at + 1, stop)
        kept = _fraction(source, at + 1, end, zero)
        if kept < 0 or whole + end - at - 1 > DIGITS:
            return _NO
        size += 1 + kept
        at = end
    elif whole > WHOLE_DIGITS or (zero and first != start):  # minus zero loses its sign
        return _NO
    if at < stop and (source[at] == 101 or source[at] == 69):  # an exponent
        return _NO
    for n in range(size):
        out[place + n] = source[start + n]
    return size << 32 | (at - start)


@inlined
def _digits(source: Bytes, at: Int, stop: Int) -> Int:
    """Return where the digits at a place end."""
    while at < stop and _ZERO <= source[at] <= _NINE:
        at += 1
    return at


@inlined
def _fraction(source: Bytes, start: Int, stop: Int, zero: Int) -> Int:
    """Return how many digits behind a point count, at least one; -1: there may be an exponent.

    `zero`: the digit in front of it is 0.
    """
    last = stop
    while last > start and source[last - 1] == _ZERO:
        last -= 1
    if stop == start:
        return _NO
    if zero:  # a small number may have an exponent, and zero has no sign
        leading = start
        while leading < last and source[leading] == _ZERO:
            leading += 1
        if last == start or leading - start > 2:
            return _NO
    return max(last - start, np.int64(1))


@lean
def _in_order(out: Bytes, scratch: Ints, first: Int, stop: Int, place: Int, room: Bytes) -> Int:
    """Put the members of an object in order, the last of equal keys alone; return where they end.

    Returns -1 if they are too many.
    """
    ordered = True
    for n in range(first + 1, stop):
        if _compared(out, scratch, n - 1, n) >= 0:
            ordered = False
            break
    if ordered:
        return place
    if stop - first > SORTED_MOST:
        return _NO
    count = _inserted(out, scratch, first, stop)
    begin, size = scratch[BEGINS, first], np.int64(0)
    for number in range(count):
        member = scratch[ORDER, number]
        if number:
            room[size] = _COMMA
            size += 1
        for n in range(scratch[BEGINS, member], scratch[ENDS, member]):
            room[size] = out[n]
            size += 1
    for n in range(size):
        out[begin + n] = room[n]
    return begin + size


@inlined
def _inserted(out: Bytes, scratch: Ints, first: Int, stop: Int) -> Int:
    """Order members by their keys, one after another; return how many keys there are."""
    count = np.int64(0)
    for n in range(first, stop):
        to, same = count, False
        while to > 0:
            found = _compared(out, scratch, scratch[ORDER, to - 1], n)
            if found <= 0:
                same = found == 0
                break
            to -= 1
        if same:  # the last of equal keys counts
            scratch[ORDER, to - 1] = n
            continue
        for before in range(count, to, -1):
            scratch[ORDER, before] = scratch[ORDER, before - 1]
        scratch[ORDER, to] = n
        count += 1
    return count


@inlined
def _compared(out: Bytes, scratch: Ints, one: Int, other: Int) -> Int:
    """Compare the keys of two members: below 0, 0, or above 0."""
    a, b = scratch[BEGINS, one] + 1, scratch[BEGINS, other] + 1
    a_end, b_end = scratch[KEYS, one] - 1, scratch[KEYS, other] - 1  # in front of the quotes
    while a < a_end and b < b_end:
        if out[a] != out[b]:
            return np.int64(out[a]) - np.int64(out[b])
        a += 1
        b += 1
    return (a_end - a) - (b_end - b)
