"""What is told of a filter is what a read does, summary first, with the causes and the cures."""

import json
from dataclasses import replace

import pytest

from strata.decide.descent import load_manifest
from strata.decide.explain import REASONS_MAX, Explanation, explain_filter
from strata.decide.plan import plan_count, plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal, Opaque
from strata.expr.nodes import Column as Field
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table
from tests.unit.decide.test_plan import RELATION, N, greater, load, stores

__all__ = ["stores"]  # a fixture

DOC = Field(2, "doc", "string")


def explained(stores: Stores, than: int = 14, as_of: int | None = None) -> Explanation:
    return explain_filter(stores, load(stores, "on"), greater(than), as_of)


@pytest.mark.parametrize("than", [-1, 4, 14, 25, 99])
def test_every_part_is_explained_as_a_read_decides(stores: Stores, than: int) -> None:
    found = explained(stores, than)
    plan = plan_read(stores, load(stores, "on"), filter=greater(than))

    assert len(found.parts) == plan.parts_total
    kept = {p.ref.key for p in found.parts if p.reason.keep}
    assert kept == {ref.key for ref in plan.fetched}
    assert all(p.reason.text for p in found.parts)
    dropped = sum(batch.parts for batch in plan.dropped)
    assert sum(p.level == "batch" for p in found.parts) == dropped
    assert len(explained(stores, than, as_of=0).parts) == 1


def test_the_summary_counts_levels_and_groups_reasons(stores: Stores) -> None:
    document = explained(stores).to_json()

    assert [(x["level"], x["total"], x["kept"]) for x in document["levels"]] == [
        ("batches", 3, 2),
        ("parts", 4, 2),
        ("row groups", 4, 2),
    ]
    groups = {group["cause"]: group for group in document["kept_because"]}
    assert set(groups) == {"rows may satisfy it", "no statistics"}
    assert "strata stats backfill shard --columns n" in groups["no statistics"]["help"]
    (proved,) = document["skipped_because"]
    assert (proved["expression"], proved["parts"]) == ("n > 14", 2)
    assert "parts" not in document
    listed = explained(stores).to_json(parts=True)["parts"]
    assert {part["verdict"] for part in listed} == {"keep", "skip"}


def test_a_filter_that_can_never_skip_is_told_so(stores: Stores) -> None:
    odd: Expr = Opaque("Rand: rand()", "double")
    call = Call("greater_than", (N, Call("cast", (odd,), "long")), "boolean")
    static = explain_filter(stores, load(stores), type(greater(1))(call, "", 0, 0)).to_json()[
        "static"
    ]

    assert not static["could_skip"]
    assert "Rand" in static["conjuncts"][0]["because"]
    assert explained(stores).to_json()["static"]["could_skip"]


def test_reasons_of_many_parts_are_not_worked_out_unasked(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert REASONS_MAX > 100
    monkeypatch.setattr("strata.decide.explain.REASONS_MAX", 1)
    found = explain_filter(stores, load(stores), greater(14), every_part=False)

    whole = explained(stores)
    assert [p.reason.keep for p in found.parts] == [p.reason.keep for p in whole.parts]
    assert any("--parts" in p.reason.help for p in found.parts)


def _of_many_groups() -> Stores:
    """Return a shard of one part of several row groups: n is 0 to 499."""
    stores = memory_stores()
    create(stores, RELATION, part_bytes=1 << 20, row_group_bytes=1 << 10)
    append(stores, "shard", 0, 1, [table(RELATION, [(n, f"s{n}", 0, 1) for n in range(500)])])
    return stores


def test_row_groups_are_told_with_what_skips_and_what_keeps_them() -> None:
    stores = _of_many_groups()
    plan = plan_read(stores, load(stores, "on"), filter=greater(400))
    document = explained(stores, 400).to_json(parts=True)
    (part,) = document["parts"]
    groups = part["row_groups"]

    assert groups["total"] > groups["kept"] == plan.groups_fetched > 0
    assert groups["because"] == "by their first keys"
    assert "skipped: n > 400 is never true (n in [0, " in groups["reason"]
    assert "; kept: n > 400 may be true" in groups["reason"]
    assert document["row_groups"] == [
        {"because": groups["because"], "parts": 1, "total": groups["total"], "kept": groups["kept"]}
    ]
    assert document["levels"][2]["kept"] == groups["kept"]


def test_a_count_reads_the_row_groups_that_a_read_does() -> None:
    stores = _of_many_groups()
    state = load(stores, "on")
    plan, _ = plan_count(stores, state, filter=greater(400))

    assert 0 < plan.groups_fetched < plan_read(stores, state).groups_fetched
    assert plan.groups == plan_read(stores, state, filter=greater(400)).groups


def test_a_part_whose_keys_tell_nothing_says_why() -> None:
    stores = _of_many_groups()
    text = Call("equal_to", (Field(2, "s", "string"), Literal("s7", "string")), "boolean")
    (part,) = explain_filter(stores, load(stores, "on"), Filter(text, "", 0, 0)).parts

    assert part.groups is not None
    assert part.groups.kept == part.groups.total > 1
    assert part.groups.because == "the filter does not look at n, by which rows are sorted"


def test_a_part_that_is_skipped_or_distrusted_has_no_row_groups_to_tell_of() -> None:
    stores = _of_many_groups()
    (skipped,) = explained(stores, 1000).parts
    state = load(stores, "on")
    rollout = replace(state.rollout, quarantine=(skipped.ref.key,))
    (distrusted,) = explain_filter(stores, replace(state, rollout=rollout), greater(400)).parts

    assert skipped.groups is distrusted.groups is None
    assert distrusted.reason.cause == "in quarantine"


def test_of_a_shard_that_nothing_was_written_to_there_is_nothing_to_tell() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    found = explained(stores)

    assert found.as_of == plan_read(stores, load(stores)).as_of == MIN_TIME
    assert [(level.total, level.kept) for level in found.levels] == [(0, 0)] * 3
    assert found.parts == ()


WIDE = Relation(
    0, (Column(1, "n", parse_type("int64")), Column(2, "doc", parse_type("jsonb"))), (1,), ()
)


@pytest.mark.parametrize(("keys", "budget", "kept"), [(300, 1 << 20, 255), (40, 400, None)])
def test_paths_that_are_left_out_are_counted_and_the_cure_is_named(
    keys: int, budget: int, kept: int | None
) -> None:
    """By the limit on paths, and by the budget."""
    stores = memory_stores()
    create(stores, WIDE, part_bytes=1 << 20, stats=StatsSpec(budget_bytes=budget, keep=()))
    doc = json.dumps({f"k{n:03}": n for n in range(keys)})
    append(stores, "shard", 0, 1, [table(WIDE, [(n, doc, 0, 1) for n in range(3)])])
    state = load(stores, "on")
    known = {n for n in load_manifest(stores, state, state.batches[0]).column_names if "$." in n}
    lost = min({f"k{n:03}" for n in range(keys)} - {name[len("s.2$.") :] for name in known})
    read = Call("get_json_object", (DOC, Literal(f"$.{lost}", "string")), "string")
    number = Call("cast", (read,), "long", (("ansi", "try"),))
    asked = Call("greater_than", (number, Literal(9999, "long")), "boolean")

    (part,) = explain_filter(stores, state, Filter(asked, "", 0, 0)).parts

    assert kept is None or len(known) == kept
    assert part.reason.cause == "statistics trimmed away"
    assert part.reason.text.endswith(
        f"; of {keys} paths of doc, {len(known)} have statistics "
        f"and {keys - len(known)} are left out"
    )
    assert f"add doc.{lost} to stats.keep of shard" in part.reason.help
