"""Turns changes of keys and the shard's rows into updates, and finds contradicting changes.

The changes of each key are in stream order, after the row that the shard holds. A change retracts
the row before it, at the change's time, and adds the new row at the same time. Times never go back
within a key: if a clock did, the time of the previous change counts. A row that is replaced by an
equal one adds up to nothing when the updates are consolidated. Changes that were delivered before
are left out: within a batch the key identifies them, across batches the course does
(`strata.ingest.readers.position`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.columns import D, T, child, updates_schema
from strata.ingest.readers.change import (
    AT,
    COMMIT,
    DELETE,
    INSERT,
    KEY,
    LSN,
    OLD,
    OP,
    REMOVE,
    SAME,
    UPDATE,
    UPSERT,
    Truncation,
    key_bytes,
    key_ids,
)
from strata.ingest.readers.position import UNKNOWN, Course, goes_on
from strata.kernels.arrays import Bools, Bytes, Ints
from strata.model.schema import Relation
from strata.model.time import MIN_TIME
from strata.updates.order import one_chunk

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
    repeated: int = 0  # changes that were delivered before


def resolve(
    changes: pa.Table,
    old: pa.Table,
    relation: Relation,
    *,
    truncations: Sequence[Truncation] = (),
    course: Course | None = None,
    leave_out: bool = False,
) -> Resolved:
    """Return what the changes do to the rows `old`.

    Shape: `changes` from `change.combined`; `old` from `lookup`, for all keys of the changes, and
    for all keys of the shard if there are `truncations` or the `course` empties the shard.
    `leave_out`: contradicting changes are not applied; otherwise they are applied as far as
    possible: an insert replaces, an update inserts, a delete does nothing.
    Raises: InvalidRequest if the shard holds a key more than once, or if a change keeps a value
    that is not known.
    """
    course = course or Course()
    stream = _stream(changes, old, relation, truncations, course).placed(course)
    repeated = stream.repeated(course)
    stream = stream.only(~repeated).softened(course)
    kept = _Kept.of(stream, np.ones(len(stream.op), bool))
    wrong = kept.contradictions(skipping=leave_out)
    if leave_out and wrong.any():
        kept = _Kept.of(stream, ~wrong)
    rows = stream.rows.take(pa.array(stream.order[wrong]))
    return Resolved(_updates(kept, relation), rows.sort_by(AT), int(repeated.sum()))


@dataclass(frozen=True)
class _Stream:
    """Old rows and changes, key by key, each in the order of the stream."""

    rows: pa.Table
    order: Ints  # rows of the table
    group: Ints  # number of the key
    op: Bytes
    time: Ints
    at: Ints
    commit: Ints  # position in the log of the database, or UNKNOWN
    lsn: Ints

    def only(self, mask: Bools) -> "_Stream":
        """Return the changes and rows that `mask` selects."""
        if mask.all():
            return self
        return _Stream(
            self.rows,
            self.order[mask],
            self.group[mask],
            self.op[mask],
            self.time[mask],
            self.at[mask],
            self.commit[mask],
            self.lsn[mask],
        )

    def placed(self, course: Course) -> "_Stream":
        """Let changes of a connector that started without offsets go on behind what came before."""
        unknown = (self.op != OLD) & (self.commit == 0) & (self.lsn > 0)
        if not unknown.any() or not course.starts or course.epochs:
            return self
        leg = course.legs_of(self.at)
        commit, lsn = (_before_each(values, self.group) for values in (self.commit, self.lsn))
        furthest = np.maximum(np.array(course.commits, np.int64)[leg], commit)
        last = np.maximum(np.array(course.lsns, np.int64)[leg], lsn)
        # A key has one change at a place; its second delivery may know a later commit before it.
        ahead = unknown & (self.lsn > lsn) & goes_on(self.commit, self.lsn, furthest, last)
        return replace(self, commit=np.where(ahead, furthest, self.commit))

    def softened(self, course: Course) -> "_Stream":
        """Let changes that a snapshot may already contain apply to any existing row."""
        known = (self.op != OLD) & (self.lsn > 0)
        if not known.any() or not course.starts:
            return self
        snapshot = np.array(course.snapshots, np.int64)[course.legs_of(self.at)]
        soft = known & (self.commit < snapshot) & (self.lsn < snapshot)
        op = np.where(soft & np.isin(self.op, (INSERT, UPDATE)), UPSERT, self.op)
        op = np.where(soft & (self.op == DELETE), REMOVE, op).astype(np.uint8)
        return replace(self, op=op)

    def repeated(self, course: Course) -> Bools:
        """Return which changes were delivered before."""
        known = (self.op != OLD) & (self.lsn != UNKNOWN)
        if not known.any() or not course.starts:
            return np.zeros(len(self.op), bool)
        stale = known & np.array(course.stale, bool)[course.legs_of(self.at)]
        fresh = known & ~stale  # what is left out hides nothing behind it
        found: Bools = stale | (fresh & (self._in_shard(course) | self._in_batch(course, fresh)))
        return found

    def _in_shard(self, course: Course) -> Bools:
        """Return which are not ahead of the shard; at an equal position the shard's row decides.

        It does where the shard had reached the position before the batch. Where an earlier leg did,
        the shard's row is that of before; see `_in_batch`.
        """
        leg = course.legs_of(self.at)
        commit = np.array(course.commits, np.int64)[leg]
        lsn = np.array(course.lsns, np.int64)[leg]
        old = np.array(course.old, bool)[leg]
        before = (self.commit < commit) | ((self.commit == commit) & (self.lsn < lsn))
        level = (self.commit == commit) & (self.lsn == lsn) & (lsn > 0) & old
        there = np.zeros(self.group.max(initial=-1) + 1, bool)
        there[self.group[self.op == OLD]] = True
        done = np.select(
            [self.op == INSERT, self.op == DELETE, self.op == UPSERT],
            [there[self.group], ~there[self.group], np.zeros(len(self.op), bool)],
            default=True,
        )
        found: Bools = before | (level & done)
        return found

    def _in_batch(self, course: Course, known: Bools) -> Bools:
        """Return which are not ahead of the change before them, of the same key and epoch."""
        epoch = np.searchsorted(np.array(course.epochs, np.int64), self.at, "right")
        facts = np.stack([epoch, self.commit, self.lsn], axis=1)[known]
        _, place = np.unique(facts, axis=0, return_inverse=True)
        group = self.group[known]
        lifted = place.reshape(-1) + group * (len(facts) + 1)  # keys do not meet
        furthest = np.maximum.accumulate(lifted)
        found = np.zeros(len(self.op), bool)
        found[np.flatnonzero(known)[1:]] = (lifted[1:] <= furthest[:-1]) & (group[1:] == group[:-1])
        return found


def _stream(
    changes: pa.Table,
    old: pa.Table,
    relation: Relation,
    truncations: Sequence[Truncation],
    course: Course,
) -> _Stream:
    rows = pa.concat_tables([_as_changes(old, relation, changes.schema), changes])
    rows = rows.combine_chunks()
    group = _groups(one_chunk(rows[KEY]), in_order=not old.num_rows)
    op = rows[OP].to_numpy()
    columns = {name: rows[name].to_numpy() for name in (T, AT, COMMIT, LSN)}
    row = np.arange(rows.num_rows)
    removals = [*truncations, *(Truncation(at, t, UNKNOWN, UNKNOWN) for at, t in course.emptied)]
    if removals:  # every key is removed, in its place of the stream
        _, first = np.unique(group, return_index=True)
        row = np.r_[row, np.tile(first, len(removals))]
        group = group[row]
        op = np.r_[op, np.full(len(first) * len(removals), REMOVE, np.uint8)]
        added = {
            T: [r.time for r in removals],
            AT: [r.at for r in removals],
            COMMIT: [r.commit for r in removals],
            LSN: [r.lsn for r in removals],
        }
        for name, values in added.items():
            more = np.repeat(np.array(values, np.int64), len(first))
            columns[name] = np.r_[columns[name], more]
    if removals or old.num_rows:
        # Rows that a snapshot replaces go before its first row, which has the same place.
        order = np.lexsort((op != REMOVE, columns[AT], group))
    else:
        order = row
    found = _Stream(
        rows,
        row[order],
        group[order],
        op[order],
        columns[T][order],
        columns[AT][order],
        columns[COMMIT][order],
        columns[LSN][order],
    )
    return found if not course.starts else replace(found, time=_lifted(found, course))


def _groups(keys: pa.BinaryArray, *, in_order: bool) -> Ints:
    """Return the number of each key; equal ones have the same. `in_order`: the keys are sorted."""
    if not in_order:
        found: Ints = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
        return found
    others = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    counted: Ints = np.r_[0, np.cumsum(others, dtype=np.int64)][: len(keys)]
    return counted


def _before_each(values: Ints, group: Ints) -> Ints:
    """Return the greatest value in front of each one in its group, whose entries are neighbours."""
    kinds, rank = np.unique(values, return_inverse=True)
    lifted = rank.reshape(-1) + group * len(kinds)  # groups do not meet
    furthest = np.maximum.accumulate(lifted)
    found = np.zeros(len(values), np.int64)
    again = np.flatnonzero(group[1:] == group[:-1]) + 1
    found[again] = kinds[furthest[again - 1] - group[again] * len(kinds)]
    return found


def _lifted(stream: _Stream, course: Course) -> Ints:
    """Return the times; no change's time is before the latest one of the previous legs."""
    floors = np.array(course.times, np.int64)[course.legs_of(stream.at)]
    lifted: Ints = np.where(stream.lsn == UNKNOWN, stream.time, np.maximum(stream.time, floors))
    return lifted


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
        pa.array(np.full(count, MIN_TIME)),
        pa.array(np.full(count, OLD, np.uint8)),
        pa.array(np.full(count, -1)),
        keys,
        pa.array(np.full(count, UNKNOWN)),
        pa.array(np.full(count, UNKNOWN)),
    ]
    rest = len(schema) - len(arrays)
    arrays += [pa.array(np.zeros(count, bool))] * rest
    return pa.Table.from_arrays(arrays, schema=schema)


def _not_keyed(rows: pa.Table, relation: Relation) -> InvalidRequest:
    first = rows.slice(0, 1).to_pylist()[0]
    return InvalidRequest(
        "the shard does not hold this key exactly once, so nothing can replace it",
        **{c.name: first[child(c.id)] for c in relation.key_columns},
        diff=first[D],
        cure="retract what is doubled with an envelope diff, then ingest the changes",
    )


@dataclass(frozen=True)
class _Kept:
    """The entries of a stream that count, still key by key."""

    stream: _Stream
    order: Ints
    op: Bytes
    time: Ints
    lsn: Ints
    first: Ints  # for each, where its key begins

    @staticmethod
    def of(stream: _Stream, mask: Bools) -> "_Kept":
        group = stream.group[mask]
        begins = np.r_[True, group[1:] != group[:-1]][: len(group)]
        first = np.maximum.accumulate(np.where(begins, np.arange(len(group)), 0))
        return _Kept(
            stream,
            stream.order[mask],
            stream.op[mask],
            stream.time[mask],
            stream.lsn[mask],
            first,
        )

    def contradictions(self, *, skipping: bool) -> Bools:
        """Return which changes contradict; `skipping`: those leave the existing row unchanged."""
        there = np.isin(self.op, (OLD, INSERT, UPSERT, UPDATE))
        decided = self.op != UPDATE if skipping else np.ones(len(self.op), bool)
        last = self._last(decided)
        after = np.where(last >= 0, there[last], False)
        number = np.arange(len(self.op))
        before = np.where(number > self.first, after[number - 1], False)
        must_be = (self.op == UPDATE) | (self.op == DELETE)
        wrong: Bools = ((self.op == INSERT) & before) | (must_be & ~before)
        return wrong

    def _last(self, mask: Bools) -> Ints:
        """Return for each entry the last one up to it, of its key, with `mask` true; -1: none."""
        if not len(mask):
            return np.zeros(0, np.int64)
        last = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))
        found: Ints = np.where(last >= self.first, last, -1)
        return found

    def present(self) -> Bools:
        """Return which leave a row behind."""
        mask: Bools = np.isin(self.op, (OLD, INSERT, UPSERT, UPDATE))
        return mask

    def times(self) -> Ints:
        """Return the times, which never go back within a key."""
        if not len(self.time):
            return self.time
        values, rank = np.unique(self.time, return_inverse=True)
        lifted = rank.astype(np.int64) + self.first * len(values)  # keys do not meet
        raised: Ints = values[np.maximum.accumulate(lifted) - self.first * len(values)]
        return raised

    def _origins(self, same: Bools) -> Ints:
        """Return for each entry the one whose value it has: itself, or an earlier one if unchanged.

        The earlier one is the row before it. For a row with a changed key, it is the row before the
        delete at its place in the log. -1: there is none.
        """
        number = np.arange(len(self.op))
        last = self._last(self.present())
        before = np.where(number > self.first, last[number - 1], -1)
        origin = np.where(same, before, number)
        moved = np.flatnonzero(same & (self.op == INSERT))
        if len(moved):
            deletes = np.flatnonzero((self.op == DELETE) & (self.lsn != UNKNOWN))
            deletes = deletes[np.argsort(self.lsn[deletes], kind="stable")]
            place = np.searchsorted(self.lsn[deletes], self.lsn[moved])
            partner = np.append(deletes, -1)[place]
            fits = (partner >= 0) & (self.lsn[partner] == self.lsn[moved])
            origin[moved] = np.where(fits, before[partner], -1)
        while (origin >= 0).all() and (origin[origin] != origin).any():
            origin = origin[origin]
        return origin

    def rows(self, relation: Relation, which: Ints) -> list[pa.ChunkedArray]:
        """Return the columns of some entries; unchanged values come from the row before.

        Raises: InvalidRequest if there is no such row.
        """
        table = self.stream.rows
        there, arrays = set(table.column_names), []
        for column in relation.columns:
            name, order = child(column.id), self.order
            if f"{SAME}{name}" in there:
                same = table[f"{SAME}{name}"].combine_chunks().to_numpy(zero_copy_only=False)
                same = same[order] & self.present()
                origin = self._origins(same)
                if (origin < 0).any():
                    raise InvalidRequest(
                        "a change says that a value is as it was, and the row is not there",
                        column=column.name,
                        cure="a snapshot before the changes, or one of the table as it is now",
                    )
                order = order[origin]
            arrays.append(_taken(table[name], order[which]))
        return arrays


def _taken(column: pa.ChunkedArray, rows: Ints) -> pa.ChunkedArray:
    """Return rows of a column; the column itself if these are all its rows in order."""
    if len(rows) == len(column) and (rows == np.arange(len(rows))).all():
        return column
    return column.take(pa.array(rows))


def _updates(kept: _Kept, relation: Relation) -> pa.Table:
    """Return the rows that changes add, and those they retract: the row before, if there is one."""
    times, present = kept.times(), kept.present()
    change = kept.op != OLD
    number = np.arange(len(change))
    adds = np.flatnonzero(present & change)
    retracts = np.flatnonzero(change & (number > kept.first) & present[number - 1])
    arrays = kept.rows(relation, np.r_[adds, retracts - 1])
    arrays.append(pa.chunked_array([times[np.r_[adds, retracts]]], pa.int64()))
    diffs = np.r_[np.ones(len(adds), np.int64), np.full(len(retracts), -1, np.int64)]
    arrays.append(pa.chunked_array([diffs], pa.int64()))
    return pa.Table.from_arrays(arrays, schema=updates_schema(relation))
