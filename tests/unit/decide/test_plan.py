"""Batches and parts are left out exactly where a mode allows it and statistics prove it."""

from dataclasses import replace

import pytest

from strata.decide.credit import credit
from strata.decide.descent import Piece, descend, load_manifest, readable_batches
from strata.decide.draw import sampled
from strata.decide.plan import plan_read
from strata.decide.question import Question
from strata.decide.skips import decide_all
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.nodes import Column as Field
from strata.format.manifest import part_refs
from strata.machine import lean
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.rollout.basis import basis_of
from strata.state.state import State
from strata.store.open import Stores
from tests.support.stored import append, create, killed, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0, (Column(1, "n", parse_type("int64")), Column(2, "s", parse_type("string"))), (1,), ()
)
N = Field(1, "n", "long")


def greater(than: int) -> Filter:
    expr: Expr = Call("greater_than", (N, Literal(than, "long")), "boolean")
    return Filter(expr, f"n > {than}", 0, 0)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Stores:
    """Three batches: n is 0 to 9, 10 to 19 in two runs, 20 to 29 without statistics."""
    monkeypatch.setattr(lean, "PARTS_MIN", 1)
    stores = memory_stores()
    create(stores, RELATION)
    for day, (layout, cuts) in enumerate([("both", 1), ("structured", 2), ("row", 1)]):
        numbers = range(10 * day, 10 * day + 10)
        size = 10 // cuts
        runs = [
            table(RELATION, [(n, "x", day, 1) for n in numbers[i * size : (i + 1) * size]])
            for i in range(cuts)
        ]
        append(stores, "shard", day, day + 1, runs, layout)
    return stores


def load(stores: Stores, mode: str = "off", percent: int = 0) -> State:
    state = Machine(stores).load("shard")
    rollout = replace(
        state.rollout,
        mode=mode,
        audit_percent=percent,
        basis=basis_of(state),  # type: ignore[arg-type]
    )
    return replace(state, rollout=rollout)


def test_batches_then_parts_are_left_out(stores: Stores) -> None:
    plan = plan_read(stores, load(stores, "on"), filter=greater(14))

    assert [run.upper for run in plan.runs] == [2, 3]
    assert [batch.upper for batch in plan.dropped] == [1]
    assert [ref.rows for ref in plan.skipped] == [5]
    assert (plan.parts_fetched, plan.parts_skipped, plan.parts_total) == (2, 2, 4)
    assert plan.bytes_skipped + plan.bytes_fetched == plan.bytes_total
    assert plan.bytes_total == sum(b.size_bytes for b in load(stores).batches)


@pytest.mark.parametrize("mode", ["off", "soft"])
def test_modes_before_audit_fetch_everything(stores: Stores, mode: str) -> None:
    plan = plan_read(stores, load(stores, mode), filter=greater(1000))

    assert (plan.parts_fetched, plan.parts_skipped) == (4, 0)
    assert plan.mode == mode


def test_what_is_supposed_may_be_any_mode_and_the_kill_switch_wins(stores: Stores) -> None:
    nothing = greater(1000)

    asked_on = plan_read(stores, load(stores, "off"), filter=nothing, mode="on")
    asked_off = plan_read(stores, load(stores, "on"), filter=nothing, mode="off")
    stopped = plan_read(killed(stores), load(stores, "on"), filter=nothing, mode="on")

    assert asked_on.parts_fetched == 1  # it has no statistics
    assert asked_off.parts_fetched == 4
    assert stopped.parts_fetched == 4
    assert stopped.mode == "off"
    with pytest.raises(InvalidRequest, match="mode"):
        plan_read(stores, load(stores), filter=nothing, mode="maybe")


def test_without_a_filter_nothing_is_left_out(stores: Stores) -> None:
    assert plan_read(stores, load(stores, "on")).parts_skipped == 0


def test_the_audit_sample_is_reproducible_and_flagged(stores: Stores) -> None:
    def audited(percent: int, mode: str | None = None) -> tuple[frozenset[str], int]:
        state = load(stores, "audit", percent)
        plan = plan_read(stores, state, filter=greater(1000), mode=mode)
        assert plan.audited <= {ref.key for ref in plan.fetched}
        return plan.audited, plan.parts_fetched

    assert audited(100) == (audited(100)[0], 4)
    assert len(audited(100)[0]) == 3
    assert audited(0) == (frozenset(), 1)
    assert audited(50) == audited(50)
    assert audited(50)[0] <= audited(100)[0]
    assert audited(100, "on") == (frozenset(), 1)  # a caller who asks for it gets it


def test_audited_shares_come_close_to_the_percentage() -> None:
    keys = [f"part {n}" for n in range(4000)]
    assert abs(sampled(keys, "7/3", 25).mean() - 0.25) < 0.03
    assert (sampled(keys, "7/3", 25) != sampled(keys, "8/3", 25)).any()
    assert sampled(keys, "7/3", 100).all()
    assert not sampled(keys, "7/3", 0).any()


def test_a_quarantined_column_or_part_proves_nothing(stores: Stores) -> None:
    state = load(stores, "on")
    victim = plan_read(stores, state, filter=greater(14)).skipped[0].key

    for quarantine, fetched in ((("1",), 4), ((victim,), 3), ((), 2)):
        rollout = replace(state.rollout, quarantine=quarantine)
        plan = plan_read(stores, replace(state, rollout=rollout), filter=greater(14))
        assert plan.parts_fetched == fetched


def test_a_quarantined_part_is_kept_although_its_batch_would_be_dropped(stores: Stores) -> None:
    """Its statistics are in the union of the batch, too; soft evaluation decides the same."""
    state = load(stores, "on")
    (victim,) = part_refs(load_manifest(stores, state, readable_batches(state, 2)[0]))
    rollout = replace(state.rollout, quarantine=(victim.key,))
    plan = plan_read(stores, replace(state, rollout=rollout), filter=greater(14))

    assert victim.key in {ref.key for ref in plan.fetched}
    assert (plan.parts_fetched, plan.parts_skipped) == (3, 1)
    softly = decide_all(stores, replace(state, rollout=rollout), greater(14)).skipped
    assert [skipped.ref.key for skipped in softly] == [ref.key for ref in plan.skipped]


def test_a_union_of_other_updates_is_unknown(stores: Stores) -> None:
    state = load(stores, "on")
    (first, *_) = readable_batches(state, 2)
    assert plan_read(stores, state, filter=greater(14)).dropped

    fewer = replace(first, updates=first.updates - 1)
    slots = (replace(state.spine.slots[0], batches=(fewer, *state.spine.slots[0].batches[1:])),)
    spine = replace(state.spine, slots=(*slots, *state.spine.slots[1:]))
    assert not plan_read(stores, replace(state, spine=spine), filter=greater(14)).dropped


def test_only_the_statistics_that_a_filter_needs_are_loaded(stores: Stores) -> None:
    question = Question.about(load(stores, "on"), greater(14))
    (step, *_) = descend(stores, load(stores, "on"), question, 2)
    (piece, *_) = replace(step, union=None).narrowed(("size_bytes",), open_all=True)
    assert isinstance(piece, Piece)

    assert {*piece.table.column_names} == {"t_low", "size_bytes", "relation_version", "rows", "s.1"}


@pytest.mark.parametrize(("mode", "percent"), [("on", 0), ("audit", 60), ("off", 0)])
def test_manifests_in_pieces_are_planned_as_whole_ones(
    mode: str, percent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for rows in (1, 2, 100):
        monkeypatch.setattr("strata.format.manifest.PIECE_PARTS", rows)
        stores = memory_stores()
        create(stores, RELATION)
        runs = [table(RELATION, [(n, "x", t, 1)]) for t, n in enumerate((3, 20, 9, 15, 30))]
        append(stores, "shard", 0, 5, runs, "both")
        plan = plan_read(stores, load(stores, mode, percent), filter=greater(14), as_of=3)
        found.append(
            (
                [(run.run, run.parts) for run in plan.runs],
                plan.skipped,
                plan.bytes_skipped,
                plan.audited,
                plan.proofs,
                plan.parts_total,
            )
        )
    assert found[0] == found[1] == found[2]
    assert found[0][-1] == 4  # the fifth is of a later time


def test_a_plan_says_which_conjunct_left_parts_out(stores: Stores) -> None:
    """The first batch falls to n, the second, of two parts, to s = 'z': each as a whole."""
    text = Call("equal_to", (Field(2, "s", "string"), Literal("z", "string")), "boolean")
    both = Filter(Call("and", (greater(14).expr, text), "boolean"), "", 0, 0)

    plan = plan_read(stores, load(stores, "on"), filter=both)

    assert plan.proofs == (1, 2)
    assert sum(plan.proofs) == plan.parts_skipped
    assert credit(both, plan.proofs) == {"s.1": 1, "s.2": 2}
    assert plan_read(stores, load(stores, "audit", 100), filter=both).proofs == (1, 2)
    assert plan_read(stores, load(stores, "off"), filter=both).proofs == ()
    assert plan_read(stores, load(stores, "on"), filter=greater(14)).proofs == (2,)
