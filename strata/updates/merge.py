"""Read many sorted runs as one: the kernel of compaction and of consolidated reads.

Of every run a *head* of some ten thousand rows is in memory. Consider the heads that have more rows
of their run to come: the *cut* is the smallest of their last rows. No later row sorts before it, so
everything up to the cut is taken out of the heads by binary search, sorted together by Arrow,
consolidated and yielded. Rows equal to the cut may have equals still to come, and are carried into
the next round as one row (`strata.updates.border`).

    run 1  a a b|c f        the heads end at f, d, e: the cut is d
    run 2  a c d|           taken: a a b c | a c d | b; the rest waits
    run 3  b    |e e

Memory is bounded in bytes for any number of runs and any size of rows. Each round takes at least
one whole head, so the work stays n log n. Runs that do not overlap are only joined, not sorted.
Comparing each round with the cuts before and after it finds rows that are out of order.

Twin: join everything, sort, consolidate (`tests/laws/test_consolidate.py`).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import pyarrow as pa

from strata.errors import Corrupt
from strata.format.columns import updates_schema
from strata.format.values.coded import alike, decoded_bytes, is_coded
from strata.kernels.arrays import Ints
from strata.model.schema import Relation
from strata.updates.border import Beyond, hold_back
from strata.updates.consolidate import advance, consolidate_arranged
from strata.updates.huge import are_huge, consolidate_rows
from strata.updates.order import (
    sort_names,
)
from strata.updates.row import Row, row_at, rows_until

MEMORY_BYTES: Final = 256 * 1024 * 1024
ROUND_ROWS: Final = 2 * 65536  # rows sorted together at most, for any number of runs
HEAD_ROWS: Final = (1024, 65536)  # least and most rows of a head
COPIES: Final = 6  # heads and the batches they end in; these joined; in order; two chunks on hand
ROW_BYTES: Final = 64  # words, numbers and flags of a row during arrangement

Run: TypeAlias = Iterable[pa.RecordBatch | pa.Table]


def merge(
    runs: Sequence[Run],
    relation: Relation,
    *,
    since: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> Iterator[pa.Table]:
    """Yield the updates of all `runs`, sorted and consolidated, as chunks in order.

    Times before `since` are first moved up to it. Batches should be small compared with
    `memory_bytes` divided by the number of runs: a batch is held until its last row is taken.

    Shape: non-empty chunks of the updates schema. A row is in one chunk only, unless the sum of its
    diffs exceeds int64. Texts that all runs have coded (`strata.format.values.coded`) may stay so.
    Raises: Corrupt when a run is not sorted.
    """
    share = max(memory_bytes // (COPIES * max(len(runs), 1)), 1)
    rows = batch_rows(len(runs))
    heads = [_Head(run, relation, since, rows, share) for run in runs]
    carried: pa.Table | None = None  # equals the floor, as a sum beyond int64 would: never both
    beyond: Beyond | None = None
    floor: Row | None = None
    while heads := [head for head in heads if head.fill()]:
        ends = [head.last() for head in heads if head.unfinished]
        cut = min(ends) if ends else None
        taken = [table for table in [head.take(cut) for head in heads] if table.num_rows]
        if not taken:  # the head that set the cut ends with it, and must yield all its rows
            raise _disorder(relation)
        if carried is not None:
            taken.append(carried)
        chunk = consolidate_sorted(taken, relation, floor, cut)
        if beyond is not None:
            chunk = beyond.taken_from(chunk)
            if cut is None or beyond.row < cut:  # no equal row can follow
                yield from beyond.updates()
                beyond = None
        if beyond is None:
            chunk, carried, beyond = hold_back(chunk, sort_names(relation), cut)
        floor = cut
        del taken
        if chunk.num_rows:
            yield chunk
        del chunk  # the consumer may be done with it, so it is not held while heads are filled
    if beyond is not None:
        yield from beyond.updates()
    if carried is not None:
        yield carried


def batch_rows(runs: int) -> int:
    """Return how many rows of each run to read at a time, for this number of runs."""
    return min(max(ROUND_ROWS // max(runs, 1), HEAD_ROWS[0]), HEAD_ROWS[1])


class _Head:
    """The rows of one run in memory; the first `visible` of them take part."""

    def __init__(
        self, run: Run, relation: Relation, since: int | None, rows: int, limit_bytes: int
    ) -> None:
        """Start before the first row; nothing is read yet."""
        self.source = iter(run)
        self.schema = updates_schema(relation)
        self.names = sort_names(relation)
        self.since = since
        self.rows = rows
        self.limit_bytes = limit_bytes
        self.table = self.schema.empty_table()
        self.ended = False
        self.visible = 0
        self._last: Row | None = None

    def fill(self) -> bool:
        """Read until the head is full or the run ends; return whether it has any row."""
        pieces = [self.table] if self.table.num_rows else []
        count = self.table.num_rows
        grown = False
        size = _room(self.table) if count < self.rows else self.limit_bytes + 1  # not measured
        while not self.ended and (not count or (count < self.rows and size < self.limit_bytes)):
            batch = next(self.source, None)
            if batch is None:
                self.ended = True
                break
            piece = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            piece = _as_updates(piece, self.schema)
            pieces.append(piece if self.since is None else advance(piece, self.since))
            count, size = count + piece.num_rows, size + _room(piece)
            grown = True
        if grown:
            self.table = pa.concat_tables(alike(pieces))
        fitting = min(count, self.rows) if size <= self.limit_bytes else self._fitting()
        visible, self.visible = self.visible, fitting
        if grown or visible != self.visible:
            self._last = None
        return self.visible > 0

    def _fitting(self) -> int:
        """Return how many rows fit the limits: all, or fewer huge ones, but at least one."""
        visible: int = min(self.table.num_rows, self.rows)
        while visible > 1 and _room(self.table.slice(0, visible)) > self.limit_bytes:
            visible //= 2
        return visible

    @property
    def unfinished(self) -> bool:
        """Whether rows may follow the visible ones."""
        return not self.ended or self.table.num_rows > self.visible

    def last(self) -> Row:
        """Return the last visible row."""
        if self._last is None:  # huge rows are not compared twice
            self._last = row_at(self.table, self.visible - 1, self.names)
        return self._last

    def take(self, cut: Row | None) -> pa.Table:
        """Remove and return the visible rows up to and including `cut`; None takes all visible."""
        count = (
            self.visible if cut is None else rows_until(self.table, cut, self.names, self.visible)
        )
        taken = self.table.slice(0, count)
        self.table = self.table.slice(count)
        self.visible -= count
        if not self.visible:
            self._last = None
        return taken


def _as_updates(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the columns of updates; coded texts stay coded."""
    rows = rows.select(schema.names)
    for i, (field, kind) in enumerate(zip(schema, rows.schema.types, strict=True)):
        if is_coded(kind):
            schema = schema.set(i, field.with_type(kind))
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def _room(rows: pa.Table) -> int:
    """Return the bytes that rows take, decoded, and while they are arranged."""
    return int(rows.nbytes) + ROW_BYTES * int(rows.num_rows) + decoded_bytes(rows)


def consolidate_sorted(
    tables: Sequence[pa.Table], relation: Relation, floor: Row | None, cut: Row | None
) -> pa.Table:
    """Return the rows of sorted, non-empty `tables` as one, sorted and consolidated.

    All rows must lie in [floor, cut]; None is open.
    Raises: Corrupt when they do not, or when a table is not sorted.
    """
    from strata.updates.arrange import arrange  # both load the compiler
    from strata.updates.gather import behind

    names = sort_names(relation)
    firsts = [row_at(table, 0, names) for table in tables]
    lasts = [row_at(table, table.num_rows - 1, names) for table in tables]
    numbers = sorted(range(len(tables)), key=firsts.__getitem__)
    if are_huge(tables):
        rows = consolidate_rows([tables[number] for number in numbers], relation, floor, cut)
        if rows is None:
            raise _disorder(relation)
        return rows
    disjoint = all(lasts[a] <= firsts[b] for a, b in pairwise(numbers))
    joined = behind([tables[number] for number in numbers])
    order, equal = arrange([joined.column(name) for name in names])
    if disjoint and not _ascends(order):
        raise _disorder(relation)
    # Only the whole round shows whether a head hid a row that belongs after the cut.
    if (floor is not None and row_at(joined, order[0], names) < floor) or (
        cut is not None and cut < row_at(joined, order[-1], names)
    ):
        raise _disorder(relation)
    return consolidate_arranged(joined, order, equal)


def _ascends(order: Ints) -> bool:
    return bool((order[1:] > order[:-1]).all())


def _disorder(relation: Relation) -> Corrupt:
    names = [relation.by_id[i].name for i in relation.sort_ids]
    return Corrupt(
        "a run is not sorted as its batch says",
        order=[*names, "t"],
        cure="run `strata validate` to find the part",
    )
