"""Random operations with failing stores and sweeps in between: what may be read stays readable.

Appends by slow writers that upload now and commit later or never, merges, rewritten manifests,
holds, readers that planned a while ago, clocks that jump; at any store call a failure or a crash.
In the end all garbage goes.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strata import gc
from strata.compact import compact_shard
from strata.errors import Corrupt, Fenced, InvalidRequest, Unavailable
from strata.gc import live
from strata.gc.reach import reach
from strata.machine import ledger as commits
from strata.machine.ledger import ledger_keys
from strata.machine.machine import Machine
from strata.model.settings import CompactSettings
from strata.state import transitions
from strata.state.holds import hold, release
from strata.state.state import Batch, State
from strata.store.open import Stores
from tests.support.failing_stores import CrashError, Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.support.garbage import HOUR, SETTINGS, World
from tests.twins.reach import reached

OUTCOMES = st.lists(st.sampled_from([*Outcome, *[Outcome.WORKS] * 6]), max_size=12)
PICK = st.integers(0, 2**16)
SMALL_LEDGER = [
    (commits, "COMMITS_MAX", 3),
    (commits, "COMMITS_SPILLED", 2),
    (commits, "FAN", 2),
    (transitions, "COMMITS_SPILLED", 2),
]


class GarbageLaw(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.small = pytest.MonkeyPatch()  # the ledger of old commits folds all the time
        for where, name, value in SMALL_LEDGER:
            self.small.setattr(where, name, value)
        self.faults = Faults(sleep=lambda _: None)
        self.world = World(wrap=self.wrapped)
        self.uploads: list[tuple[State, Batch, list[int]]] = []  # of writers that sleep
        self.times: dict[int, int] = {}  # id -> time of its batch
        self.readers: list[tuple[State, list[int], int, str]] = []  # plan, rows, until, hold
        self.next = 0
        for _ in range(2):  # of an old generation: garbage as soon as it is merged
            self.append(2, [])
        self.world.settle()

    def wrapped(self, stores: Stores) -> Stores:
        blob = FaultyBlob(stores.blob, self.faults)
        consensus = FaultyConsensus(stores.consensus, self.faults)
        return Stores(blob, consensus, stores.clock, stores.settings)

    def insist(self, outcomes: list[Outcome], request: Callable[[], Any]) -> None:
        """Do it while stores fail; if it dies or gives up, do it again."""
        self.faults.plan(outcomes)
        try:
            request()
            return
        except (Unavailable, CrashError, Corrupt):  # corrupt: a read ended early, and that is seen
            pass
        finally:
            self.faults.plan([])
        request()

    def new_ids(self, count: int) -> list[int]:
        self.next += count
        return [*range(self.next - count, self.next)]

    @rule(count=st.integers(0, 3), outcomes=OUTCOMES)
    def append(self, count: int, outcomes: list[Outcome]) -> None:
        ids, token = self.new_ids(count), f"append-{self.next}-{self.world.state.seqno}"
        began = self.world.state

        def request() -> None:
            self.world.commit(self.world.write(ids, began), ids, token)

        self.insist(outcomes, request)
        # A try that died after its commit is in the shard, though nobody counted it.
        self.world.ids = [*dict.fromkeys([*self.world.ids, *ids])]
        self.times.update(dict.fromkeys(ids, max(began.upper, 0)))

    @rule(count=st.integers(1, 3))
    def upload(self, count: int) -> None:
        """A writer that falls asleep before its commit."""
        ids, began = self.new_ids(count), self.world.state
        self.uploads.append((began, self.world.write(ids, began), ids))

    @precondition(lambda self: self.uploads)
    @rule(pick=PICK)
    def wake(self, pick: int) -> None:
        """It commits now, unless others were faster or its blobs may be gone."""
        began, batch, ids = self.uploads.pop(pick % len(self.uploads))
        try:
            self.world.commit(batch, ids, token=f"slow-{ids[0]}")
        except (InvalidRequest, Fenced):
            return
        self.times.update(dict.fromkeys(ids, max(began.upper, 0)))

    @rule(history_ms=st.sampled_from([None, 5, 30]), full=st.booleans(), outcomes=OUTCOMES)
    def compact(self, history_ms: int | None, full: bool, outcomes: list[Outcome]) -> None:
        options = replace(SETTINGS, compact=CompactSettings(history_ms=history_ms))
        self.insist(outcomes, lambda: compact_shard(self.world.stores, "s", options, full=full))

    @rule(outcomes=OUTCOMES)
    def backfill(self, outcomes: list[Outcome]) -> None:
        self.insist(outcomes, self.world.backfill)

    @rule(budget=st.sampled_from([0, 30, 1000]), outcomes=OUTCOMES)
    def trim(self, budget: int, outcomes: list[Outcome]) -> None:
        self.insist(outcomes, partial(self.world.trim, budget))

    @rule(hours=st.sampled_from([0, 0.5, 1, 1, 3]), outcomes=OUTCOMES)
    def sweep(self, hours: float, outcomes: list[Outcome]) -> None:
        self.world.now_ms += int(hours * HOUR)
        self.insist(outcomes, lambda: gc.collect(self.world.stores, "s", SETTINGS))

    @rule(held=st.booleans(), merged=st.booleans())
    def plan_a_read(self, held: bool, merged: bool) -> None:
        """With a hold it may take five hours, without one a grace; its parts may be merged away."""
        name, until = "", self.world.now_ms + HOUR
        if held:
            name, until = f"reader-{self.world.state.seqno}", self.world.now_ms + 5 * HOUR
            since = max(self.world.state.since, 0)
            take = partial(hold, name=name, since=since, lease_ms=5 * HOUR)
            Machine(self.world.inner).apply("s", take)
        self.readers.append((self.world.state, sorted(self.world.ids), until, name))
        if merged:
            self.compact(None, True, [])

    @precondition(lambda self: self.readers)
    @rule(pick=PICK)
    def finish_a_read(self, pick: int) -> None:
        planned, rows, until, name = self.readers.pop(pick % len(self.readers))
        if self.world.now_ms < until:
            assert self.world.read(planned) == rows
        if name:
            Machine(self.world.inner).apply("s", partial(release, name=name))

    @invariant()
    def what_can_be_read_is_right(self) -> None:
        state = self.world.state
        for as_of in {
            max(state.since, 0),
            (max(state.since, 0) + state.upper) // 2,
            state.upper - 1,
        }:
            if max(state.since, 0) <= as_of < state.upper:
                there = sorted(i for i in self.world.ids if self.times[i] <= as_of)
                assert self.world.read(state, as_of) == there

    @invariant()
    def whoever_planned_lately_can_still_read(self) -> None:
        for planned, rows, until, _ in self.readers:
            if self.world.now_ms < until:
                assert self.world.read(planned) == rows

    @invariant()
    def what_states_reach_is_what_each_of_them_names(self) -> None:
        machine, head = Machine(self.world.inner), self.world.state
        for fence in {head.fence, 0}:
            found = reach(machine, head, fence, self.world.now_ms)
            twin = reached(machine, head, fence, self.world.now_ms)
            assert (found.live, dict(found.held), found.states) == twin
            with pytest.MonkeyPatch.context() as patch:  # as in a shard of very many parts
                patch.setattr(live, "NAMES_MAX", 2)
                patch.setattr(live, "AT_ONCE", 3)
                many = reach(machine, head, fence, self.world.now_ms)
            stored = [info.key for info in self.world.inner.blob.list("")]
            asked = [*twin[0], *twin[1], *stored]
            assert [*live.which_live(many.live, asked)] == [key in twin[0] for key in asked]
            assert [key in many.live for key in asked] == [key in twin[0] for key in asked]
            assert (dict(many.held), many.states, many.lost) == (*twin[1:], found.lost)

    def teardown(self) -> None:
        self.faults.plan([])
        for *_, name in self.readers:
            if name:
                Machine(self.world.inner).apply("s", partial(release, name=name))
        self.world.settle()
        self.world.check()
        named = {b.manifest for b in self.world.state.batches if b.manifest}
        assert set(self.world.stored("parts", "manifests")) == named | {*self.world.state_parts()}
        self.small.undo()
        ledger = {*ledger_keys(self.world.blob, self.world.state.ledger)}
        stored = {*self.world.stored("ledger")}
        assert ledger <= stored
        assert len(stored - ledger) <= 2  # what the next commit spills, and what it folds


TestGarbage = GarbageLaw.TestCase
TestGarbage.settings = settings(
    max_examples=max(6, settings().max_examples // 5), stateful_step_count=20
)
