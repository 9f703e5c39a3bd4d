"""Pairs are written, merged, filled in, the first to be left out of a budget, and checked."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata.audit.compare import Recorded, compare_part
from strata.compact.run import compact_shard
from strata.decide.decision import decide, needed_columns
from strata.decide.descent import load_manifest
from strata.decide.reasons import reasons
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.format.columns import updates_schema
from strata.format.manifest import part_refs, stats_columns
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.declare import check_statistics
from strata.maintain.exchange import Selection, ids_of, statistics_label
from strata.maintain.trim import trim_shard
from strata.model.settings import Settings
from strata.model.spec import ShardSpec, parse_spec
from strata.parts.fetch import part_bytes, source_of
from strata.stats.pairs import MOST_BYTES, PAIRS_MAX
from strata.stats.size import column_bits
from strata.stats.wire import PAIR
from strata.store.open import Stores
from tests.support.stored import append, memory_stores

PARTS = 3
COLUMNS = {
    "id": "int64",
    "ordered": "date",
    "shipped": "date",
    "open": "float64",
    "inner": "record<close: float64, name: string>",
    "note": "string",
}
DECLARED = [["shipped", "ordered"], ["inner.close", "open"]]
NAMES = ["s.pair.3~2", "s.pair.5/close~4"]
ORDERED, SHIPPED = Column(2, "ordered", "date"), Column(3, "shipped", "date")


def declared(pairs: Any = DECLARED, budget: int = 1 << 16) -> ShardSpec:
    columns = [{"name": n, "type": t, "nullable": n != "id"} for n, t in COLUMNS.items()]
    stats = {"budget_bytes": budget, "pairs": pairs, "keep": []}
    return parse_spec({"name": "shard", "columns": columns, "key": ["id"], "stats": stats})


def rows(part: int, spec: ShardSpec) -> pa.Table:
    numbers = range(4 * part, 4 * part + 4)
    values: dict[str, list[Any]] = {
        "id": [*numbers],
        "ordered": [100 * n for n in numbers],
        "shipped": [100 * n + part + n % 2 if n % 4 else None for n in numbers],
        "open": [float(n) for n in numbers],
        "inner": [{"close": 2.0 * n if n % 4 else None, "name": "x"} for n in numbers],
        "note": ["abc" * 10 + str(n) for n in numbers],
    }
    schema = updates_schema(spec.relation())
    kinds = [schema.field(i).type for i in range(len(values))]
    arrays = [
        pa.array(c, pa.int32()).cast(k) if pa.types.is_date32(k) else pa.array(c, k)
        for c, k in zip(values.values(), kinds, strict=True)
    ]
    ends = [pa.array([0] * 4, pa.int64()), pa.array([1] * 4, pa.int64())]
    return pa.Table.from_arrays([*arrays, *ends], schema=schema)


def world(spec: ShardSpec | None = None, *, pairs: bool = True) -> Stores:
    stores, spec = memory_stores(), spec or declared()
    Machine(stores).create(spec)
    with pytest.MonkeyPatch.context() as patch:
        if not pairs:  # as an earlier version writes
            patch.setattr("strata.stats.pairs.PairGathering.beside", lambda _self, stats: stats)
        append(stores, "shard", 0, 1, [rows(part, spec) for part in range(PARTS)])
    return stores


def manifest(stores: Stores) -> pa.Table:
    state = Machine(stores).load("shard")
    return load_manifest(stores, state, state.batches[0])


def pairs_of(stores: Stores) -> dict[str, list[Any]]:
    table = manifest(stores)
    return {n: table[n].to_pylist() for n in table.column_names if n.startswith("s.pair.")}


def test_a_write_records_how_two_places_differ() -> None:
    found = pairs_of(world())

    assert [*found] == NAMES
    days = [(one["form"], one["both"], one["low"], one["high"]) for one in found[NAMES[0]]]
    assert days == [("date32[day]", 3, float(n), float(n + 1)) for n in range(PARTS)]
    ratios = [(one["zeros"], one["ratio_low"], one["ratio_high"]) for one in found[NAMES[1]]]
    assert ratios == [(1, 2.0, 2.0), (0, 2.0, 2.0), (0, 2.0, 2.0)]
    assert [one["low"] for one in found[NAMES[1]]] == [
        np.nextafter(n, -np.inf) for n in (1.0, 5.0, 9.0)
    ]


@pytest.mark.parametrize("again", [False, True])
def test_a_backfill_makes_what_a_write_makes(again: bool) -> None:
    stores = world(pairs=False)
    assert pairs_of(stores) == {}

    report = backfill_shard(stores, "shard", Selection(again=again))

    assert report.parts_changed == PARTS
    assert pairs_of(stores) == pairs_of(world())
    assert backfill_shard(stores, "shard").parts_selected == 0


def test_a_backfill_of_columns_collects_the_pairs_that_they_make() -> None:
    stores = world(pairs=False)

    backfill_shard(stores, "shard", Selection(columns=("ordered", "open", "inner")))

    assert [*pairs_of(stores)] == NAMES[1:]


def test_a_merge_collects_them_anew() -> None:
    stores = world(pairs=False)

    compact_shard(stores, "shard", Settings(stores.settings), full=True)

    (one,) = pairs_of(stores)[NAMES[0]]
    assert (one["both"], one["low"], one["high"]) == (9, 0.0, 3.0)


def cost_of_others() -> int:
    """Return the most bytes that the other statistics of a part take."""
    table = manifest(world(declared(pairs=[])))
    return max(table["stats_bytes"].to_pylist())


def test_pairs_take_only_the_room_that_others_leave() -> None:
    alone, most = world(declared(pairs=[])), cost_of_others()
    bare = manifest(alone)
    whole = manifest(world())
    cost = max(int(column_bits(whole[name]).max()) for name in NAMES) // 8 + 1
    assert cost <= MOST_BYTES
    for room, there in ((0, []), (cost, NAMES[:1]), (2 * cost, NAMES)):
        stores = world(declared(budget=most + room))
        table = manifest(stores)
        assert [*pairs_of(stores)] == there
        for name in bare.column_names:
            if name.startswith("s."):
                assert table[name].to_pylist() == bare[name].to_pylist(), name
        assert max(table["stats_bytes"].to_pylist()) <= most + room
        # What does not fit is not collected again and again
        assert backfill_shard(stores, "shard").parts_selected == 0


def test_trimming_leaves_them_out_first() -> None:
    stores, others = world(), cost_of_others()
    bare = manifest(world(declared(pairs=[])))

    trim_shard(stores, "shard", budget_bytes=others)

    assert pairs_of(stores) == {}
    kept = manifest(stores)
    assert {n for n in kept.column_names if n.startswith("s.")} == {
        n for n in bare.column_names if n.startswith("s.")
    }


def test_a_backfill_fills_in_what_a_larger_budget_holds() -> None:
    stores = world()
    trim_shard(stores, "shard", budget_bytes=cost_of_others())

    assert backfill_shard(stores, "shard").parts_changed == PARTS

    assert pairs_of(stores) == pairs_of(world())


@pytest.mark.parametrize(
    ("name", "claim", "field"),
    [
        (NAMES[0], {"low": 1.0}, "low"),
        (NAMES[0], {"high": 0.0}, "high"),
        (NAMES[0], {"both": 4}, "both"),
        (NAMES[1], {"zeros": 0}, "zeros"),
        (NAMES[1], {"ratio_low": 2.5}, "ratio_low"),
        (NAMES[1], {"ratio_high": 1.5}, "ratio_high"),
    ],
)
def test_a_planted_lie_is_found(name: str, claim: dict[str, Any], field: str) -> None:
    stores = world()
    known = stats_columns(manifest(stores))
    assert statements(stores, known) == []
    claims = [{**one, **claim} for one in known[name].to_pylist()]
    place = known.schema.get_field_index(name)

    found = statements(stores, known.set_column(place, name, pa.array(claims, PAIR)))

    (text,) = {*found}
    assert len(found) == 2  # one for each of its columns
    assert " ~ " in text
    assert f".{field} " in text


def test_a_looser_claim_and_one_of_another_type_are_no_finding() -> None:
    stores = world()
    known = stats_columns(manifest(stores))
    place = known.schema.get_field_index(NAMES[0])
    for change in ({"low": -9.0, "high": 99.0}, {"form": "int64", "low": 50.0}):
        claims = [{**one, **change} for one in known[NAMES[0]].to_pylist()]
        changed = known.set_column(place, NAMES[0], pa.array(claims, PAIR))
        assert statements(stores, changed) == []


def statements(stores: Stores, stats: pa.Table) -> list[str]:
    """Return what a check of the format says of the first part."""
    state = Machine(stores).load("shard")
    ref = part_refs(manifest(stores))[0]
    recorded = stats.slice(0, 1).combine_chunks().to_batches()[0]
    data = part_bytes(source_of(stores.blob, state), ref)
    found = compare_part(Recorded(ref, recorded, state.relations, ()), data).findings
    return [one.statement for one in found]


def test_a_filter_reads_them_and_says_so() -> None:
    stores = world()
    state = Machine(stores).load("shard")
    days = Call("date_diff", (SHIPPED, ORDERED), "integer")
    expr: Expr = Call("greater_than", (days, Literal(2, "integer")), "boolean")
    filter = Filter(expr, "", 0, 0)
    table = manifest(stores)

    assert NAMES[0] in needed_columns(filter)
    assert decide(filter, stats_columns(table), state.relation).keep.tolist() == [
        False,
        False,
        True,
    ]
    (said,) = reasons(filter, stats_columns(table), state.relation, [0])
    assert "with shipped - ordered in [0, 1]" in said.text
    assert statistics_label(NAMES[0], state.relation) == "shipped ~ ordered (pair)"
    assert [ids_of(name) for name in (*NAMES, "s.5/close", "rows")] == [{2, 3}, {4, 5}, {5}, set()]


@pytest.mark.parametrize(
    "pair",
    [
        ["ordered"],
        ["ordered", "ordered"],
        ["ordered", "open"],
        ["ordered", "none"],
        ["note", "note"],
        ["inner", "open"],
        ["ordered", "shipped", "open"],
    ],
)
def test_what_is_no_pair_is_refused(pair: list[str]) -> None:
    spec = declared(pairs=[pair])

    with pytest.raises(InvalidRequest, match="no two places") as refused:
        check_statistics(spec, spec.relation())

    assert refused.value.details["value"] == ", ".join(pair)
    with pytest.raises(InvalidRequest):
        Machine(memory_stores()).create(spec)


def test_pairs_that_are_too_many_are_refused() -> None:
    spec = declared(pairs=[["shipped", "ordered"]] * (PAIRS_MAX + 1))

    with pytest.raises(InvalidRequest, match="too many"):
        check_statistics(spec, spec.relation())


def test_a_pair_that_is_no_list_is_refused_with_what_fits() -> None:
    with pytest.raises(InvalidRequest) as refused:
        declared(pairs=["shipped"])

    assert refused.value.cure == "a list of lists of texts"
