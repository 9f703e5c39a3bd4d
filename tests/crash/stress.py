"""The program that is killed: random operations on one shard, on disk and SQLite.

    python -m tests.crash.stress FOLDER

It reads one JSON line a round from its standard input, forks a writer and some maintainers, kills
them all with SIGKILL after so many operations, or as the writer is in some store call, and answers
with their exit codes. To fork from a
process that has everything imported and compiled makes a kill cost its work, not its start.

The **writer** appends, ingests files, adds and drops columns, and reads back under a hold,
each change told to the expected-state file. What was under way when it was killed it repeats
first. **Maintainers** compact (and so move since), collect and trim statistics, sweep the garbage
away for good. None of them may change what is read, so they keep no account.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from strata import gc
from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.gc.sweep import purge
from strata.ingest.engine import ingest
from strata.machine import ledger
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.maintain.backfill import backfill_shard
from strata.maintain.trim import trim_shard
from strata.model.settings import CompactSettings, GcSettings, Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.parts.write import write_batch, write_parts
from strata.read.scan import scan
from strata.state import transitions
from strata.state.holds import hold, release
from strata.state.schema import AddColumn, DropColumn
from strata.state.state import State
from strata.store import keys
from strata.store.disk import DiskBlob
from strata.store.open import Stores, open_stores
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates
from tests.crash.expected import Log, Row
from tests.support.failing_stores import Faults, FaultyBlob, FaultyConsensus

T = TypeVar("T")

NAME: Final = "s"
SPEC: Final = parse_spec(
    {
        "name": NAME,
        "columns": [
            {"name": "id", "type": "int64", "nullable": False},
            {"name": "text", "type": "string"},
        ],
        "key": ["id"],
        "source": {"format": "jsonl"},
        "write_format": "both",
        "part_bytes": 3000,
    }
)
HISTORY_MS: Final = 150  # of the shard's own time, of which an append takes 10
PATIENCE_S: Final = 15.0  # with a writer that gets nowhere
LEASE_MS: Final = 3_000  # of readers and writers: it outlives its holder, as after a crash


def on_disk(root: Path, grace_ms: int = 1_000, history_ms: int | None = None) -> Settings:
    return Settings(
        StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/consensus.db", str(root)),
        compact=CompactSettings(history_ms=history_ms),
        gc=GcSettings(grace_ms=grace_ms),
    )


def create(root: Path) -> Stores:
    stores = open_stores(on_disk(root).store)
    Machine(stores).create(SPEC)
    return stores


def contents(stores: Stores, state: State, names: list[str], as_of: int) -> Counter[Row]:
    found: Counter[Row] = Counter()
    plan = plan_read(stores, state, as_of=as_of)
    for batch in scan(stores, state, plan):
        columns = [batch.column(name).to_pylist() for name in (*names, "d")]
        for *row, d in zip(*columns, strict=True):
            found[tuple(row)] += d
    return Counter({row: d for row, d in found.items() if d})


class Suicide(Faults):
    """The process kills itself at the store call of this number, before it or after it."""

    def __init__(self, at: int, after: bool) -> None:
        super().__init__()
        self.at, self.after, self.calls = at, after, 0

    def call(self, work: Callable[[], T], what: str) -> T:
        self.calls += 1
        if self.calls == self.at and not self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = work()
        if self.calls == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class Writer:
    """Appends, ingests, evolves and reads, for ever, or until a step of its stores."""

    def __init__(self, root: Path, seed: int, faults: Faults | None = None) -> None:
        self.root, self.draw = root, random.Random(seed)
        self.settings = on_disk(root)
        self.stores = open_stores(self.settings.store)
        if faults is not None:
            self.stores = replace(
                self.stores,
                blob=FaultyBlob(self.stores.blob, faults),
                consensus=FaultyConsensus(self.stores.consensus, faults),
            )
        self.machine = Machine(self.stores)
        self.log = Log(root / "expected.jsonl")
        self.expected, self.pending = self.log.load()

    def run(self) -> None:
        if self.pending is not None:
            self.carry_out(self.pending)
        while True:
            choice = self.draw.random()
            if choice < 0.25:
                self.read()
            else:
                operation = self.operation(choice)
                self.log.begin(operation)
                self.carry_out(operation)

    def operation(self, choice: float) -> dict[str, Any]:
        expected, number = self.expected, self.expected.operations
        if choice < 0.32 and len(expected.columns) < 3:
            return {"n": number, "op": "add", "column": f"c{number}", "default": number}
        if choice < 0.36 and expected.columns:
            return {"n": number, "op": "drop", "column": self.draw.choice([*expected.columns])}
        op = "ingest" if choice < 0.5 else "append"
        lower = expected.upper + self.draw.choice([0, 0, 0, 5])
        bounds = {"lower": lower, "upper": lower + 10}
        return {"n": number, "op": op, **bounds, "updates": self.updates(op, lower)}

    def updates(self, op: str, lower: int) -> list[Any]:
        """Return new rows, and retractions of rows that are there."""
        draw, expected = self.draw, self.expected
        found = [
            (
                {
                    name: draw.randrange(300) if name != "text" else draw.randbytes(8).hex()
                    for name in expected.names()
                },
                lower,
                1,
            )
            for _ in range(draw.choice([0, 1, 5, 40]))
        ]
        if op == "append":
            there = sorted(expected.contents(expected.upper))
            for row in draw.sample(there, min(len(there), draw.choice([0, 0, 10, 30]))):
                values = dict(zip(expected.names(), row, strict=True))
                found.append((values, lower + draw.randrange(10), -1))
        return found

    def carry_out(self, operation: dict[str, Any]) -> None:
        """Do it, again after it was fenced, and write down that it is done."""
        while True:
            try:
                getattr(self, f"do_{operation['op']}")(**operation)
                break
            except Fenced:
                continue  # a sweep went by twice meanwhile: its blobs may be gone
        self.log.done(operation)
        self.expected.apply(operation)

    def do_append(self, n: int, lower: int, upper: int, updates: list[Any], **_: Any) -> None:
        state = self.machine.load(NAME)
        schema = updates_schema(state.relation)
        columns = [[values[c.name] for values, _, _ in updates] for c in state.relation.columns]
        columns += [[t for _, t, _ in updates], [d for _, _, d in updates]]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=schema)
        parts = write_parts(
            self.stores.blob,
            keys.part_prefix(NAME, state.generation),
            [consolidate(sort_updates(table, state.relation), state.relation)],
            state.relation,
            layout=state.spec.write_format,
            description=Description(lower, upper, MIN_TIME),
            part_bytes=state.spec.part_bytes,
            row_group_bytes=state.spec.group_bytes,
            stats_spec=state.spec.stats,
        )
        batch = write_batch(self.stores.blob, NAME, parts, lower, upper, MIN_TIME)
        self.machine.append(NAME, token=f"t{n}", lower=lower, upper=upper, batch=batch)

    def do_ingest(self, n: int, lower: int, upper: int, updates: list[Any], **_: Any) -> None:
        file = self.root / f"in-{n}.jsonl"
        file.write_text("".join(json.dumps(values) + "\n" for values, _, _ in updates))
        ingest(
            self.stores,
            self.settings,
            NAME,
            paths=[str(file)],
            lower=lower,
            upper=upper,
            token=f"t{n}",
        )
        file.unlink()

    def do_add(self, column: str, default: int, **_: Any) -> None:
        if column not in self.machine.load(NAME).relation.by_name:
            change = AddColumn(column, parse_type("int64"), nullable=False, default=default)
            self.machine.evolve(NAME, change)

    def do_drop(self, column: str, **_: Any) -> None:
        if column in self.machine.load(NAME).relation.by_name:
            self.machine.evolve(NAME, DropColumn(column))

    def read(self) -> None:
        """Take a hold, plan, dawdle, read, and compare."""
        since = self.machine.load(NAME).since
        if since >= self.expected.upper - 1:
            return
        name = f"reader-{self.draw.randbytes(4).hex()}"
        take = partial(hold, name=name, since=max(since, 0), lease_ms=LEASE_MS)
        try:
            self.machine.apply(NAME, take)
        except InvalidRequest:
            return  # since has moved
        state = self.machine.load(NAME)
        as_of = self.draw.randrange(max(state.since, 0), state.upper)
        time.sleep(self.draw.choice([0, 0, 0.2]))
        found = contents(self.stores, state, self.expected.names(), as_of)
        assert found == self.expected.contents(as_of), f"a read at {as_of} gave other rows"
        self.machine.apply(NAME, partial(release, name=name))


class Maintainer:
    """Does what must change nothing, for ever."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.draw = root, random.Random(seed)
        self.stores = open_stores(on_disk(root).store)

    def run(self) -> None:
        tasks: list[Callable[[], Any]] = [
            self.compact,
            self.compact,
            self.collect,
            self.collect,
            partial(backfill_shard, self.stores, NAME),
            self.trim,
        ]
        while True:
            try:
                self.draw.choice(tasks)()
            except (Conflict, Fenced):
                continue
            except Corrupt as error:
                # Two of them side by side, and a grace of a moment: one may sweep away what the
                # other still wanted to merge. Never what the newest state names.
                settings = on_disk(self.root)
                if "missing" not in str(error) and "could not be read" not in str(error):
                    raise
                if gc.find_leaks(self.stores, settings, [NAME]).missing:
                    raise

    def compact(self) -> None:
        settings = on_disk(self.root, history_ms=self.draw.choice([None, HISTORY_MS]))
        lease = Lease(Machine(self.stores), NAME, "compact", LEASE_MS)
        compact_shard(
            self.stores,
            NAME,
            settings,
            full=self.draw.random() < 0.3,
            lease=self.draw.choice([None, lease]),
        )

    def collect(self) -> None:
        settings = on_disk(self.root, grace_ms=self.draw.choice([100, 300, 1000]))
        gc.collect(self.stores, NAME, settings)
        assert isinstance(self.stores.blob, DiskBlob)
        # For good, but not what somebody is just writing.
        self.stores.blob.purge(self.stores.clock() - 2_000)

    def trim(self) -> None:
        trim_shard(self.stores, NAME, budget_bytes=self.draw.choice([0, 60, 1000]))


def forked(root: Path, work: Callable[[], None]) -> int:
    """Do the work in a new process; return its id. An error is exit code 3, and told in a file."""
    pid = os.fork()
    if pid:
        return pid
    code = 0
    try:
        work()
    except BaseException:
        with (root / "errors.txt").open("a") as file:
            file.write(traceback.format_exc())
        code = 3
    os._exit(code)


@dataclass(frozen=True)
class Round:
    """How long they work, and who dies how."""

    seed: int
    maintainers: int
    lines: int  # until the expected-state file has so many lines more: no excuse for slow machines
    seconds: float  # and so much longer
    step: int | None = None  # or until this store call of the writer, which dies in it
    after: bool = False  # the call was done


def round_of(root: Path, plan: Round) -> list[int]:
    """Let them work, kill them, and return their codes: -9 for who was killed."""
    log, patience = Log(root / "expected.jsonl"), time.monotonic() + PATIENCE_S
    wanted = log.lines() + plan.lines
    faults = None if plan.step is None else Suicide(plan.step, plan.after)
    children = [forked(root, lambda: Writer(root, plan.seed, faults).run())]
    for number in range(plan.maintainers):
        other = 1_000_003 * (number + 1) + plan.seed
        children.append(forked(root, partial(lambda s: Maintainer(root, s).run(), other)))
    dead, status = 0, 0
    while not dead and time.monotonic() < patience:
        if faults is None and log.lines() >= wanted:
            time.sleep(plan.seconds)
            break
        time.sleep(0.002)
        dead, status = os.waitpid(children[0], os.WNOHANG)
    left = children[1:] if dead else children
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    statuses = [status] * bool(dead) + [os.waitpid(pid, 0)[1] for pid in left]
    return [os.waitstatus_to_exitcode(each) for each in statuses]


def finish(root: Path) -> None:
    """Repeat what was under way last, and sweep until nothing dead is left."""
    writer = Writer(root, 0)
    if writer.pending is not None:
        writer.carry_out(writer.pending)
    let_leases_end(writer)
    settings = on_disk(root, grace_ms=0)
    settings = replace(settings, gc=replace(settings.gc, aside_days=0))
    for _ in range(3):
        gc.collect(writer.stores, NAME, settings)
    purge(writer.stores, settings)


def let_leases_end(writer: Writer) -> None:
    """Wait until no sweep heeds those any more who were killed with a hold or at writing."""
    state = writer.machine.load(NAME)
    leases = [lease.expires_ms or 0 for lease in (*state.holds, *state.writers)]
    left_ms = max(leases, default=0) - writer.stores.clock()
    time.sleep(max(left_ms + 1, 0) / 1000)


def warm(root: Path) -> None:
    """Import and compile what the children need, on a shard of its own."""
    folder = root / "warm"
    folder.mkdir()
    create(folder)
    writer, maintainer = Writer(folder, 0), Maintainer(folder, 0)
    for number, op in enumerate(("append", "ingest", "append", "append")):
        bounds = {"lower": 10 * number, "upper": 10 * number + 10}
        values = ({"id": number, "text": "x"}, 10 * number, 1)
        writer.carry_out({"n": number, "op": op, **bounds, "updates": [values]})
    writer.carry_out({"n": 4, "op": "add", "column": "c", "default": 1})
    writer.read()
    for task in (maintainer.trim, maintainer.compact, maintainer.collect):
        task()
    backfill_shard(maintainer.stores, NAME)
    compact_shard(maintainer.stores, NAME, on_disk(folder), full=True)


def remember_little() -> None:
    """Let so few commits stay in the state that old ones are looked for in the ledger."""
    ledger.COMMITS_MAX, ledger.FAN = 6, 3  # type: ignore[misc]
    ledger.COMMITS_SPILLED = transitions.COMMITS_SPILLED = 3  # type: ignore[misc]


def main() -> None:
    remember_little()
    root = Path(sys.argv[1])
    if "--finish" in sys.argv:
        finish(root)
        return
    warm(root)
    print("ready", flush=True)  # noqa: T201  the protocol
    for line in sys.stdin:
        codes = round_of(root, Round(**json.loads(line)))
        print(json.dumps(codes), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
