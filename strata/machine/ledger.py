"""Spill old commits from the state to blobs, and find them there again.

A token of any age must be recognised, and the state must stay small. So the 64 oldest commits move
from the state to a **leaf** of the ledger. When the state names more than `FAN` leaves, the oldest
`FAN` of them are replaced by one **node** that names them, and nodes likewise by nodes of the next
level. A million appends leave about 40 keys in the state instead of 15,000.

Keys carry the range of the ends of their intervals. Appends come in time order, so ranges hardly
overlap, and a token with a known interval is found with one blob a level.

For a token with an unknown interval, a node keeps four bytes of the hash of every token below it,
by child. So a lookup reads the keys that the state names and the path down to the token; a wrong
path is read only once in some thousand lookups.
"""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from strata.errors import Corrupt
from strata.model.time import MIN_TIME
from strata.state.codec import (
    LedgerNode,
    decode_commits,
    decode_nodes,
    encode_commits,
    encode_nodes,
)
from strata.state.state import Commit, State
from strata.state.transitions import COMMITS_MAX, COMMITS_SPILLED, find_commit, fold_ledger, spill
from strata.store.interface import Blob
from strata.store.keys import content_hash, ledger_key, ledger_level, ledger_range
from strata.store.named import get_named
from strata.store.retry import Sleep, retry

MARKS: Final = np.dtype(">u4")
FAN: Final = 16  # keys of one level in the state, and in one node
FOLDS_MAX: Final = 8  # in one commit, so that ledgers from before there were nodes fold gradually


def spill_old_commits(blob: Blob, state: State, sleep: Sleep = time.sleep) -> State:
    """Return `state` with at most the allowed number of commits and of ledger keys.

    The blobs are written first. Two writers that spill from the same state write the same blobs.
    Cost: nothing in 63 of 64 commits, then one small blob; in one of 1,024 commits the keys that
    become a node are also read, for their marks.
    """
    if len(state.commits) <= COMMITS_MAX:
        return state
    oldest = state.commits[:COMMITS_SPILLED]
    data = encode_commits(oldest)
    uppers = [commit.upper for commit in oldest]
    key = ledger_key(state.name, min(uppers), max(uppers), content_hash(data))
    retry(partial(blob.set, key, data), sleep=sleep)
    state = spill(state, key)
    for _ in range(FOLDS_MAX):
        full = foldable(state.ledger)
        if not full:
            break
        state = _folded(blob, state, full, sleep)
    return state


def foldable(ledger: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys that should become one node: the oldest of a level that is too full.

    The newest key of a level is never among them. So all of them were named by a committed state,
    and garbage collection relies on that.
    """
    levels: dict[int, list[str]] = {}
    for key in ledger:
        levels.setdefault(ledger_level(key), []).append(key)
    return next((tuple(keys[:FAN]) for keys in levels.values() if len(keys) > FAN), ())


def find(
    blob: Blob, state: State, token: str, upper: int | None, sleep: Sleep = time.sleep
) -> Commit | None:
    """Return the commit of a token, or None; `upper`, the end of its interval, saves reads.

    Cost: without `upper`, the blobs that the state names, about 40 after a million commits.
    Raises: Corrupt when a blob of the ledger is missing or damaged.
    """
    known = find_commit(state.commits, token)
    leaves = _leaves(blob, tuple(reversed(state.ledger)), _Wanted(mark_of(token), upper), sleep)
    while known is None and (leaf := next(leaves, None)) is not None:
        known = find_commit(commits_of(blob, leaf, sleep), token)
    return known


def commits_after(
    blob: Blob, state: State, after: int, sleep: Sleep = time.sleep
) -> Iterator[Commit]:
    """Yield the commits whose intervals end after a time, newest first.

    Cost: the ledger blobs that may have one.
    """

    def below(keys: tuple[str, ...]) -> Iterator[Commit]:
        for key in reversed(keys):
            if ledger_range(key)[1] <= after:
                continue
            if ledger_level(key):
                yield from below(children_of(blob, key, sleep))
            else:
                yield from reversed(commits_of(blob, key, sleep))

    yield from (commit for commit in reversed(state.commits) if commit.upper > after)
    yield from (commit for commit in below(state.ledger) if commit.upper > after)


def commit_at(blob: Blob, state: State, moment: int, sleep: Sleep = time.sleep) -> Commit | None:
    """Return the commit whose interval holds a time, or None.

    Cost: one ledger blob a level, if the commit has left the state.
    """

    def first(keys: tuple[str, ...]) -> Commit | None:
        key = next((key for key in keys if ledger_range(key)[1] > moment), None)
        if key is None:
            return None
        if ledger_level(key):
            return first(children_of(blob, key, sleep))
        return next(
            (commit for commit in commits_of(blob, key, sleep) if commit.upper > moment), None
        )

    found = first(state.ledger)
    if found is None:
        found = next((commit for commit in state.commits if commit.upper > moment), None)
    return found if found is not None and found.lower <= moment else None


def commit_ms_before(blob: Blob, state: State, position: int) -> int:
    """Return when the updates just before a position were committed; 0 if that is not known.

    It is the same for as long as a shard lives, and another once it was restored or created again.
    """
    commit = None if position == MIN_TIME else commit_at(blob, state, position - 1)
    return 0 if commit is None else commit.at_ms


def is_of_life(blob: Blob, state: State, before: State) -> bool:
    """Return whether a state is of the same life as an earlier one.

    The shard was not dropped and created again since, nor restored to a point before it.
    """
    position = before.upper
    known = commit_ms_before(blob, before, position)
    return state.upper >= position and commit_ms_before(blob, state, position) == known


def mark_of(token: str) -> int:
    """Return four bytes of the hash of a token, as a number."""
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=4).digest())


def ledger_keys(blob: Blob, ledger: tuple[str, ...], sleep: Sleep = time.sleep) -> Iterator[str]:
    """Yield every key of the ledger, including those in its nodes. Cost: reads each node."""
    for key in ledger:
        yield key
        if ledger_level(key):
            yield from ledger_keys(blob, children_of(blob, key, sleep), sleep)


def children_of(blob: Blob, node: str, sleep: Sleep = time.sleep) -> tuple[str, ...]:
    """Return the keys that a node names, oldest first. Raises: Corrupt."""
    return decode_nodes(_stored(blob, node, sleep)).keys


def commits_of(blob: Blob, leaf: str, sleep: Sleep = time.sleep) -> tuple[Commit, ...]:
    """Return the commits of a leaf, oldest first. Raises: Corrupt."""
    return decode_commits(_stored(blob, leaf, sleep))


def _folded(blob: Blob, state: State, full: tuple[str, ...], sleep: Sleep = time.sleep) -> State:
    data = encode_nodes(LedgerNode(full, tuple(_marks(blob, key, sleep) for key in full)))
    lows, highs = zip(*map(ledger_range, full), strict=True)
    level = ledger_level(full[0]) + 1
    key = ledger_key(state.name, min(lows), max(highs), content_hash(data), level)
    retry(partial(blob.set, key, data), sleep=sleep)
    return fold_ledger(state, full, key)


def _marks(blob: Blob, key: str, sleep: Sleep) -> bytes | None:
    """Return the marks of all tokens in or below a key, sorted; None where some are unknown.

    A damaged blob fails lookups of tokens in it, but not appends.
    """
    try:
        if not ledger_level(key):
            tokens = [commit.token for commit in commits_of(blob, key, sleep)]
            return np.array(sorted(map(mark_of, tokens)), MARKS).tobytes()
        below = decode_nodes(_stored(blob, key, sleep)).marks
    except Corrupt:
        return None
    if None in below:
        return None
    found = np.frombuffer(b"".join(marks for marks in below if marks is not None), MARKS)
    return np.sort(found).astype(MARKS).tobytes()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The token to find: its mark, and the upper of its commit where that is known."""

    mark: int
    upper: int | None

    def may_be_under(self, key: str, marks: bytes | None) -> bool:
        """Return whether a key may lead to the commit."""
        low, high = ledger_range(key)
        if self.upper is not None and not low <= self.upper <= high:
            return False
        if marks is None:
            return True
        sorted_marks = np.frombuffer(marks, MARKS)
        at = int(np.searchsorted(sorted_marks, self.mark))
        return at < len(sorted_marks) and int(sorted_marks[at]) == self.mark


def _leaves(
    blob: Blob, newest_first: tuple[str, ...], wanted: _Wanted, sleep: Sleep
) -> Iterator[str]:
    for key in newest_first:
        if not wanted.may_be_under(key, None):
            continue
        if not ledger_level(key):
            yield key
            continue
        node = decode_nodes(_stored(blob, key, sleep))
        children = zip(reversed(node.keys), reversed(node.marks), strict=True)
        inside = tuple(child for child, marks in children if wanted.may_be_under(child, marks))
        yield from _leaves(blob, inside, wanted, sleep)


def _stored(blob: Blob, key: str, sleep: Sleep = time.sleep) -> bytes:
    return get_named(blob, key, "a ledger of old commits", sleep=sleep)
