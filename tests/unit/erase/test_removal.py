"""Batches that hold rows to erase are found without trust in statistics that no reader trusts."""

from functools import partial
from typing import Any

import pytest

from strata.erase.remove import Removal, Waiting
from strata.errors import Unavailable
from tests.support.climb import standing
from tests.support.erasing import ByValue, filter_of
from tests.support.garbage import World


def removal(world: World) -> Removal:
    finder = ByValue(world.stores, "id", 3)
    return Removal(world.stores, "s", finder, filter_of(world.state, "id", 3), suppresses=True)


@pytest.mark.parametrize(("mode", "asks"), [("off", 0), ("soft", 0), ("audit", 1), ("on", 1)])
def test_statistics_rule_parts_out_only_where_readers_may_skip_by_them(
    monkeypatch: pytest.MonkeyPatch, mode: str, asks: int
) -> None:
    world, asked = World(), list[object]()
    world.append(1, 2, 3)
    if mode != "off":
        world.machine.apply("s", partial(standing, mode=mode, percent=1))

    class Asked:
        @staticmethod
        def about(*what: Any) -> None:
            asked.append(what)

    monkeypatch.setattr("strata.erase.remove.Question", Asked)

    found, rows = removal(world).find(world.state)

    assert len(asked) == asks
    assert [one.batch for one in found] == [*world.state.batches][:1]
    assert [list(some) for some in rows.values()] == [[2]]


def test_a_batch_that_is_known_to_be_clean_is_not_read_again() -> None:
    world = World()
    clean, dirty = world.append(3, 4).manifest or "", world.append(3, 5).manifest

    found, rows = removal(world).find(world.state, {clean})

    assert [one.batch.manifest for one in found] == [dirty]
    assert len(rows) == 1


@pytest.mark.parametrize(("seconds", "waits"), [(0.0, 0), (1.0, 1), (2.5, 3)])
def test_others_are_waited_for_as_long_as_is_said_and_no_longer(seconds: float, waits: int) -> None:
    slept: list[float] = []

    with pytest.raises(Unavailable) as caught:
        Waiting(seconds, slept.append).until(lambda: "a reader")

    assert len(slept) == waits
    assert caught.value.details["waits_for"] == "a reader"
    Waiting(0.0, slept.append).until(lambda: "")
    assert len(slept) == waits
