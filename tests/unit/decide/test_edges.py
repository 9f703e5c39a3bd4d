"""Edges of small steps of a decision, which whole filters seldom reach."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata.decide import blooms
from strata.decide.blooms import _together, bloom_names
from strata.decide.descent import PageStats, Piece, WholePages, _Down, descend
from strata.decide.explain import explain_filter
from strata.decide.fields import StatsArray, seen, seen_part
from strata.decide.members import is_bloom
from strata.decide.places import _json_path
from strata.decide.plan import _Search, plan_read
from strata.decide.row_groups import KEY, _columns_alike, _tightened, group_stats
from strata.decide.specs import View
from strata.expr.nodes import Call, Literal
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats.wire import BLOOM, BLOOMS
from strata.store.open import Stores
from tests.support.paged import cut
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table
from tests.unit.decide.test_plan import RELATION, greater, load, stores

__all__ = ["stores"]  # a fixture


def test_a_page_counts_for_the_conjunct_that_rules_it_out() -> None:
    assert PageStats(pa.table({}), 1, 3).proofs(7) == (0, 7, 0)


def test_a_page_knows_how_many_conjuncts_its_filter_has() -> None:
    verdict: Any = SimpleNamespace(stats=pa.table({"n": [5, 6]}), proof=np.array([0, 1]))

    def found(question: Any) -> PageStats:
        down: Any = SimpleNamespace(_question=question)
        return _Down._page_stats(down, verdict, 1)

    asked = found(SimpleNamespace(conjuncts=2))
    assert (asked.stats["n"].to_pylist(), asked.conjunct, asked.conjuncts) == ([6], 1, 2)
    assert found(None).conjuncts == 0


def test_filters_are_looked_at_in_groups_that_fit_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blooms, "TOGETHER_BYTES", 10)
    stats = pa.table({"b": pa.array([{"size_bytes": 4}] * 6)})

    groups = [group.tolist() for group in _together(stats, np.arange(6), ["b"])]

    assert groups == [[0, 1], [2, 3], [4, 5]]


def test_a_column_is_of_filters_by_its_name_and_its_type() -> None:
    some = pa.nulls(1, BLOOM)
    stats = pa.table({f"{BLOOMS}1": some, f"{BLOOMS}2": [1], "other": some})

    assert bloom_names(stats) == [f"{BLOOMS}1"]
    assert is_bloom(BLOOM)
    assert not is_bloom(pa.struct([("form", pa.string())]))
    assert not is_bloom(pa.int64())


def test_only_structs_have_fields_and_only_those_that_they_have() -> None:
    ends = StatsArray(
        pa.array([{"a": 1, "b": 2}], pa.struct([("a", pa.int32()), ("b", pa.int32())]))
    )
    number = StatsArray(pa.array([1]))

    assert seen_part(ends, ends, 0) is not None
    assert seen_part(ends, ends, 1) is not None
    assert [seen_part(ends, ends, n) for n in (-1, 2)] == [None, None]
    assert seen_part(number, number, 0) is None


def test_bounds_of_a_narrower_type_are_seen_as_the_declared_one() -> None:
    found = seen(StatsArray(pa.array([1, None], pa.int32())), parse_type("int64"))

    assert found is not None
    assert (found.type, found.array.to_pylist()) == (pa.int64(), [1, None])


def test_json_that_is_read_from_a_constant_is_no_place_of_a_column() -> None:
    text, path = Literal("{}", "string"), Literal("$.a", "string")

    assert _json_path(Call("get_json_object", (text, path), "string")) is None


def test_pages_that_are_not_opened_are_left_out_of_a_read() -> None:
    page: Any = SimpleNamespace(
        keep=False, counted=False, proofs=(), parts=3, size_bytes=30, refs=list
    )
    step: Any = SimpleNamespace(union=None, ruled_out=False, counted=False, batch=None)
    search = _Search(None, "", 0, groups=False)

    search._take(step, [page])

    assert [(out.parts, out.size_bytes) for out in search.left_out] == [(3, 30)]


def test_keys_are_compared_by_the_order_and_the_types_that_each_part_was_written_with() -> None:
    def relation(version: int, first: str) -> Relation:
        kinds = (parse_type(first), parse_type("int64"))
        return Relation(version, (Column(1, "a", kinds[0]), Column(2, "b", kinds[1])), (1, 2), ())

    relations = [relation(0, "int32"), relation(1, "int64")]
    cases = list(product(([1, 2], [2, 1], [1], None), (0, 1, None))) * 2

    def alike(rows: list[Any]) -> list[int]:
        orders = pa.array([order for order, _ in rows], pa.list_(pa.int32()))
        versions = pa.array([version for _, version in rows], pa.int64())
        manifest = pa.table({"order": orders, "relation_version": versions})
        return _columns_alike(manifest, relations).tolist()

    alone = [alike([case])[0] for case in cases]
    assert len(set(alone)) == 3
    assert alike(cases) == alone


def test_lists_of_unknown_lengths_may_be_empty_or_long() -> None:
    known = np.array([True, False])
    view: Any = SimpleNamespace(_count=lambda *_: (np.array([2, 5]), known))

    shortest, longest = View._lengths(view, "s.1")

    assert shortest.tolist() == [2, 0]
    assert longest[0] == 2
    assert longest[1] > 2**30


def test_every_part_has_its_verdict_and_its_reason_unless_fewer_are_wanted(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.decide.explain.REASONS_MAX", 0)
    state, filter = load(stores, "on"), greater(14)

    found = explain_filter(stores, state, filter).to_json(parts=True)

    assert found == explain_filter(stores, state, filter, every_part=True).to_json(parts=True)
    assert found != explain_filter(stores, state, filter, every_part=False).to_json(parts=True)
    fetched = {ref.key for ref in plan_read(stores, state, filter=filter).fetched}
    verdicts = {part["key"]: part["verdict"] for part in found["parts"]}
    assert verdicts == {key: "keep" if key in fetched else "skip" for key in verdicts}


def test_keys_of_a_type_that_is_not_decoded_bound_nothing() -> None:
    relation = Relation(0, (Column(1, "a", parse_type("float64")),), (1,), ())
    stats = pa.table({"s.1": [{"low": 0.5, "high": 1.5}] * 2})
    starts, both = pa.array([b"a", b"b"]), np.array([1, 1])

    assert _tightened(stats, starts, np.array([0, 0]), both, relation) is stats


def test_a_part_whose_row_groups_are_not_known_has_none_to_bound() -> None:
    relation = Relation(0, (Column(1, "a", parse_type("int64")),), (1,), ())
    splits = pa.array([None, [{KEY: b"a"}, {KEY: b"b"}], [{KEY: b"c"}]])
    manifest = pa.table({"order": [[1]] * 3, "relation_version": [0] * 3, "splits": splits})
    stats = pa.table({"s.1": [{"low": 1, "high": 9}] * 3})

    found = group_stats(manifest, stats, [relation])

    assert found is not None
    assert (found.parts.tolist(), found.owner.tolist()) == ([1], [0, 0])


def test_pages_of_one_run_are_passed_by_as_they_are_unless_all_are_to_be_opened() -> None:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=256)
    rows = table(RELATION, [(n, f"s{n}", 0, 1) for n in range(50)])
    with cut(2, 2):
        [batch] = append(stores, "shard", 0, 1, [rows]).batches
    [step] = descend(stores, load(stores), None)

    passed = [some for some in step.narrowed() if isinstance(some, WholePages)]
    opened = [some for some in step.narrowed(open_all=True) if isinstance(some, Piece)]

    assert batch.parts > 4
    assert sum(some.parts for some in passed) == batch.parts
    assert sum(len(some.rows) for some in opened) == batch.parts
