"""Concurrent clients of SQLite and PostgreSQL see lists that one thread could have made."""

import random
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from strata.model.settings import StoreSettings
from strata.store.interface import Versioned
from strata.store.memory import MemoryConsensus
from strata.store.open import Stores, open_stores
from tests.faults.clients import SHARDS, at_once, client, close, create_shards, elements
from tests.faults.history import Call, anomalies
from tests.support.postgres import MissingError, Server, fresh_database


def postgres() -> str:
    try:
        return fresh_database()
    except MissingError as error:
        pytest.skip(f"no PostgreSQL: {error}")


def run(
    open_one: Callable[[], Stores],
    seed: int,
    clients: int,
    calls: int,
    beside: Callable[[], list[Call]] = list,
) -> list[str]:
    """Let clients loose on stores of their own; return what is wrong with what they saw."""
    stores = [open_one() for _ in range(clients + 1)]
    create_shards(stores[-1])
    works = [partial(client, s, seed + i, calls) for i, s in enumerate(stores[:-1])]
    history = at_once([*works, beside])
    final = {name: elements(stores[-1], name) for name in SHARDS}
    close(*(s.consensus for s in stores))
    assert sum(map(len, final.values())) > clients * calls // 4, "hardly anything was appended"
    return anomalies(history, final)


def database(tmp_path: Path, address: str) -> Callable[[], Stores]:
    return lambda: open_stores(StoreSettings(f"file://{tmp_path}/blob", address))


def test_sqlite_shows_no_anomaly(tmp_path: Path) -> None:
    open_one = database(tmp_path, f"sqlite:///{tmp_path}/c.db")
    assert run(open_one, seed=5, clients=4, calls=20) == []


def test_postgres_shows_no_anomaly(tmp_path: Path) -> None:
    assert run(database(tmp_path, postgres()), seed=6, clients=4, calls=20) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("seed", range(10))
def test_longer_histories_show_no_anomaly(tmp_path: Path, kind: str, seed: int) -> None:
    address = postgres() if kind == "postgres" else f"sqlite:///{tmp_path}/c.db"
    assert run(database(tmp_path, address), 1000 * seed, clients=8, calls=150) == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_postgres_that_is_restarted_under_load_loses_nothing(tmp_path: Path) -> None:
    try:
        server = Server()  # synced: what it has acknowledged it must know after a crash
    except MissingError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    address, pauses = server.address.replace("+psycopg", ""), random.Random(7)

    def again() -> list[Call]:
        for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGQUIT):
            threading.Event().wait(pauses.uniform(0.5, 1.5))
            server.stop(how)
            assert server.start()
        return []

    try:
        stores = database(tmp_path, address)
        assert run(stores, seed=8, clients=4, calls=150, beside=again) == []
    finally:
        server.close()


class Forgets(MemoryConsensus):
    """Acknowledges, now and then, what it does not keep."""

    def compare_and_set(self, key: str, expected: int | None, new: Versioned) -> bool:
        self.calls = getattr(self, "calls", 0) + 1
        return self.calls % 9 == 0 or super().compare_and_set(key, expected, new)


class Stale(MemoryConsensus):
    """Answers some reads from a replica that lags."""

    def head(self, key: str) -> Versioned | None:
        self.calls = getattr(self, "calls", 0) + 1
        log = self.log.get(key, [])
        return log[-2] if self.calls % 5 == 0 and len(log) > 1 else super().head(key)


class Blind(MemoryConsensus):
    """Sets without comparing."""

    def compare_and_set(self, key: str, expected: int | None, new: Versioned) -> bool:
        log = self.log.setdefault(key, [])
        log[:] = [v for v in log if v.seqno < new.seqno] + [new]
        return True


@pytest.mark.parametrize("broken", [Forgets, Stale, Blind])
def test_a_store_that_is_broken_is_found_out(broken: type[MemoryConsensus]) -> None:
    one = open_stores(StoreSettings(f"memory://{broken.__name__}", "memory://unused"))
    one = replace(one, consensus=broken())
    assert run(lambda: one, seed=9, clients=4, calls=60)


def test_the_checker_knows_each_anomaly() -> None:
    def append(element: str, began: int, ended: int, outcome: str = "ok") -> Call:
        return Call("k", began, ended, outcome, element)  # type: ignore[arg-type]

    def found(final: str, *calls: Call) -> str:
        return "; ".join(anomalies(calls, {"k": tuple(final)}))

    x, y = append("x", 1, 2), append("y", 3, 4)
    assert found("xy", x, y, Call("k", 5, 6, read=("x", "y"))) == ""
    assert found("yx", x, append("y", 1, 4)) == ""  # at the same time: either order
    assert "is lost" in found("y", x, y)
    assert "2 times" in found("xxy", x, y)
    assert "never appended" in found("xyz", x, y)
    assert "came before" in found("yx", x, y)
    assert "came before" in found("yx", x, append("y", 3, 4, "unknown"))
    assert "stale read" in found("xy", x, y, Call("k", 5, 6, read=("x",)))
    assert "stale read" in found("x", x, Call("k", 3, 4, read=("x",)), Call("k", 5, 6))
    assert "no beginning" in found("xy", x, y, Call("k", 1, 6, read=("y",)))
    assert "before it was appended" in found("x", append("x", 5, 6), Call("k", 1, 2, read=("x",)))
    assert "certainly did not" in found("x", append("x", 1, 2, "failed"))
    assert found("", append("x", 1, 2, "failed"), append("y", 1, 2, "unknown")) == ""
