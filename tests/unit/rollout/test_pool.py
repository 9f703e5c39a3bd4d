"""Small shards of one class share evidence; none does once a member has lied."""

from dataclasses import replace
from functools import partial

import pytest

from strata.audit.standing import pool_among
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings, Thresholds
from strata.model.spec import StatsSpec
from strata.model.sums import MODULUS
from strata.rollout import ladder
from strata.rollout.basis import basis_of
from strata.rollout.gates import gates
from strata.rollout.policy import Policy
from strata.rollout.pool import Pool, class_of, pool_of, together
from strata.state import tombstone
from strata.state.rollout import trip
from strata.state.state import Batch, Evidence, Spine, SpineBatch, State, Stratum
from strata.state.step import step
from strata.state.transitions import create
from strata.store.interface import Versioned
from strata.store.keys import state_key
from strata.store.open import forget_memory
from tests.support.audited import world_in
from tests.support.batches import spec
from tests.support.stored import memory_stores

GATES = Policy(Thresholds(audit_parts=100, stratum_parts=10))


def shard(name: str, parts: int, mode: str = "soft", **evidence: object) -> State:
    """Return a shard that has audited so many parts itself, on enough days."""
    state = create(replace(spec(), name=name), 1000)
    seen = Evidence(
        basis=basis_of(state),
        runs=20,
        days=7,
        parts=parts,
        rows=parts * 5,
        strata=(Stratum("long", parts - parts // 2), Stratum("text", parts // 2)),
    )
    rollout = replace(
        state.rollout,
        mode=mode,
        evidence=replace(seen, **evidence),  # type: ignore[arg-type]
    )
    return replace(state, rollout=rollout)


def ask(state: State, pool: Pool | None) -> State:
    return ladder.ask(
        state, 2000, to="audit", percent=10, who="ann", reason="due", policy=GATES, pool=pool
    )[0]


def seen(state: State) -> str:
    """Return what an approver is shown as the request."""
    assert state.rollout.request is not None
    return ladder.request_id(state.name, state.rollout.request)


def test_a_small_shard_climbs_on_what_its_class_has_seen() -> None:
    small = shard("small", 30)
    pool = pool_of(small, [small, shard("b", 50), shard("c", 40)])
    assert (pool.shards, pool.evidence.parts) == (("b", "c"), 90)
    with pytest.raises(InvalidRequest, match="audited parts: 30, wanted at least 100"):
        ask(small, None)

    asked = ask(small, pool)
    with pytest.raises(InvalidRequest, match="audited parts: 30"):
        ladder.approve(asked, 3000, request=seen(asked), who="bob", reason="seen", policy=GATES)
    state, rollout = ladder.approve(
        asked, 3000, request=seen(asked), who="bob", reason="seen", policy=GATES, pool=pool
    )

    assert rollout.mode == "audit"
    assert rollout.evidence.parts == 30  # its own stays its own
    assert [(e.what, e.parts, e.pooled) for e in state.rollout.entries] == [
        ("requested", 30, 90),
        ("approved", 30, 90),
    ]


def test_a_pool_that_was_not_asked_for_does_not_count() -> None:
    enough = shard("enough", 200)
    asked = ask(enough, None)
    poor = replace(asked, rollout=replace(asked.rollout, evidence=shard("x", 30).rollout.evidence))
    pool = pool_of(poor, [shard("b", 500)])
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        ladder.approve(
            poor, 3000, request=seen(poor), who="bob", reason="seen", policy=GATES, pool=pool
        )


@pytest.mark.parametrize(
    ("own", "lacking"),
    [
        ({"runs": 3}, "runs"),
        ({"days": 1}, "days with a run"),
        ({"parts": 9}, "audited parts of its own"),
        ({"basis": "other code"}, "code"),
    ],
)
def test_runs_days_code_and_some_parts_must_be_its_own(
    own: dict[str, object], lacking: str
) -> None:
    state = shard("small", **{"parts": 30, **own})  # type: ignore[arg-type]
    found = gates(state.rollout, "audit", GATES, basis_of(state), pool_of(state, [shard("b", 500)]))
    assert [gate.name for gate in found if not gate.passed] == [lacking]


def test_nothing_is_shared_while_a_member_is_in_quarantine() -> None:
    small, good = shard("small", 30), shard("b", 500)
    liar, _ = trip(shard("c", 500), 1500, "part p: column 1 lied", ["1"])
    pool = pool_of(small, [good, liar])
    assert (pool.shards, pool.lied, pool.evidence.parts) == ((), ("c",), 0)
    with pytest.raises(InvalidRequest, match="members of the class that lied: in quarantine: c"):
        ask(small, pool)


def holding(state: State, *digests: int, rows: int = 5) -> State:
    """Return a shard with a batch of some rows for each digest."""
    batches = tuple(
        Batch(n, n + 1, 0, updates=rows, digest=one, diffs_sum=rows)
        for n, one in enumerate(digests)
    )
    return replace(state, spine=Spine((SpineBatch(0, len(batches), 3, batches),), len(batches)))


def test_a_member_that_lied_and_was_dropped_still_counts_and_its_evidence_does_not() -> None:
    """One person drops a shard; two release what is in quarantine."""
    small, clean, liar = shard("small", 30), shard("b", 100), shard("c", 100, mode="audit")
    lied = trip(liar, 2000, reason="a lie", quarantine=["like"])[0]
    gone = {"by": "eve", "reason": "it is in the way"}
    assert pool_of(small, [clean, tombstone.drop(clean, 3000, **gone)[0]]).shards == ("b",)
    assert pool_of(small, [tombstone.drop(clean, 3000, **gone)[0]]) == Pool(
        evidence=Evidence(basis=basis_of(small))
    )
    assert pool_of(small, [clean, tombstone.drop(lied, 3000, **gone)[0]]) == Pool(lied=("c",))


def test_to_drop_the_shard_that_lied_opens_no_pool() -> None:
    machine = Machine(memory_stores())
    for name in ("small", "c"):
        machine.create(replace(spec(), name=name))
    machine.apply("c", partial(trip, reason="a lie", quarantine=["like"]))
    assert pool_among(machine, "small").lied == ("c",)
    machine.drop("c", by="eve", reason="it is in the way")
    assert pool_among(machine, "small").lied == ("c",)


def learning(state: State, now_ms: int, *, of: State) -> tuple[State, None]:
    return step(state, now_ms, rollout=of.rollout), None


def test_nothing_is_shared_while_a_state_cannot_be_loaded() -> None:
    """Of what class it is, and whether it lied, is then unknown."""
    machine = Machine(memory_stores())
    for name in ("small", "b", "c"):
        machine.create(replace(spec(), name=name))
        parts = 30 if name == "small" else 500
        machine.apply(name, partial(learning, of=shard(name, parts)))
    assert pool_among(machine, "small").shards == ("b", "c")
    machine.apply("c", partial(trip, reason="a lie", quarantine=["like"]))
    head = machine.stores.consensus.head(state_key("c"))
    assert head is not None
    machine.stores.consensus.compare_and_set(
        state_key("c"), head.seqno, Versioned(head.seqno + 1, b"?")
    )
    pool = pool_among(machine, "small")
    assert (pool.shards, pool.unknown, pool.evidence.parts) == ((), ("c",), 0)
    with pytest.raises(InvalidRequest, match="unknown class: c cannot be loaded and may have lied"):
        ask(machine.load("small"), pool)


def test_the_same_rows_in_several_shards_are_evidence_once() -> None:
    """Whoever may declare shards takes the same files into twenty of them."""
    small = holding(shard("small", 30), 1, 2)
    mirror = holding(shard("mirror", 50, failed=1), 3, rows=10)  # merged: 1 + 2
    partly = holding(shard("partly", 50), 2, 9)
    other, twin = holding(shard("other", 40), 7), holding(shard("twin", 41), 7, 8)
    of_copies = holding(shard("of copies", 5), 9)
    everyone = [small, mirror, partly, other, twin, of_copies]
    pool = pool_of(small, everyone)
    assert pool.shards == ("of copies", "twin")
    assert pool.copies == ("mirror", "other", "partly")
    assert (pool.evidence.parts, pool.evidence.failed) == (46, 1)
    with pytest.raises(InvalidRequest, match="audited parts: 76, wanted at least 100"):
        ask(small, pool)


def test_shards_without_rows_are_no_copies() -> None:
    small = holding(shard("small", 30))
    assert pool_of(small, [holding(shard("b", 50)), holding(shard("c", 40), 5)]).copies == ()


def test_rows_that_lie_in_other_parts_are_the_same_rows() -> None:
    store = StoreSettings("memory://pool", "memory://pool")
    small = world_in(store).state
    forget_memory(store)
    seen = replace(small.rollout.evidence, parts=9, basis=basis_of(small))
    state = world_in(store, rows_of_part=10).state
    assert [b.parts for b in state.batches] != [b.parts for b in small.batches]
    copy = replace(
        state, spec=replace(state.spec, name="copy"), rollout=replace(state.rollout, evidence=seen)
    )
    assert pool_of(small, [copy]) == Pool(evidence=Evidence(basis=seen.basis), copies=("copy",))


def test_failures_of_others_count_as_well() -> None:
    small = shard("small", 30)
    pool = pool_of(small, [shard("b", 90, failed=50)])
    with pytest.raises(InvalidRequest, match="failed or missing checks: 50 of 170"):
        ask(small, pool)


def test_a_class_is_what_the_same_code_decides_the_same_about() -> None:
    small = shard("small", 30)
    other_budget = replace(small, spec=replace(small.spec, name="b", stats=StatsSpec(99)))
    other_columns = create(spec("c", columns=[{"name": "id", "type": "int64"}], key=["id"]), 1000)
    other_code = shard("d", 90, basis="older")
    assert class_of(small) != class_of(other_budget)
    assert class_of(small) != class_of(other_columns)
    assert pool_of(small, [other_budget, other_columns, other_code, small]).shards == ()


def test_a_member_that_audited_nothing_is_no_part_of_a_pool() -> None:
    assert pool_of(shard("small", 30), [shard("b", 0), shard("c", 1)]).shards == ("c",)


def test_rows_that_cancel_out_in_number_are_rows() -> None:
    """A batch of retractions and of as many additions; one of no rows has no sum."""
    small = holding(shard("small", 30), 4, rows=MODULUS)
    copy = holding(shard("b", 50), 4, rows=MODULUS)

    assert pool_of(small, [copy]).copies == ("b",)
    assert pool_of(small, [holding(shard("b", 50), 0, rows=MODULUS)]).copies == ()


def test_a_pool_is_the_sum_of_its_members() -> None:
    own = Evidence(parts=1, repeats=2, rows=3, size_bytes=4, failed=5, missing=6, runs=7)
    more = Evidence(parts=10, repeats=20, rows=30, size_bytes=40, failed=50, missing=60, runs=70)

    assert together(own, [more, more]) == Evidence(
        parts=21, repeats=42, rows=63, size_bytes=84, failed=105, missing=126, runs=7
    )
