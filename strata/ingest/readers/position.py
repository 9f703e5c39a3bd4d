"""The progress of a change stream: separates changes that were delivered before from new ones.

A PostgreSQL change has a position: the end of the commit before its transaction
(`source.sequence`), and its place in the log (`source.lsn`). The stream is in the order of
positions. A change that is not after the furthest position in the shard was therefore delivered
again, after a restart of Debezium, of its sink, or of both. Rows of one COPY may share a position;
at the furthest position itself, the shard's rows decide which changes it has.

A connector that starts without its offsets does not know the commit before its first transaction.
A change of it is new if its place in the log is beyond everything that was delivered, since no
change has a place behind the commit of its own transaction. It then continues the furthest
position. Elsewhere such a change counts as one of the first transaction of all, delivered again.

Rows of a snapshot share the position at which the table was read; it names the snapshot. A new
snapshot begins an *epoch*: the table is what that snapshot and the stream after it say, and
positions start anew (the database may have been restored). Changes that are before a snapshot in
the log but delivered after it (a new snapshot, an old slot) may be part of it. They apply to any
existing row, and since all of them come, the last one leaves the snapshot's content.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from strata.errors import InvalidRequest
from strata.kernels.arrays import Bools, Ints

UNKNOWN: Final = -1  # position of a change whose database reports none


@dataclass(frozen=True, slots=True)
class Places:
    """The positions of the events of one file, in their order."""

    commit: Ints  # end of the commit before the transaction; 0: before the first; UNKNOWN
    lsn: Ints  # place of the change in the log; 0: a row of a snapshot; UNKNOWN
    snapshot: Ints  # of rows of a snapshot: where the table was read; else 0
    ends: Bools  # the table's snapshot is whole with this event


@dataclass(frozen=True, slots=True)
class Leg:
    """Consecutive events of one file; only the first of them may begin a snapshot."""

    at: int  # place of the first
    time: int  # of the first
    snapshot: int  # that begins or continues with the first event; 0: none
    whole: bool  # the table's snapshot ends in this leg, or ended before
    commit: int  # the furthest position
    lsn: int
    latest: int  # the latest time
    unplaced: int = 0  # the greatest place of a change that knows no commit before it

    def is_before(self, snapshot: int) -> bool:
        """Return whether these are changes from before a snapshot, all of them."""
        return not self.snapshot and 0 < self.commit < snapshot and self.lsn < snapshot


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far a shard has followed its stream."""

    epoch: int = 0  # snapshots that began
    snapshot: int = 0  # the newest; 0: none
    whole: bool = True  # the shard has all its rows
    commit: int = 0  # the furthest position in the shard; 0, 0: no change after the snapshot
    lsn: int = 0
    older: frozenset[int] = frozenset()  # snapshots before the newest

    def has(self, places: Places) -> Bools:
        """Return which events the shard has, as long as no other snapshot has begun."""
        ahead = goes_on(places.commit, places.lsn, self.commit, self.lsn)
        placed = np.where(ahead, self.commit, places.commit)
        level = (placed == self.commit) & (places.lsn <= self.lsn)
        behind = (placed < self.commit) | level
        found: Bools = np.where(
            places.snapshot > 0,
            np.isin(places.snapshot, [self.snapshot, *self.older]),
            behind & (places.lsn != UNKNOWN),
        )
        return found


def goes_on(commit: Ints, lsn: Ints, furthest: Ints | int, last: Ints | int) -> Bools:
    """Return which changes that know no commit before them are beyond all that came before.

    `furthest`, `last`: the greatest commit and place before each; rows of a snapshot have place 0.
    Equal places are of one COPY.
    """
    found: Bools = (commit == 0) & (lsn > furthest) & (lsn >= last) & np.greater(furthest, 0)
    return found


@dataclass(frozen=True, slots=True)
class Course:
    """How a batch continues the shard's stream: one entry per leg, by place."""

    starts: tuple[int, ...] = ()
    stale: tuple[bool, ...] = ()  # of a snapshot that a newer one has replaced
    commits: tuple[int, ...] = ()  # the furthest position before the leg
    lsns: tuple[int, ...] = ()
    snapshots: tuple[int, ...] = ()  # that the leg follows
    times: tuple[int, ...] = ()  # the latest time before the leg
    old: tuple[bool, ...] = ()  # the shard itself had reached this position, no earlier leg did
    epochs: tuple[int, ...] = ()  # places where an epoch begins
    emptied: tuple[tuple[int, int], ...] = ()  # place and time at which a snapshot replaces all
    progress: StreamProgress | None = None  # after the batch; None: the stream has no positions

    def legs_of(self, places: Ints) -> Ints:
        """Return the number of the leg of each place; -1: none."""
        return np.searchsorted(np.array(self.starts, np.int64), places, "right") - 1


def legs_of(places: Places, times: Ints, first: int) -> list[Leg]:
    """Return the legs of one file whose first event has the place `first`.

    Changes from before the snapshot in front of them came again; they are legs of their own.
    """
    known = np.flatnonzero(places.lsn != UNKNOWN)
    if not len(known):
        return []
    snapshot = places.snapshot[known]
    rows = known[snapshot > 0]
    names = places.snapshot[rows]
    begins = rows[np.r_[True, names[1:] != names[:-1]]] if len(rows) else rows
    before = snapshot[np.maximum.accumulate(np.where(snapshot > 0, np.arange(len(known)), 0))]
    commit, lsn = places.commit[known], places.lsn[known]
    again = (snapshot == 0) & (commit > 0) & (commit < before) & (lsn < before)
    edges = np.unique(np.r_[known[0], begins, known[1:][again[1:] != again[:-1]]])
    legs = []
    for start, end in zip(edges.tolist(), [*edges[1:].tolist(), len(places.lsn)], strict=True):
        inside = known[(known >= start) & (known < end)]
        streamed = inside[places.snapshot[inside] == 0]
        furthest, unplaced = (0, 0), 0
        if len(streamed):
            unplaced = int(places.lsn[streamed][places.commit[streamed] == 0].max(initial=0))
            last = streamed[np.lexsort((places.lsn[streamed], places.commit[streamed]))[-1]]
            furthest = (int(places.commit[last]), int(places.lsn[last]))
        legs.append(
            Leg(
                first + start,
                int(times[start]),
                int(places.snapshot[start]),
                bool(len(streamed) or places.ends[inside].any()),
                *furthest,
                int(times[inside].max()),
                unplaced,
            )
        )
    return legs


def follow(before: StreamProgress, legs: Iterable[Leg], *, policy: str, empty: bool) -> Course:
    """Return how the legs of a batch, in order, continue the shard's stream.

    `policy`: what to do with a snapshot that is not the first (`source.snapshots`); a snapshot
    after an incomplete one replaces it. `empty`: the shard has no rows.

    Changes from before a snapshot may come again, and be followed by the rest of the snapshot, or
    by all of it. They are stale: the snapshot has what they did, and must not be taken for one that
    has ended before them. Errs: a change is from before a snapshot only if it is older by both of
    its places; others may have been committed while the snapshot was read. Where some of them came
    behind the snapshot, all further ones have to come, too: those beyond the position are new.

    Raises: InvalidRequest for another snapshot if the declaration refuses it.
    """
    legs = [*legs]
    last = {leg.snapshot: number for number, leg in enumerate(legs)}
    now, stale, latest = before, False, 0
    starts, stales, commits, lsns, snapshots = [], [], [], [], []
    times, old, epochs, emptied = [], [], [], []
    for number, leg in enumerate(legs):
        if leg.snapshot:
            stale = leg.snapshot in now.older
        if leg.snapshot not in (0, now.snapshot) and not stale:
            replaces = policy == "replace" or not now.whole
            if not empty and replaces:
                emptied.append((leg.at, max(leg.time, latest)))
            if not (empty or replaces or policy == "merge"):
                raise _another(leg, now)
            older = now.older | {now.snapshot} if now.snapshot else now.older
            now = StreamProgress(now.epoch + 1, leg.snapshot, whole=False, older=older)
            epochs.append(leg.at)
        goes_on = not now.whole or last.get(now.snapshot, -1) > number
        catching_up = 0 < now.commit < now.snapshot and now.lsn < now.snapshot
        left_out = not catching_up and (stale or (goes_on and leg.is_before(now.snapshot)))
        starts.append(leg.at)
        stales.append(left_out)
        commits.append(now.commit)
        lsns.append(now.lsn)
        snapshots.append(now.snapshot)
        times.append(latest)
        old.append((now.epoch, now.commit, now.lsn) == (before.epoch, before.commit, before.lsn))
        if not left_out:
            commit, lsn = max((now.commit, now.lsn), (leg.commit, leg.lsn))
            if 0 < commit < leg.unplaced:  # the connector has started anew behind it
                lsn = max(lsn, leg.unplaced)
            now = replace(now, commit=commit, lsn=lsn, whole=now.whole or leg.whole)
            latest, empty = max(latest, leg.latest), False
    return Course(
        tuple(starts),
        tuple(stales),
        tuple(commits),
        tuple(lsns),
        tuple(snapshots),
        tuple(times),
        tuple(old),
        tuple(epochs),
        tuple(emptied),
        now if starts else None,
    )


def _another(leg: Leg, now: StreamProgress) -> InvalidRequest:
    return InvalidRequest(
        "another snapshot of the table begins, and the shard is not empty",
        snapshot_lsn=leg.snapshot,
        before=now.snapshot or None,
        cure="source.snapshots: replace, if it reads the whole table (rows that it lacks are then "
        "deleted); merge, if it reads some of the rows only",
    )
