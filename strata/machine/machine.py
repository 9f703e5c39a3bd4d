"""Load a shard's state, propose a successor, compare-and-set, and try again.

This is the only module that changes a shard. A `Machine` keeps no state of it: any number of them,
in any number of processes, may work on the same shard.

When the reply to a compare-and-set is lost, the machine reads the proposed version back. If it is
stored, byte for byte, the change has happened. If another version is stored, the transition is
computed again on it, which is safe because every transition may be repeated. If none is stored,
nobody was faster: the database fails, and after a few tries the caller gets `Unavailable`.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Final, TypeVar

from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest, Unavailable
from strata.machine import ledger
from strata.machine.documents import Documents
from strata.machine.lean import moved_out
from strata.machine.presence import check_folder, first_blob, no_state, unknown_shard
from strata.model.journals import check_not_journal
from strata.model.spec import ShardSpec
from strata.model.time import MIN_TIME
from strata.state import tombstone, transitions
from strata.state.codec import decode_state, encode_state
from strata.state.difference import check_same
from strata.state.holds import readable_from
from strata.state.schema import Change, Evolved, check_defaults, evolve
from strata.state.state import Batch, Commit, State, Tombstone
from strata.state.step import check_alive
from strata.state.transitions import (
    FIRST_SEQNO,
    Appended,
    Basis,
)
from strata.state.versions import TOMBSTONE_MARKS, Version, remember, successor
from strata.stats.members import check_members
from strata.stats.pairs import check_pairs
from strata.stats.protected import check_budget
from strata.store.interface import Versioned
from strata.store.keys import parse_state_key, state_key
from strata.store.open import Stores
from strata.store.retry import Patience, Sleep, retry

R = TypeVar("R")
Transition = Callable[[State, int], tuple[State, R]]

ATTEMPTS: Final = 50  # lost races before Conflict is raised; each is another writer's success
PAGE: Final = 64  # states read at a time
KEEP: Final = 256  # newest states that stay stored at any age
KEEP_MS: Final = 24 * 3_600_000  # states of this age stay stored for readers without a hold
KEEP_AT_MOST: Final = 2048  # limit of these states; beyond it only holds keep a state
FORGET_EVERY: Final = 64  # commits
QUEUE_S: Final = 2.0  # a writer queues for this long after a lost race or a wait
LOOK_EVERY: Final = 16  # one in this many attempts queues although no race was lost
_PAUSES: Final = Patience(first_ms=2, ceiling_ms=200)


class Machine:
    """Shards of one pair of stores."""

    def __init__(self, stores: Stores, sleep: Sleep = time.sleep) -> None:
        """Work on `stores`; `sleep` is replaced in tests."""
        self.stores = stores
        self._sleep = sleep
        self._documents = Documents(stores.consensus, sleep)
        self._contended: dict[str, float] = {}  # contended shards: time until which to queue
        self._tried: Counter[str] = Counter()

    def create(self, spec: ShardSpec, *, revive: bool = False, journal: bool = False) -> State:
        """Return the state of a new shard, or of an existing one with the same declaration.

        A dropped shard begins anew only with `revive`. `journal`: Strata makes it for itself.

        Raises: InvalidRequest when the shard has another declaration, or was dropped; or a new one
        protects more statistics than its budget holds; Corrupt for blobs of it without a state.
        """
        if not journal:
            check_not_journal(spec.name)
        first = transitions.create(spec, self.stores.clock())
        check_defaults(spec.name, first.relation.columns)
        if decode_state(encode_state(first)) != first:
            raise InvalidRequest("this declaration cannot be stored", shard=spec.name)
        for attempt in range(ATTEMPTS):
            found = self._find(spec.name)
            if found is not None and found.dropped and revive:
                self.apply(spec.name, partial(tombstone.revive, spec=spec), dropped=True)
                return self.load(spec.name)
            if found is not None:
                check_alive(found)
                check_same(found, spec)
                return found
            if (stored := first_blob(self.stores, spec.name)) is not None:
                if self._find(spec.name) is not None:
                    continue  # somebody has just created it
                raise no_state(self.stores, spec.name, stored)
            check_budget(spec)
            check_members(first.relation, spec.stats, spec.name)
            check_pairs(first.relation, spec.stats, spec.name)
            if self._commit(spec.name, None, first.seqno, encode_state(first)):
                return first
            self._sleep(_PAUSES.pause_s(attempt))
        raise Conflict("the shard could not be created", shard=spec.name, attempts=ATTEMPTS)

    def drop(self, name: str, *, by: str, reason: str, force: bool = False) -> Tombstone:
        """Leave a tombstone in the place of a shard; see `strata.state.tombstone.drop`."""
        check_not_journal(name)
        move = partial(tombstone.drop, by=by, reason=reason, force=force)
        return self.apply(name, move, dropped=True)

    def bring_back(self, saved: State, *, generation: int, by: str, reason: str) -> State:
        """Make a state from a backup that of a shard which does not exist, or was dropped.

        Its blobs are stored already. `generation` is above that of each of them.
        Raises: InvalidRequest when the shard exists.
        """
        for attempt in range(ATTEMPTS):
            stone = self._find(saved.name)
            if stone is not None and stone.dropped is None:
                raise InvalidRequest("a shard that exists is not replaced", shard=saved.name)
            new = tombstone.bring_back(
                saved, self.stores.clock(), stone=stone, generation=generation, by=by, reason=reason
            )
            expected = None if stone is None else stone.seqno
            if self._commit(saved.name, expected, new.seqno, encode_state(new)):
                return new
            self._sleep(_PAUSES.pause_s(attempt))
        raise Conflict("the shard could not be brought back", shard=saved.name, attempts=ATTEMPTS)

    def load(self, name: str, *, dropped: bool = False) -> State:
        """Return the newest state of a shard; with `dropped` also a tombstone.

        Raises: InvalidRequest for an unknown shard, naming existing ones, or for a dropped one;
        Unavailable when the state has batches and the folder of blobs is not there.
        """
        state = self._loaded(name, dropped=dropped).state
        check_folder(self.stores, state)
        return state

    def _loaded(self, name: str, *, dropped: bool) -> Version:
        found = self._documents.head(name)
        if found is None:
            raise unknown_shard(self.stores, name, self.names())
        if not dropped:
            check_alive(found.state)
        return found

    def names(self, *, dropped: bool = False) -> list[str]:
        """Return the sorted names of all shards; with `dropped` also of dropped ones.

        Cost: decodes only the states that may be tombstones.
        """
        consensus = self.stores.consensus
        suspects: set[str] = set()
        if not dropped:
            suspects = set(self._retry(partial(consensus.list, TOMBSTONE_MARKS)))
        return sorted(
            name
            for key in self._retry(consensus.list)
            if (name := parse_state_key(key)) is not None
            and not (key in suspects and self._is_dropped(name))
        )

    def _is_dropped(self, name: str) -> bool:
        # One state that this version cannot read must not hide the others.
        with suppress(InvalidRequest, Corrupt):
            return self.load(name, dropped=True).dropped is not None
        return False

    def states(self, name: str, from_seqno: int = 0) -> Iterator[State]:
        """Yield the stored states, oldest first, up to the newest at the time of the call.

        Garbage collection must respect them: no blob that one of them names is dead.
        """
        while page := self._documents.page(name, from_seqno, PAGE):
            yield from page
            from_seqno = page[-1].seqno + 1

    def at(self, name: str, seqno: int) -> State | None:
        """Return the state `seqno`, or None when it is no longer stored, or not yet."""
        found = self._documents.page(name, seqno, 1)
        return next((state for state in found if state.seqno == seqno), None)

    def states_before(self, name: str, seqno: int) -> Iterator[State]:
        """Yield the stored states before `seqno`, newest first.

        Cost: a page is read and decoded when its first state is requested.
        """
        while seqno > FIRST_SEQNO:
            low = max(seqno - PAGE, FIRST_SEQNO)
            page = self._documents.page(name, low, seqno - low)
            page = [state for state in page if state.seqno < seqno]
            if not page:
                return
            yield from reversed(page)
            seqno = page[0].seqno

    def forget(self, name: str, *, keep: int = KEEP, keep_ms: int = KEEP_MS) -> int:
        """Drop old states and return how many; `apply` does it from time to time.

        The newest `keep` stay, those that a live hold reads from, and at most `KEEP_AT_MOST` states
        that were the newest less than `keep_ms` ago.
        The documents that these build upon stay as well: up to `RUN_MAX` more.
        Cost: reads two documents, seldom up to log2(KEEP_AT_MOST / keep) more.
        """
        head, now_ms = self.load(name, dropped=True), self.stores.clock()
        while keep < KEEP_AT_MOST and self._since_ms(head, keep) > now_ms - keep_ms:
            keep = min(2 * keep, KEEP_AT_MOST)
        below = min(head.seqno - keep + 1, readable_from(head, now_ms))
        return self.forget_before(name, below) if below > FIRST_SEQNO else 0

    def forget_before(self, name: str, seqno: int) -> int:
        """Drop all states before `seqno`, which no reader may hold, and return how many.

        Documents that the state `seqno` builds upon stay.
        """
        below = self._documents.base(name, seqno)
        return self._retry(partial(self.stores.consensus.truncate, state_key(name), below))

    def _since_ms(self, head: State, back: int) -> int:
        """Return the time at which the state before the newest `back` ones got a successor."""
        at = head.seqno - back + 1
        if at <= FIRST_SEQNO:
            return MIN_TIME
        return self._documents.walltime_ms(head.name, at)

    def history(self, name: str, limit: int) -> list[State]:
        """Return up to `limit` stored states of a shard, newest first."""
        newest = self.load(name).seqno
        return self._documents.page(name, newest - limit + 1, limit)[::-1]

    def apply(
        self, name: str, transition: Transition[R], *, dropped: bool = False, whole: bool = False
    ) -> R:
        """Commit a transition and return its result; a transition may also change nothing.

        `transition` is called again whenever another writer was faster. `whole`: the document
        builds upon no earlier one, so that those can go.

        Raises: as the transition; Conflict after many lost races; Unavailable, with `certain` False
        when the change may have happened.
        """
        for attempt in range(ATTEMPTS):
            with self._turn(name) as others:
                done = self._attempt(name, transition, dropped, whole)
                if done is None and others:  # a writer that does not queue was faster: pause first
                    done = self._attempt(name, transition, dropped, whole)
            if done is None or others:
                self._contended[name] = time.monotonic() + QUEUE_S
            if done is not None:
                return done[0]
            if attempt:
                self._sleep(_PAUSES.pause_s(attempt))
        raise Conflict(
            "other writers were faster every time",
            shard=name,
            attempts=ATTEMPTS,
            cure="run again, or run fewer writers at a time",
        )

    def _turn(self, name: str) -> AbstractContextManager[bool]:
        """Queue if a race was lost or others queued lately; otherwise from time to time.

        Without the latter, a writer that wins every race would never queue, and writers that queue
        would never win.
        """
        self._tried[name] += 1
        if time.monotonic() < self._contended.get(name, 0.0) or not self._tried[name] % LOOK_EVERY:
            return self.stores.consensus.turn(state_key(name))
        return nullcontext(False)

    def _attempt(
        self, name: str, transition: Transition[R], dropped: bool, whole: bool
    ) -> tuple[R] | None:
        """Return the result in a tuple, or None when another writer was faster."""
        version = self._loaded(name, dropped=dropped)
        state = version.state
        following, result = transition(state, self.stores.clock())
        if following is state:
            return (result,)
        assert following.seqno == state.seqno + 1, "a transition must use `step`"
        following = moved_out(self.stores.blob, following)
        following = ledger.spill_old_commits(self.stores.blob, following, self._sleep)
        # A new declaration came from outside: only decoding shows what JSON makes of it.
        plain = following.spec is state.spec and following.relations is state.relations
        data, new = successor(version, following, as_whole=whole or not plain)
        if not self._commit(name, state.seqno, following.seqno, data):
            return None
        if plain:
            remember(data, new)
        self._forget_sometimes(following)
        return (result,)

    def evolve(self, name: str, change: Change, *, expected_version: int | None = None) -> Evolved:
        """Change the relation as `strata.state.schema.evolve` does.

        Raises: as `evolve` and `apply`.
        """
        move = partial(evolve, change=change, expected_version=expected_version)
        return self.apply(name, move)

    def append(  # noqa: PLR0913  these are the fields of one request
        self,
        name: str,
        *,
        token: str,
        lower: int,
        upper: int,
        batch: Batch | None = None,
        rejected: int = 0,
        rejects: str | None = None,
        writer: str | None = None,
        basis: Basis | None = None,
    ) -> Appended:
        """Append as `transitions.append` does, and recognise tokens of any age.

        Cost: one more blob when the interval is already written under a spilled token.
        Raises: as `transitions.append` and `apply`.
        """
        move = partial(
            transitions.append,
            token=token,
            lower=lower,
            upper=upper,
            batch=batch,
            rejected=rejected,
            rejects=rejects,
            writer=writer,
            basis=basis,
        )
        try:
            return self.apply(name, move)
        except (Conflict, InvalidRequest, Fenced):
            known = self.committed(name, token, upper)
            if known is None:
                raise
            return transitions.recognise(known, lower, upper)

    def committed(self, name: str, token: str, upper: int | None = None) -> Commit | None:
        """Return the commit under `token`, or None; callers ask before they do the work.

        `upper`, the end of the interval, saves reading ledger blobs that cannot have the token.
        """
        return ledger.find(self.stores.blob, self.load(name), token, upper, self._sleep)

    def _forget_sometimes(self, state: State) -> None:
        if state.seqno % FORGET_EVERY == 0:
            # Best effort: a later commit drops these as well. A damaged old state is an error for
            # its readers, not for the writer that has just committed.
            with suppress(Unavailable, Corrupt):
                self.forget(state.name)

    def _find(self, name: str) -> State | None:
        found = self._documents.head(name)
        return None if found is None else found.state

    def _commit(self, name: str, expected: int | None, seqno: int, data: bytes) -> bool:
        """Return whether a document became the newest, even if another has followed it.

        Raises: Unavailable when that cannot be determined.
        """
        key, new = state_key(name), Versioned(seqno, data)
        consensus, lost = self.stores.consensus, False

        def propose() -> bool:
            nonlocal lost
            failed: Unavailable | None = None
            try:
                if consensus.compare_and_set(key, expected, new):
                    return True
            except Unavailable as error:
                if error.certain:
                    raise
                lost, failed = True, error
            # Also after a plain refusal: if the network repeated the request, this is the second
            # reply.
            there = consensus.scan(key, seqno, 1)
            if failed is not None and not there:
                raise failed
            return there == [new]

        try:
            return self._retry(propose)
        except Unavailable as error:
            if not lost:
                raise
            cause = {"reason": error.message, **error.details}
            raise Unavailable(
                "the database of states fails, and it is not known whether a change was made",
                certain=False,
                shard=name,
                seqno=seqno,
                **cause,
                cure="mend it, then run again: a change that was made is recognised",
            ) from error

    def _retry(self, call: Callable[[], R]) -> R:
        return retry(call, sleep=self._sleep)
