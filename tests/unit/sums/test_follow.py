"""Declared sums follow their source after compaction, and a false one is found by validation."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from strata.errors import Corrupt, InvalidRequest
from strata.jobs.validate.outcome import MISMATCH, exit_code, sums_alert, sums_line
from strata.machine.machine import Machine
from strata.read.scan import DEFAULTS
from strata.state.consumers import attach
from strata.store.open import Stores
from strata.sums.check import checked_as_declared
from strata.sums.follow import declared_sums, follow_sums, known_sums
from strata.sums.run import maintain_sums
from strata.sums.table import SumsTable
from strata.sums.wish import SumsWish, declared_wish
from tests.laws.test_kept_sums import RELATION, take
from tests.support.stored import create, memory_stores

WISH = SumsWish("shard", "sums", ("a", "b"), ("n",), "n > 0", ("f",), ("p", "f"))


@pytest.fixture
def stores() -> Stores:
    made = memory_stores()
    create(made, RELATION)
    take(made, 0, 10, [((1, "x", 3, 5, None, 1.5), 3, 1), ((2, "x", 3, 6, None, -1.5), 4, 1)])
    maintain_sums(made, WISH)
    return made


def test_a_target_is_declared_as_the_wish_that_made_it(stores: Stores) -> None:
    spec = Machine(stores).load("sums").spec
    assert declared_wish(spec) == WISH
    assert declared_wish(Machine(stores).load("shard").spec) is None
    assert declared_sums(stores) == {"shard": [WISH]}


def test_a_shard_that_cannot_be_loaded_hides_no_others(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Machine.load

    def load(self: Machine, name: str) -> Any:
        if name == "shard":
            raise Corrupt("digest")
        return whole(self, name)

    monkeypatch.setattr(Machine, "load", load)
    assert declared_sums(stores) == {"shard": [WISH]}


def test_a_shard_knows_its_sums_by_their_consumers(stores: Stores) -> None:
    Machine(stores).apply("shard", partial(attach, name="sums-nothing", session="s", start=None))
    create(stores, RELATION, name="other")
    maintain_sums(stores, replace(WISH, source="other", target="more"))
    for name in ("sums-other", "sums-more"):
        Machine(stores).apply("shard", partial(attach, name=name, session="s", start=None))

    assert known_sums(stores, "shard") == [WISH]
    assert known_sums(stores, "sums") == []


def test_declared_sums_follow_their_source(stores: Stores) -> None:
    take(stores, 10, 20, [((2, "x", 3, 6, None, -1.5), 14, -1)])
    (done,) = follow_sums(stores, declared_sums(stores)["shard"], DEFAULTS)
    assert (done["shard"], done["upper"], done["changes"], done["updates"]) == ("sums", 20, 1, 2)
    found = checked_as_declared(stores, "sums")
    assert found is not None
    assert (found.groups, found.different, found.as_of) == (1, 0, 19)


def test_a_shard_that_is_declared_otherwise_is_refused(stores: Stores) -> None:
    create(stores, Machine(stores).load("sums").relation, name="other", key=("a", "b"))
    wish = SumsWish("shard", "other", ("a", "b"), ("n",), "n > 0", ("f",), ("p", "f"))
    with pytest.raises(InvalidRequest, match="declared to hold something else"):
        maintain_sums(stores, wish)


def test_a_changed_stored_sum_is_an_alert(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    take(stores, 10, 20, [((3, "y", 3, 7, None, 0.5), 14, 1), ((4, "z", 3, 8, None, 2.5), 14, 1)])
    whole = SumsTable.arrow

    def falsely(self: SumsTable, updates: Any, relation: Any) -> Any:
        table = whole(self, updates, relation)
        place = table.num_columns - 3  # the greatest value of f
        false = table.column(place).combine_chunks().to_pylist()
        false[-1] += 1
        return table.set_column(place, table.schema.field(place), [false])

    with monkeypatch.context() as patch:
        patch.setattr(SumsTable, "arrow", falsely)
        maintain_sums(stores, WISH)
    found = checked_as_declared(stores, "sums")

    assert found is not None
    assert (found.groups, found.different) == (3, 1)
    assert exit_code([], {"sums": found}) == MISMATCH
    alert = sums_alert("sums", found)
    assert alert["error"] == "1 of 3 groups differ from shard at 1970-01-01T00:00:00.019Z"
    assert alert["replay"] == "strata sums shard --into sums --check"
    assert sums_line(found) == f"  ALERT kept sums: {alert['error']}"
    assert not any(value in str(alert) for value in ("'y'", "'z'"))


def test_what_a_budget_cannot_read_is_not_compared(stores: Stores) -> None:
    found = checked_as_declared(stores, "sums", most_bytes=10)
    assert found is not None
    assert (found.groups, found.different) == (0, 0)
    assert found.left_out_bytes > 10
    assert "the budget left out" in sums_line(found)
    assert exit_code([], {"sums": found}) == 0


def test_a_shard_without_sums_has_nothing_to_compare(stores: Stores) -> None:
    assert checked_as_declared(stores, "shard") is None
