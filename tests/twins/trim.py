"""The slow twin of trimming: one part at a time, every change made to Arrow at once.

As `strata.stats.trim` was before it planned on numbers; the laws compare the two.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from strata.model.schema import Relation
from strata.stats.bounds import common_prefix_bytes, cut_high, cut_low
from strata.stats.flat import struct_row
from strata.stats.nested import places
from strata.stats.size import column_bits, encoded_size
from strata.stats.trim import TrimReport
from strata.stats.wire import JSON_PATH, PREFIX, parent_name, parse_inside, parse_name

# Bytes kept behind the common prefix of a low and a high, tried in turn. What all of a part's
# values share says most; the first byte in which they differ says most of the rest.
BEHIND_PREFIX: Final = (32, 16, 8, 4, 1)

_SCALAR_KINDS: Final = ("bools", "numbers", "strings", "lists", "maps")
_BOUNDS: Final = (
    ("low", "high", "low_exact", "high_exact"),
    ("str_low", "str_high", "str_low_exact", "str_high_exact"),
)

S = TypeVar("S", str, bytes)
Columns = dict[str, pa.StructArray]


def trim(
    row: pa.RecordBatch,
    relation: Relation,
    budget_bytes: int,
    keep: Sequence[str],
    usefulness: Mapping[str, float] | None = None,
) -> tuple[pa.RecordBatch, TrimReport]:
    """Return the statistics of one part within the budget, and what was lost.

    `keep` holds patterns as in file names, whatever the case, matched with the name of a column,
    a field of a record, or the whole way as in `payload.sched.at`; steps that no user has named
    (elements, ends of a range) count as what they belong to. The sort order is kept as well.
    `usefulness` weighs statistics columns by name (default 0); higher goes later.
    Errs: bounds become looser, never tighter.
    """
    before = encoded_size(row)
    if before <= budget_bytes:
        return row, TrimReport((), (), before, before)
    budget = _Budget(row, before, budget_bytes)
    kept = kept_names(row.schema.names, relation, keep)
    _drop_mixed(budget, kept)
    _shorten(budget, kept)
    _drop(budget, kept, _rank(usefulness or {}))
    trimmed = pa.RecordBatch.from_arrays(list(budget.columns.values()), names=list(budget.columns))
    after = encoded_size(trimmed)
    shortened = tuple(name for name in budget.shortened if name in budget.columns)
    return trimmed, TrimReport(tuple(budget.dropped), shortened, before, after)


def kept_names(names: Sequence[str], relation: Relation, keep: Sequence[str]) -> frozenset[str]:
    """Return the statistics columns that no budget may drop, ancestors included.

    A JSON column that matches keeps its root, a record itself; what is below has to match, too.
    """
    kept: set[str] = set()
    ways = [pattern for pattern in keep if "." in pattern]
    for name in names:
        wanted, inside = _names(name, relation), parse_inside(name)
        if not wanted:
            continue
        if inside is not None and inside[0] in (*relation.order, relation.sort_ids[0]):
            kept.add(name)  # the sort order
        by_name = wanted[-1:] if inside is not None or len(wanted) == 1 else ()
        if any(_matches(one, keep) for one in by_name) or _matches(".".join(wanted), ways):
            kept |= {name, *_ancestors(name)}
    return frozenset(kept)


def _names(name: str, relation: Relation) -> tuple[str, ...]:
    """Return what users call the way to a statistics column; nothing for what is no column."""
    parsed, inside = parse_name(name), parse_inside(name)
    column = relation.by_id.get(parsed[0]) if parsed is not None else None
    if parsed is None or column is None:
        return ()
    if inside is None:
        return (column.name, *(parsed[1] or ()))
    found = [p.names for p in places(column.type) if p.steps == inside[1]]
    return (column.name, *found[0]) if found else (column.name,)


class _Budget:
    """The columns of one row while they are trimmed, and what they cost."""

    def __init__(self, row: pa.RecordBatch, cost_bytes: int, budget_bytes: int) -> None:
        self.columns: Columns = dict(zip(row.schema.names, row.columns, strict=True))
        self.dropped: list[str] = []
        self.shortened: dict[str, None] = {}
        self._limit_bits = 8 * budget_bytes
        self._bits = {n: _cost(c) for n, c in self.columns.items() if n.startswith(PREFIX)}
        self._total = sum(self._bits.values())
        self._above = {name: tuple(_ancestors(name)) for name in self._bits}
        self._below = Counter(ancestor for above in self._above.values() for ancestor in above)
        assert (self._total + 7) // 8 == cost_bytes

    def met(self) -> bool:
        return self._total <= self._limit_bits

    def cost(self, name: str) -> int:
        return self._bits[name]

    def names(self) -> list[str]:
        return list(self._bits)

    def is_leaf(self, name: str) -> bool:
        """Return whether a column is there, and nobody's ancestor; nothing else is dropped."""
        return name in self._bits and not self._below[name]

    def drop(self, name: str) -> str | None:
        """Drop a leaf; return the column above, which may now be one."""
        del self.columns[name]
        self._total -= self._bits.pop(name)
        self.dropped.append(name)
        above = self._above[name]
        self._below.subtract(above)
        parent = self.columns.get(above[0]) if above else None
        if parent is not None and parent.type == JSON_PATH:
            self.replace(above[0], _with(parent, {"complete": False}))
        return above[0] if parent is not None else None

    def replace(self, name: str, column: pa.StructArray) -> None:
        self.columns[name] = column
        self._total -= self._bits[name]
        self._bits[name] = _cost(column)
        self._total += self._bits[name]


def _drop_mixed(budget: _Budget, kept: frozenset[str]) -> None:
    for name in reversed(budget.names()):  # children come behind their parents
        if budget.met():
            return
        if name not in kept and budget.is_leaf(name) and _is_mixed(budget.columns[name]):
            budget.drop(name)


def _is_mixed(column: pa.StructArray) -> bool:
    if column.type.get_field_index("maps") < 0:
        return False
    fields = column[0]
    return fields.is_valid and sum(bool(fields[kind].as_py()) for kind in _SCALAR_KINDS) > 1


def _shorten(budget: _Budget, kept: frozenset[str]) -> None:
    for behind in BEHIND_PREFIX:
        for name in budget.names():
            if budget.met():
                return
            column = budget.columns[name]
            shorter = None if name in kept else _shortened(column, behind)
            if shorter is not None and _cost(shorter) < budget.cost(name):
                budget.replace(name, shorter)
                budget.shortened[name] = None


def _shortened(column: pa.StructArray, behind: int) -> pa.StructArray | None:
    """Return the column with its text bounds cut to `behind` bytes after their common prefix."""
    row = column[0]
    for low, high, low_exact, high_exact in _BOUNDS:
        place = column.type.get_field_index(low)
        if place < 0 or not row.is_valid or not _is_text(column.type.field(place).type):
            continue
        bounds = row[low].as_py(), row[high].as_py()
        if None in bounds:
            continue
        cut = _cut_pair(*bounds, behind)
        flags = {low_exact: cut[0] == bounds[0], high_exact: cut[1] == bounds[1]}
        # A bound that was loose before stays so, even where this cut left it alone.
        flags = {flag: same and bool(row[flag].as_py()) for flag, same in flags.items()}
        return None if cut == bounds else _with(column, {low: cut[0], high: cut[1], **flags})
    return None


def _cut_pair(low: S, high: S, behind: int) -> tuple[S, S]:
    limit = common_prefix_bytes(low, high) + behind
    cut = cut_high(high, limit)
    return cut_low(low, limit), high if cut is None else cut


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _drop(budget: _Budget, kept: frozenset[str], rank: Callable[[str], float]) -> None:
    def place(name: str) -> tuple[float, int, str]:
        return rank(name), -budget.cost(name), name

    leaves = [place(name) for name in budget.names() if name not in kept and budget.is_leaf(name)]
    heapify(leaves)
    while leaves and not budget.met():
        above = budget.drop(heappop(leaves)[-1])
        if above is not None and above not in kept and budget.is_leaf(above):
            heappush(leaves, place(above))


def _rank(usefulness: Mapping[str, float]) -> Callable[[str], float]:
    """Return how much a statistics column helps."""
    return lambda name: usefulness.get(name, 0.0)


def _matches(name: str, keep: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in keep)


def _ancestors(name: str) -> Iterator[str]:
    parent = parent_name(name)
    while parent is not None:
        yield parent
        parent = parent_name(parent)


def _cost(column: pa.StructArray) -> int:
    return int(np.sum(column_bits(column)))


def _with(column: pa.StructArray, changes: Mapping[str, Any]) -> pa.StructArray:
    """Return the one row of `column` with some fields replaced."""
    fields: dict[str, Any] = {}
    for field, child in zip(column.type, column.flatten(), strict=True):
        fields[field.name] = child[0] if child[0].is_valid else None
    return struct_row(column.type, fields | dict(changes))
