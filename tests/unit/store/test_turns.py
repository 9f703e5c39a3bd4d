"""Who wants a contended shard gets it in turn, and no dead process holds anybody up."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from strata.machine.machine import LOOK_EVERY, Machine
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.state.state import State
from strata.state.transitions import Appended, append
from strata.store import turns
from strata.store.memory import MemoryConsensus
from strata.store.open import open_stores
from strata.store.turns import Turns
from tests.faults.clients import close
from tests.support.postgres import MissingError, fresh_database

SPEC = parse_spec({"name": "s", "columns": [{"name": "id", "type": "int64"}], "key": ["id"]})


def test_turns_come_in_the_order_they_were_asked_for(tmp_path: Path) -> None:
    opened = [Turns(tmp_path / "t") for _ in range(5)]
    order: list[int] = []
    threads = []

    def work(number: int) -> None:
        with opened[number].turn("a"):
            order.append(number)

    with opened[0].turn("a"):
        for number in range(1, 5):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            while int(opened[0]._words[slot("a")]) <= number:  # drawn
                time.sleep(0.001)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == [1, 2, 3, 4]


def slot(key: str) -> int:
    return 2 * (int.from_bytes(turns.blake2b(key.encode(), digest_size=4).digest()) % turns._SLOTS)


def test_a_turn_that_nobody_gives_back_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PATIENCE_S", 0.05)
    dead, living = Turns(tmp_path / "t"), Turns(tmp_path / "t")
    killed = dead.turn("a")  # a name keeps it open: what is collected gives its turn back
    killed.__enter__()
    with living.turn("a"):
        pass
    with living.turn("a"):  # and not waited for again
        pass


class Crowded(MemoryConsensus):
    """Others always queue; counts how often somebody queues with them."""

    queued = 0

    @contextmanager
    def turn(self, key: str) -> Iterator[bool]:
        self.queued += 1
        yield True


def test_who_wins_every_race_hears_of_those_who_queue_and_joins_them() -> None:
    settings = StoreSettings("memory://turns", "memory://turns")
    consensus = Crowded()
    machine = Machine(replace(open_stores(settings), consensus=consensus))
    machine.create(SPEC)
    for number in range(LOOK_EVERY + 9):
        machine.apply("s", partial(at_the_end, token=str(number)))
    assert consensus.queued == 1 + 9


def test_a_turn_tells_whether_anybody_was_before(tmp_path: Path) -> None:
    first, second = Turns(tmp_path / "t"), Turns(tmp_path / "t")
    with first.turn("a") as waited:
        assert not waited
        thread = threading.Thread(target=lambda: told.append(second.turn("a").__enter__()))
        told: list[bool] = []
        thread.start()
        while int(first._words[slot("a")]) < 2:
            time.sleep(0.001)
    thread.join()
    assert told == [True]


def test_writers_of_one_shard_are_served_alike(tmp_path: Path) -> None:
    # A writer may win LOOK_EVERY races before it looks for others: these do not decide the share.
    contend(tmp_path, "sqlite", writers=5, commits=200)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_sixteen_writers_of_one_shard_are_served_alike(tmp_path: Path, kind: str) -> None:
    contend(tmp_path, kind, writers=16, commits=640)


def at_the_end(state: State, now_ms: int, *, token: str) -> tuple[State, Appended]:
    lower = max(state.upper, 0)
    return append(state, now_ms, token=token, lower=lower, upper=lower + 1)


def contend(tmp_path: Path, kind: str, writers: int, commits: int) -> None:
    """Let writers commit until there are so many; nobody may have less than a third of a share."""
    try:
        address = fresh_database() if kind == "postgres" else f"sqlite:///{tmp_path}/c.db"
    except MissingError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    settings = StoreSettings(f"file://{tmp_path}/blob", address)
    stores = open_stores(settings)
    Machine(stores).create(SPEC)
    close(stores.consensus)
    done: Counter[int] = Counter()
    together = threading.Barrier(writers)

    def work(number: int) -> None:
        machine = Machine(open_stores(settings))
        machine.load("s")
        together.wait()
        while done.total() < commits:
            machine.apply("s", partial(at_the_end, token=f"{number}-{done[number]}"))
            done[number] += 1
        close(machine.stores.consensus)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == writers
    assert max(done.values()) <= 3 * min(done.values())
