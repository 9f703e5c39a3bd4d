"""What people say instead of a time: a label, or a moment by the clock on the wall.

    1356998400000, 2013-01-01T00:00Z     a time of the shard
    release-1                            the time that has this label (`strata tag`)
    clock:2026-11-20T10:00               the newest time that was readable at that moment

The clock is that of the commits: the answer is one before the upper of the last append that was
committed at or before the moment. So a read by the clock shows what a reader saw then, but for
what happened to the shard since: compaction changes no answer, an erasure does.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import Final

from strata.errors import InvalidRequest
from strata.machine.ledger import children_of, commits_of
from strata.machine.machine import Machine
from strata.model.near import one_of
from strata.model.time import MIN_TIME, format_time, parse_time, time_given
from strata.state.labels import find_label, labels_of
from strata.state.state import Commit, State
from strata.store.interface import Blob
from strata.store.keys import ledger_level
from strata.store.open import Stores

CLOCK: Final = "clock:"
Moment = int | str


def resolve_moment(stores: Stores, state: State, moment: Moment | None) -> int | None:
    """Return the time that is meant, in milliseconds; None stays None, the newest.

    Cost: nothing for a time or a label; for the clock about log2 of the number of commits, as blobs
    of 64 commits, if the moment lies before the last 128.
    Raises: InvalidRequest for an unknown label, naming those that there are, and for a moment at
    which nothing was readable, or before commits kept their walltime.
    """
    if moment is None:
        return None
    if not isinstance(moment, str):
        return time_given(moment)
    text = moment.strip()
    if text.startswith(CLOCK):
        return _by_clock(stores, state, parse_time(text.removeprefix(CLOCK)))
    if not text or text[0] in "+-" or text[0].isdigit():
        return parse_time(text)
    label = find_label(state, text)
    if label is not None:
        return label.time
    names = [label.name for label in labels_of(state)]
    labels = one_of(text, names) if names else "this shard has none"
    raise InvalidRequest(
        "neither a time nor a label of this shard",
        shard=state.name,
        value=text,
        cure=f"labels: {labels}; times: milliseconds, ISO 8601 or {CLOCK}2026-11-20T10:00",
    )


def _by_clock(stores: Stores, state: State, moment: int) -> int:
    upper = _upper_at(stores, state, moment)
    if upper is not None and upper > MIN_TIME:
        return upper - 1
    raise InvalidRequest(
        "nothing was committed to this shard by then, as far as is known",
        shard=state.name,
        clock=format_time(moment),
        cure="choose a later moment; or a time of the shard, which needs no clock",
    )


def _upper_at(stores: Stores, state: State, moment: int) -> int | None:
    """Return the shard's upper at a moment; None if it is not known, or there was no commit."""
    if moment >= state.walltime_ms:
        return state.upper
    commit = _last_before(state.commits, moment)
    if commit is None:
        commit = _spilled(stores.blob, state.ledger, moment)
    if commit is None:
        return None
    if commit.at_ms:
        return commit.upper
    # It was committed before commits kept their walltime; states that are still stored have one.
    stored = Machine(stores).states_before(state.name, state.seqno)
    of_this_life = takewhile(lambda one: one.dropped is None, stored)
    return next((one.upper for one in of_this_life if one.walltime_ms <= moment), None)


def _last_before(commits: Sequence[Commit], moment: int) -> Commit | None:
    """Return the last of some commits, oldest first, at or before a moment."""
    place = bisect_right(commits, moment, key=lambda commit: commit.at_ms)
    return commits[place - 1] if place else None


def _spilled(blob: Blob, keys: Sequence[str], moment: int) -> Commit | None:
    """Return the last commit at or before a moment below some keys of the ledger, oldest first."""
    place = bisect_right(keys, moment, key=partial(_begin, blob))
    if not place:
        return None
    key = keys[place - 1]
    if ledger_level(key):
        return _spilled(blob, children_of(blob, key), moment)
    return _last_before(commits_of(blob, key), moment)


def _begin(blob: Blob, key: str) -> int:
    """Return the walltime of the oldest commit at or below a key of the ledger."""
    while ledger_level(key):
        key = children_of(blob, key)[0]
    return commits_of(blob, key)[0].at_ms
