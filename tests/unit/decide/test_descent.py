"""At which times a shard can be read, and what of it such a read looks at."""

import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from strata.decide.descent import (
    Piece,
    descend,
    narrowed_ahead,
    readable_batches,
    resolve_as_of,
)
from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.time import MIN_TIME
from strata.state.transitions import advance_since
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table
from tests.unit.decide.test_plan import RELATION, load


def filled() -> Stores:
    """Return a shard of two batches, times 0 to 9 and 10 to 19; since is 4."""
    stores = memory_stores()
    create(stores, RELATION)
    for lower in (0, 10):
        runs = [table(RELATION, [(n, "x", lower + n, 1)]) for n in (0, 7)]
        append(stores, "shard", lower, lower + 10, runs)
    Machine(stores).apply("shard", partial(advance_since, since=4))
    return stores


def test_a_shard_is_read_from_since_to_the_last_time_before_upper() -> None:
    state = load(filled())

    assert (state.since, state.upper) == (4, 20)
    assert [resolve_as_of(state, at) for at in (4, 5, 19)] == [4, 5, 19]
    assert resolve_as_of(state, None) == 19


@pytest.mark.parametrize("at", [MIN_TIME, 3, 20, 21])
def test_no_read_is_possible_before_since_or_from_upper_on(at: int) -> None:
    with pytest.raises(InvalidRequest, match="no read is possible at this time") as error:
        resolve_as_of(load(filled()), at)

    details = error.value.details
    assert (details["as_of"], details["since"], details["upper"]) == (at, 4, 20)
    assert (error.value.cure or "").startswith("choose since 4 (1970-01-01T")


def test_a_shard_that_nothing_was_written_to_is_read_at_no_time() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    state = load(stores)

    assert resolve_as_of(state, None) is None
    assert plan_read(stores, state).parts_total == 0
    for at in (MIN_TIME, 0):
        with pytest.raises(InvalidRequest, match="no read is possible at this time"):
            resolve_as_of(state, at)


@pytest.mark.parametrize(
    ("at", "parts"),
    [(4, [1]), (7, [2]), (9, [2]), (10, [2, 1]), (16, [2, 1]), (17, [2, 2]), (None, [2, 2])],
)
def test_of_a_batch_the_parts_with_updates_up_to_a_time_are_looked_at(
    at: int | None, parts: list[int]
) -> None:
    stores = filled()
    state = load(stores)
    steps = list(descend(stores, state, None, at))

    found = [
        [piece.details(piece.keep).num_rows for piece in pieces if isinstance(piece, Piece)]
        for _, pieces in narrowed_ahead(stores, steps, open_all=True)
    ]
    assert [sum(rows) for rows in found] == parts
    assert [step.batch for step in steps] == readable_batches(state, at)
    if at is not None:
        assert plan_read(stores, state, as_of=at).parts_fetched == sum(parts)


class Waiting:
    """A store whose answers come when some requests wait together, or never."""

    def __init__(self, blob: Any, together: int) -> None:
        self._blob, self._barrier = blob, threading.Barrier(together)

    def get(self, key: str, start: int = 0, length: int | None = None) -> Any:
        self._barrier.wait(timeout=20)
        return self._blob.get(key, start, length)


def many(batches: int) -> Stores:
    stores = memory_stores()
    create(stores, RELATION)
    for n in range(batches):
        append(stores, "shard", n, n + 1, [table(RELATION, [(n, "x", n, 1)])])
    return stores


def test_manifests_of_a_remote_store_are_asked_for_together() -> None:
    near = many(6)
    remote = replace(near.settings, blob="s3://bucket/far")
    far = replace(near, blob=Waiting(near.blob, 6), settings=remote)  # type: ignore[arg-type]

    assert plan_read(far, load(near)).fetched == plan_read(near, load(near)).fetched


@pytest.mark.parametrize("remote", [False, True])
def test_a_manifest_that_is_missing_is_named_wherever_it_is(remote: bool) -> None:
    stores = many(4)
    state = load(stores)
    lost = state.batches[2].manifest
    assert lost is not None
    stores.blob.delete(lost)
    if remote:
        stores = replace(stores, settings=replace(stores.settings, blob="s3://bucket/far"))

    with pytest.raises(Corrupt, match="a manifest is missing") as error:
        plan_read(stores, state)
    assert error.value.details["key"] == lost
