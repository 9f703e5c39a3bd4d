"""What a filter would do to a shard is what an object for each part says, with fewer objects."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.audit.cost import SHARES, costs, shares_of
from strata.decide.descent import load_manifest
from strata.decide.skips import Skipped, decide_all
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format import manifest as manifests
from strata.format.manifest import part_refs
from strata.machine.machine import Machine
from strata.model import schema
from strata.model.types import parse_type
from strata.state.state import State
from strata.store.open import Stores
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table
from tests.twins.decided import decided

RELATION = schema.Relation(
    0,
    (
        schema.Column(1, "n", parse_type("int64")),
        schema.Column(2, "s", parse_type("string")),
    ),
    (1,),
    (),
)


def greater(than: int) -> Filter:
    compared = Call("greater_than", (Column(1, "n", "long"), Literal(than, "long")), "boolean")
    return Filter(compared, f"n > {than}", 0, 0)


@pytest.fixture(scope="module")
def stores() -> Iterator[Stores]:
    """Batches of parts with row groups, in pieces of 3; the last has no statistics."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "PIECE_PARTS", 3)
        stores = memory_stores()
        create(stores, RELATION, part_bytes=8000, row_group_bytes=1000)
        for day, layout in enumerate(["both", "structured", "both", "row"]):
            rows = range(300 * day, 300 * day + 300)
            runs = [[(n, f"{n % 97:060}", day, 1) for n in rows if n % 2 == run] for run in (0, 1)]
            append(stores, "shard", day, day + 1, [table(RELATION, run) for run in runs], layout)
        yield stores


def state_of(stores: Stores, *quarantine: str) -> State:
    state = Machine(stores).load("shard")
    return replace(state, rollout=replace(state.rollout, quarantine=quarantine))


def plainly(stores: Stores, state: State, filter: Filter) -> tuple[list[Skipped], list[Skipped]]:
    """Return what is skipped and tightened: the obvious way, an object for each part."""
    parts = decided(stores, state, filter)
    skipped = [Skipped(p.ref, p.batch, p.by_batch, p.stats) for p in parts if not p.keep]
    tightened = [
        Skipped(p.ref, p.batch, by_batch=False, stats=p.stats, groups=p.groups)
        for p in parts
        if p.groups
    ]
    return skipped, tightened


def sampled(skipped: list[Skipped], percent: int, salt: str, least: int) -> list[Skipped]:
    """Return the share, by a draw for each part."""

    def draw(one: Skipped) -> int:
        digest = blake2b(f"{salt}\0{one.ref.key}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big")

    last = sorted(map(draw, skipped))[:least]
    return [s for s in skipped if draw(s) * 100 < percent << 64 or draw(s) in last]


@settings(max_examples=tries(10, 200), deadline=None)
@given(
    than=st.integers(-10, 1210),
    named=st.sets(st.integers(0, 60), max_size=4),
    percent=st.sampled_from([0, 1, 10, 50, 100]),
    least=st.integers(0, 9),
    whole=st.sampled_from([0, 1000]),
)
def test_decisions_and_samples_are_those_of_an_object_for_each_part(
    stores: Stores, than: int, named: set[int], percent: int, least: int, whole: int
) -> None:
    """`whole`: up to this many parts, keys are kept, and all draws, not only those of a share."""
    every = [
        ref
        for b in state_of(stores).batches
        for ref in part_refs(load_manifest(stores, state_of(stores), b))
    ]
    state = state_of(stores, *(every[n % len(every)].key for n in sorted(named)))
    skipped, tightened = plainly(stores, state, greater(than))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("strata.decide.skips.SAMPLED_WHOLE", whole)
        found = decide_all(stores, state, greater(than))

    assert (list(found.skipped), list(found.tightened)) == (skipped, tightened)
    assert found.skipped.size_bytes == sum(one.ref.size_bytes for one in skipped)
    assert found.tightened.size_bytes == sum(one.size_bytes for one in tightened)
    assert (found.parts_total, found.bytes_total) == (len(every), sum(r.size_bytes for r in every))
    assert found.parts_without_stats == sum(r.stats_version is None for r in every)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("strata.decide.skips.SAMPLED_WHOLE", whole)
        patch.setattr("strata.decide.skips.MAKE_PARTS", 2)
        for some, plain in ((found.skipped, skipped), (found.tightened, tightened)):
            for share in (percent, 50, 1):  # the second and third know some draws already
                drawn, expected = (
                    some.drawn(share, "run", least),
                    sampled(plain, share, "run", least),
                )
                assert some.make(drawn.numbers) == expected
                assert drawn.sizes.tolist() == [one.size_bytes for one in expected]
                assert some.share(share, "run", least) == (len(expected), drawn.sizes.sum())
                named_so = [key for keys in some.keys(drawn.numbers) for key in keys]
                assert named_so == [one.ref.key for one in expected]
    few = {ref.key for ref in every[::5]}
    assert found.skipped.named(few) == [one for one in skipped if one.ref.key in few]


def test_there_is_something_of_each_kind(stores: Stores) -> None:
    found = decide_all(stores, state_of(stores), greater(480))

    assert {one.by_batch for one in found.skipped} == {True, False}
    assert any(len(one.groups) > 1 for one in found.tightened)
    assert found.skipped[-1] == found.skipped[len(found.skipped) - 1]
    assert found.skipped[2:4] == [found.skipped[2], found.skipped[3]]
    assert 0 < found.parts_without_stats < found.parts_total


def test_costs_are_those_of_the_samples_at_each_share(stores: Stores) -> None:
    found = decide_all(stores, state_of(stores), greater(480))

    told = costs(shares_of(found, "run", 2), greater(480), seconds=1.0, audited_bytes=1000)

    for cost, share in zip(told, SHARES, strict=True):
        some = [
            one
            for skips in (found.skipped, found.tightened)
            for one in sampled(list(skips), share, "run", 2)
        ]
        assert (cost.parts, cost.size_bytes) == (len(some), 2 * sum(s.size_bytes for s in some))


def test_objects_are_made_only_of_the_parts_that_are_asked_for(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    def counted(table: object) -> object:
        nonlocal made
        made += table.num_rows  # type: ignore[attr-defined]
        return part_refs(table)

    monkeypatch.setattr("strata.decide.skips.part_refs", counted)
    found = decide_all(stores, state_of(stores), greater(900))

    assert made == len(found.tightened)
    found.skipped.make(np.array([1, 5]))
    assert made == len(found.tightened) + 2


def test_a_share_of_nothing_draws_nothing(stores: Stores) -> None:
    skipped = decide_all(stores, state_of(stores), greater(480)).skipped

    assert len(skipped) > 1
    assert skipped.drawn(0, "run").numbers.tolist() == []
    assert len(skipped.drawn(0, "run", 1).numbers) == 1


def test_each_run_has_a_draw_of_its_own(stores: Stores) -> None:
    skipped, fresh = (decide_all(stores, state_of(stores), greater(480)).skipped for _ in range(2))
    one = skipped.drawn(50, "run").numbers.tolist()

    other = skipped.drawn(50, "other").numbers.tolist()

    assert one != other == fresh.drawn(50, "other").numbers.tolist()
