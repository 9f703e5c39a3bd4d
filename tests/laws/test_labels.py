"""Law: while a label stands, its time is read as it was, whatever compaction and since do.

A moment by the clock leads to the newest time that was readable then, by a list of all appends.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strata.compact import compact_shard
from strata.errors import InvalidRequest
from strata.machine import ledger
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.shard import Shard
from strata.state import transitions
from strata.state.transitions import advance_since
from tests.support.stored import append, create, memory_stores, settings
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "n", parse_type("int64")),), (1,), ())
NAMES = st.sampled_from(["a", "b", "c"])
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([1, 1, -1])), max_size=4
)
SMALL_LEDGER = [
    (ledger, "COMMITS_MAX", 3),
    (ledger, "COMMITS_SPILLED", 2),
    (ledger, "FAN", 2),
    (transitions, "COMMITS_SPILLED", 2),
]


class LabelLaw(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.small = pytest.MonkeyPatch()  # old commits are in the ledger
        for where, name, value in SMALL_LEDGER:
            self.small.setattr(where, name, value)
        self.now_ms = 1_000
        self.stores = replace(memory_stores(), clock=lambda: self.now_ms)
        create(self.stores, RELATION)
        self.shard = Shard(self.stores, "shard")
        self.written: list[tuple[int, int, int]] = []
        self.labels: dict[str, int] = {}
        self.appends: list[tuple[int, int]] = []  # walltime, upper

    def teardown(self) -> None:
        self.small.undo()

    @property
    def upper(self) -> int:
        return self.appends[-1][1] if self.appends else 0

    def expected(self, as_of: int) -> dict[int, int]:
        found: dict[int, int] = {}
        for n, t, d in self.written:
            if t <= as_of:
                found[n] = found.get(n, 0) + d
        return {n: d for n, d in found.items() if d}

    def read(self, as_of: Any) -> dict[int, int]:
        found: dict[int, int] = {}
        for rows in self.shard.scan(as_of=as_of):
            for n, d in zip(rows["n"].to_pylist(), rows["d"].to_pylist(), strict=True):
                found[n] = found.get(n, 0) + d
        return {n: d for n, d in found.items() if d}

    @rule(rows=ROWS, wait=st.integers(1, 50))
    def append(self, rows: list[tuple[int, int, int]], wait: int) -> None:
        self.now_ms += wait
        lower = self.upper
        new = [(n, lower + t, d) for n, t, d in rows]
        state = append(self.stores, "shard", lower, lower + 5, [table(RELATION, new)])
        self.written += new
        self.appends.append((state.walltime_ms, lower + 5))

    @precondition(lambda self: self.appends)
    @rule(name=NAMES, back=st.integers(0, 20))
    def set(self, name: str, back: int) -> None:
        time = self.upper - 1 - back
        since = self.shard.state().since
        if self.labels.get(name, time) != time or time < since:
            with pytest.raises(InvalidRequest):
                self.shard.tag(name, at=time)
            return
        assert self.shard.tag(name, at=time).time == time
        self.labels[name] = time

    @rule(name=NAMES)
    def take_away(self, name: str) -> None:
        assert self.shard.untag(name) == (self.labels.pop(name, None) is not None)

    @precondition(lambda self: self.appends)
    @rule(back=st.integers(0, 10), full=st.booleans())
    def compact(self, back: int, full: bool) -> None:
        self.now_ms += 1
        move = partial(advance_since, since=max(self.upper - back, 0))
        Machine(self.stores).apply("shard", move)
        compact_shard(self.stores, "shard", settings(history_ms=None), full=full)

    @invariant()
    def labels_are_read_as_their_times_were(self) -> None:
        assert {label.name: label.time for label in self.shard.tags()} == self.labels
        state = self.shard.state()
        assert all(state.since <= time for time in self.labels.values())
        for name, time in self.labels.items():
            assert self.read(name) == self.expected(time)

    @precondition(lambda self: self.appends)
    @rule(pick=st.integers(0, 1000))
    def look_at_the_clock(self, pick: int) -> None:
        moment = 990 + pick % (self.now_ms - 980)
        upper = max((u for walltime, u in self.appends if walltime <= moment), default=None)
        if upper is None or upper - 1 < self.shard.state().since:
            with pytest.raises(InvalidRequest):
                self.shard.plan(as_of=f"clock:{moment}")
        else:
            assert self.shard.plan(as_of=f"clock:{moment}").as_of == upper - 1


TestLabels = LabelLaw.TestCase
