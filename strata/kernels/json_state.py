"""What the JSON scanner knows so far: a tree of paths with counts and bounds, in plain arrays.

A node represents a path: node 0 is the root, every other node has a parent and a key. Values in
lists, or deeper than statistics go, have no paths of their own. Their parent is one of `NESTING`
nodes without a key, one for each level of brackets, where only repeated keys and errors matter.
"""

from typing import Final, NamedTuple

import numpy as np

from strata.kernels.arrays import Bytes, Floats, Int, Ints
from strata.kernels.jit import inlined, lean

NESTING: Final = 400  # a text must have fewer levels of brackets
ROW: Final = 64  # cells of a node: counts and bounds, then the bytes of two strings
FIRST: Final = (1 + NESTING) * ROW  # the first node with a key
HIDDEN: Final = 1 << 30  # the level of nodes without statistics
KEPT: Final = 104  # bytes kept of the least and greatest string of a path
KEPT_AT: Final = 32  # the first cell of those bytes
SLACK: Final = 16  # readable bytes after texts, keys and scratch: whole words are read

# Cells of a node, eight to a line of the cache. First: how many values of each kind.
NULL, FALSE, TRUE, INTEGER, REAL, STRING, LIST, MAP = range(8)
# The key: the first bytes of it and of the quote behind it, and which bits of them count;
# PLAIN_LENGTH is -1 for a key that needs escapes, and where there is none. In which map it was
# seen last, what key came behind it, and what first in the map here.
KEY_WORD, KEY_MASK, PLAIN_LENGTH, SEEN_IN, NEXT_KEY, FIRST_KEY, LEVEL, KEY_START = range(8, 16)
# Bounds: the lows are above the highs where there is no value. LOW_REAL and HIGH_REAL are float64;
# how strings begin, see `json_scan`; lengths are KEPT + 1 at most.
LOW_INTEGER, HIGH_INTEGER, LOW_REAL, HIGH_REAL = range(16, 20)
LOW_PREFIX, HIGH_PREFIX, LOW_LENGTH, HIGH_LENGTH = range(20, 24)
# Place in the tree.
PARENT, KEY_LENGTH, HAS_KEYS = range(24, 27)
# The bracket that is open at this level: its members' parent, its number, the cell that foretells
# the key that comes next, the byte that closes it. Only of the nodes without a key.
MEMBERS_OF, NUMBER, BEFORE, CLOSER = range(27, 31)

# What all strings so far are written like, see `json_shape`: bits of LIKE, the form of the moments,
# and the bounds of the numbers, the last two as float64. The first shares a line with the place.
LIKE: Final = 31
FORM, LOW_WHOLE, HIGH_WHOLE, LOW_AMOUNT, HIGH_AMOUNT = range(58, 63)
WHOLES, NUMBERS, YEAR_FIRST, DAY_FIRST, MONTH_FIRST = (1 << bit for bit in range(5))
ANY_SHAPE: Final = WHOLES | NUMBERS | YEAR_FIRST | DAY_FIRST | MONTH_FIRST

_MOST: Final = 2**63 - 1
_LEAST: Final = -(2**63)
_ALL: Final = np.uint64(2**64 - 1)
_QUOTE: Final = np.uint64(0x22)

# Cells of `used`: how much of the arrays is in use, and what happened.
NODES, NAME_BYTES, MAPS_SEEN, SLOW, WIDE, STATUS = range(6)
# Values of `used[STATUS]`.
GOING, FULL, REFUSED = range(3)


class State(NamedTuple):
    """The tree of paths. Kernels take the arrays one by one: a tuple of them is slow to hand on.

    A node is named by its place, the first of its cells: a multiple of ROW. The same memory is
    seen as integers, as float64 and as bytes; no cell is used as two of them.
    """

    cells: Ints  # (n * ROW,)
    reals: Floats
    kept: Bytes
    names: Bytes  # UTF-8 of all keys, a quote behind each
    table: Ints  # nodes by hash of parent and key, 0 where empty
    slow: Ints  # (n, 3): numbers left to the slow way: node, start and end in the text
    scratch: Bytes  # a string without its escapes
    used: Ints


def new_state(nodes: int, name_bytes: Int, row_bytes: Int) -> State:
    """Return an empty tree with room for these nodes and keys, and for rows of `row_bytes`."""
    count = FIRST // ROW + nodes
    cells = np.zeros(count * ROW, np.int64)
    state = State(
        cells=cells,
        reals=cells.view(np.float64),
        kept=cells.view(np.uint8),
        names=np.zeros(name_bytes + SLACK, np.uint8),
        table=np.zeros(1 << (2 * count).bit_length(), np.int64),
        slow=np.empty((1024 + row_bytes // 4, 3), np.int64),
        scratch=np.zeros(row_bytes + SLACK, np.uint8),
        used=np.zeros(6, np.int64),
    )
    for place in range(0, FIRST, ROW):
        _begin(state.cells, state.reals, place, HIDDEN if place else 0)
    state.used[NODES] = FIRST
    return state


def grown(state: State, nodes: int, name_bytes: Int, row_bytes: Int) -> State:
    """Return the same tree with room for more nodes and keys, and for rows of `row_bytes`."""
    used, names = int(state.used[NODES]), int(state.used[NAME_BYTES])
    bigger = new_state(used // ROW + nodes, names + name_bytes, row_bytes)
    bigger.cells[:used] = state.cells[:used]
    bigger.names[:names] = state.names[:names]
    bigger.used[:] = state.used
    enter_all(bigger.cells, bigger.names, bigger.table, used)
    return bigger


@lean
def _begin(cells: Ints, reals: Floats, node: Int, level: Int) -> None:
    """Make a node without values and key. No value extends the bounds of hidden nodes."""
    hidden = level >= HIDDEN
    cells[node + LEVEL], cells[node + PLAIN_LENGTH] = level, -1
    cells[node + LOW_INTEGER] = _LEAST if hidden else _MOST
    cells[node + HIGH_INTEGER] = _MOST if hidden else _LEAST
    reals[node + LOW_REAL] = -np.inf if hidden else np.inf
    reals[node + HIGH_REAL] = np.inf if hidden else -np.inf
    cells[node + LOW_PREFIX] = _LEAST if hidden else _MOST
    cells[node + HIGH_PREFIX] = _MOST if hidden else _LEAST
    cells[node + LOW_LENGTH], cells[node + HIGH_LENGTH] = -1, -1
    cells[node + LIKE], cells[node + FORM] = 0 if hidden else ANY_SHAPE, 0
    cells[node + LOW_WHOLE], cells[node + HIGH_WHOLE] = _MOST, _LEAST
    reals[node + LOW_AMOUNT], reals[node + HIGH_AMOUNT] = np.inf, -np.inf


@inlined
def get(cells: Ints, at: Int) -> Int:
    """Return a cell. Unlike `cells[at]`, it does not check whether `at` counts from the end."""
    return cells[np.uint64(at)]


@inlined
def put(cells: Ints, at: Int, value: Int) -> None:
    """Write a cell."""
    cells[np.uint64(at)] = value


@lean
def child_node(
    cells: Ints,
    reals: Floats,
    used: Ints,
    names: Bytes,
    table: Ints,
    parent: Int,
    source: Bytes,
    start: Int,
    length: Int,
) -> Int:
    """Return the node of a key under a parent; make it if there is none.

    `source[start:start + length]` is the key as UTF-8, without escapes.
    """
    slot = _hash(parent, source, start, length) & (len(table) - 1)
    while table[slot] != 0:
        node = table[slot]
        if cells[node + PARENT] == parent and cells[node + KEY_LENGTH] == length:
            place, same = cells[node + KEY_START], 0
            while same < length and names[place + same] == source[start + same]:
                same += 1
            if same == length:
                return node
        slot = (slot + 1) & (len(table) - 1)
    node = used[NODES]
    table[slot] = node
    used[NODES] += ROW
    place, plain = used[NAME_BYTES], length
    for i in range(length):
        byte = source[start + i]
        names[place + i] = byte
        if byte < 0x20 or byte == 0x22 or byte == 0x5C:
            plain = -1
    names[place + length] = _QUOTE
    used[NAME_BYTES] += length + 1
    _begin(cells, reals, node, cells[parent + LEVEL] + 1)
    cells[node + PARENT] = parent
    cells[node + KEY_START], cells[node + KEY_LENGTH] = place, length
    cells[node + PLAIN_LENGTH] = plain
    word = np.uint64(0)
    for i in range(min(length + 1, 8)):
        word |= np.uint64(names[place + i]) << np.uint64(8 * i)
    cells[node + KEY_WORD] = np.int64(word)
    cells[node + KEY_MASK] = np.int64(~(_ALL << np.uint64(8 * length + 8)) if length < 7 else _ALL)
    return node


@inlined
def _hash(parent: Int, source: Bytes, start: Int, length: Int) -> Int:
    """Return a hash of 31 bits; products stay below 2^63."""
    value = (parent // ROW * 0x9E3779B1 + length) & 0x7FFFFFFF
    for i in range(length):
        value = ((value ^ np.int64(source[start + i])) * 0x01000193) & 0x7FFFFFFF
    return value ^ (value >> 15)


@lean
def enter_all(cells: Ints, names: Bytes, table: Ints, end: Int) -> None:
    """Fill the empty hash table of a tree whose cells end at `end`."""
    for node in range(FIRST, end, ROW):
        start, length = cells[node + KEY_START], cells[node + KEY_LENGTH]
        slot = _hash(cells[node + PARENT], names, start, length) & (len(table) - 1)
        while table[slot] != 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = node
