"""What a run of sums refuses, leaves and takes over: each rule by itself."""

from dataclasses import replace
from functools import partial

import pytest

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.state.transitions import advance_since
from strata.store.open import Stores
from strata.sums.run import maintain_sums
from tests.laws.test_kept_sums import RELATION, WISH, take
from tests.support.stored import create, memory_stores


@pytest.fixture
def stores() -> Stores:
    made = memory_stores()
    create(made, RELATION)
    take(made, 0, 10, [((1, "x", 3, 5, None, 1.5), 3, 1)])
    return made


def test_a_shard_holds_no_sums_of_its_own(stores: Stores) -> None:
    before = Machine(stores).load("shard")

    with pytest.raises(InvalidRequest, match="cannot hold its own sums"):
        maintain_sums(stores, replace(WISH, target="shard"))
    assert Machine(stores).load("shard") == before


def test_nothing_is_corrected_unless_that_is_asked_for(stores: Stores) -> None:
    assert maintain_sums(stores, WISH).updates == 1
    assert maintain_sums(stores, WISH).updates == 0
    with pytest.raises(InvalidRequest, match="next batch"):
        maintain_sums(stores, WISH, rebuild=True)


def test_sums_have_no_times_apart_where_their_source_has_none(stores: Stores) -> None:
    Machine(stores).apply("shard", partial(advance_since, since=5))

    maintain_sums(stores, WISH)

    assert Machine(stores).load("sums").since == 5
