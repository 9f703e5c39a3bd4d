"""Changes of keys and the rows that are there become updates; what contradicts them is found.

For each key the changes stand in the order of the stream, behind the row that the shard holds. A
row that is there is retracted by the change that follows it, at that change's time, and the new
row is added at the same time. Times never go back within a key: where a clock did, the time of
the change before counts. Whatever is not a change any more (a row that is replaced by an equal
one) adds up to nothing when the updates are consolidated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.columns import D, T, child, updates_schema
from strata.ingest.change import (
    AT,
    DELETE,
    INSERT,
    KEY,
    OLD,
    OP,
    REMOVE,
    SAME,
    UPDATE,
    UPSERT,
    Ints,
    key_bytes,
    key_ids,
)
from strata.model.schema import Relation
from strata.model.time import MIN_TIME

Mask = npt.NDArray[np.bool_]

REASONS: Final = {
    INSERT: "inserted, and the key is there already",
    UPDATE: "updated, and the key is not there",
    DELETE: "deleted, and the key is not there",
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Updates, and the changes that contradict the shard."""

    updates: pa.Table  # of `updates_schema`, in no order
    wrong: pa.Table  # those changes, in the order of the stream, with all columns of changes


def resolve(
    changes: pa.Table,
    old: pa.Table,
    relation: Relation,
    *,
    truncations: Sequence[tuple[int, int]] = (),
    leave_out: bool = False,
) -> Resolved:
    """Return what the changes do to the rows `old`.

    Shape: `changes` of `change.combined`; `old` as `lookup` gives them, of all keys of the changes,
    and of all keys of the shard if there are `truncations` (places and times).
    `leave_out`: a change that contradicts is not applied; else it does what it says as far as
    that goes: an insert replaces, an update inserts, a delete does nothing.
    Raises: InvalidRequest where the shard holds a key more than once, or a value that a change
    says to be as it was is not known.
    """
    stream = _stream(changes, old, relation, truncations)
    kept = _Kept.of(stream, np.ones(len(stream.op), bool))
    wrong = kept.contradictions(skipping=leave_out)
    if leave_out and wrong.any():
        kept = _Kept.of(stream, ~wrong)
    rows = stream.rows.take(pa.array(stream.order[wrong]))
    return Resolved(_updates(kept, relation), rows.sort_by(AT))


@dataclass(frozen=True)
class _Stream:
    """Old rows and changes, key by key, each in the order of the stream."""

    rows: pa.Table
    order: Ints  # rows of the table
    group: Ints  # number of the key
    op: npt.NDArray[np.uint8]
    time: Ints


def _stream(
    changes: pa.Table, old: pa.Table, relation: Relation, truncations: Sequence[tuple[int, int]]
) -> _Stream:
    rows = pa.concat_tables([_as_changes(old, relation, changes.schema), changes])
    rows = rows.combine_chunks()
    group = rows[KEY].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    op, time = rows[OP].to_numpy(), rows[T].to_numpy()
    at, row = rows[AT].to_numpy(), np.arange(rows.num_rows)
    if truncations:  # every key is removed, in its place of the stream
        _, first = np.unique(group, return_index=True)
        places = np.array([place for place, _ in truncations], np.int64)
        times = np.array([t for _, t in truncations], np.int64)
        row = np.r_[row, np.tile(first, len(places))]
        group = group[row]
        op = np.r_[op, np.full(len(first) * len(places), REMOVE, np.uint8)]
        at = np.r_[at, np.repeat(places, len(first))]
        time = np.r_[time, np.repeat(times, len(first))]
    order = np.lexsort((at, group))
    return _Stream(rows, row[order], group[order], op[order], time[order])


def _as_changes(old: pa.Table, relation: Relation, schema: pa.Schema) -> pa.Table:
    """Return the rows of the shard as the beginning of the stream."""
    count = old.num_rows
    keys = key_bytes(old, key_ids(relation))
    if count and (pc.max(old[D]).as_py() != 1 or pc.min(old[D]).as_py() != 1):
        raise _not_keyed(old.filter(pc.not_equal(old[D], 1)), relation)
    if pc.count_distinct(keys).as_py() < count:
        counted = keys.value_counts()
        twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
        raise _not_keyed(old.filter(pc.is_in(keys, value_set=twice)), relation)
    arrays = [old[child(c.id)] for c in relation.columns]
    arrays += [
        pa.array(np.full(count, MIN_TIME)), pa.array(np.full(count, OLD, np.uint8)),
        pa.array(np.full(count, -1)), keys,
    ]  # fmt: skip
    rest = len(schema) - len(arrays)
    arrays += [pa.array(np.zeros(count, bool))] * rest
    return pa.Table.from_arrays(arrays, schema=schema)


def _not_keyed(rows: pa.Table, relation: Relation) -> InvalidRequest:
    first = rows.slice(0, 1).to_pylist()[0]
    return InvalidRequest(
        "the shard does not hold this key exactly once, so nothing can replace it",
        **{c.name: first[child(c.id)] for c in relation.key_columns}, diff=first[D],
        cure="retract what is doubled with an envelope diff, then ingest the changes",
    )  # fmt: skip


@dataclass(frozen=True)
class _Kept:
    """Those of a stream that count, still key by key."""

    stream: _Stream
    order: Ints
    op: npt.NDArray[np.uint8]
    time: Ints
    first: Ints  # for each, where its key begins

    @staticmethod
    def of(stream: _Stream, mask: Mask) -> "_Kept":
        group = stream.group[mask]
        begins = np.r_[True, group[1:] != group[:-1]][: len(group)]
        first = np.maximum.accumulate(np.where(begins, np.arange(len(group)), 0))
        return _Kept(stream, stream.order[mask], stream.op[mask], stream.time[mask], first)

    def contradictions(self, *, skipping: bool) -> Mask:
        """Return which changes contradict; `skipping`: those do not change what is there."""
        there = np.isin(self.op, (OLD, INSERT, UPSERT, UPDATE))
        decided = self.op != UPDATE if skipping else np.ones(len(self.op), bool)
        last = self._last(decided)
        after = np.where(last >= 0, there[last], False)
        number = np.arange(len(self.op))
        before = np.where(number > self.first, after[number - 1], False)
        must_be = (self.op == UPDATE) | (self.op == DELETE)
        wrong: Mask = ((self.op == INSERT) & before) | (must_be & ~before)
        return wrong

    def _last(self, mask: Mask) -> Ints:
        """Return for each the last one of its key up to it where `mask` is true; -1: none."""
        if not len(mask):
            return np.zeros(0, np.int64)
        last = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))
        found: Ints = np.where(last >= self.first, last, -1)
        return found

    def present(self) -> Mask:
        """Return which leave a row behind."""
        mask: Mask = np.isin(self.op, (OLD, INSERT, UPSERT, UPDATE))
        return mask

    def times(self) -> Ints:
        """Return the times, none before the one before it of the same key."""
        if not len(self.time):
            return self.time
        values, rank = np.unique(self.time, return_inverse=True)
        lifted = rank.astype(np.int64) + self.first * len(values)  # keys do not meet
        raised: Ints = values[np.maximum.accumulate(lifted) - self.first * len(values)]
        return raised

    def rows(self, relation: Relation) -> pa.Table:
        """Return the rows; what is as it was is taken from the row before.

        Raises: InvalidRequest where there is none.
        """
        table = self.stream.rows
        arrays = []
        for column in relation.columns:
            name, order = child(column.id), self.order
            if f"{SAME}{name}" in table.column_names:
                same = table[f"{SAME}{name}"].combine_chunks().to_numpy(zero_copy_only=False)
                same = same[order] & self.present()
                source = self._last(self.present() & ~same)
                if (source[same] < 0).any():
                    raise InvalidRequest(
                        "a change says that a value is as it was, and the row is not there",
                        column=column.name,
                        cure="source.contradictions: quarantine; or a snapshot before the changes",
                    )
                order = np.where(same, order[source], order)
            arrays.append(table[name].take(pa.array(order)))
        return pa.Table.from_arrays(arrays, [child(c.id) for c in relation.columns])


def _updates(kept: _Kept, relation: Relation) -> pa.Table:
    """Return what each change adds, and what it retracts: the row before it, if one was left."""
    rows, times, present = kept.rows(relation), kept.times(), kept.present()
    change = kept.op != OLD
    number = np.arange(len(change))
    adds = np.flatnonzero(present & change)
    retracts = np.flatnonzero(change & (number > kept.first) & present[number - 1])
    order = np.r_[adds, retracts - 1]
    arrays = [column.take(pa.array(order)) for column in rows.columns]
    arrays.append(pa.chunked_array([times[np.r_[adds, retracts]]], pa.int64()))
    diffs = np.r_[np.ones(len(adds), np.int64), np.full(len(retracts), -1, np.int64)]
    arrays.append(pa.chunked_array([diffs], pa.int64()))
    return pa.Table.from_arrays(arrays, schema=updates_schema(relation))
