"""The machine commits each change once, whatever becomes of its calls."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from strata.errors import Conflict, Corrupt, InvalidRequest, Unavailable
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.state.codec import encode_state
from strata.state.seal import sealed
from strata.state.state import State
from strata.state.step import step
from strata.state.transitions import Appended, advance_since, append
from strata.state.versions import forget_known
from strata.store.interface import Versioned
from strata.store.keys import state_key
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import Stores
from tests.support.batches import batch, spec
from tests.support.climb import standing
from tests.support.failing_stores import (
    CrashError,
    Faults,
    FaultyBlob,
    FaultyConsensus,
    Outcome,
    seeded,
)

SETTINGS = StoreSettings("memory://none", "memory://none")


class World:
    """Stores that can be made to fail, and machines on them."""

    def __init__(self) -> None:
        self.blob, self.consensus = MemoryBlob(), MemoryConsensus()
        self.faults, self.slept = Faults(), list[float]()
        clock = count(1_000)
        self.stores = Stores(
            FaultyBlob(self.blob, self.faults),
            FaultyConsensus(self.consensus, self.faults),
            lambda: next(clock),
            SETTINGS,
        )

    def machine(self) -> Machine:
        return Machine(self.stores, sleep=self.slept.append)

    def seqnos(self) -> list[int]:
        return [v.seqno for v in self.consensus.log[state_key("events")]]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def machine(world: World) -> Machine:
    machine = world.machine()
    machine.create(spec())
    return machine


def add(machine: Machine, number: int, updates: int = 3) -> Appended:
    lower, upper = number * 10, number * 10 + 10
    return machine.append(
        "events", token=f"t{number}", lower=lower, upper=upper, batch=batch(lower, upper, updates)
    )


def test_a_shard_is_created_once(world: World) -> None:
    machine = world.machine()
    first = machine.create(spec())
    assert machine.create(spec()) == first
    assert machine.load("events") == first
    assert machine.names() == ["events"]
    with pytest.raises(InvalidRequest, match="order") as caught:
        machine.create(spec(order=["note"], part_bytes=2048))
    assert caught.value.details["differs"] == ["order", "part_bytes"]
    machine.create(spec("flights"))
    assert machine.names() == ["events", "flights"]


def test_an_unknown_shard_is_refused_and_the_known_are_named(machine: Machine) -> None:
    for call in (
        machine.load,
        lambda n: machine.history(n, 3),
        lambda n: machine.committed(n, "t"),
    ):
        with pytest.raises(InvalidRequest, match="events"):
            call("flight")


def test_where_there_is_no_shard_the_cure_is_to_create_one(world: World) -> None:
    with pytest.raises(InvalidRequest, match="no such shard") as caught:
        world.machine().load("flights")

    assert "strata create flights" in (caught.value.cure or "")


def test_a_name_that_could_lead_astray_is_refused(machine: Machine) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        machine.load("../events")


def test_a_change_is_committed_under_the_next_number(machine: Machine, world: World) -> None:
    add(machine, 0)
    machine.apply("events", partial(advance_since, since=5))
    assert world.seqnos() == [1, 2, 3]
    assert machine.load("events").since == 5
    assert [s.seqno for s in machine.history("events", 2)] == [3, 2]
    assert [s.seqno for s in machine.history("events", 99)] == [3, 2, 1]
    assert machine.history("events", 99)[1].since < 5


def test_what_changes_nothing_is_not_committed(machine: Machine, world: World) -> None:
    add(machine, 0)
    machine.apply("events", partial(advance_since, since=5))
    machine.apply("events", partial(advance_since, since=5))
    assert add(machine, 0).already_committed
    assert world.seqnos() == [1, 2, 3]


def test_a_transition_is_computed_again_when_another_writer_was_faster(world: World) -> None:
    slow, fast = world.machine(), world.machine()
    slow.create(spec())
    seen: list[int] = []

    def interrupted(state: State, now_ms: int) -> tuple[State, Appended]:
        seen.append(state.seqno)
        if len(seen) < 4:
            add(fast, len(seen) - 1)
        return append(state, now_ms, token="slow", lower=100, upper=110)

    appended = slow.apply("events", interrupted)
    assert seen == [1, 2, 3, 4]
    assert appended.commit.seqno == 5
    assert world.seqnos() == [1, 2, 3, 4, 5]
    assert len(world.slept) == 2  # after the first lost race it queues


def test_a_race_that_is_always_lost_ends_as_a_conflict(world: World) -> None:
    slow, fast, number = world.machine(), world.machine(), count()
    slow.create(spec())

    def overtaken(state: State, now_ms: int) -> tuple[State, Appended]:
        add(fast, next(number), 0)
        return append(state, now_ms, token="slow", lower=10**6, upper=10**6 + 1)

    with pytest.raises(Conflict, match="events"):
        slow.apply("events", overtaken)
    assert slow.committed("events", "slow") is None


LOST = [Outcome.REQUEST_LOST, Outcome.REPLY_LOST]


@pytest.mark.parametrize("outcome", [*LOST, Outcome.REFUSED])
@pytest.mark.parametrize("call", range(4))
def test_one_failed_call_is_survived_without_doing_it_twice(
    machine: Machine, world: World, outcome: Outcome, call: int
) -> None:
    """An append is a head, a compare-and-set and, after a loss, a scan."""
    world.faults.plan([Outcome.WORKS] * call + [outcome])
    appended = add(machine, 0)
    assert not appended.already_committed or outcome is Outcome.REPLY_LOST
    assert world.seqnos() == [1, 2]
    assert machine.load("events").upper == 10


@pytest.mark.parametrize("transition", ["rollout", "since"])
def test_a_change_without_a_token_is_not_repeated_after_a_lost_reply(
    machine: Machine, world: World, transition: str
) -> None:
    add(machine, 0)
    changes: dict[str, Callable[[], object]] = {
        "rollout": lambda: machine.apply("events", partial(standing, mode="soft", percent=0)),
        "since": lambda: machine.apply("events", partial(advance_since, since=5)),
    }
    world.faults.plan([Outcome.WORKS, Outcome.REPLY_LOST])
    changes[transition]()
    assert world.seqnos() == [1, 2, 3]


def test_a_lost_reply_is_recognised_after_others_have_gone_on(world: World) -> None:
    """Between the loss and the reading back, another writer commits."""
    machine, other = (
        world.machine(),
        Machine(Stores(world.blob, world.consensus, lambda: 0, SETTINGS)),
    )
    machine.create(spec())
    scan = world.consensus.scan

    def overtaken(key: str, from_seqno: int, limit: int) -> list[Versioned]:
        add(other, 5)
        world.consensus.scan = scan  # type: ignore[method-assign]
        return scan(key, from_seqno, limit)

    world.consensus.scan = overtaken  # type: ignore[method-assign]
    world.faults.plan([Outcome.WORKS, Outcome.REPLY_LOST])
    assert not add(machine, 0).already_committed
    assert world.seqnos() == [1, 2, 3]
    assert [c.token for c in machine.load("events").commits] == ["t0", "t5"]


@pytest.mark.parametrize("outcome", LOST)
def test_an_outcome_that_cannot_be_found_out_is_said_to_be_open(
    machine: Machine, world: World, outcome: Outcome
) -> None:
    world.faults.plan([Outcome.WORKS, outcome, *[Outcome.REFUSED] * 40])
    with pytest.raises(Unavailable) as caught:
        add(machine, 0)
    assert not caught.value.certain
    world.faults.plan([])
    assert add(machine, 0).already_committed == (outcome is Outcome.REPLY_LOST)
    assert world.seqnos() == [1, 2]


def test_a_store_that_stays_away_surely_changed_nothing(machine: Machine, world: World) -> None:
    world.faults.plan([Outcome.WORKS, *[Outcome.REFUSED] * 40])
    with pytest.raises(Unavailable) as caught:
        add(machine, 0)
    assert caught.value.certain
    assert world.seqnos() == [1]


@pytest.mark.parametrize("outcome", [Outcome.CRASH_BEFORE, Outcome.CRASH_AFTER])
def test_a_crash_at_any_call_is_repaired_by_the_same_request(
    world: World, outcome: Outcome
) -> None:
    """With the ledger due, so that the blob is written before the commit."""
    world.machine().create(spec())
    for number in range(128):
        add(world.machine(), number, 1)
    for call in range(3):
        world.faults.plan([Outcome.WORKS] * call + [outcome])
        with pytest.raises(CrashError):
            add(world.machine(), 128, 1)
        world.faults.plan([])
        if call == 2 and outcome is Outcome.CRASH_AFTER:
            break
        assert world.machine().load("events").seqno == 129
    add(world.machine(), 128, 1)
    state = world.machine().load("events")
    assert state.seqno == 130
    assert (len(state.commits), len(state.ledger)) == (65, 1)
    assert len(list(world.blob.list(""))) == 1


def test_a_soak_of_failures_commits_every_append_once(world: World) -> None:
    world.machine().create(spec())
    shares = {
        Outcome.REFUSED: 0.1,
        Outcome.REQUEST_LOST: 0.1,
        Outcome.REPLY_LOST: 0.1,
        Outcome.CRASH_BEFORE: 0.03,
        Outcome.CRASH_AFTER: 0.03,
    }
    world.faults.plan(seeded(11, shares))
    for number in range(300):
        while True:
            try:
                add(world.machine(), number, 2)
                break
            except (Unavailable, CrashError):
                continue
    world.faults.plan([])
    machine = world.machine()
    state = machine.load("events")
    assert state.seqno == 301
    assert world.seqnos() == list(range(1, 302))
    assert sum(b.updates for b in state.batches) == 600
    assert all(machine.committed("events", f"t{n}") for n in range(300))


def test_a_token_is_recognised_however_old_it_is(machine: Machine, world: World) -> None:
    for number in range(400):
        add(machine, number, 0)
    state = machine.load("events")
    assert len(state.commits) <= 128
    assert len(state.ledger) == (400 - len(state.commits)) / 64  # too few to be folded
    for number in (0, 63, 64, 200, 399):
        appended = add(machine, number, 0)
        assert appended.already_committed
        assert appended.commit.upper == number * 10 + 10
        assert machine.committed("events", f"t{number}") == appended.commit
    assert machine.committed("events", "never") is None
    with pytest.raises(InvalidRequest, match="already written"):
        machine.append("events", token="never", lower=0, upper=10)
    with pytest.raises(InvalidRequest, match="another interval"):
        machine.append("events", token="t3", lower=30, upper=45)
    assert world.seqnos()[-1] == 401


def test_an_old_token_is_looked_for_in_one_ledger_blob(machine: Machine, world: World) -> None:
    for number in range(400):
        add(machine, number, 0)
    read: list[str] = []
    get = world.blob.get

    def counted(key: str, start: int = 0, length: int | None = None) -> bytes | None:
        read.append(key)
        return get(key, start, length)

    world.blob.get = counted  # type: ignore[method-assign]
    add(machine, 70, 0)
    assert len(read) == 1


def test_a_missing_ledger_is_corrupt(machine: Machine, world: World) -> None:
    for number in range(130):
        add(machine, number, 0)
    for info in list(world.blob.list("")):
        world.blob.delete(info.key)
    with pytest.raises(Corrupt, match="ledger"):
        add(machine, 0, 0)


def test_a_state_of_another_shard_or_number_is_corrupt(machine: Machine, world: World) -> None:
    data = world.consensus.log[state_key("events")][0].data
    world.consensus.log[state_key("copied")] = [Versioned(1, data)]
    with pytest.raises(Corrupt, match="elsewhere"):
        machine.load("copied")
    world.consensus.log[state_key("events")].append(Versioned(2, data))
    with pytest.raises(Corrupt, match="elsewhere"):
        machine.load("events")


def test_a_declaration_that_would_not_come_back_is_refused_before_it_is_stored(
    world: World,
) -> None:
    lax = replace(spec(), part_bytes="large")  # type: ignore[arg-type]
    with pytest.raises((InvalidRequest, Corrupt)):
        world.machine().create(lax)
    assert world.machine().names() == []


WRITER = """
import sys
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.store.open import open_stores
from tests.support.batches import batch, spec
from tests.support.climb import standing
folder, writer = sys.argv[1:]
machine = Machine(open_stores(StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/c.db")))
machine.create(spec())
done = 0
while done < 25:
    lower = max(machine.load("events").upper, 0)
    try:
        machine.append("events", token=f"{writer}-{lower}", lower=lower, upper=lower + 1,
                       batch=batch(lower, lower + 1, 1, manifest=f"{writer}-{lower}"))
        done += 1
    except Exception as error:
        assert "already written" in str(error), error
"""


def test_processes_that_append_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    (tmp_path / "blob").mkdir()  # the manifests of this test are names alone
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, name], cwd=Path(__file__).parents[3]) for name in "abc"]
    assert [writer.wait(timeout=240) for writer in writers] == [0, 0, 0]

    from strata.store.open import open_stores

    stores = open_stores(StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/c.db"))
    state = Machine(stores).load("events")
    stores.consensus.close()  # type: ignore[attr-defined]
    manifests = [b.manifest for b in state.batches]
    assert len(manifests) == len(set(manifests)) == 75
    assert state.upper == 75
    assert state.seqno == 76


def test_old_states_are_dropped_by_themselves(world: World) -> None:
    """The clock goes a day a call: nothing but the newest states is young."""
    days = count(1, 86_400_000)
    world.stores = replace(world.stores, clock=lambda: next(days))
    machine = world.machine()
    machine.create(spec())
    for number in range(64 * 6):
        machine.append("events", token=str(number), lower=number, upper=number + 1)
    newest = machine.load("events").seqno
    assert len(world.seqnos()) <= 256 + 64
    assert world.seqnos()[-1] == newest
    assert [s.seqno for s in machine.states("events")] == world.seqnos()


def test_a_state_that_cannot_be_read_does_not_hide_the_other_shards(
    machine: Machine, world: World
) -> None:
    machine.create(spec("other"))
    machine.create(spec("gone"))
    machine.drop("gone", by="ann", reason="moved")
    world.consensus.log[state_key("other")] = [Versioned(1, sealed(b'{"format": 9, "state": {}}'))]
    assert machine.names() == ["events", "other"]
    assert machine.names(dropped=True) == ["events", "gone", "other"]
    with pytest.raises(InvalidRequest, match="newer version"):
        machine.load("other")


def test_names_decode_no_state_but_what_may_be_a_tombstone(
    machine: Machine, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tombstone is found in a change and in a whole document; what people wrote is none."""
    for name in ("changed", "whole", "back", "plain"):
        machine.create(spec(name))
    for name in ("changed", "whole", "back"):
        machine.drop(name, by='"dropped":{', reason="moved")
    gone = machine.load("whole", dropped=True)
    whole = Versioned(gone.seqno, encode_state(gone))
    assert whole.data != world.consensus.log[state_key("whole")][-1].data
    world.consensus.log[state_key("whole")][-1] = whole
    machine.create(spec("back"), revive=True)
    looked_at: list[str] = []
    load = machine.load
    monkeypatch.setattr(
        machine, "load", lambda name, **k: looked_at.append(name) or load(name, **k)
    )

    assert machine.names() == ["back", "events", "plain"]
    assert sorted(looked_at) == ["changed", "whole"]


def test_states_are_read_back_as_far_as_they_are_stored(machine: Machine, world: World) -> None:
    for number in range(150):
        add(machine, number, 0)
    head = machine.load("events")
    machine.forget("events", keep=100, keep_ms=0)

    found = [state.seqno for state in machine.states_before("events", head.seqno)]

    assert found == [*reversed(world.seqnos()[:-1])]
    assert [s.seqno for s in machine.states_before("events", found[-1] + 1)] == found[-1:]
    assert list(machine.states_before("events", found[-1])) == []


def test_a_shard_that_somebody_else_creates_meanwhile_is_that_one(world: World) -> None:
    """Its first blob may be there before this process has seen its state."""
    machine, other = world.machine(), world.machine()
    head = world.consensus.head

    def late(key: str) -> Versioned | None:
        world.consensus.head = head  # type: ignore[method-assign]
        other.create(spec())
        world.blob.set("shards/events/part/1", b"x")
        return None

    world.consensus.head = late  # type: ignore[method-assign]

    assert machine.create(spec()) == other.load("events")


def test_a_document_that_is_missing_among_others_is_said_to_be_missing(
    machine: Machine, world: World
) -> None:
    for number in range(3):
        add(machine, number, 0)
    del world.consensus.log[state_key("events")][2]
    forget_known()

    with pytest.raises(Corrupt, match="missing") as caught:
        [*machine.states("events")]

    assert caught.value.details["seqno"] == 4


def moved(state: State, now_ms: int) -> tuple[State, None]:
    return step(state, now_ms), None


@pytest.mark.parametrize("keep", [1, 3, 9, 10, 11])
def test_just_as_many_states_stay_as_are_to_be_kept(
    machine: Machine, world: World, keep: int
) -> None:
    for _ in range(9):
        machine.apply("events", moved, whole=True)

    assert machine.forget("events", keep=keep, keep_ms=-(10**12)) == max(0, 10 - keep)
    assert world.seqnos() == [*range(max(1, 11 - keep), 11)]


def test_of_young_states_no_more_stay_than_there_may_be(
    machine: Machine, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.machine.machine.KEEP_AT_MOST", 6)
    for _ in range(9):
        machine.apply("events", moved, whole=True)

    machine.forget("events", keep=1, keep_ms=10**12)

    assert world.seqnos() == [*range(5, 11)]


def test_states_of_a_reader_without_a_hold_stay_for_their_time_and_few_others(
    world: World,
) -> None:
    """How many stay is doubled until the oldest of them was the newest too long ago."""
    now_ms = [0]
    world.stores = replace(world.stores, clock=lambda: now_ms[0])
    machine = world.machine()
    machine.create(spec())
    for _ in range(19):
        now_ms[0] += 10
        machine.apply("events", moved, whole=True)

    machine.forget("events", keep=1, keep_ms=25)

    assert world.seqnos() == [17, 18, 19, 20]


def test_a_writer_queues_once_it_has_lost_a_race(machine: Machine, world: World) -> None:
    turns: list[str] = []

    def turn(key: str) -> AbstractContextManager[bool]:
        turns.append(key)
        return nullcontext(False)

    world.consensus.turn = turn  # type: ignore[method-assign]
    for _ in range(5):
        machine.apply("events", moved)
    assert turns == []

    other, races = world.machine(), count()

    def beaten(state: State, now_ms: int) -> tuple[State, None]:
        if not next(races):
            other.apply("events", moved)
        return moved(state, now_ms)

    machine.apply("events", beaten)
    machine.apply("events", moved)

    assert turns == [state_key("events")] * 2


def test_a_writer_whose_turn_it_is_changes_once_and_tries_at_once_again_if_it_lost(
    machine: Machine, world: World
) -> None:
    """Others that do not queue may be faster even then."""
    world.consensus.turn = lambda _: nullcontext(True)  # type: ignore[method-assign]
    other, seen = world.machine(), list[int]()

    def beaten_twice(state: State, now_ms: int) -> tuple[State, None]:
        seen.append(state.seqno)
        if len(seen) < 3:
            other.apply("events", moved)
        return moved(state, now_ms)

    machine.apply("events", beaten_twice)

    assert seen == [1, 2, 3]
    assert world.seqnos() == [1, 2, 3, 4]
    assert world.slept == []
    machine.apply("events", moved)
    assert world.seqnos() == [1, 2, 3, 4, 5]
