"""Finds what each path of JSON texts holds, in one pass and without building values.

Texts must be strict JSON (RFC 8259) and within the limits of Spark's parser. The scan ends at the
first text that is not, or that has a key twice in one map. The results are exact, except for
numbers that `floats` is uncertain about and integers beyond 64 bits; these are listed for the
caller.

Maps of a column mostly have their keys in one order. So the key that followed the last one in an
earlier row is compared first, then the keys after it; only then is a hash looked up.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bytes, Floats, Int, Ints
from strata.kernels.jit import inlined, lean
from strata.kernels.json_number import add_number
from strata.kernels.json_shape import add_shape
from strata.kernels.json_state import (
    BEFORE,
    CLOSER,
    FALSE,
    FIRST_KEY,
    FULL,
    GOING,
    HAS_KEYS,
    HIDDEN,
    HIGH_LENGTH,
    HIGH_PREFIX,
    KEPT,
    KEPT_AT,
    KEY_MASK,
    KEY_START,
    KEY_WORD,
    LEVEL,
    LIKE,
    LIST,
    LOW_LENGTH,
    LOW_PREFIX,
    MAP,
    MAPS_SEEN,
    MEMBERS_OF,
    NAME_BYTES,
    NESTING,
    NEXT_KEY,
    NODES,
    NULL,
    NUMBER,
    PLAIN_LENGTH,
    REFUSED,
    ROW,
    SEEN_IN,
    SLACK,
    SLOW,
    STATUS,
    STRING,
    TRUE,
    child_node,
    get,
    put,
)
from strata.kernels.json_text import (
    QUOTE,
    REFUSE,
    at,
    is_word,
    space,
    string_end,
    unescape,
)
from strata.kernels.memory import byte_swap, load64

MAX_DEPTH: Final = 8  # keys in a path
MAX_GUESSES: Final = 6  # keys compared before a hash is looked up
MAX_NAME: Final = 40_000  # bytes; Spark's parser stops at 50,000

_NULL, _TRUE, _ALSE = (
    np.uint64(int.from_bytes(word, "little")) for word in (b"null", b"true", b"alse")
)
ALL: Final = np.uint64(2**64 - 1)
TOP: Final = np.uint64(2**63)  # with this bit flipped, words sort as signed integers


@lean
def scan_texts(
    cells: Ints,
    reals: Floats,
    kept: Bytes,
    names: Bytes,
    table: Ints,
    slow: Ints,
    scratch: Bytes,
    used: Ints,
    text: Bytes,
    offsets: Ints,
    row: Int,
) -> Int:
    """Add the texts from `row` on to the state; return the row that was not added, or their number.

    `offsets` ascend and stay SLACK bytes below the end of `text`. `used[STATUS]` says why the scan
    stopped. At FULL the caller drains the slow numbers, makes room and continues; else REFUSED.
    """
    used[STATUS] = GOING
    while row < len(offsets) - 1:
        start, end = offsets[row], offsets[row + 1]
        most = (end - start) // 4 + 1  # keys, and slow numbers: none is shorter than 4 bytes
        if (
            used[NODES] + most * ROW > len(cells)
            or used[SLOW] + most > len(slow)
            or used[NAME_BYTES] + end - start > len(names) - SLACK
            or end - start > len(scratch) - SLACK
        ):
            used[STATUS] = FULL
            return row
        if not _document(cells, reals, kept, names, table, slow, scratch, used, text, start, end):
            used[STATUS] = REFUSED
            return row
        row += 1
    return row


@inlined
def _document(
    cells: Ints,
    reals: Floats,
    kept: Bytes,
    names: Bytes,
    table: Ints,
    slow: Ints,
    scratch: Bytes,
    used: Ints,
    text: Bytes,
    start: Int,
    end: Int,
) -> bool:
    """Add one text; False if it must be refused."""
    i = space(text, start, end)
    node: Int = 0
    top: Int = 0  # the node of the innermost bracket that is open
    while i >= 0:
        opener = at(text, i, end)
        opened = opener == 0x7B or opener == 0x5B
        if opened:
            top += ROW
            if top >= NESTING * ROW:
                return False
            _open(cells, used, node, top, opener)
            i = space(text, i + 1, end)
            opened = at(text, i, end) != opener + 2
            if not opened:
                top -= ROW
                i += 1
            elif opener == 0x7B:
                put(cells, node + HAS_KEYS, 1)
        else:
            i = _leaf(cells, reals, kept, slow, scratch, used, text, i, end, node)
        if not opened:
            i, top = _close(cells, text, i, end, top)
            if top == 0:
                return bool(i == end)
        if i >= 0 and get(cells, top + CLOSER) == 0x7D:
            i, node = _key(cells, reals, used, names, table, scratch, text, i, end, top)
        else:
            node = get(cells, top + MEMBERS_OF)
    return False


@inlined
def _leaf(
    cells: Ints,
    reals: Floats,
    kept: Bytes,
    slow: Ints,
    scratch: Bytes,
    used: Ints,
    text: Bytes,
    i: Int,
    end: Int,
    node: Int,
) -> Int:
    """Add the value at `i`, neither a map nor a list; return the position after it."""
    byte = at(text, i, end)
    if byte == QUOTE:
        return _string(cells, reals, kept, used, scratch, text, i + 1, end, node)
    if byte == 0x2D or 0x30 <= byte <= 0x39:
        return add_number(cells, reals, slow, used, text, i, end, node)
    return _word(cells, text, i, end, node)


@inlined
def _open(cells: Ints, used: Ints, node: Int, top: Int, opener: Int) -> None:
    """Count a map or a list, and note where its members belong."""
    put(cells, top + CLOSER, opener + 2)
    if opener != 0x7B:
        put(cells, top + MEMBERS_OF, top)
        _count(cells, node + LIST)
        return
    _count(cells, node + MAP)
    used[MAPS_SEEN] += 1
    put(cells, top + NUMBER, used[MAPS_SEEN])
    parent = node if get(cells, node + LEVEL) < MAX_DEPTH else top
    put(cells, top + MEMBERS_OF, parent)
    put(cells, top + BEFORE, parent + FIRST_KEY)


@inlined
def _count(cells: Ints, at: Int) -> None:
    put(cells, at, get(cells, at) + 1)


@inlined
def _close(cells: Ints, text: Bytes, i: Int, end: Int, top: Int) -> tuple[Int, Int]:
    """Close the brackets that end after the value before `i`.

    Returns the position of the next member and the node of its bracket; REFUSE if something else
    follows. With node 0 the position is that of the first byte after the value.
    """
    while i >= 0:
        i = space(text, i, end)
        if top == 0:
            return i, 0
        byte = at(text, i, end)
        if byte == 0x2C:
            return space(text, i + 1, end), top
        if byte != get(cells, top + CLOSER):
            break
        top -= ROW
        i += 1
    return REFUSE, top


@inlined
def _key(
    cells: Ints,
    reals: Floats,
    used: Ints,
    names: Bytes,
    table: Ints,
    scratch: Bytes,
    text: Bytes,
    i: Int,
    end: Int,
    top: Int,
) -> tuple[Int, Int]:
    """Return the position of the value after the key at `i`, and its node."""
    if at(text, i, end) != QUOTE:
        return REFUSE, 0
    before = get(cells, top + BEFORE)
    node = get(cells, before)
    stop = _plain_key_end(cells, names, text, i + 1, end, node)
    guesses = 1
    while stop < 0 and node != 0 and guesses < MAX_GUESSES:  # some keys may be left out here
        node = get(cells, node + NEXT_KEY)
        stop = _plain_key_end(cells, names, text, i + 1, end, node)
        guesses += 1
    if stop < 0:
        stop, node = _look_up(
            cells,
            reals,
            used,
            names,
            table,
            scratch,
            text,
            i + 1,
            end,
            get(cells, top + MEMBERS_OF),
        )
        if stop < 0:
            return REFUSE, 0
        put(cells, before, node)
    this_map = get(cells, top + NUMBER)
    if get(cells, node + SEEN_IN) == this_map:
        return REFUSE, 0  # twice in this map
    put(cells, node + SEEN_IN, this_map)
    put(cells, top + BEFORE, node + NEXT_KEY)
    i = space(text, stop + 1, end)
    if at(text, i, end) != 0x3A:
        return REFUSE, 0
    return space(text, i + 1, end), node


@inlined
def _plain_key_end(cells: Ints, names: Bytes, text: Bytes, i: Int, end: Int, node: Int) -> Int:
    """Return where the closing quote is, if the key of `node` begins at `i`."""
    differ = load64(text, i) ^ np.uint64(get(cells, node + KEY_WORD))
    if differ & np.uint64(get(cells, node + KEY_MASK)) != np.uint64(0):
        return REFUSE
    length = get(cells, node + PLAIN_LENGTH)
    stop = i + length
    if length < 0 or stop >= end:
        return REFUSE
    if length >= 8 and not _same(text, i + 8, names, get(cells, node + KEY_START) + 8, length - 7):
        return REFUSE
    return stop


@inlined
def _same(text: Bytes, i: Int, names: Bytes, place: Int, length: Int) -> bool:
    """Return whether `length` bytes, at least one, are equal."""
    while length > 8:
        if load64(text, i) != load64(names, place):
            return False
        i += 8
        place += 8
        length -= 8
    differ = load64(text, i) ^ load64(names, place)
    return bool(differ << np.uint64(64 - 8 * length) == np.uint64(0))


@lean
def _look_up(
    cells: Ints,
    reals: Floats,
    used: Ints,
    names: Bytes,
    table: Ints,
    scratch: Bytes,
    text: Bytes,
    i: Int,
    end: Int,
    parent: Int,
) -> tuple[Int, Int]:
    """Return the place of the closing quote of the key that begins at `i`, and its node."""
    stop = string_end(used, text, i, end)
    if stop < 0:
        return REFUSE, 0
    if text[stop] == QUOTE:
        if stop - i >= MAX_NAME:
            return REFUSE, 0
        return stop, child_node(cells, reals, used, names, table, parent, text, i, stop - i)
    stop, length = unescape(used, scratch, text, i, end)
    if stop < 0 or length >= MAX_NAME:
        return REFUSE, 0
    return stop, child_node(cells, reals, used, names, table, parent, scratch, 0, length)


@inlined
def _word(cells: Ints, text: Bytes, i: Int, end: Int, node: Int) -> Int:
    """Add the null or truth value at `i`; return the position after it."""
    if is_word(text, i, end, _NULL):
        _count(cells, node + NULL)
        return i + 4
    if is_word(text, i, end, _TRUE):
        _count(cells, node + TRUE)
        return i + 4
    if at(text, i, end) == 0x66 and is_word(text, i + 1, end, _ALSE):
        _count(cells, node + FALSE)
        return i + 5
    return REFUSE


@inlined
def _string(
    cells: Ints,
    reals: Floats,
    kept: Bytes,
    used: Ints,
    scratch: Bytes,
    text: Bytes,
    i: Int,
    end: Int,
    node: Int,
) -> Int:
    """Add the string whose content begins at `i`; return the position after it."""
    stop = string_end(used, text, i, end)
    if stop < 0:
        return REFUSE
    if text[np.uint64(stop)] == QUOTE:
        _add_string(cells, reals, kept, node, text, i, stop - i)
        return stop + 1
    stop, length = unescape(used, scratch, text, i, end)
    if stop < 0:
        return REFUSE
    _add_string(cells, reals, kept, node, scratch, 0, length)
    return stop + 1


@inlined
def _add_string(
    cells: Ints, reals: Floats, kept: Bytes, node: Int, source: Bytes, start: Int, length: Int
) -> None:
    _count(cells, node + STRING)
    if get(cells, node + LIKE):
        add_shape(cells, reals, node, source, start, length)
    prefix = _prefix(source, start, length)
    low, high = get(cells, node + LOW_PREFIX), get(cells, node + HIGH_PREFIX)
    if low < prefix < high:
        return
    if length <= 8 and (
        (prefix == low and length == get(cells, node + LOW_LENGTH))
        or (prefix == high and length == get(cells, node + HIGH_LENGTH))
    ):
        return  # it is the bound itself
    _extend(cells, kept, node, source, start, length, prefix)


@lean
def _extend(
    cells: Ints, kept: Bytes, node: Int, source: Bytes, start: Int, length: Int, prefix: Int
) -> None:
    """Record a string as the least or the greatest of its path if it is."""
    if cells[node + LEVEL] >= HIDDEN:
        return
    first = cells[node + STRING] == 1
    if first or _compare(cells, kept, node, 0, source, start, length) < 0:
        cells[node + LOW_PREFIX] = prefix
        _keep(cells, kept, node, 0, source, start, length)
    if first or _compare(cells, kept, node, 1, source, start, length) > 0:
        cells[node + HIGH_PREFIX] = prefix
        _keep(cells, kept, node, 1, source, start, length)


@inlined
def _prefix(source: Bytes, start: Int, length: Int) -> Int:
    """Return the first 8 bytes of a string, filled with zeros; smaller words sort first."""
    word = load64(source, start)
    if length < 8:
        word &= ~(ALL << np.uint64(8 * length))
    return np.int64(byte_swap(word) ^ TOP)


@inlined
def _compare(
    cells: Ints, kept: Bytes, node: Int, side: Int, source: Bytes, start: Int, length: Int
) -> Int:
    """Return a number below, at or above 0 if a string sorts before, with or after a kept one."""
    held = cells[node + LOW_LENGTH + side]
    place = 8 * (node + KEPT_AT) + side * KEPT
    for k in range(min(length, held, KEPT)):
        if source[start + k] != kept[place + k]:
            return np.int64(source[start + k]) - np.int64(kept[place + k])
    return min(length, KEPT + 1) - held


@inlined
def _keep(
    cells: Ints, kept: Bytes, node: Int, side: Int, source: Bytes, start: Int, length: Int
) -> None:
    cells[node + LOW_LENGTH + side] = min(length, KEPT + 1)
    place = 8 * (node + KEPT_AT) + side * KEPT
    for k in range(min(length, KEPT)):
        kept[place + k] = source[start + k]
