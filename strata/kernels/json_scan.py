"""One pass over JSON texts: what each path holds, without building a value.

Strict JSON (RFC 8259), and within the limits of Spark's parser: the first text that is not, or
that has a key twice in one map, ends the scan. Everything else is exact, but for numbers that
`floats` is not sure of and integers beyond 64 bits: they are listed for the caller.

Maps of a column mostly have their keys in one order: the key that followed the last one in an
earlier row is compared first, then those behind it, and only after some is a hash looked up.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bytes, Int, Ints
from strata.kernels.jit import inlined, lean
from strata.kernels.json_number import number
from strata.kernels.json_state import (
    BEFORE_COLUMN,
    BEFORE_NODE,
    FALSE,
    FIRST_KEY,
    FULL,
    GOING,
    HAS_KEYS,
    HIDDEN,
    HIGH_PREFIX,
    IS_MAP,
    KEPT,
    KEY_START,
    LEVEL,
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
    SEEN_IN,
    SLOW,
    STATUS,
    STRING,
    TRUE,
    Floats,
    child,
)  # fmt: skip
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


@lean
def scan(
    nodes: Ints, reals: Floats, kept: Bytes, names: Bytes, table: Ints, slow: Ints,
    scratch: Bytes, used: Ints, text: Bytes, offsets: Ints, row: Int,
) -> Int:  # fmt: skip
    """Add the texts from `row` on to the state; return the row that was not added, or their number.

    `offsets` ascend and stay inside `text`. `used[STATUS]` says why the scan stopped: FULL, then
    the caller drains the slow numbers, makes room and goes on; or REFUSED.
    """
    used[STATUS] = GOING
    while row < len(offsets) - 1:
        start, end = offsets[row], offsets[row + 1]
        most = (end - start) // 4 + 1  # keys, and slow numbers: none is shorter than 4 bytes
        if (
            used[NODES] + most > len(nodes)
            or used[SLOW] + most > len(slow)
            or used[NAME_BYTES] + end - start > len(names)
            or end - start > len(scratch)
        ):
            used[STATUS] = FULL
            return row
        if not _document(nodes, reals, kept, names, table, slow, scratch, used, text, start, end):
            used[STATUS] = REFUSED
            return row
        row += 1
    return row


@inlined
def _document(
    nodes: Ints, reals: Floats, kept: Bytes, names: Bytes, table: Ints, slow: Ints,
    scratch: Bytes, used: Ints, text: Bytes, start: Int, end: Int,
) -> bool:  # fmt: skip
    """Add one text; False if it is to be refused."""
    i = space(text, start, end)
    node: Int = 0
    depth: Int = 0
    while i >= 0:
        opener = at(text, i, end)
        opened = opener == 0x7B or opener == 0x5B
        if opened:
            depth += 1
            if depth >= NESTING:
                return False
            _open(nodes, used, node, depth, opener == 0x7B)
            i = space(text, i + 1, end)
            opened = at(text, i, end) != opener + 2
            if opened and opener == 0x7B:
                nodes[node, HAS_KEYS] = 1
            if not opened:
                depth -= 1
                i += 1
        else:
            i = _leaf(nodes, reals, kept, slow, scratch, used, text, i, end, node)
        if not opened:
            i, depth = _close(nodes, text, i, end, depth)
            if depth == 0:
                return bool(i == end)
        if i >= 0 and nodes[depth, IS_MAP]:
            i, node = _key(nodes, reals, used, names, table, scratch, text, i, end, depth)
        else:
            node = nodes[depth, MEMBERS_OF]
    return False


@inlined
def _leaf(
    nodes: Ints, reals: Floats, kept: Bytes, slow: Ints, scratch: Bytes, used: Ints, text: Bytes,
    i: Int, end: Int, node: Int,
) -> Int:  # fmt: skip
    """Add the value at `i`, no map and no list; return the position behind it."""
    byte = at(text, i, end)
    if byte == QUOTE:
        return _string(nodes, kept, used, scratch, text, i + 1, end, node)
    if byte == 0x2D or 0x30 <= byte <= 0x39:
        return number(nodes, reals, slow, used, text, i, end, node)
    return _word(nodes, text, i, end, node)


@inlined
def _open(nodes: Ints, used: Ints, node: Int, depth: Int, is_map: bool) -> None:
    """Count a map or a list, and note where its members belong."""
    nodes[depth, IS_MAP] = is_map
    nodes[depth, MEMBERS_OF] = depth
    if not is_map:
        nodes[node, LIST] += 1
        return
    nodes[node, MAP] += 1
    used[MAPS_SEEN] += 1
    nodes[depth, NUMBER] = used[MAPS_SEEN]
    if nodes[node, LEVEL] < MAX_DEPTH:
        nodes[depth, MEMBERS_OF] = node
    nodes[depth, BEFORE_NODE] = nodes[depth, MEMBERS_OF]
    nodes[depth, BEFORE_COLUMN] = FIRST_KEY


@inlined
def _close(nodes: Ints, text: Bytes, i: Int, end: Int, depth: Int) -> tuple[Int, Int]:
    """Close the brackets that end behind the value before `i`.

    Returns the position of the next member and the depth; REFUSE if something else comes. At depth
    0 the position is that of the first byte that does not belong to the value.
    """
    while i >= 0:
        i = space(text, i, end)
        if depth == 0:
            return i, 0
        byte = at(text, i, end)
        if byte == 0x2C:
            return space(text, i + 1, end), depth
        if byte != (0x7D if nodes[depth, IS_MAP] else 0x5D):
            break
        depth -= 1
        i += 1
    return REFUSE, depth


@inlined
def _key(
    nodes: Ints, reals: Floats, used: Ints, names: Bytes, table: Ints, scratch: Bytes, text: Bytes,
    i: Int, end: Int, depth: Int,
) -> tuple[Int, Int]:  # fmt: skip
    """Return the position of the value behind the key at `i`, and its node."""
    if at(text, i, end) != QUOTE:
        return REFUSE, 0
    before, column = nodes[depth, BEFORE_NODE], nodes[depth, BEFORE_COLUMN]
    node = nodes[before, column]
    stop = _plain_key_end(nodes, names, text, i + 1, end, node)
    guesses = 1
    while stop < 0 and node != 0 and guesses < MAX_GUESSES:  # some keys may be left out here
        node = nodes[node, NEXT_KEY]
        stop = _plain_key_end(nodes, names, text, i + 1, end, node)
        guesses += 1
    if stop < 0:
        stop, node = _look_up(
            nodes, reals, used, names, table, scratch, text, i + 1, end, nodes[depth, MEMBERS_OF]
        )
        if stop < 0:
            return REFUSE, 0
        nodes[before, column] = node
    if nodes[node, SEEN_IN] == nodes[depth, NUMBER]:
        return REFUSE, 0  # twice in this map
    nodes[node, SEEN_IN] = nodes[depth, NUMBER]
    nodes[depth, BEFORE_NODE] = node
    nodes[depth, BEFORE_COLUMN] = NEXT_KEY
    i = space(text, stop + 1, end)
    if at(text, i, end) != 0x3A:
        return REFUSE, 0
    return space(text, i + 1, end), node


@inlined
def _plain_key_end(nodes: Ints, names: Bytes, text: Bytes, i: Int, end: Int, node: Int) -> Int:
    """Return where the closing quote is if it is the key of `node` that begins at `i`."""
    length = nodes[node, PLAIN_LENGTH]
    stop = i + length
    if node == 0 or length < 0 or stop >= end or text[stop] != QUOTE:
        return REFUSE
    place = nodes[node, KEY_START]
    while stop - i >= 8:  # both are inside their arrays: the key, and as much of the text
        if load64(text, i) != load64(names, place):
            return REFUSE
        i += 8
        place += 8
    if i + 8 <= len(text) and place + 8 <= len(names):
        differ = load64(text, i) ^ load64(names, place)
        same = differ & ~(ALL << np.uint64(8 * (stop - i))) == np.uint64(0)
        return stop if same else REFUSE
    while i < stop:
        if text[i] != names[place]:
            return REFUSE
        i += 1
        place += 1
    return stop


@lean
def _look_up(
    nodes: Ints, reals: Floats, used: Ints, names: Bytes, table: Ints, scratch: Bytes, text: Bytes,
    i: Int, end: Int, parent: Int,
) -> tuple[Int, Int]:  # fmt: skip
    """Return where the closing quote of the key is that begins at `i`, and its node."""
    stop = string_end(used, text, i, end)
    if stop < 0:
        return REFUSE, 0
    if text[stop] == QUOTE:
        if stop - i >= MAX_NAME:
            return REFUSE, 0
        return stop, child(nodes, reals, used, names, table, parent, text, i, stop - i)
    stop, length = unescape(used, scratch, text, i, end)
    if stop < 0 or length >= MAX_NAME:
        return REFUSE, 0
    return stop, child(nodes, reals, used, names, table, parent, scratch, 0, length)


@inlined
def _word(nodes: Ints, text: Bytes, i: Int, end: Int, node: Int) -> Int:
    """Add the null or truth value at `i`; return the position behind it."""
    if is_word(text, i, end, _NULL):
        nodes[node, NULL] += 1
        return i + 4
    if is_word(text, i, end, _TRUE):
        nodes[node, TRUE] += 1
        return i + 4
    if at(text, i, end) == 0x66 and is_word(text, i + 1, end, _ALSE):
        nodes[node, FALSE] += 1
        return i + 5
    return REFUSE


@inlined
def _string(
    nodes: Ints, kept: Bytes, used: Ints, scratch: Bytes, text: Bytes, i: Int, end: Int, node: Int
) -> Int:
    """Add the string whose content begins at `i`; return the position behind it."""
    stop = string_end(used, text, i, end)
    if stop < 0:
        return REFUSE
    if text[stop] == QUOTE:
        _add_string(nodes, kept, node, text, i, stop - i)
        return stop + 1
    stop, length = unescape(used, scratch, text, i, end)
    if stop < 0:
        return REFUSE
    _add_string(nodes, kept, node, scratch, 0, length)
    return stop + 1


@inlined
def _add_string(
    nodes: Ints, kept: Bytes, node: Int, source: Bytes, start: Int, length: Int
) -> None:
    nodes[node, STRING] += 1
    if nodes[node, LEVEL] >= HIDDEN:
        return
    prefix = _prefix(source, start, length)
    if nodes[node, LOW_PREFIX] < prefix < nodes[node, HIGH_PREFIX]:
        return
    first = nodes[node, STRING] == 1
    if first or _compare(nodes, kept, node, 0, source, start, length) < 0:
        nodes[node, LOW_PREFIX] = prefix
        _keep(nodes, kept, node, 0, source, start, length)
    if first or _compare(nodes, kept, node, 1, source, start, length) > 0:
        nodes[node, HIGH_PREFIX] = prefix
        _keep(nodes, kept, node, 1, source, start, length)


@inlined
def _prefix(source: Bytes, start: Int, length: Int) -> Int:
    """Return the first 63 bits of a string, zeros behind it: who has fewer of them sorts before."""
    word = np.uint64(0)
    if start + 8 <= len(source):
        word = load64(source, start)
        if length < 8:
            word &= ~(ALL << np.uint64(8 * length))
    else:
        for k in range(min(length, 8)):
            word |= np.uint64(source[start + k]) << np.uint64(8 * k)
    return np.int64(byte_swap(word) >> np.uint64(1))


@inlined
def _compare(
    nodes: Ints, kept: Bytes, node: Int, side: Int, source: Bytes, start: Int, length: Int
) -> Int:
    """Return below, at or above 0 as a string sorts before, with or behind a kept one."""
    held = nodes[node, LOW_LENGTH + side]
    for k in range(min(length, held, KEPT)):
        if source[start + k] != kept[node, side, k]:
            return np.int64(source[start + k]) - np.int64(kept[node, side, k])
    return min(length, KEPT + 1) - held


@inlined
def _keep(
    nodes: Ints, kept: Bytes, node: Int, side: Int, source: Bytes, start: Int, length: Int
) -> None:
    nodes[node, LOW_LENGTH + side] = min(length, KEPT + 1)
    for k in range(min(length, KEPT)):
        kept[node, side, k] = source[start + k]
