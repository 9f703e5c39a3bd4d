"""Law 7: shard and naive model agree under random commands, crashes, lost replies and zombies.

Manifests here are small JSON documents that hold the updates themselves, so that what can be
read from the shard is read from nothing but its state and its blobs. Every request may fail at
any store call; its maker then makes it again, as a scheduler does, with the same token. Writers
and compactors take as long as they like between their blobs and their commit, while the garbage is
swept: nothing that a state or a reader's hold needs is ever deleted. On memory, SQLite, PostgreSQL.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strata.errors import Corrupt, Fenced, InvalidRequest, Unavailable
from strata.machine import ledger
from strata.machine.documents import Documents
from strata.machine.ledger import commits_of, ledger_keys
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.time import MIN_TIME
from strata.state import rows, transitions, versions
from strata.state import spine as spines
from strata.state.codec import encode_state
from strata.state.generations import begin_sweep, finish, live_writers, register
from strata.state.holds import carry_on, hold, hold_critical, release, renew
from strata.state.spine import Applied, MergeRequest, MergeResult, NotApplied
from strata.state.state import Batch, RunSummary, State
from strata.state.transitions import advance_since, append, apply_merge, replace_manifests
from strata.store.keys import (
    content_hash,
    generation_of,
    ledger_level,
    manifest_key,
    shard_prefix,
    state_key,
)
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import Stores, open_stores
from tests.support.batches import spec
from tests.support.failing_stores import CrashError, Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.support.postgres import MissingError, fresh_database
from tests.twins.model import ModelShard, RefusedError

R = TypeVar("R")
Update = tuple[str, int, int]  # row, time, diff

ROWS = st.sampled_from("abcdef")
DIFFS = st.sampled_from([1, 1, 1, -1, 2])
UPDATE = st.tuples(ROWS, st.integers(0, 9), DIFFS)
# Large and small in turn, so that merges happen in the middle of the spine as well.
UPDATES = st.lists(UPDATE, max_size=2) | st.lists(UPDATE, min_size=6, max_size=16)
OUTCOMES = st.lists(st.sampled_from([*Outcome, *[Outcome.WORKS] * 5]), max_size=9)
PICK = st.integers(0, 2**16)
SMALL_LEDGER = [
    (ledger, "COMMITS_MAX", 3),
    (ledger, "COMMITS_SPILLED", 2),
    (ledger, "FAN", 2),
    (transitions, "COMMITS_SPILLED", 2),
]


def digest(updates: list[Update]) -> int:
    def number(row: str) -> int:
        return int.from_bytes(blake2b(row.encode(), digest_size=8).digest())

    return sum(diff * number(row) for row, _, diff in updates) % 2**64


class ShardLaw(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        # So little stays in the state that old tokens are looked for in the ledger.
        self.small = pytest.MonkeyPatch()
        for where, name, value in SMALL_LEDGER:
            self.small.setattr(where, name, value)
        self.now_ms = 1_000
        self.inner = self.open()
        self.faults = Faults(sleep=lambda _: None)
        self.stores = Stores(
            FaultyBlob(self.inner.blob, self.faults),
            FaultyConsensus(self.inner.consensus, self.faults),
            lambda: self.now_ms,
            self.inner.settings,
        )
        self.model = ModelShard()
        self.pending: list[MergeResult] = []
        self.slow: list[tuple[str, str | None, Batch, list[Update]]] = []
        self.owners: dict[str, str] = {}  # of holds that say whose they are
        self.knows: dict[str, str] = {}  # of the owners of a critical hold: what each saw last
        self.readers: dict[str, State] = {}  # of a live hold: what its reader has planned on
        self.seqno = 0
        self.names = 0

    def open(self) -> Stores:
        return Stores(MemoryBlob(), MemoryConsensus(), lambda: 0, StoreSettings())

    def machine(self) -> Machine:
        return Machine(self.stores, sleep=lambda _: None)

    def state(self) -> State:
        return self.machine().load("events")

    def insist(self, outcomes: list[Outcome], request: Callable[[], R]) -> R:
        """Make a request while stores fail; if it dies or gives up, make it again."""
        self.faults.plan(outcomes)
        try:
            return request()
        except (Unavailable, CrashError, Corrupt):  # corrupt: a read ended early, and that is seen
            pass
        finally:
            self.faults.plan([])
        return request()

    def fresh(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    # Batches whose manifest holds the updates themselves.

    def store(
        self, lower: int, upper: int, updates: list[Update], since: int, **more: Any
    ) -> Batch:
        if not updates:
            return Batch(lower, upper, since)
        runs = more.pop("runs", 1)
        data = json.dumps({"updates": updates, **more}).encode()
        key = manifest_key("events", content_hash(data), self.state().generation)
        self.stores.blob.set(key, data)
        sizes = [len(updates) // runs + (i < len(updates) % runs) for i in range(runs)]
        return Batch(
            lower,
            upper,
            since,
            len(updates),
            len(updates),
            runs,
            tuple(RunSummary(1, size, size, (1, 2)) for size in sizes),
            key,
            diffs_sum=sum(d for _, _, d in updates),
            digest=digest(updates),
        )

    def fetch(self, batch: Batch) -> list[Update]:
        if batch.manifest is None:
            return []
        data = self.inner.blob.get(batch.manifest)
        assert data is not None, "the state refers to a blob that is not there"
        return [(row, time, diff) for row, time, diff in json.loads(data)["updates"]]

    def read(self, state: State, as_of: int) -> dict[str, int]:
        total: Counter[str] = Counter()
        for batch in state.batches:
            for row, time, diff in self.fetch(batch):
                if max(time, state.since) <= as_of:
                    total[row] += diff
        return {row: diff for row, diff in total.items() if diff}

    def merge(self, request: MergeRequest) -> MergeResult:
        total: Counter[tuple[str, int]] = Counter()
        for batch in request.batches:
            for row, time, diff in self.fetch(batch):
                total[row, max(time, request.since)] += diff
        updates = [(row, time, diff) for (row, time), diff in sorted(total.items()) if diff]
        new = self.store(request.lower, request.upper, updates, request.since)
        return MergeResult(request.id_lower, request.id_upper, request.manifests, new)

    # What users do.

    @initialize(outcomes=OUTCOMES)
    def create(self, outcomes: list[Outcome]) -> None:
        self.insist(outcomes, lambda: self.machine().create(spec()))

    @rule(
        updates=UPDATES,
        gap=st.sampled_from([0, 0, 0, 5]),
        runs=st.integers(1, 3),
        outcomes=OUTCOMES,
    )
    def append(self, updates: list[Update], gap: int, runs: int, outcomes: list[Outcome]) -> None:
        lower = max(self.model.upper, 0) + gap
        upper, token = lower + 10, self.fresh("token")
        real = [(row, lower + offset, diff) for row, offset, diff in updates]

        def request() -> Any:
            new = self.store(lower, upper, real, MIN_TIME, runs=min(runs, len(real) or 1))
            return self.machine().append("events", token=token, lower=lower, upper=upper, batch=new)

        self.insist(outcomes, request)
        self.model.append(token, lower, upper, real)

    @precondition(lambda self: self.model.tokens)
    @rule(pick=PICK, shift=st.sampled_from([0, 0, 0, 1]), outcomes=OUTCOMES)
    def append_again(self, pick: int, shift: int, outcomes: list[Outcome]) -> None:
        """A zombie with an old token, sometimes with another interval."""
        token = sorted(self.model.tokens)[pick % len(self.model.tokens)]
        lower, upper = self.model.tokens[token]
        upper += shift
        try:
            self.model.append(token, lower, upper, [])
        except RefusedError:
            self.refused(outcomes, token=token, lower=lower, upper=upper)
        else:
            again = self.insist(
                outcomes,
                lambda: self.machine().append("events", token=token, lower=lower, upper=upper),
            )
            assert again.already_committed

    @precondition(lambda self: self.model.upper > 0)
    @rule(back=st.integers(1, 30), outcomes=OUTCOMES)
    def append_over_what_is_written(self, back: int, outcomes: list[Outcome]) -> None:
        lower = self.model.upper - back
        self.refused(outcomes, token=self.fresh("zombie"), lower=lower, upper=lower + 40)

    def refused(self, outcomes: list[Outcome], **request: Any) -> None:
        try:
            self.insist(outcomes, lambda: self.machine().append("events", **request))
        except InvalidRequest:
            return
        raise AssertionError("an append was taken that must be refused")

    @rule(updates=UPDATES, token_first=st.booleans())
    def two_writers_race_for_an_interval(self, updates: list[Update], token_first: bool) -> None:
        """Between the load and the commit of one, the other commits: one of them is refused."""
        lower = max(self.model.upper, 0)
        upper, slow, fast = lower + 10, self.fresh("slow"), self.fresh("fast")
        real = [(row, lower + offset, diff) for row, offset, diff in updates]
        new, raced = self.store(lower, upper, real, MIN_TIME), []

        def overtaken(state: State, now_ms: int) -> Any:
            if not raced:
                raced.append(1)
                self.machine().append("events", token=fast, lower=lower, upper=upper, batch=new)
            return append(state, now_ms, token=slow, lower=lower, upper=upper, batch=new)

        try:
            self.machine().apply("events", overtaken)
        except InvalidRequest as error:
            assert "already written" in error.message  # noqa: PT017  the other outcome is below
            self.model.append(fast, lower, upper, real)
        else:
            raise AssertionError("both writers were told that the interval is theirs")

    # Slow ones: their blobs are there, their commit comes whenever it comes.

    @rule(updates=UPDATES, leased=st.booleans(), lease_ms=st.integers(1, 200))
    def begin_to_write(self, updates: list[Update], leased: bool, lease_ms: int) -> None:
        lower, name = max(self.model.upper, 0), self.fresh("slow")
        if not updates:
            return
        if leased:
            self.machine().apply("events", partial(register, name=name, lease_ms=lease_ms))
        real = [(row, lower + offset, diff) for row, offset, diff in updates]
        new = self.store(lower, lower + 10, real, MIN_TIME)
        self.slow.append((name, name if leased else None, new, real))

    @precondition(lambda self: self.slow)
    @rule(pick=PICK, outcomes=OUTCOMES)
    def commit_at_last(self, pick: int, outcomes: list[Outcome]) -> None:
        token, writer, new, real = self.slow.pop(pick % len(self.slow))
        state = self.state()
        alive = writer is None or any(w.name == writer for w in live_writers(state, self.now_ms))
        stale = generation_of(str(new.manifest)) < state.fence
        assert not (writer and alive and stale), "the fence has passed a live writer"
        try:
            self.insist(
                outcomes,
                lambda: self.machine().append(
                    "events",
                    token=token,
                    lower=new.lower,
                    upper=new.upper,
                    batch=new,
                    writer=writer,
                ),
            )
        except Fenced:
            assert stale or not alive
        except InvalidRequest:
            assert new.lower < self.model.upper
        else:
            assert alive
            assert not stale or new.manifest in {b.manifest for b in state.batches}
            self.model.append(token, new.lower, new.upper, real)
        if writer:
            self.machine().apply("events", partial(finish, name=writer))

    @rule(grace_ms=st.sampled_from([0, 0, 30]), outcomes=OUTCOMES)
    def sweep(self, grace_ms: int, outcomes: list[Outcome]) -> None:
        """Collect as docs/reference/state.md says: behind the fence, named by no stored state."""
        fence = self.insist(
            outcomes,
            lambda: self.machine().apply("events", partial(begin_sweep, grace_ms=grace_ms)),
        )
        named = {b.manifest for s in self.machine().states("events") for b in s.batches}
        for info in list(self.inner.blob.list(shard_prefix("events") + "manifests/")):
            if generation_of(info.key) < fence and info.key not in named:
                self.inner.blob.delete(info.key)

    @rule(sweeps=st.integers(0, 3), leased=st.booleans(), restless=st.booleans(), outcomes=OUTCOMES)
    def a_slow_writer(
        self, sweeps: int, leased: bool, restless: bool, outcomes: list[Outcome]
    ) -> None:
        """What the rules around it do by chance, at once: blobs, sweeps, and then the commit."""
        known = len(self.slow)
        self.begin_to_write([("a", 0, 1)], leased, 50)
        for _ in range(sweeps):
            self.now_ms += 30 * restless
            self.forget(1, 0, [])
            self.sweep(0, [])
        self.commit_at_last(known, outcomes)

    @precondition(lambda self: self.model.upper > 0)
    @rule(sweeps=st.integers(0, 3), outcomes=OUTCOMES)
    def a_long_reader(self, sweeps: int, outcomes: list[Outcome]) -> None:
        self.hold(1, 1000)
        self.append([("b", 0, 1)], 0, 1, [])
        self.merge_something(0, True, [])
        self.apply_a_result(len(self.pending) - 1, outcomes)
        for _ in range(sweeps):
            self.forget(1, 0, [])
            self.sweep(0, [])
        self.what_readers_hold_is_there()

    @rule(keep=st.integers(1, 6), keep_ms=st.sampled_from([0, 20]), outcomes=OUTCOMES)
    def forget(self, keep: int, keep_ms: int, outcomes: list[Outcome]) -> None:
        self.insist(outcomes, lambda: self.machine().forget("events", keep=keep, keep_ms=keep_ms))

    @precondition(lambda self: self.model.upper > 0)
    @rule(calm=st.integers(0, 5), outcomes=OUTCOMES)
    def drop_and_revive(self, calm: int, outcomes: list[Outcome]) -> None:
        """Seldom. Nobody who began before can write into the next life."""
        if calm:
            return
        machine = self.machine()
        self.insist(outcomes, lambda: machine.drop("events", by="ann", reason="law", force=True))
        assert machine.names() == []
        for refused in (machine.load, lambda _: machine.create(spec())):
            try:
                refused("events")
            except InvalidRequest as error:
                assert "dropped" in error.message  # noqa: PT017
            else:
                raise AssertionError("a dropped shard was used")
        self.insist(outcomes, lambda: machine.create(spec(), revive=True))
        self.model, self.readers = ModelShard(), {}

    # What compaction does.

    @rule(pick=PICK, full=st.booleans(), outcomes=OUTCOMES)
    def merge_something(self, pick: int, full: bool, outcomes: list[Outcome]) -> None:
        state = self.state()
        everything = spines.full_request(state.spine, state.since, force=True)
        due = spines.requests(state.spine, state.since)
        if full and everything is not None:
            due = [everything]
        if due:
            request = due[pick % len(due)]
            self.pending.append(self.insist(outcomes, lambda: self.merge(request)))

    @rule()
    def compact(self) -> None:
        """Do at once what is due, as a job does when nothing goes wrong."""
        state = self.state()
        for request in spines.requests(state.spine, state.since):
            result = self.merge(request)
            done = self.machine().apply("events", partial(apply_merge, result=result))
            assert done == Applied(already=False)
        assert spines.requests(self.state().spine, 0) == [] or self.shrunk(state)

    def shrunk(self, before: State) -> bool:
        """Return whether consolidation has made slots smaller, so that they joined others."""
        return sum(b.updates for b in self.state().batches) < sum(b.updates for b in before.batches)

    @precondition(lambda self: self.pending)
    @rule(pick=PICK, outcomes=OUTCOMES)
    def apply_a_result(self, pick: int, outcomes: list[Outcome]) -> None:
        """Now or much later, once or again, after whatever else has happened."""
        result = self.pending[pick % len(self.pending)]
        before = self.state()
        there = {b.manifest for b in before.batches}
        try:
            done = self.insist(
                outcomes,
                lambda: self.machine().apply("events", partial(apply_merge, result=result)),
            )
        except Fenced:
            assert generation_of(str(result.batch.manifest)) < before.fence
            assert result.batch.manifest not in there
            return
        if isinstance(done, NotApplied):
            assert not set(result.replaced) <= there or result.batch.manifest is None
            assert self.state() == before or result.batch.manifest is None
            now = {b.manifest for b in self.state().batches} - {None}
            assert result.batch.manifest not in now, "it is in place, and its maker was told no"
        else:
            assert isinstance(done, Applied)
            # Unless the reply was lost and another try found it done.
            assert done.already or set(result.replaced) <= there

    @rule(pick=PICK, outcomes=OUTCOMES)
    def rewrite_a_manifest(self, pick: int, outcomes: list[Outcome]) -> None:
        """As a backfill of statistics does."""
        filled = [b for b in self.state().batches if b.manifest]
        if not filled:
            return
        old = filled[pick % len(filled)]
        updates, stamp = self.fetch(old), self.fresh("stats")

        def request() -> int:
            new = self.store(
                old.lower, old.upper, updates, old.since, runs=len(old.runs), stats=stamp
            )
            return self.machine().apply(
                "events", partial(replace_manifests, replacements={str(old.manifest): new})
            )

        self.insist(outcomes, request)
        assert old.manifest not in {b.manifest for b in self.state().batches}

    # What readers do.

    @precondition(lambda self: self.model.upper > 0)
    @rule(back=st.integers(-2, 60), outcomes=OUTCOMES)
    def advance(self, back: int, outcomes: list[Outcome]) -> None:
        since = self.model.upper - back
        call = partial(advance_since, since=since)
        try:
            wanted = self.model.advance_since(since, self.now_ms)
        except RefusedError:
            try:
                self.insist(outcomes, lambda: self.machine().apply("events", call))
            except InvalidRequest:
                return
            raise AssertionError("since went past upper") from None
        done = self.insist(outcomes, lambda: self.machine().apply("events", call))
        assert done.since == wanted

    @precondition(lambda self: self.model.upper > 0)
    @rule(back=st.integers(1, 60), lease_ms=st.integers(1, 50))
    def hold(self, back: int, lease_ms: int) -> None:
        since = max(self.model.since, self.model.upper - back)
        name = self.fresh("reader")
        done = self.machine().apply(
            "events", partial(hold, name=name, since=since, lease_ms=lease_ms)
        )
        self.model.holds[name] = (since, done.expires_ms)
        self.readers[name] = self.state()

    @precondition(lambda self: self.readers)
    @rule(pick=PICK, lease_ms=st.integers(1, 80))
    def read_on(self, pick: int, lease_ms: int) -> None:
        """A reader goes on to the newest state, and needs the old one no more."""
        name = sorted(self.readers)[pick % len(self.readers)]
        state = self.state()
        owner = self.owners.get(name, "")
        move = partial(renew, name=name, lease_ms=lease_ms, seqno=state.seqno, owner=owner)
        try:
            done = self.machine().apply("events", move)
        except Fenced:
            assert (self.model.holds[name][1] or 0) <= self.now_ms
            return
        self.model.holds[name] = (done.since, done.expires_ms)
        self.readers[name] = state

    @precondition(lambda self: self.readers)
    @rule(pick=PICK, lease_ms=st.integers(1, 80))
    def carry_on(self, pick: int, lease_ms: int) -> None:
        """A reader whose hold will end takes another one on the state that it has planned on."""
        first = sorted(self.readers)[pick % len(self.readers)]
        state, name = self.readers[first], self.fresh("long")
        move = partial(carry_on, name=name, seqno=state.seqno, lease_ms=lease_ms, owner=name)
        try:
            done = self.machine().apply("events", move)
        except Fenced:
            assert first not in self.model.holds or not self.alive(first)
            return
        self.model.holds[name] = (done.since, done.expires_ms)
        self.readers[name] = state
        self.owners[name] = name

    def alive(self, name: str) -> bool:
        return (self.model.holds[name][1] or 0) > self.now_ms

    @precondition(lambda self: self.model.upper > 0)
    @rule(who=st.sampled_from("ab"), back=st.integers(1, 60), look=st.booleans(), outcomes=OUTCOMES)
    def claim(self, who: str, back: int, look: bool, outcomes: list[Outcome]) -> None:
        """Two owners want one critical hold; who has not looked since the other took it is told."""
        there = self.owners["year end"] if "year end" in self.model.holds else ""
        expected = there if look else self.knows.get(who, "")
        since, opaque = max(self.model.since, self.model.upper - back), self.fresh(who)
        move = partial(
            hold_critical, name="year end", since=since, expected=expected, opaque=opaque
        )
        try:
            done = self.insist(outcomes, lambda: self.machine().apply("events", move))
        except Fenced:
            assert expected != there
            return
        assert expected == there
        before = self.model.holds.get("year end", (since, None))[0]
        assert (done.since, done.expires_ms) == (max(since, before), None)
        self.model.holds["year end"] = (done.since, None)
        self.owners["year end"] = self.knows[who] = opaque

    @precondition(lambda self: self.model.holds)
    @rule(pick=PICK)
    def release(self, pick: int) -> None:
        name = sorted(self.model.holds)[pick % len(self.model.holds)]
        opaque = self.owners.get(name, "")
        self.machine().apply("events", partial(release, name=name, opaque=opaque))
        del self.model.holds[name]
        self.readers.pop(name, None)

    @rule(step_ms=st.integers(-5, 40))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms

    # What must always hold.

    @invariant()
    def the_shard_is_the_model(self) -> None:
        if not self.machine().names():
            return
        state = self.state()
        assert (state.since, state.upper) == (self.model.since, self.model.upper)
        assert spines.problems(state.spine, MIN_TIME, state.upper) == []
        assert state.seqno >= self.seqno
        self.seqno = state.seqno
        for as_of in {state.since, (max(state.since, 0) + state.upper) // 2, state.upper - 1}:
            if state.since <= as_of < state.upper:
                assert self.read(state, as_of) == self.model.snapshot(as_of)

    @invariant()
    def what_readers_hold_is_there(self) -> None:
        for name in [*self.readers]:
            if name not in self.model.holds:  # it had expired, and since has moved on
                del self.readers[name]
            elif self.alive(name):
                for batch in self.readers[name].batches:
                    self.fetch(batch)

    @precondition(lambda self: self.seqno % 4 == 1)
    @invariant()
    def what_is_remembered_is_what_is_stored(self) -> None:
        """A state that was just committed is not decoded; decoding would give the same."""
        head = self.inner.consensus.head(state_key("events"))
        assert head is not None
        remembered = Documents(self.inner.consensus).head("events")
        versions.forget_known()
        rows._DECLARED.clear()
        stored = Documents(self.inner.consensus).head("events")
        assert remembered is not None
        assert stored == remembered
        assert encode_state(stored.state) == encode_state(remembered.state)

    def teardown(self) -> None:
        self.small.undo()
        if not self.seqno:
            return  # stopped before the shard was made
        newest = self.state().seqno
        states = self.machine().history("events", newest)
        assert [s.seqno for s in states] == list(range(newest, newest - len(states), -1))
        assert [s.seqno for s in self.machine().states("events")] == [
            s.seqno for s in reversed(states)
        ]
        walltimes = [s.walltime_ms for s in states]
        assert walltimes == sorted(set(walltimes), reverse=True)
        leaves = [
            key for key in ledger_keys(self.inner.blob, states[0].ledger) if not ledger_level(key)
        ]
        spilled = [c for leaf in leaves for c in commits_of(self.inner.blob, leaf)]
        told = [c.token for c in (*spilled, *states[0].commits)]
        assert sorted(told) == sorted(self.model.tokens)
        assert len(states[0].ledger) <= 2 * max(len(leaves), 1).bit_length()


class SqliteShardLaw(ShardLaw):
    def open(self) -> Stores:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name)
        return open_stores(StoreSettings(f"file://{path}/blob", f"sqlite:///{path}/consensus.db"))

    def teardown(self) -> None:
        super().teardown()
        self.inner.consensus.close()  # type: ignore[attr-defined]
        self.folder.cleanup()


class PostgresShardLaw(ShardLaw):
    def open(self) -> Stores:
        try:
            address = fresh_database()
        except MissingError as error:
            pytest.skip(str(error))
        return open_stores(StoreSettings(f"memory://{address}", address))

    def teardown(self) -> None:
        super().teardown()
        self.inner.consensus.close()  # type: ignore[attr-defined]


TestShardOnMemory = ShardLaw.TestCase
TestShardOnMemory.settings = settings(stateful_step_count=40)
TestShardOnSqlite = SqliteShardLaw.TestCase
TestShardOnSqlite.settings = settings(
    max_examples=max(5, settings.default.max_examples // 8), stateful_step_count=25
)
TestShardOnPostgres = PostgresShardLaw.TestCase
TestShardOnPostgres.settings = settings(
    max_examples=max(3, settings.default.max_examples // 20), stateful_step_count=20
)
