"""How many commits a second the state takes: `python -m benchmarks.commits`.

First what the machine can do: syncs a second of the disk, one after another, and commits a second
of the consensus store alone, without a state. PostgreSQL is the tests' own server, syncing, if it
is installed; `--postgres` names another. A rate on a busy machine is no measure; the CPU time of
the writers is, and how many syncs' time a commit takes.


Writers are processes with a machine of their own; a commit is a whole one: load, append, encode,
compare-and-set, of an empty interval, so that there is nothing to merge. First each writer has a
shard of its own, then all have one, and who lost a race tries again at once. Afterwards every
acknowledged commit is looked for: none may be lost or be there twice. Wall time, as the database's
syncs are most of it; CPU time of the writers besides.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection

from strata.errors import Conflict
from strata.machine.ledger import commits_of, ledger_keys
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.state.state import State
from strata.state.transitions import Appended, append
from strata.store.interface import Versioned
from strata.store.keys import ledger_level
from strata.store.open import open_stores
from tests.support.postgres import MissingError, Server

SPEC = {"columns": [{"name": "id", "type": "int64"}], "key": ["id"]}


def own(machine: Machine, shard: str, number: int, count: int) -> str:
    """Append at the writer's own time; return the token."""
    token = f"{shard}-{number}-{count}"
    machine.append(shard, token=token, lower=count, upper=count + 1)
    return token


def shared(machine: Machine, shard: str, number: int, count: int) -> str:
    """Append at the end of a shard beside other writers; return the token."""
    token = f"{shard}-{number}-{count}"

    def move(state: State, now_ms: int) -> tuple[State, Appended]:
        lower = max(state.upper, 0)
        return append(state, now_ms, token=token, lower=lower, upper=lower + 1)

    while True:
        with suppress(Conflict):
            machine.apply(shard, move)
            return token


def writer(
    store: StoreSettings, shard: str, number: int, work: Callable[..., str], pipe: Connection
) -> None:
    """Commit until a message comes; send the tokens and the CPU time."""
    machine = Machine(open_stores(store))
    machine.load(shard)
    pipe.send("ready")
    seconds = pipe.recv()
    tokens, cpu, until = [], time.process_time(), time.monotonic() + seconds
    while time.monotonic() < until:
        tokens.append(work(machine, shard, number, len(tokens)))
    pipe.send((tokens, time.process_time() - cpu))


def run(store: StoreSettings, writers: int, seconds: float, work: Callable[..., str]) -> None:
    """Let them write, and print what came of it."""
    machine = Machine(open_stores(store))
    names = [f"{work.__name__}{number if work is own else ''}" for number in range(writers)]
    for name in set(names):
        machine.create(parse_spec({"name": name, **SPEC}))
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for number, name in enumerate(names):
        mine, theirs = context.Pipe()
        process = context.Process(target=writer, args=(store, name, number, work, theirs))
        process.start()
        pipes.append(mine)
        processes.append(process)
    for pipe in pipes:
        pipe.recv()
    for pipe in pipes:
        pipe.send(seconds)
    found = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    _check(machine, names, [tokens for tokens, _ in found])
    counts = [len(tokens) for tokens, _ in found]
    total, cpu = sum(counts), sum(cpu for _, cpu in found)
    print(
        f"  {writers:>2} writers, {len(set(names)):>2} shards: {total / seconds:>7.0f} commits/s, "
        f"{1000 * cpu / total:.2f} ms CPU each, slowest {min(counts)}, fastest {max(counts)} "
        f"({max(counts) / max(min(counts), 1):.2f} times), load {os.getloadavg()[0]:.0f}"
    )


def setter(store: StoreSettings, number: int, pipe: Connection) -> None:
    """Set an own key, as large as a state, until a message comes."""
    consensus, data, done = open_stores(store).consensus, os.urandom(8_000).hex().encode(), 0
    consensus.compare_and_set(f"k{number}", None, Versioned(0, data))
    pipe.send("ready")
    until, cpu = time.monotonic() + pipe.recv(), time.process_time()
    while time.monotonic() < until:
        assert consensus.compare_and_set(f"k{number}", done, Versioned(done + 1, data))
        done += 1
        if done % 256 == 0:
            consensus.truncate(f"k{number}", done - 100)
    pipe.send((done, time.process_time() - cpu))


def alone(store: StoreSettings, writers: int, seconds: float) -> None:
    """Print what the consensus store does with nothing above it."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for number in range(writers):
        mine, theirs = context.Pipe()
        processes.append(context.Process(target=setter, args=(store, number, theirs)))
        processes[-1].start()
        pipes.append(mine)
    for pipe in pipes:
        pipe.recv()
    for pipe in pipes:
        pipe.send(seconds)
    found = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    total, cpu = sum(done for done, _ in found), sum(cpu for _, cpu in found)
    print(
        f"  {writers:>2} setters of 16 kB, a key each: {total / seconds:>7.0f} a second, "
        f"{1000 * cpu / max(total, 1):.2f} ms CPU each"
    )


def syncs(folder: str) -> float:
    """Return how many times a second this disk syncs a log that is written over."""
    with open(f"{folder}/log", "wb") as file:
        for _ in range(64):
            file.write(bytes(20_000))
        file.flush()
        os.fsync(file.fileno())
        began = time.perf_counter()
        for at in range(200):
            os.pwrite(file.fileno(), bytes(20_000), 20_000 * (at % 64))
            os.fdatasync(file.fileno())
    return 200 / (time.perf_counter() - began)


def _check(machine: Machine, names: list[str], tokens: list[list[str]]) -> None:
    """Every token that was acknowledged is in its shard, once, and no other."""
    told: dict[str, Counter[str]] = {}
    for name, mine in zip(names, tokens, strict=True):
        told.setdefault(name, Counter()).update(mine)
    blob = machine.stores.blob
    for name, expected in told.items():
        state = machine.load(name)
        leaves = [k for k in ledger_keys(blob, state.ledger) if not ledger_level(k)]
        there = Counter(c.token for leaf in leaves for c in commits_of(blob, leaf))
        there.update(c.token for c in state.commits)
        assert there == expected, f"{name}: lost or doubled"


def server() -> str:
    """Return the address of a server that syncs what it acknowledges. Raises: MissingError."""
    return Server().address.replace("+psycopg", "")


def main() -> None:
    """Print the figures for SQLite and PostgreSQL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--postgres", help="address of an empty database")
    parser.add_argument("--folder", help="where SQLite's file is; default: a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        addresses = {"SQLite": f"sqlite:///{folder}/consensus.db"}
        with suppress(MissingError):
            addresses["PostgreSQL"] = options.postgres or server()
        print(f"this disk: {syncs(folder):.0f} syncs a second, one after another")
        for name, address in addresses.items():
            sys.stdout.write(f"{name}\n")
            store = StoreSettings(f"file://{folder}/blob-{name}", address)
            alone(store, 8, options.seconds)
            run(store, 8, options.seconds, own)
            run(store, 16, options.seconds, shared)


if __name__ == "__main__":
    main()
