"""Sets and bloom filters rule out parts whose bounds hold a value that no row has."""

import random
from functools import cache
from typing import Any

import pytest

from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.expr.filter import Filter
from strata.machine.machine import Machine
from strata.store.open import Stores
from tests.support import membered
from tests.support.membered import PLACES, held, lookups
from tests.support.sizes import tries
from tests.support.stored import memory_stores

PARTS, MANY, BITS = 12, 300, 16


@cache
def world(kind: str = "blooms") -> Stores:
    """Return stores with a shard of twelve parts; `kind`: what is declared for all places."""
    stores = memory_stores()
    declared = membered.spec(
        **({} if kind == "plain" else {kind: [*PLACES, "few"], "bloom_bits": BITS})
    )
    Machine(stores).create(declared)
    membered.fill(stores, declared, PARTS, MANY)
    return stores


@cache
def contents() -> list[list[dict[str, Any]]]:
    return [membered.rows(part, MANY) for part in range(PARTS)]


def planned(filter: Filter, kind: str = "blooms") -> ReadPlan:
    stores = world(kind)
    return plan_read(stores, Machine(stores).load("shard"), filter=filter, mode="on")


def holding(place: str, value: Any) -> set[int]:
    """Return the parts in which some row has a value at a place."""
    return {
        n for n, some in enumerate(contents()) if any(value in held(row, place) for row in some)
    }


def fetched(plan: ReadPlan) -> set[int]:
    return {run.run for run in plan.runs}


@pytest.mark.parametrize("place", [*PLACES, "few"])
def test_no_part_with_the_value_is_left_out_and_few_others_are_read(place: str) -> None:
    draw = random.Random(3)
    there = sorted({v for some in contents() for row in some for v in held(row, place)}, key=str)
    kept = least = without = 0
    for value in draw.sample(there, min(len(there), tries(6, 12))):
        needed = holding(place, value)
        for one in lookups(place, value):
            found = fetched(planned(one.filter))
            assert needed <= found, one
            kept, least = kept + len(found), least + len(needed)
            without += len(fetched(planned(one.filter, "plain")))
    assert without > 1.5 * kept
    assert kept <= 1.2 * least, (kept, least, without)
