"""Law 13: a read, soft evaluation, explain, receipts and trimming decide alike, as their twin does.

The twin (`tests/twins/decided.py`) makes each verdict alone, on a table of one row.
"""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.audit import receipts
from strata.decide.decision import decide
from strata.decide.descent import load_manifest
from strata.decide.explain import explain_filter
from strata.decide.plan import plan_read
from strata.decide.skips import decide_all
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.format import manifest as manifests
from strata.machine.machine import Machine
from strata.maintain.trim import trim_shard
from strata.maintain.trim_report import Named
from strata.model import schema
from strata.model.types import parse_type
from strata.parts import pages
from strata.parts.pages import PageSizes
from strata.state.schema import AddColumn
from strata.state.state import State
from strata.store.open import Stores
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table
from tests.twins.decided import Decided, decided

OLD = schema.Relation(
    0,
    (schema.Column(1, "n", parse_type("int64")), schema.Column(2, "s", parse_type("string"))),
    (1,),
    (),
)
TEXT = "{:060}"


CUTS = {
    "in one blob": pages.SIZES,
    "in pages": PageSizes(page_parts=2, index_rows=100, paged_parts=2),
    "in pages below indexes": PageSizes(page_parts=3, index_rows=2, paged_parts=3),
}


@pytest.fixture(scope="module", params=CUTS.values(), ids=CUTS)
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    """Batches of parts with row groups, some without statistics, some younger than a column."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "SIZES", request.param)
        patch.setattr(manifests, "PIECE_PARTS", 3)
        stores = memory_stores()
        create(stores, OLD, part_bytes=8000, row_group_bytes=1000)
        for day, layout in enumerate(["both", "structured"]):
            runs = [
                [(n, TEXT.format(n % 97), day, 1) for n in _days_rows(day) if n % 2 == run]
                for run in (0, 1)
            ]
            append(stores, "shard", day, day + 1, [table(OLD, run) for run in runs], layout)
        new = (
            Machine(stores).evolve("shard", AddColumn("m", parse_type("int64"), False, 7)).relation
        )
        for day, layout in enumerate(["both", "row", "both"], 2):
            rows = [(n, TEXT.format(n % 97), n % 50, day, 1) for n in _days_rows(day)]
            append(stores, "shard", day, day + 1, [table(new, rows)], layout)
        late = [(n, TEXT.format(n), 60, 5 + n % 2, 1) for n in range(400)]  # two times in one batch
        append(stores, "shard", 5, 7, [table(new, late[n::2]) for n in (0, 1)], "both")
        yield stores


def _days_rows(day: int) -> range:
    return range(300 * day, 300 * day + 300)


def compare(function: str, number: int, kind: str, value: int | str) -> Expr:
    left = Column(number, {1: "n", 2: "s", 3: "m"}[number], kind)
    return Call(function, (left, Literal(value, kind)), "boolean")


COMPARISONS = st.one_of(
    st.builds(compare, st.sampled_from(["greater_than", "less_than", "equal_to"]),
              st.just(1), st.just("long"), st.integers(-10, 1600)),
    st.builds(compare, st.sampled_from(["greater_than", "equal_to"]),
              st.just(3), st.just("long"), st.sampled_from([6, 7, 8, 49, 60])),
    st.builds(compare, st.sampled_from(["less_than", "equal_to"]),
              st.just(2), st.just("string"), st.integers(0, 110).map(TEXT.format)),
)  # fmt: skip
FILTERS = st.recursive(
    COMPARISONS,
    lambda some: st.builds(
        lambda name, *both: Call(name, both, "boolean"), st.sampled_from(["and", "or"]), some, some
    ),
    max_leaves=4,
).map(lambda expr: Filter(expr, "a filter", 0, 0))
NAMED = st.sets(st.integers(0, 60), max_size=2)
OTHERS = st.sets(st.sampled_from(["1", "3", "greater_than"]), max_size=1)


def state_of(stores: Stores, parts: set[int], others: set[str]) -> State:
    state = Machine(stores).load("shard")
    tables = [load_manifest(stores, state, batch) for batch in state.batches if batch.manifest]
    every = [ref.key for table in tables for ref in manifests.part_refs(table)]
    words = {every[number % len(every)] for number in parts} | others
    return replace(state, rollout=replace(state.rollout, quarantine=tuple(sorted(words))))


def skipped(parts: list[Decided]) -> list[str]:
    return [part.ref.key for part in parts if not part.keep]


@settings(max_examples=tries(5, 400), deadline=None)
@given(filter=FILTERS, as_of=st.sampled_from([0, 2, 5, 6]), parts=NAMED, others=OTHERS)
def test_a_read_and_explain_decide_as_the_twin_does(
    stores: Stores, filter: Filter, as_of: int, parts: set[int], others: set[str]
) -> None:
    state = state_of(stores, parts, others)
    twin = decided(stores, state, filter, as_of)
    kept = {part.ref.key for part in twin if part.keep}
    left = {part.ref.key: part.groups for part in twin if part.groups}

    plan = plan_read(stores, state, as_of=as_of, filter=filter, mode="on")
    told = explain_filter(stores, state, filter, as_of)

    assert {ref.key for ref in plan.fetched} == kept
    # The manifest of a batch that is dropped is not opened: all of its parts count.
    dropped = {part.batch.lower: part.batch.parts for part in twin if part.by_batch}
    by_part = [part for part in twin if not part.keep and not part.by_batch]
    assert plan.parts_skipped == sum(plan.proofs) == len(by_part) + sum(dropped.values())
    splits = {part.ref.key: len(part.ref.splits) for part in twin}
    chosen = {k: tuple(i for i in range(splits[k]) if i not in some) for k, some in left.items()}
    assert plan.groups == chosen
    assert [(p.ref.key, p.reason.keep, p.level == "batch") for p in told.parts] == [
        (part.ref.key, part.keep, part.by_batch) for part in twin
    ]
    fetched = sum(splits[key] - len(left.get(key, ())) for key in kept)
    assert told.levels[2].kept == fetched
    inside = {p.ref.key: p.groups.kept for p in told.parts if p.groups is not None}
    assert inside == {k: splits[k] - len(left.get(k, ())) for k in kept if k in inside}


@settings(max_examples=tries(5, 400), deadline=None)
@given(filter=FILTERS, parts=NAMED, others=OTHERS)
def test_soft_evaluation_receipts_and_trimming_decide_as_the_twin_does(
    stores: Stores, filter: Filter, parts: set[int], others: set[str]
) -> None:
    state = state_of(stores, parts, others)
    twin = decided(stores, state, filter)

    softly = decide_all(stores, state, filter)
    plan = plan_read(stores, state, filter=filter, mode="on")
    receipt = receipts.issue(stores, state, plan, filter)
    again = receipts.replay(stores, state, receipt)

    assert [(s.ref.key, s.by_batch, s.stats) for s in softly.skipped] == [
        (part.ref.key, part.by_batch, part.stats) for part in twin if not part.keep
    ]
    assert [(s.ref.key, s.groups) for s in softly.tightened] == [
        (part.ref.key, part.groups) for part in twin if part.groups
    ]
    assert {key for batch in receipt["batches"] for key in batch["skipped"]} == {*skipped(twin)}
    assert again.reproduced, again.differences
    assert again.skipped == len(skipped(twin))


@settings(max_examples=tries(3, 150), deadline=None)
@given(filter=FILTERS)
def test_trimming_counts_the_skips_of_reads(stores: Stores, filter: Filter) -> None:
    """Nothing is trimmed, so that before and after are the same."""
    state = Machine(stores).load("shard")
    twin = decided(stores, state, filter)

    report = trim_shard(
        stores,
        "shard",
        budget_bytes=1 << 20,
        registered=[Named("one", "registered", filter)],
        dry_run=True,
    )

    by_part = [part for part in twin if not part.keep and not part.by_batch]
    alone = len(by_part) + sum(_alone(state, part, filter) for part in twin if part.by_batch)
    assert report.filters[0].skipped_before == report.filters[0].skipped_after == alone


def _alone(state: State, part: Decided, filter: Filter) -> bool:
    """Return whether a part's own statistics rule it out, too."""
    return not decide(filter, pa.Table.from_batches([part.stats]), state.relation).keep[0]


def test_there_is_something_of_each_kind(stores: Stores) -> None:
    """Else the laws above would hold of shards in which nothing is decided."""
    state = state_of(stores, {1}, set())
    young = Filter(compare("greater_than", 3, "long", 8), "m > 8", 0, 0)
    by_key = Filter(compare("equal_to", 1, "long", 450), "n = 450", 0, 0)
    twin = decided(stores, Machine(stores).load("shard"), by_key)

    assert any(part.suspect for part in decided(stores, state, by_key))
    assert {part.by_batch for part in twin} == {True, False}
    assert any(part.groups for part in twin)
    assert any(not p.keep and not p.by_batch for p in decided(stores, state, by_key))
    old = [p for p in decided(stores, state, young) if p.ref.relation_version == 0]
    assert any(not part.keep for part in old), "what is known of a younger column decides"
    report = trim_shard(
        stores,
        "shard",
        budget_bytes=1 << 20,
        registered=[Named("one", "registered", young)],
        dry_run=True,
    )
    assert report.filters[0].skipped_before >= len(old)
