"""The statistics of JSON texts by the compiled scanner (`strata.kernels.json_scan`).

Exact for every text: the kernel leaves out only a few odd numbers, which it lists and which are
read here one by one.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np
import orjson
import pyarrow as pa

from strata.format.values.physical import kernel_bytes
from strata.kernels import json_state as node
from strata.kernels.arrays import Bytes, Ints
from strata.kernels.json_scan import MAX_DEPTH, scan_texts
from strata.stats.json_bounds import MAX_PATHS, Fields, N, number_bounds, string_bounds, widest
from strata.stats.json_shapes import scanned_shape
from strata.stats.shapes import TextShape
from strata.stats.wire import Path

# A text can hold a key in every fourth byte, and all of them need room.
MAX_ROW_BYTES: Final = 16 * 1024 * 1024  # Spark's parser stops at strings of 20,000,000 characters
Chosen = Callable[[Path], bool]
FIRST: Final = node.FIRST // node.ROW  # nodes without a key
LOOK: Final = 64  # texts that show which paths there are
MAX_NODES: Final = 1 << 17  # at this size the tree becomes statistics, and a new one begins


class Scanner:
    """Reads array after array of one column."""

    def __init__(
        self,
        max_nodes: int = MAX_NODES,
        first: Sequence[Chosen] = (),
        last: Collection[Path] = frozenset(),
    ) -> None:
        """Begin with an empty tree. `max_nodes` bounds the memory: a node takes half a kilobyte.

        `first`: the paths that come first where not all fit, in classes, the most wanted one in
        front; only theirs are the shapes. `last`: those that come behind the others of their map.
        """
        self._max_nodes = max_nodes
        self._first, self._last = first, last
        self._done: list[dict[Path, Fields]] = []
        self._shapes: list[dict[Path, TextShape]] = []
        self.paths: int | None = None  # different ones; None before `finish`, and of several trees
        self._begin()

    def _begin(self) -> None:
        self._state = node.new_state(256, 8192, 4096)
        self._shaped: set[int] = set()  # the nodes whose strings are looked at
        self._odd: defaultdict[int, list[int | float]] = defaultdict(list)

    def add(self, texts: pa.Array) -> None:
        """Add JSON texts that are not null.

        Raises: ValueError when a text is not JSON, has a key twice in one map, or exceeds the
        limits of Spark's parser.
        """
        for text, offsets in _with_slack(*_plain(texts)):
            self._add(text, offsets[: LOOK + 1])
            self._forget_shapes()
            self._add(text, offsets[LOOK:])
            self._forget_shapes()
        if self._state.used[node.WIDE]:
            texts.validate(full=True)

    def _add(self, text: Bytes, offsets: Ints) -> None:
        if len(offsets) < 2:
            return
        row = 0
        while True:
            row = int(scan_texts(*self._state, text, offsets, row))
            self._drain(text)
            if self._state.used[node.STATUS] == node.REFUSED:
                raise ValueError(f"text {row} cannot be read, or not in one way only")
            if row == len(offsets) - 1:
                break
            self._make_room(int(offsets[row + 1] - offsets[row]))

    def finish(self) -> list[dict[Path, Fields]]:
        """Return the statistics of every path; several tables only for countless keys."""
        return [*self._done, self._statistics()]

    def _forget_shapes(self) -> None:
        """Look no more at what strings are written like, but for the paths that come first.

        A look at a string takes some 30 ns, and all else that is done for it hardly more.
        """
        nodes = self._nodes()
        for place in np.flatnonzero(nodes[:, node.LIKE]).tolist():
            if place not in self._shaped:
                path = self._path(nodes, place) if self._first else ()
                if path and any(chosen(path) for chosen in self._first):
                    self._shaped.add(place)
                else:
                    nodes[place, node.LIKE] = 0

    def _path(self, nodes: Ints, place: int) -> Path:
        """Return the keys that lead to a node."""
        keys: list[str] = []
        while place >= FIRST:
            start, length = nodes[place, node.KEY_START], nodes[place, node.KEY_LENGTH]
            keys.insert(0, self._state.names[start : start + length].tobytes().decode())
            place = int(nodes[place, node.PARENT]) // node.ROW
        return tuple(keys)

    def shapes(self) -> list[dict[Path, TextShape]]:
        """Return what the strings at paths with statistics are written like, after `finish`.

        One dict for each of the tables of `finish`; a path without strings is in none. Of paths
        that are not among the first nothing is known.
        """
        return self._shapes

    def _drain(self, text: Bytes) -> None:
        """Read the numbers that the kernel left out. Raises: ValueError beyond float64."""
        used = self._state.used
        for place, start, end in self._state.slow[: used[node.SLOW]].tolist():
            numbers = self._odd[place]
            numbers.append(orjson.loads(text[start:end].tobytes()))
            if len(numbers) > 1024:
                self._odd[place] = _few(numbers)
        used[node.SLOW] = 0

    def _make_room(self, row_bytes: int) -> None:
        if row_bytes > MAX_ROW_BYTES:
            raise ValueError("a text is too long")
        used, most = int(self._state.used[node.NODES]) // node.ROW, row_bytes // 4 + 1
        if used > FIRST and used + most > self._max_nodes:
            self._done.append(self._statistics())
            self._begin()
            used = FIRST
        names = int(self._state.used[node.NAME_BYTES])
        scratch = len(self._state.scratch) - node.SLACK
        room = max(most, used), max(row_bytes, names), max(row_bytes, scratch)
        self._state = node.grown(self._state, *room)

    def _statistics(self) -> dict[Path, Fields]:
        """Return the statistics of the tree, breadth first, within the limits on paths."""
        nodes = self._nodes()
        shapes: dict[Path, TextShape] = {}
        self._shapes.append(shapes)
        present = nodes[:, node.NULL : node.MAP + 1].sum(axis=1).tolist()
        children = self._children(nodes)
        self.paths = None if self._done else sum(map(len, children.values()))
        result: dict[Path, Fields] = {}
        queue: deque[tuple[Path, int]] = deque([((), 0)])
        first = self._first_paths(children)
        room = MAX_PATHS - 1 - len(first)
        while queue:
            path, place = queue.popleft()
            below = children[place]
            kept = {key for key in below if (*path, key) in first}
            others = {key: present[child] for key, child in below.items() if key not in kept}
            more = widest(others, room, {key for key in others if (*path, key) in self._last})
            room -= len(more)
            keys = sorted([*kept, *more])
            result[path] = self._fields(place)
            if result[path]["strings"]:
                low = place * node.ROW + node.LOW_AMOUNT
                shapes[path] = scanned_shape(nodes[place], self._state.reals[low : low + 2])
            hidden = len(path) == MAX_DEPTH and bool(nodes[place, node.HAS_KEYS])
            result[path]["complete"] = len(keys) == len(below) and not hidden
            queue.extend(((*path, key), below[key]) for key in keys)
        return result

    def _first_paths(self, children: Mapping[int, Mapping[str, int]]) -> frozenset[Path]:
        """Return the paths that come first, and those above them; none where all paths fit."""
        if sum(map(len, children.values())) < MAX_PATHS:
            return frozenset()
        found: set[Path] = set()
        for chosen in self._first:
            queue: deque[tuple[Path, int]] = deque([((), 0)])
            while queue:
                path, place = queue.popleft()
                if path and chosen(path):
                    whole = {path[:length] for length in range(1, len(path) + 1)}
                    if len(found | whole) < MAX_PATHS:
                        found |= whole
                below = sorted(children[place].items())
                queue.extend(((*path, key), child) for key, child in below)
        return frozenset(found)

    def _nodes(self) -> Ints:
        """Return the nodes in the order of their places. Shape: (n, ROW)."""
        return self._state.cells[: self._state.used[node.NODES]].reshape(-1, node.ROW)

    def _children(self, nodes: Ints) -> defaultdict[int, dict[str, int]]:
        children: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for place in (np.flatnonzero(nodes[FIRST:, node.LEVEL] <= MAX_DEPTH)).tolist():
            row = nodes[FIRST + place]
            start, length = row[node.KEY_START], row[node.KEY_LENGTH]
            key = self._state.names[start : start + length].tobytes().decode()
            children[int(row[node.PARENT]) // node.ROW][key] = FIRST + place
        return children

    def _fields(self, place: int) -> Fields:
        row: list[int] = self._nodes()[place].tolist()
        fields: Fields = {
            "present": sum(row[node.NULL : node.MAP + 1]),
            "json_nulls": row[node.NULL],
            "bools": row[node.FALSE] + row[node.TRUE],
            "trues": row[node.TRUE],
            "numbers": row[node.INTEGER] + row[node.REAL],
            "integers": row[node.INTEGER],
            "strings": row[node.STRING],
            "lists": row[node.LIST],
            "maps": row[node.MAP],
        }
        low = place * node.ROW + node.LOW_REAL
        reals: list[float] = self._state.reals[low : low + 2].tolist()
        return fields | self._numbers(place, row, reals) | self._strings(place, row)

    def _numbers(self, place: int, row: list[int], reals: list[float]) -> Fields:
        """Return the bounds of the numbers, the odd ones included."""
        odd = self._odd.get(place * node.ROW, [])
        ints = [v for v in odd if isinstance(v, int)]
        floats = [v for v in odd if isinstance(v, float)]
        if row[node.LOW_INTEGER] <= row[node.HIGH_INTEGER]:
            ints += row[node.LOW_INTEGER], row[node.HIGH_INTEGER]
        if reals[0] <= reals[1]:
            floats += reals
        return number_bounds(_ends(ints), _ends(floats))

    def _strings(self, place: int, row: list[int]) -> Fields:
        if not row[node.STRING]:
            return string_bounds(None)
        return string_bounds((self._string(place, row, 0), self._string(place, row, 1)))

    def _string(self, place: int, row: list[int], side: int) -> str:
        """Return the least or greatest string; a long one is cut after the bytes that count."""
        length = min(row[node.LOW_LENGTH + side], node.KEPT)
        first = 8 * (place * node.ROW + node.KEPT_AT) + side * node.KEPT
        return self._state.kept[first : first + length].tobytes().decode(errors="ignore")


def warm() -> None:
    """Call every kernel of the scanner once, so that it is compiled."""
    scanner = Scanner()
    scanner.add(pa.array(['{"a":[1.5,"x",null]}', f'["{"x" * 9000}"]']))
    scanner.finish()


def _ends(values: list[N]) -> tuple[N, N] | None:
    return (min(values), max(values)) if values else None


def _few(values: list[int | float]) -> list[int | float]:
    """Return a few numbers that have the same extremes, for each kind, as the given ones."""
    kinds = ([v for v in values if isinstance(v, kind)] for kind in (int, float))
    return [end for kind in kinds for end in (_ends(kind) or ())]


def _plain(texts: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of texts and the borders between them.

    Raises: ValueError for borders outside the bytes or in descending order.
    """
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        texts = texts.cast(pa.string())
    _, borders, data = texts.buffers()
    if not len(texts) or borders is None:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    wide = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    span = slice(texts.offset, texts.offset + len(texts) + 1)
    offsets: Ints = np.frombuffer(borders, wide)[span].astype(np.int64)
    text = kernel_bytes(data)
    if offsets[0] < 0 or offsets[-1] > len(text) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("the texts' offsets are invalid")
    return text, offsets


def _with_slack(text: Bytes, offsets: Ints) -> list[tuple[Bytes, Ints]]:
    """Return the same texts in one or two arrays, each with SLACK bytes after its last text.

    The kernel reads whole words; only the last texts of an array lie too near its end, so only they
    are copied.
    """
    rows = int(np.searchsorted(offsets, len(text) - node.SLACK, "right")) - 1
    if rows >= len(offsets) - 1:
        return [(text, offsets)]
    rows = max(rows, 0)
    start = int(offsets[rows])
    tail = np.zeros(int(offsets[-1]) - start + node.SLACK, np.uint8)
    tail[: -node.SLACK] = text[start : int(offsets[-1])]
    return [(text, offsets[: rows + 1]), (tail, offsets[rows:] - start)]
