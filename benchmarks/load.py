"""Everything at once for a while: `python -m benchmarks.load --minutes 20` (`make load`).

Processes of the engine, no Spark: writers that update keys (a retraction and an addition each) at
a pace (`--pace`: batches a second of each; 0: as fast as they can) and pay their debt of merges as
ingest does, a compactor that also sweeps garbage away for good, a validator that checks
every part of a shard, readers that read with and without a filter. After each read the sum of all
diffs must be the number of keys: a lost, doubled or half-seen update is an error. Some writes go
to another writer's shard and may lose the race.

Watched while it runs: the sizes of states, the database, manifests, parts, parts that no state
names, and each process's memory; what is in the last quarter half as much again as in the second
is an error as well. So that everything turns over some times in 20 minutes, what takes days
elsewhere takes half a minute here: grace, history, the lease of readers. Shards begin with as many
empty commits and verdict tables as are kept, or these would grow for an hour.
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.watched import report, shard_name, sizes
from strata import gc
from strata.audit.run import Scope, validate_shard
from strata.compact import compact_shard, pay_debt
from strata.decide.plan import plan_read
from strata.errors import Conflict, Fenced, InvalidRequest, StrataError
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.gc.sweep import purge
from strata.machine.machine import KEEP, Machine
from strata.machine.writer_lease import Lease
from strata.model.runner import serial
from strata.model.settings import (
    CompactSettings,
    GcSettings,
    ReadSettings,
    Settings,
    StoreSettings,
)
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.read.scan import scan
from strata.shard import Shard
from strata.state.rollout import VERDICTS_MAX, record_verdicts
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores, open_stores
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates

KEYS: Final = 400  # of each shard: they are all there after its first batch, and stay
CHANGED: Final = 60  # of them in a batch
BATCH_MS: Final = 1_000  # of the shard's own time
HISTORY_MS: Final = 20 * BATCH_MS
STRAY: Final = 0.05  # share of the writes that go to a shard of another writer
WATCH_S: Final = 10.0
COMMITS: Final = KEEP + 4  # that a shard begins with, all empty: as many states as are kept
VERDICT_BYTES: Final = 7_000  # of a verdict table, about
SETTINGS: Final = Settings(
    read=ReadSettings(hold_ms=30_000),
    compact=CompactSettings(history_ms=HISTORY_MS),
    gc=GcSettings(grace_ms=30_000, aside_days=0, reject_days=0, verdict_days=0),
)


@dataclass
class Work:
    """What a process needs, and where it reports."""

    store: StoreSettings
    shards: int
    writers: int
    number: int
    until: float  # on the system's monotonic clock, which all processes share
    pace: float  # batches a second of a writer at most; 0: no limit
    told: "Queue[tuple[str, str, float]]"
    draw: random.Random = field(init=False)
    stores: Stores = field(init=False)
    machine: Machine = field(init=False)

    def begin(self) -> None:
        """Open the stores, in the process that uses them."""
        self.draw = random.Random(self.number)
        self.stores = open_stores(self.store)
        self.machine = Machine(self.stores)

    def turns(self) -> Iterator[int]:
        """Count until the time is over."""
        for turn in count():
            if time.monotonic() > self.until:
                return
            yield turn


def writer(work: Work, timed: Callable[[str], Any]) -> None:
    """Update some keys of one shard after another."""
    for turn in work.turns():
        began = time.monotonic()
        mine = range(work.number % work.writers, work.shards, work.writers)
        shard = mine[turn % len(mine)]
        if work.draw.random() < STRAY:
            shard = work.draw.randrange(work.shards)
        try:
            with timed("append"):
                append(work, shard_name(shard), turn)
            with timed("pay debt"):
                pay(work, shard_name(shard))
        except (Conflict, Fenced, InvalidRequest) as error:
            if isinstance(error, InvalidRequest) and "upper" not in str(error):
                raise
            work.told.put(("race", type(error).__name__, 1.0))
        if work.pace:
            time.sleep(max(0.0, began + 1 / work.pace - time.monotonic()))


def pay(work: Work, name: str) -> None:
    """Merge what is due if too many runs wait, as an ingest does after its commit."""
    pay_debt(work.stores, name, SETTINGS, lease=Lease(work.machine, name, "debt"))


def append(work: Work, name: str, turn: int) -> None:
    """Write and commit one batch: new values for some keys, their old ones retracted."""
    with Lease(work.machine, name, f"load-{work.number}-{turn}"):
        state = work.machine.load(name)
        lower = max(state.upper, 0)
        upper, generation = lower + BATCH_MS, state.generation
        table = changes(state, lower)
        parts = write_parts(
            work.stores.blob,
            keys.part_prefix(name, generation),
            [consolidate(sort_updates(table, state.relation), state.relation)],
            state.relation,
            layout=state.spec.write_format,
            description=Description(lower, upper, MIN_TIME),
            part_bytes=state.spec.part_bytes,
            row_group_bytes=state.spec.group_bytes,
            stats_spec=state.spec.stats,
        )
        batch = write_batch(work.stores.blob, name, parts, lower, upper, MIN_TIME, generation)
        token = f"w{work.number}-{turn}-{lower}"
        work.machine.append(name, token=token, lower=lower, upper=upper, batch=batch)


def changes(state: State, lower: int) -> pa.Table:
    """Return the batch that begins at `lower`; a key's value follows from its last batch.

    Which keys a batch changes follows from its time alone: so each writer knows what is there.
    """
    first = lower == 0
    step = lower // BATCH_MS
    chosen = np.arange(KEYS) if first else (np.arange(CHANGED) + step * CHANGED) % KEYS
    ids, values, diffs = [], [], []
    for key in chosen.tolist():
        before = last_change(key, step)
        if not first:
            ids, values, diffs = [*ids, key], [*values, before], [*diffs, -1]
        ids, values, diffs = [*ids, key], [*values, step], [*diffs, 1]
    texts = [f"{key:05}-{value:09}-{'x' * 40}" for key, value in zip(ids, values, strict=True)]
    times = [lower] * len(ids)
    return pa.Table.from_arrays(
        [pa.array(ids, pa.int64()), pa.array(texts), pa.array(times), pa.array(diffs)],
        schema=updates_schema(state.relation),
    )


def last_change(key: int, step: int) -> int:
    """Return the last batch before `step` that changed a key."""
    for before in range(step - 1, 0, -1):
        if (key - before * CHANGED) % KEYS < CHANGED:
            return before
    return 0


def compactor(work: Work, timed: Callable[[str], Any]) -> None:
    """Merge what is due, shard after shard; sweep each now and then."""
    for turn in work.turns():
        name = shard_name(turn % work.shards)
        lease = Lease(work.machine, name, "compact")
        with timed("compact"):
            try:
                compact_shard(work.stores, name, SETTINGS, lease=lease)
            except Fenced:
                work.told.put(("race", "Fenced", 1.0))
        with timed("sweep"):
            gc.collect(work.stores, name, SETTINGS)
        if turn % work.shards == 0:
            purge(work.stores, SETTINGS)


def validator(work: Work, timed: Callable[[str], Any]) -> None:
    """Check the format of every part of one shard after another."""
    for turn in work.turns():
        name = shard_name((turn * 7) % work.shards)
        with timed("validate"):
            scope = Scope(f"load-{turn}")
            report = validate_shard(work.stores, name, [], _no_filter, serial, scope)
        if report.mismatches:
            raise AssertionError(f"{name}: {report.mismatches[:3]}")


def _no_filter(*_: Any) -> Any:
    raise AssertionError("there is no filter to judge")


def reader(work: Work, timed: Callable[[str], Any]) -> None:
    """Read shards whole, and some keys of them; the diffs must add up."""
    below = Call("less_than", (Column(1, "id", "bigint"), Literal(40, "bigint")), "boolean")
    filter = Filter(below, "id < 40", 0, 0)
    for turn in work.turns():
        name = shard_name(work.draw.randrange(work.shards))
        shard = Shard(work.stores, name, SETTINGS.read)
        if shard.state().upper <= 0:
            continue
        if turn % 2:
            with timed("read"):
                found = sum(_sum(batch) for batch in shard.scan(consolidate=True))
        else:
            with timed("read, filter"):
                found = _filtered(work, name, filter)
        wanted = KEYS if turn % 2 else 40
        if found != wanted:
            raise AssertionError(f"{name}: the diffs are {found}, not {wanted}")


def _filtered(work: Work, name: str, filter: Filter) -> int:
    from strata.machine.reader_hold import held_state, kept_while

    state = held_state(work.stores, name, SETTINGS.read)
    plan = plan_read(work.stores, state, filter=filter, mode="on")
    rows = scan(work.stores, state, plan, consolidate=True)
    kept = kept_while(work.stores, state, SETTINGS.read, "load", rows)
    found = 0
    for batch in kept:
        ids = batch.column("id").to_numpy()
        found += int(batch.column("d").to_numpy()[ids < 40].sum())
    return found


def _sum(batch: pa.RecordBatch) -> int:
    return int(batch.column("d").to_numpy().sum())


class Timed:
    """The duration of something, sent to the watching process."""

    def __init__(self, work: Work, name: str) -> None:
        """Begin at `with`."""
        self._work, self._name = work, name

    def __enter__(self) -> None:
        """Begin."""
        self._began = time.perf_counter()

    def __exit__(self, kind: object, *_: object) -> None:
        """End."""
        if kind is None:
            seconds = time.perf_counter() - self._began
            self._work.told.put(("time", self._name, seconds))


def run(work: Work, role: Callable[..., None]) -> None:
    """Be one of the processes; an error ends it and is sent to the watching process."""
    work.begin()
    try:
        role(work, partial(Timed, work))
    except (StrataError, AssertionError, OSError) as error:
        trace = traceback.format_exc(limit=-4)
        work.told.put(("error", f"{role.__name__}: {error!r} {error}\n{trace}", 1.0))


def main() -> int:
    """Run it and print what was measured; exit 1 after an error or growth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--shards", type=int, default=50)
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--pace", type=float, default=1.0, help="batches a second of a writer")
    parser.add_argument("--blob", help="address of a blob store; default: a folder")
    parser.add_argument("--consensus", help="address of a database; default: SQLite")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="strata-load-") as folder:
        store = StoreSettings(
            asked.blob or f"file://{folder}/blob",
            asked.consensus or f"sqlite:///{folder}/consensus.db",
        )
        return load(store, asked, None if asked.consensus else Path(folder))


def load(store: StoreSettings, asked: argparse.Namespace, database: Path | None) -> int:
    """Create the shards, start everybody, watch until they end. `database`: SQLite's folder."""
    stores = open_stores(store)
    columns = [{"name": "id", "type": "int64"}, {"name": "text", "type": "string"}]
    for number in range(asked.shards):
        spec = {"name": shard_name(number), "columns": columns, "key": ["id"], "part_bytes": 20_000}
        create(stores, spec)
    context = multiprocessing.get_context("spawn")
    told: Any = context.Queue()
    roles = [writer] * asked.writers + [compactor, validator] + [reader] * asked.readers
    until = time.monotonic() + 60 * asked.minutes
    started = []
    for number, role in enumerate(roles):
        work = Work(store, asked.shards, asked.writers, number, until, asked.pace, told)
        started.append(context.Process(target=run, args=(work, role), name=role.__name__))
        started[-1].start()
    seen: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    samples: list[dict[str, float]] = []
    watched = [psutil.Process(process.pid) for process in started]
    while any(process.is_alive() for process in started):
        end = time.monotonic() + WATCH_S
        while time.monotonic() < end:
            drain(told, seen)
            time.sleep(0.2)
        samples.append(sizes(stores, asked.shards, database, watched))
    drain(told, seen)
    died = [f"{p.name} ended with {p.exitcode}" for p in started if p.exitcode]
    return report(seen, samples, died, asked)


def create(stores: Stores, spec: dict[str, Any]) -> None:
    """Create a shard that is empty, and remembers as many commits and verdicts as it ever will."""
    machine, name = Machine(stores), spec["name"]
    machine.create(parse_spec(spec))
    for at in range(-COMMITS, 0):
        machine.append(name, token=f"w0-0-{at}", lower=at, upper=at + 1)
    for number in range(VERDICTS_MAX):
        data = f"{name} {number}".encode().ljust(VERDICT_BYTES)
        key = keys.verdict_key(name, keys.content_hash(data))
        stores.blob.set(key, data)
        machine.apply(name, partial(record_verdicts, key=key, mismatch="", quarantine=()))


def drain(told: Any, seen: dict[str, dict[str, list[float]]]) -> None:
    """Take the messages that have come."""
    while not told.empty():
        kind, name, value = told.get()
        seen[kind][name].append(value)


if __name__ == "__main__":
    sys.exit(main())
