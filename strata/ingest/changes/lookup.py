"""Finds the rows that a shard holds for some keys; reads only row groups that may hold one.

The bytes before a group's first row and after its last one bound what it may hold. They help if key
columns lead the sort order; all groups are read of a part in another order.

Errs: may read groups without such a key, never omits one that has it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.plan import plan_read
from strata.format.columns import updates_schema
from strata.format.manifest import PartRef
from strata.ingest.readers.change import key_bytes, key_ids, leading_key_ids
from strata.parts.fetch import part_batches, source_of
from strata.read.as_of import as_of_view
from strata.state.state import State
from strata.store.open import Stores
from strata.updates.consolidate import consolidate
from strata.updates.order import round_up, sort_updates
from strata.updates.slices import WHOLE, Slice, has_keys_of, overlapping_groups

TOGETHER_BYTES = 16 * 1024 * 1024  # row groups of a part that are fetched at once


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of the newest snapshot, each once with its count in d."""

    rows: pa.Table  # of `updates_schema`, sorted
    bytes_read: int  # stored bytes of the row groups that were read, about
    bytes_in_shard: int


def rows_of_keys(stores: Stores, state: State, keys: pa.BinaryArray) -> FoundRows:
    """Return the rows of these keys (`change.key_bytes`) at the shard's newest readable time."""
    relation, parts = state.relation, _parts(stores, state)
    wanted = pc.unique(keys) if parts else keys[:0]
    if not pc.all(pc.less(wanted[:-1], wanted[1:]), min_count=0).as_py():
        wanted = wanted.take(pc.sort_indices(wanted))
    ids, leading = key_ids(relation), leading_key_ids(relation)
    prefixes = _prefixes(wanted, len(leading) == len(ids))
    chosen = [(ref, _groups(ref, prefixes, state)) for ref in parts]
    return _read(stores, state, chosen, wanted, WHOLE)


def rows_of_slice(stores: Stores, state: State, piece: Slice) -> FoundRows:
    """Return all rows whose key lies in a slice of keys."""
    exact = leading_key_ids(state.relation) == key_ids(state.relation)
    chosen = [
        (ref, overlapping_groups(ref, piece, state.relation, state.relations) if exact else None)
        for ref in _parts(stores, state)
    ]
    return _read(stores, state, chosen, None, piece)


def _parts(stores: Stores, state: State) -> list[PartRef]:
    return [ref for run in plan_read(stores, state).runs for ref in run.parts]


def _prefixes(keys: pa.BinaryArray, whole: bool) -> list[bytes] | None:
    """Return the sorted keys if whole keys lead the sort order; None: no group can be excluded."""
    return keys.to_pylist() if whole else None


def _groups(ref: PartRef, keys: Sequence[bytes] | None, state: State) -> list[int] | None:
    """Return the row groups that may hold a row of some key; None: all of them."""
    if keys is None or not has_keys_of(ref, state.relation, state.relations):
        return None
    lows = [split.key for split in ref.splits] or [ref.key_low]
    found = []
    for number, low in enumerate(lows):
        first = bisect_left(keys, low)
        if first and low.startswith(keys[first - 1]):  # rows of this key stand around `low`
            first -= 1
        if number + 1 < len(lows):
            end = round_up(lows[number + 1])
            last = len(keys) if end is None else bisect_left(keys, end)
        else:
            last = len(keys) if ref.key_high is None else bisect_right(keys, ref.key_high)
        if first < last:
            found.append(number)
    return found


def _read(
    stores: Stores,
    state: State,
    chosen: Sequence[tuple[PartRef, list[int] | None]],
    keys: pa.BinaryArray | None,
    piece: Slice,
) -> FoundRows:
    relation = state.relation
    schema = updates_schema(relation)
    batches = [b for ref, groups in chosen for b in _rows(stores, state, ref, groups, keys, piece)]
    rows = pa.Table.from_batches(batches, schema=schema)
    if rows.num_rows:
        rows = as_of_view(rows, state.upper - 1)
    rows = consolidate(sort_updates(rows, relation), relation)
    read = sum(
        ref.size_bytes if groups is None else ref.size_bytes * len(groups) // len(ref.splits or "1")
        for ref, groups in chosen
    )
    return FoundRows(rows, read, sum(ref.size_bytes for ref, _ in chosen))


def _rows(
    stores: Stores,
    state: State,
    ref: PartRef,
    groups: list[int] | None,
    keys: pa.BinaryArray | None,
    piece: Slice,
) -> Iterator[pa.RecordBatch]:
    if groups == []:
        return
    source = source_of(stores.blob, state)
    for batch in part_batches(
        source, ref, groups=groups, together_bytes=TOGETHER_BYTES, threads=False
    ):
        found = key_bytes(batch, key_ids(state.relation))
        mask = (
            _inside(found, piece) if keys is None else pc.is_in(found, value_set=_near(keys, found))
        )
        some = batch.filter(mask)
        if some.num_rows:
            yield some


def _near(keys: pa.BinaryArray, found: pa.BinaryArray) -> pa.BinaryArray:
    """Return the sorted keys that lie between the least and the greatest key found.

    With all keys, Arrow would build a hash table of them for each batch of rows.
    """
    ends = pc.min_max(found)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None:
        return keys[:0]
    first = bisect_left(keys, low, key=_bytes)
    return keys[first : bisect_right(keys, high, lo=first, key=_bytes)]


def _bytes(key: pa.Scalar) -> bytes:
    value: bytes = key.as_py()
    return value


def _inside(keys: pa.BinaryArray, piece: Slice) -> pa.BooleanArray:
    mask = pc.greater_equal(keys, pa.scalar(piece.low))
    return mask if piece.high is None else pc.and_(mask, pc.less(keys, pa.scalar(piece.high)))
