"""Clients that append to shared shards and read them, each through faults of its own."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from strata.errors import Conflict, StrataError, Unavailable
from strata.machine.ledger import commits_of, ledger_keys
from strata.machine.machine import Machine
from strata.model.spec import parse_spec
from strata.state.state import State
from strata.state.transitions import Appended, append
from strata.store.interface import Consensus
from strata.store.keys import ledger_level
from strata.store.open import Stores
from tests.faults.history import Call
from tests.support.failing_stores import CrashError, Faults, FaultyConsensus, Outcome, seeded

SHARDS = ("a", "b")
SHARES = {
    Outcome.REFUSED: 0.03,
    Outcome.REQUEST_LOST: 0.03,
    Outcome.REPLY_LOST: 0.05,
    Outcome.DELAYED: 0.05,
    Outcome.DUPLICATED: 0.05,
    Outcome.FULL: 0.02,
    Outcome.CRASH_BEFORE: 0.01,
    Outcome.CRASH_AFTER: 0.01,
}


def create_shards(stores: Stores) -> None:
    for name in SHARDS:
        columns = [{"name": "id", "type": "int64"}]
        Machine(stores).create(parse_spec({"name": name, "columns": columns, "key": ["id"]}))


def elements(stores: Stores, name: str) -> tuple[str, ...]:
    """Return the tokens of a shard in the order of their commits."""
    state = Machine(stores).load(name)
    keys = [k for k in ledger_keys(stores.blob, state.ledger) if not ledger_level(k)]
    old = (commit.token for key in keys for commit in commits_of(stores.blob, key))
    return (*old, *(commit.token for commit in state.commits))


def client(
    stores: Stores, seed: int, calls: int, shares: dict[Outcome, float] = SHARES
) -> list[Call]:
    """Make so many calls; return what came of them."""
    draw = random.Random(seed)
    faults = Faults(seeded(seed, shares))
    faulty = replace(stores, consensus=FaultyConsensus(stores.consensus, faults))
    machine = Machine(faulty, lambda s: time.sleep(s / 20))
    done = []
    for number in range(calls):
        key = draw.choice(SHARDS)
        if draw.random() < 0.3:
            done.append(_read(faulty, key))
        else:
            done.append(_append(machine, key, f"{seed}-{number}"))
    return done


def _append(machine: Machine, key: str, token: str) -> Call:
    def move(state: State, now_ms: int) -> tuple[State, Appended]:
        lower = max(state.upper, 0)
        known = next((c for c in state.commits if c.token == token), None)
        if known is not None:
            lower = known.lower
        return append(state, now_ms, token=token, lower=lower, upper=lower + 1)

    began = time.monotonic_ns()
    told, tries = "unknown", 0
    while told == "unknown" and tries < 3:  # a client that tries again under the same token
        tries += 1
        try:
            machine.apply(key, move)
            told = "ok"
        except Conflict:
            told = "failed" if tries == 1 else "unknown"
        except Unavailable as error:
            told = "failed" if error.certain and tries == 1 else "unknown"
        except CrashError:
            break
    return Call(key, began, time.monotonic_ns(), told, token)  # type: ignore[arg-type]


def _read(stores: Stores, key: str) -> Call:
    began = time.monotonic_ns()
    try:
        found = elements(stores, key)
    except (Unavailable, CrashError):
        return Call(key, began, time.monotonic_ns(), "unknown")
    return Call(key, began, time.monotonic_ns(), "ok", read=found)


def at_once(works: list[Callable[[], list[Call]]]) -> list[Call]:
    """Run each in a thread, the last in this one; return all that they did.

    A server that the tests start ends with the thread that started it (`tests.support.postgres`).
    """
    done: list[Call] = []
    failed: list[BaseException] = []

    def run(work: Callable[[], list[Call]]) -> None:
        try:
            done.extend(work())
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works[:-1]]
    for thread in threads:
        thread.start()
    run(works[-1])
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return done


def close(*consensus: Consensus) -> None:
    for one in consensus:
        with suppress(AttributeError, StrataError):
            one.close()  # type: ignore[attr-defined]
