"""Consumers: positions that a shard keeps, sessions that take over, history that waits."""

from functools import partial
from typing import Any

import pytest

from strata.errors import Fenced, InvalidRequest
from strata.machine.machine import Machine
from strata.model.time import MIN_TIME
from strata.state.consumers import Consumer, attach, consumers_of, detach, move_on
from strata.state.holds import CONSUMERS, readable_from
from strata.state.transitions import advance_since
from strata.store.open import Stores
from tests.laws.test_changes import fixed_history
from tests.support.stored import append, create, memory_stores

KEEP = 1000


class World:
    """A shard with updates before 10 and before 20."""

    def __init__(self) -> None:
        self.stores: Stores = memory_stores()
        self.machine = Machine(self.stores)
        relation, batches = fixed_history()
        create(self.stores, relation)
        for lower, upper, runs in batches:
            append(self.stores, "shard", lower, upper, runs)

    def attach(self, session: str, **more: Any) -> Consumer:
        return self.machine.apply(
            "shard", partial(attach, **{"name": "c", "session": session, "keep_ms": KEEP, **more})
        )

    def move(self, session: str, position: int) -> Consumer:
        return self.machine.apply(
            "shard",
            partial(move_on, name="c", session=session, position=position, keep_ms=KEEP),
        )

    def since(self, to: int) -> int:
        return self.machine.apply("shard", partial(advance_since, since=to)).since

    def later(self, ms: int) -> None:
        now = self.stores.clock() + ms
        object.__setattr__(self.stores, "clock", lambda: now)


def test_history_waits_for_a_consumer_and_goes_on_behind_it() -> None:
    world = World()
    world.attach("one", start=10)
    assert world.since(15) == 9
    world.move("one", 16)
    assert world.since(19) == 15


def test_a_consumer_keeps_history_and_no_state() -> None:
    world = World()
    world.attach("one", start=10)
    world.move("one", 12)
    state = world.machine.load("shard")
    assert readable_from(state, world.stores.clock()) == state.seqno


def test_a_new_consumer_holds_nothing_before_the_beginning() -> None:
    world = World()
    assert world.attach("one").position == MIN_TIME
    assert world.since(19) == 19


def test_the_newest_session_takes_over_and_the_older_is_refused() -> None:
    world = World()
    world.attach("one")
    world.move("one", 10)
    assert world.attach("two").position == 10
    with pytest.raises(Fenced, match="another session"):
        world.move("one", 20)
    assert world.move("two", 20).position == 20


def test_a_position_never_goes_back() -> None:
    world = World()
    world.attach("one", start=12)
    assert world.move("one", 11).position == 12
    assert world.attach("two", start=11).position == 12
    assert world.attach("three", start=14).position == 14


def test_a_consumer_that_since_has_passed_learns_of_it() -> None:
    """It may not begin anew from the beginning, as if it were unknown."""
    world = World()
    world.attach("one", start=10)
    world.later(KEEP + 1)
    assert world.since(15) == 15
    assert [one.position for one in consumers_of(world.machine.load("shard"))] == [10]
    with pytest.raises(InvalidRequest, match="passed this consumer"):
        world.attach("two")
    with pytest.raises(InvalidRequest, match="passed this consumer"):
        world.move("one", 12)
    assert world.machine.apply("shard", partial(detach, name="c"))
    assert world.attach("three", start=16).position == 16


def test_an_expired_lease_alone_loses_nothing() -> None:
    world = World()
    world.attach("one", start=10)
    world.later(KEEP + 1)
    assert world.move("one", 12).position == 12
    assert world.since(15) == 11


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": " c"}, "needs a name"),
        ({"session": "a:b"}, "colon"),
        ({"session": ""}, "colon"),
        ({"start": 21}, "not complete yet"),
        ({"keep_ms": 0}, "must last"),
    ],
)
def test_what_cannot_be_attached_is_refused(wrong: dict[str, Any], match: str) -> None:
    world = World()
    with pytest.raises(InvalidRequest, match=match):
        world.attach(**{"session": "one", **wrong})
    assert not consumers_of(world.machine.load("shard"))


def test_a_removed_consumer_moves_no_more() -> None:
    world = World()
    world.attach("one")
    assert world.machine.apply("shard", partial(detach, name="c"))
    assert not world.machine.apply("shard", partial(detach, name="c"))
    with pytest.raises(Fenced, match="removed"):
        world.move("one", 10)
    assert CONSUMERS not in str(world.machine.load("shard").holds)
