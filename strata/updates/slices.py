"""Slices of the key space that tasks merge, and the rows and row groups in a slice.

A slice is a half-open range of key bytes (see `order`). Consecutive slices cover everything and
share no row. All updates of one (key, value) lie in one slice, so slices are merged separately, and
their outputs, in order, are one run.

Manifests have, for each part, bytes at or before the first row of each row group, and bytes at or
after its last row. For a part in another sort order these mean nothing here: such a part overlaps
every slice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from strata.format.columns import child
from strata.format.manifest import PartRef
from strata.model.schema import Relation
from strata.updates.order import encode_keys, round_up

Groups: TypeAlias = Mapping[str, Sequence[int]]  # part -> row groups; a missing part has all
PROBES: Final = 32  # rows compared together when searching among sorted rows
PROBE_BYTES: Final = 1024 * 1024  # their size at most
NO_GROUPS: Final[Groups] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows whose key bytes lie in [low, high)."""

    low: bytes = b""  # b"" is before every row
    high: bytes | None = None  # None is after every row


WHOLE: Final = Slice()


def shared_slice(one: Slice, other: Slice) -> Slice | None:
    """Return the rows that lie in both slices; None if there are no such keys."""
    low = max(one.low, other.low)
    highs = [high for high in (one.high, other.high) if high is not None]
    if any(high <= low for high in highs):
        return None
    return Slice(low, min(highs, default=None))


def keeps_order(ref: PartRef, relation: Relation, relations: Sequence[Relation]) -> bool:
    """Return whether a part's rows, migrated to `relation`, are sorted by it.

    Columns added later are the same in all rows and do not count. Errs: may say no wrongly.
    """
    written = next((r for r in relations if r.version == ref.relation_version), None)
    if written is None:
        return False
    wanted = tuple(i for i in relation.sort_ids if i in written.by_id)
    return ref.order == wanted


def columns_alike(order: Sequence[int], written: Relation | None, relation: Relation) -> int:
    """Return how many leading sort columns of `relation` a part's keys begin with.

    `order` is the part's order, and `written` the relation that it was written in.
    """
    if written is None:
        return 0
    alike = 0
    for ours, theirs in zip(relation.sort_ids, order, strict=False):
        mine = written.by_id.get(ours)
        if ours != theirs or mine is None or mine.type != relation.by_id[ours].type:
            break
        alike += 1
    return alike


def has_keys_of(ref: PartRef, relation: Relation, relations: Sequence[Relation]) -> bool:
    """Return whether a part's key bytes can be compared with those of `relation`'s rows.

    The part's keys are those of its rows, or prefixes of them if columns that sort last were added
    later. So its greatest key is no high bound of its rows; see `end_of`.
    """
    written = next((r for r in relations if r.version == ref.relation_version), None)
    return 0 < columns_alike(ref.order, written, relation) == len(ref.order)


def end_of(key: bytes | None) -> bytes | None:
    """Return bytes after all rows up to those that begin with `key`; None if there are none."""
    return None if key is None else round_up(key)


def overlapping_groups(
    ref: PartRef, within: Slice, relation: Relation, relations: Sequence[Relation]
) -> list[int] | None:
    """Return the row groups of a part that may hold rows of a slice; None means all of them.

    Errs: may name a group without such rows, never leaves one out.
    """
    if within == WHOLE or not has_keys_of(ref, relation, relations):
        return None
    return groups_within(ref, within)


def groups_within(ref: PartRef, within: Slice) -> list[int]:
    """Return the row groups of a part that may hold rows of a slice, if `has_keys_of` the part."""
    return [
        number
        for number, (low, end) in enumerate(group_bounds(ref))
        if (end is None or end > within.low) and (within.high is None or low < within.high)
    ]


def group_bounds(ref: PartRef) -> list[tuple[bytes, bytes | None]]:
    """Return for each row group bytes at or before its rows, and bytes after them; None: unbounded.

    A part without split points is one row group. The result is meaningful only if `has_keys_of`.
    """
    lows = [split.key for split in ref.splits] or [ref.key_low]
    # The last row of a group is at most the first of the next, and a prefix of that is known.
    ends = [*map(round_up, lows[1:]), end_of(ref.key_high)]
    return list(zip(lows, ends, strict=True))


def rows_inside(
    ref: PartRef,
    groups: Sequence[int] | None,
    within: Slice,
    relation: Relation,
    relations: Sequence[Relation],
) -> range:
    """Return the rows of a part that surely lie in a slice and need no comparison.

    Rows are counted within `groups`, the row groups that are read; None: all.
    Errs: may return too few, and does where bounds are missing.
    """
    if within == WHOLE:
        return range(ref.rows)
    if not has_keys_of(ref, relation, relations):
        return range(0)
    starts = [*(split.row for split in ref.splits), ref.rows] if ref.splits else [0, ref.rows]
    bounds = group_bounds(ref)
    first, inside = 0, range(0)
    for number in range(len(bounds)) if groups is None else groups:
        low, end = bounds[number]
        last = first + starts[number + 1] - starts[number]
        if low >= within.low and (within.high is None or (end is not None and end <= within.high)):
            inside = range(inside.start if inside else first, last)
        elif inside:
            break
        first = last
    return inside


def rows_of(table: pa.Table | pa.RecordBatch, within: Slice, relation: Relation) -> pa.Table:
    """Return the rows of a sorted table that lie in a slice."""
    first = 0 if not within.low else _rows_before(table, within.low, relation)
    if first == table.num_rows:
        return table.slice(0, 0)
    last = table.num_rows if within.high is None else _rows_before(table, within.high, relation)
    return table.slice(first, last - first)


def _rows_before(table: pa.Table | pa.RecordBatch, key: bytes, relation: Relation) -> int:
    """Return how many rows of a sorted table have keys before `key`.

    Compares the first and the last row first, which usually decide; then several rows spread over
    the remaining range, since the keys of a few rows cost hardly more than one. Of huge rows it
    compares one, without copying it.
    """
    columns = table.select([child(i) for i in relation.sort_ids])
    size = columns.nbytes // max(columns.num_rows, 1)
    probes = max(1, min(PROBES, PROBE_BYTES // max(size, 1)))
    low, high = 0, int(table.num_rows)
    first = True
    while low < high:
        if first and probes > 1 and high > 1:
            at = np.array([0, high - 1])
            rows = columns.take(pa.array(at))
        elif probes == 1 or high - low == 1:
            middle = (low + high) // 2
            at, rows = np.array([middle]), columns.slice(middle, 1)
        else:
            at = np.unique(np.linspace(low, high - 1, probes).astype(np.int64))
            rows = columns.take(pa.array(at))
        before = _count_before(rows, key, relation)
        if before:
            low = int(at[before - 1]) + 1
        if before < len(at):
            high = int(at[before])
        first = False
    return low


def _count_before(rows: pa.Table, key: bytes, relation: Relation) -> int:
    """Return how many of some rows have keys before `key`; usually the first column decides."""
    keys: list[bytes] = encode_keys(rows, relation, len(key), 1).to_pylist()
    if any(map(key.startswith, keys)):
        keys = encode_keys(rows, relation, len(key)).to_pylist()  # later columns do not matter
    return sum(found < key for found in keys)
