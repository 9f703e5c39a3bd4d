"""What the JSON scanner knows so far: a tree of paths with counts and bounds, in plain arrays.

A node stands for a path: node 0 is the root, every other has a parent and a key. What lies in
lists, or deeper than statistics go, has no paths of its own: there the parent is one of `NESTING`
nodes without a key, one for each level of brackets, and only repeated keys and errors matter.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strata.kernels.arrays import Bytes, Int, Ints
from strata.kernels.jit import inlined, lean

Floats = npt.NDArray[np.float64]

NESTING: Final = 400  # levels of brackets that a text must not reach
FIRST: Final = 1 + NESTING  # the first node with a key
HIDDEN: Final = 1 << 30  # the level of nodes without statistics
KEPT: Final = 104  # bytes kept of the least and greatest string of a path

# Columns of `nodes`. First: how many values of each kind.
NULL, FALSE, TRUE, INTEGER, REAL, STRING, LIST, MAP = range(8)
# Bounds: the lows are above the highs where there is no value; lengths are KEPT + 1 at most.
LOW_INTEGER, HIGH_INTEGER, LOW_LENGTH, HIGH_LENGTH = range(8, 12)
# Place in the tree. PLAIN_LENGTH is -1 for a key that needs escapes.
PARENT, LEVEL, KEY_START, KEY_LENGTH, PLAIN_LENGTH, HAS_KEYS = range(12, 18)
# In which map the key was seen last; what key came first in the map here, and what behind this key.
SEEN_IN, FIRST_KEY, NEXT_KEY = range(18, 21)
# The bracket that is open at this level: its members' parent, its number, where the key that comes
# next is foretold. Only of the nodes without a key.
MEMBERS_OF, NUMBER, BEFORE_NODE, BEFORE_COLUMN, IS_MAP = range(21, 26)
# How the least and the greatest string begin, see `json_scan`.
LOW_PREFIX, HIGH_PREFIX = 26, 27
WIDTH: Final = 28

_MOST: Final = 2**63 - 1
_LEAST: Final = -(2**63)

# Cells of `used`: how much of the arrays is in use, and what happened.
NODES, NAME_BYTES, MAPS_SEEN, SLOW, WIDE, STATUS = range(6)
# Values of `used[STATUS]`.
GOING, FULL, REFUSED = range(3)


class State(NamedTuple):
    """The tree of paths. Kernels take the arrays one by one: a tuple of them is slow to hand on."""

    nodes: Ints  # (n, WIDTH)
    reals: Floats  # (n, 2): least and greatest number with a fraction or an exponent
    kept: Bytes  # (n, 2, KEPT): first bytes of the least and greatest string
    names: Bytes  # UTF-8 of all keys, one after the other
    table: Ints  # nodes by hash of parent and key, 0 where empty
    slow: Ints  # (n, 3): numbers left to the slow way: node, start and end in the text
    scratch: Bytes  # a string without its escapes
    used: Ints


def new_state(nodes: int, name_bytes: Int, row_bytes: Int) -> State:
    """Return an empty tree with room for so many nodes and keys, and rows of that size."""
    count = FIRST + nodes
    state = State(
        nodes=np.zeros((count, WIDTH), np.int64),
        reals=np.empty((count, 2), np.float64),
        kept=np.empty((count, 2, KEPT), np.uint8),
        names=np.empty(name_bytes, np.uint8),
        table=np.zeros(1 << (2 * count).bit_length(), np.int64),
        slow=np.empty((1024 + row_bytes // 4, 3), np.int64),
        scratch=np.empty(row_bytes, np.uint8),
        used=np.zeros(6, np.int64),
    )
    state.nodes[:FIRST, LOW_INTEGER], state.nodes[:FIRST, HIGH_INTEGER] = _MOST, _LEAST
    state.reals[:FIRST] = np.inf, -np.inf
    state.nodes[1:FIRST, LEVEL] = HIDDEN
    state.used[NODES] = FIRST
    return state


def grown(state: State, nodes: int, name_bytes: Int, row_bytes: Int) -> State:
    """Return the same tree with room for so many more nodes and keys, and rows of that size."""
    used, names = int(state.used[NODES]), int(state.used[NAME_BYTES])
    bigger = new_state(used + nodes, names + name_bytes, row_bytes)
    bigger.nodes[:used] = state.nodes[:used]
    bigger.reals[:used] = state.reals[:used]
    bigger.kept[:used] = state.kept[:used]
    bigger.names[:names] = state.names[:names]
    bigger.used[:] = state.used
    enter_all(bigger.nodes, bigger.names, bigger.table, used)
    return bigger


@lean
def child(
    nodes: Ints, reals: Floats, used: Ints, names: Bytes, table: Ints,
    parent: Int, source: Bytes, start: Int, length: Int,
) -> Int:  # fmt: skip
    """Return the node of a key under a parent; it is made if there is none.

    `source[start:start + length]` is the key as UTF-8, without escapes.
    """
    slot = _hash(parent, source, start, length) & (len(table) - 1)
    while table[slot] != 0:
        node = table[slot]
        if nodes[node, PARENT] == parent and nodes[node, KEY_LENGTH] == length:
            place, same = nodes[node, KEY_START], 0
            while same < length and names[place + same] == source[start + same]:
                same += 1
            if same == length:
                return node
        slot = (slot + 1) & (len(table) - 1)
    node = used[NODES]
    table[slot] = node
    used[NODES] += 1
    place, plain = used[NAME_BYTES], length
    for i in range(length):
        byte = source[start + i]
        names[place + i] = byte
        if byte < 0x20 or byte == 0x22 or byte == 0x5C:
            plain = -1
    used[NAME_BYTES] += length
    nodes[node, PARENT], nodes[node, LEVEL] = parent, nodes[parent, LEVEL] + 1
    nodes[node, KEY_START], nodes[node, KEY_LENGTH] = place, length
    nodes[node, PLAIN_LENGTH] = plain
    nodes[node, LOW_INTEGER], nodes[node, HIGH_INTEGER] = _MOST, _LEAST
    reals[node, 0], reals[node, 1] = np.inf, -np.inf
    return node


@inlined
def _hash(parent: Int, source: Bytes, start: Int, length: Int) -> Int:
    """Return a hash of 31 bits; products stay below 2^63."""
    value = (parent * 0x9E3779B1 + length) & 0x7FFFFFFF
    for i in range(length):
        value = ((value ^ np.int64(source[start + i])) * 0x01000193) & 0x7FFFFFFF
    return value ^ (value >> 15)


@lean
def enter_all(nodes: Ints, names: Bytes, table: Ints, count: Int) -> None:
    """Fill the empty hash table of a tree of `count` nodes."""
    for node in range(FIRST, count):
        start, length = nodes[node, KEY_START], nodes[node, KEY_LENGTH]
        slot = _hash(nodes[node, PARENT], names, start, length) & (len(table) - 1)
        while table[slot] != 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = node
