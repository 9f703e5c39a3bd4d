"""Shards that are read together are read at a time that each of them has."""

import pytest

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import Settings
from strata.model.time import format_time
from strata.model.types import parse_type
from strata.read.together import common_time
from strata.shard import Shards
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "n", parse_type("int64")),), (1,), ())


@pytest.fixture
def stores() -> Stores:
    stores = memory_stores()
    for name, upper in (("ahead", 9), ("behind", 5)):
        create(stores, RELATION, name=name)
        append(stores, name, 0, 5, [table(RELATION, [(1, 0, 1), (2, 4, 1)])])
        if upper == 9:
            append(stores, name, 5, 9, [table(RELATION, [(1, 6, -1), (3, 5, 1)])])
    return stores


def test_the_time_is_the_newest_that_all_have(stores: Stores) -> None:
    shards = Shards(stores, Settings())
    at = shards.common_time("ahead", "behind")

    assert at == 4
    assert shards["ahead"].count(as_of=at) == shards["behind"].count(as_of=at) == 2
    with pytest.raises(InvalidRequest, match="no read is possible"):
        shards["behind"].count(as_of=at + 1)
    assert shards.common_time("ahead") == 8


def test_there_may_be_no_such_time(stores: Stores) -> None:
    machine = Machine(stores)
    create(stores, RELATION, name="empty")
    with pytest.raises(InvalidRequest, match="no time at which all") as wrong:
        common_time([machine.load("ahead"), machine.load("empty")])
    assert "behind='empty'" in str(wrong.value)
    with pytest.raises(InvalidRequest, match="no shard is named"):
        common_time([])
    with pytest.raises(InvalidRequest, match="no such shard"):
        Shards(stores, Settings()).common_time("ahead", "nobody")


def test_by_the_clock_it_is_the_newest_that_all_had(stores: Stores) -> None:
    machine = Machine(stores)
    moments = [machine.load(name).walltime_ms for name in ("ahead", "behind")]
    shards = Shards(stores, Settings())
    then = format_time(max(moments))
    assert shards.common_time("ahead", "behind", as_of=f"clock:{then}") == 4
    assert shards.common_time("ahead", as_of=f"clock:{then}") == 8
    assert shards.common_time("ahead", "behind", as_of="1970-01-01T00:00:00.002Z") == 2
    assert shards.common_time("ahead", "behind", as_of=3) == 3
    with pytest.raises(InvalidRequest, match="nothing was committed"):
        shards.common_time("ahead", "behind", as_of="clock:1960-01-01")


def test_a_label_has_to_mean_one_time(stores: Stores) -> None:
    shards = Shards(stores, Settings())
    shards["ahead"].tag("release", at=3)
    with pytest.raises(InvalidRequest, match="nor a label"):
        shards.common_time("ahead", "behind", as_of="release")
    shards["behind"].tag("release", at=3)
    assert shards.common_time("ahead", "behind", as_of="release") == 3
    shards["ahead"].tag("other", at=7)
    shards["behind"].tag("other", at=4)
    with pytest.raises(InvalidRequest, match="different times") as wrong:
        shards.common_time("ahead", "behind", as_of="other")
    assert "behind='1970-01-01T00:00:00.004Z'" in str(wrong.value)
