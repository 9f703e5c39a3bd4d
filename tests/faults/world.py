"""The whole engine on stores that fail, seeded: it writes, merges, sweeps and reads.

By default on memory stores; those of `tests.faults.real` are servers and disks that really fail.

One thread: others get their turn as whole operations between two store calls of one
(`Outcome.INTERRUPTED`), so that a seed gives the same run every time. Who crashes leaves all as it
was at that call; a writer begins its operation again under its token, maintainers do not. The clock
jumps, backwards too. What must be in the shard at the end the naive twin knows
(`tests.crash.expected`).
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from strata import gc
from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import Conflict, Corrupt, Fenced, StrataError, Unavailable
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.trim import trim_shard
from strata.model.settings import StoreSettings
from strata.read.scan import scan
from strata.state.state import State
from strata.store.memory import MemoryBlob
from strata.store.open import Stores, open_stores
from strata.store.retry import Patience
from tests.crash.expected import Expected, Row
from tests.crash.stress import HISTORY_MS, NAME, SPEC, Writer, contents, on_disk
from tests.faults.clients import close
from tests.support.failing_stores import (
    CrashError,
    Faults,
    FaultyBlob,
    FaultyConsensus,
    Outcome,
    seeded,
)

SHARES = {
    Outcome.REFUSED: 0.02,
    Outcome.REQUEST_LOST: 0.02,
    Outcome.REPLY_LOST: 0.03,
    Outcome.DUPLICATED: 0.03,
    Outcome.TORN: 0.004,
    Outcome.FULL: 0.02,
    Outcome.INTERRUPTED: 0.02,
    Outcome.CRASH_BEFORE: 0.006,
    Outcome.CRASH_AFTER: 0.006,
}
JUMPS_MS = (0, 0, -3_600_000, 3_600_000, 400)
MAINTENANCE = ("compact", "compact", "collect", "collect", "backfill", "trim")
FOREVER_MS = 4_000_000_000_000
_NUMBERS = count()


class _Memory:
    """What the expected-state file is to processes, in one."""

    def begin(self, operation: dict[str, Any]) -> None: ...
    def done(self, operation: dict[str, Any]) -> None: ...


class Actor(Writer):
    """The writer of the crash tests, on the stores of a world."""

    def __init__(self, root: Path, draw: random.Random, stores: Stores) -> None:
        self.root, self.draw, self.stores = root, draw, stores
        self.settings = replace(on_disk(root), store=stores.settings)
        self.machine = Machine(stores)
        self.log = _Memory()  # type: ignore[assignment]
        self.expected, self.pending = Expected(), None


class World:
    """One shard, its writer and its maintainers."""

    def __init__(
        self,
        root: Path,
        seed: int,
        *,
        blob: str = "",
        consensus: str = "",
        shares: Mapping[Outcome, float] = SHARES,
        jumps: Sequence[int] = JUMPS_MS,
        jumpy: float = 0.02,
    ) -> None:
        self.draw = random.Random(seed)
        self.now_ms, self.jumps, self.jumpy = 10_000_000, jumps, jumpy
        name = f"memory://whole-{next(_NUMBERS)}"
        settings = StoreSettings(blob or name, consensus or name, str(root))
        self.sound = open_stores(settings, clock=self.clock)
        self.faults = Faults(sleep=lambda _: None)
        self.stores = replace(
            self.sound,
            blob=FaultyBlob(self.sound.blob, self.faults),
            consensus=FaultyConsensus(self.sound.consensus, self.faults),
        )
        self.faults.interlude = self.interlude
        self.outcomes = seeded(seed, shares)
        self.settings = replace(on_disk(root), store=self.sound.settings)
        Machine(self.sound).create(SPEC)
        self.writer = Actor(root, self.draw, self.stores)
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def clock(self) -> int:
        """Return a time that goes on, stands still, or jumps, also back."""
        jump = self.draw.choice([0, 1, 1, 1, 5, 20]) if self.draw.random() >= self.jumpy else 0
        self.now_ms += jump or self.draw.choice(self.jumps)
        return self.now_ms

    def run(self, operations: int) -> None:
        for _ in range(operations):
            self.faults.plan(self.outcomes)
            self.one()
        self.faults.plan(())

    def one(self) -> None:
        if self.draw.random() < 0.55:
            self.write()
        else:
            self.maintain(self.draw.choice(MAINTENANCE))

    def write(self) -> None:
        """Let the writer do an operation, or go on with the one that was cut short."""
        writer = self.writer
        if writer.pending is None:
            choice = self.draw.random()
            if choice < 0.25:
                self.attempt("read", self.read)
                return
            writer.pending = writer.operation(choice)
        operation = writer.pending
        if self.attempt(operation["op"], partial(writer.carry_out, operation)):
            writer.pending = None

    def maintain(self, what: str) -> None:
        self.attempt(what, getattr(self, what))

    def interlude(self) -> None:
        """Do something else between two steps; what it meets is not this one's trouble."""
        left, self.faults.interlude = self.faults.interlude, lambda: None
        try:
            self.maintain(self.draw.choice(MAINTENANCE))
        finally:
            self.faults.interlude = left

    def attempt(self, what: str, work: Callable[[], Any]) -> bool:
        """Return whether it ended well; trouble that a store made is no error of the engine."""
        torn = self.faults.drawn[Outcome.TORN]
        try:
            work()
        except (Unavailable, CrashError, Conflict, Fenced) as error:
            self.failed[type(error).__name__] += 1
            return False
        except (Corrupt, AssertionError) as error:
            # Bytes were cut off on the way: to notice is right. And who works without a lease
            # may find what it wanted to merge swept away; never what the newest state names.
            if self.faults.drawn[Outcome.TORN] == torn and not self.gone(error):
                raise
            self.failed["Corrupt"] += 1
            return False
        self.done[what] += 1
        return True

    def gone(self, error: BaseException) -> bool:
        known = isinstance(error, Corrupt) and (
            "missing" in str(error) or "could not be read" in str(error)
        )
        return known and not self.missing()

    def missing(self) -> tuple[Any, ...]:
        return tuple(gc.find_leaks(self.sound, self.settings, [NAME]).missing)

    # ------------------------------------------------------------------ maintenance

    def read(self) -> None:
        """Read through the faults: the right rows, or an error."""
        state = self.writer.machine.load(NAME)
        if state.since < state.upper - 1 and self.writer.expected.upper == state.upper:
            as_of = self.draw.randrange(max(state.since, 0), state.upper)
            expected = self.writer.expected
            found = contents(self.stores, state, expected.names(), as_of)
            assert found == expected.contents(as_of), f"a read at {as_of} gave other rows"

    def compact(self) -> None:
        history_ms = self.draw.choice([None, HISTORY_MS])
        settings = replace(
            self.settings, compact=replace(self.settings.compact, history_ms=history_ms)
        )
        compact_shard(self.stores, NAME, settings, full=self.draw.random() < 0.3)

    def collect(self) -> None:
        grace_ms = self.draw.choice([0, 0, 5, 100])
        gc.collect(
            self.stores,
            NAME,
            replace(self.settings, gc=replace(self.settings.gc, grace_ms=grace_ms)),
        )
        self.purge()

    def purge(self) -> None:
        """Remove for good, at once, what was deleted."""
        blob = self.sound.blob
        if isinstance(blob, MemoryBlob):
            blob.deleted.clear()
        else:
            blob.purge(FOREVER_MS)  # type: ignore[attr-defined]

    def backfill(self) -> None:
        backfill_shard(self.stores, NAME)

    def trim(self) -> None:
        trim_shard(self.stores, NAME, budget_bytes=self.draw.choice([0, 60, 1000]))

    # ------------------------------------------------------------------ the laws

    def verify(self) -> None:
        """Check the laws 2, 3, 7 and 11 on stores that work."""
        writer = self.writer
        writer.stores, writer.machine = self.sound, Machine(self.sound)
        if writer.pending is not None:
            writer.carry_out(writer.pending)  # its retry
            writer.pending = None
        before = self.snapshots()  # laws 7 and 11
        assert self.missing() == ()
        compact_shard(self.sound, NAME, self.settings, full=True)
        assert self.snapshots() == before, "law 3: a compaction changed a snapshot"
        self.filtered()  # law 2
        for _ in range(3):
            gc.collect(
                self.sound, NAME, replace(self.settings, gc=replace(self.settings.gc, grace_ms=0))
            )
        self.purge()
        assert self.snapshots() == before, "law 11: a sweep took what is alive"

    def snapshots(self) -> dict[int, Counter[Row]]:
        """Return what can be read, when it is what the twin says."""
        state, expected = Machine(self.sound).load(NAME), self.writer.expected
        assert max(state.upper, 0) == expected.upper
        first, found = max(state.since, 0), {}
        for as_of in sorted({first, (first + state.upper) // 2, state.upper - 1}):
            if first <= as_of < state.upper:
                found[as_of] = contents(self.sound, state, expected.names(), as_of)
                assert found[as_of] == expected.contents(as_of), f"law 11: as of {as_of}"
        return found

    def filtered(self) -> None:
        state = Machine(self.sound).load(NAME)
        if state.upper <= max(state.since, 0):
            return
        column = state.relation.by_name["id"]
        for bound in (0, 50, 150, 299):
            expr = Call(
                "less_than", (Column(column.id, "id", "long"), Literal(bound, "long")), "boolean"
            )
            filter = Filter(expr, f"id < {bound}", 0, 0)
            skipped, whole = (self.below(state, bound, filter, mode) for mode in ("on", "off"))
            assert skipped == whole, f"law 2: id < {bound}"

    def below(self, state: State, bound: int, filter: Filter, mode: str) -> Counter[Row]:
        found: Counter[Row] = Counter()
        names = self.writer.expected.names()
        for batch in scan(
            self.sound, state, plan_read(self.sound, state, filter=filter, mode=mode)
        ):
            for *row, d in zip(*(batch.column(n).to_pylist() for n in (*names, "d")), strict=True):
                if row[0] < bound:
                    found[tuple(row)] += d
        return Counter({row: d for row, d in found.items() if d})


@contextmanager
def no_pauses() -> Iterator[None]:
    """Let nobody wait before a retry: nothing gets better by it here."""
    kept = Patience.pause_s
    Patience.pause_s = lambda self, attempt: 0.0  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Patience.pause_s = kept  # type: ignore[method-assign]


def whole_run(
    root: Path, seed: int, operations: int = 14, world: Callable[..., World] = World, **options: Any
) -> World:
    """Let a world of this seed go by, and check the laws; return it."""
    root.mkdir(parents=True, exist_ok=True)
    with no_pauses():
        made = world(root, seed, **options)
        try:
            made.run(operations)
            made.verify()
        except (AssertionError, StrataError) as error:
            error.add_note(f"seed {seed}; done {dict(made.done)}; failed {dict(made.failed)}")
            raise
        finally:
            close(made.sound.consensus)
    return made
