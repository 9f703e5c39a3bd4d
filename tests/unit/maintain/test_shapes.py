"""Shapes of texts are written, merged, filled in, left by trimming, and checked."""

import json
from typing import Any

import pyarrow as pa
import pytest

from strata.audit.compare import Recorded, compare_part
from strata.compact.run import compact_shard
from strata.decide.descent import load_manifest
from strata.format.columns import updates_schema
from strata.format.manifest import part_refs, stats_columns
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Selection
from strata.maintain.trim import trim_shard
from strata.model.settings import Settings
from strata.model.spec import ShardSpec, parse_spec
from strata.parts.fetch import part_bytes, source_of
from strata.stats.wire import SHAPE
from strata.store.open import Stores
from tests.support.stored import append, memory_stores

PARTS = 3
COLUMNS = {
    "id": "int64",
    "price": "string",
    "day": "string",
    "word": "string",
    "inner": "record<code: string>",
    "tags": "list<string>",
    "payload": "jsonb",
}
SHAPES = {"s.shape.2", "s.shape.3", "s.shape.5/code", "s.shape.6/[]", "s.shape.7$.a.price"}


def declared() -> ShardSpec:
    columns = [{"name": n, "type": t, "nullable": n != "id"} for n, t in COLUMNS.items()]
    stats = {"budget_bytes": 1 << 16, "keep": ["payload.a.price", "payload.word"]}
    return parse_spec({"name": "shard", "columns": columns, "key": ["id"], "stats": stats})


def rows(part: int, spec: ShardSpec) -> pa.Table:
    numbers = range(4 * part, 4 * part + 4)
    values: dict[str, list[Any]] = {
        "id": [*numbers],
        "price": [f"{n}.50" if n % 2 else str(n) for n in numbers],
        "day": [f"2024-02-{n + 1:02}" for n in numbers],
        "word": [str(n) if n % 4 else "none" for n in numbers],
        "inner": [{"code": f"{n:05}"} for n in numbers],
        "tags": [[str(n), str(n + 1)] for n in numbers],
        "payload": [
            json.dumps({"a": {"price": f"{n}.5" if n % 2 else n}, "word": "x" * (n % 3)})
            for n in numbers
        ],
    }
    schema = updates_schema(spec.relation())
    arrays = [pa.array(column, schema.field(i).type) for i, column in enumerate(values.values())]
    ends = [pa.array([0] * 4, pa.int64()), pa.array([1] * 4, pa.int64())]
    return pa.Table.from_arrays([*arrays, *ends], schema=schema)


def world(*, shapes: bool = True) -> Stores:
    stores, spec = memory_stores(), declared()
    Machine(stores).create(spec)
    with pytest.MonkeyPatch.context() as patch:
        if not shapes:  # as an earlier version writes
            patch.setattr("strata.stats.shapes.Shapes.beside", lambda _self, stats: stats)
        append(stores, "shard", 0, 1, [rows(part, spec) for part in range(PARTS)])
    return stores


def manifest(stores: Stores) -> pa.Table:
    state = Machine(stores).load("shard")
    return load_manifest(stores, state, state.batches[0])


def shapes_of(stores: Stores) -> dict[str, list[Any]]:
    table = manifest(stores)
    return {n: table[n].to_pylist() for n in table.column_names if n.startswith("s.shape.")}


def test_a_write_records_what_texts_are_written_like() -> None:
    found = shapes_of(world())

    assert {*found} == SHAPES
    numbers = [(one["whole"], one["low"], one["high"]) for one in found["s.shape.2"]]
    assert numbers == [(False, 4.0 * n, 4.0 * n + 3.5) for n in range(PARTS)]
    assert [one["patterns"] for one in found["s.shape.3"]] == ["yyyy-MM-dd"] * PARTS
    assert [one["low"] for one in found["s.shape.5/code"]] == [0, 4, 8]
    assert [one["high"] for one in found["s.shape.6/[]"]] == [4, 8, 12]
    assert [one["low"] for one in found["s.shape.7$.a.price"]] == [1.5, 5.5, 9.5]


@pytest.mark.parametrize("columns", [(), ("price", "day", "inner", "tags", "payload")])
def test_a_backfill_makes_what_a_write_makes(columns: tuple[str, ...]) -> None:
    stores = world(shapes=False)
    assert shapes_of(stores) == {}

    backfill_shard(stores, "shard", Selection(columns=columns, again=True))

    assert shapes_of(stores) == shapes_of(world())


def test_a_merge_collects_them_anew() -> None:
    stores = world(shapes=False)

    compact_shard(stores, "shard", Settings(stores.settings), full=True)

    (low,) = {one["low"] for one in shapes_of(stores)["s.shape.2"]}
    assert low == 0.0


def test_trimming_leaves_them_alone() -> None:
    stores = world()
    before = shapes_of(stores)

    trim_shard(stores, "shard", budget_bytes=0)

    assert shapes_of(stores) == before


@pytest.mark.parametrize(
    ("name", "claim", "said"),
    [
        ("s.shape.2", {"low": 0.0, "high": 99.0, "whole": True}, "price"),
        ("s.shape.2", {"low": 1.0, "high": 99.0}, "price"),
        ("s.shape.2", {"low": -1.0, "high": 3.0}, "price"),
        ("s.shape.3", {"patterns": "dd/MM/yyyy\nyyyy-MM-dd"}, "day"),
        ("s.shape.4", {"low": 0.0, "high": 99.0}, "word"),
        ("s.shape.5/code", {"low": 1.0, "high": 3.0, "whole": True}, "inner"),
        ("s.shape.7$.a.price", {"low": 1.5, "high": 2.5}, "payload"),
        ("s.shape.7$.a.price", {"low": 1.0, "high": 99.0, "whole": True}, "payload"),
        ("s.shape.7$.word", {"low": 0.0, "high": 99.0}, "payload"),
    ],
)
def test_a_shape_that_texts_do_not_have_is_a_finding(name: str, claim: Any, said: str) -> None:
    stores = world()
    assert statements(stores, stats_columns(manifest(stores))) == []
    known = stats_columns(manifest(stores))
    lie = pa.array([claim] * PARTS, SHAPE)
    place = known.schema.get_field_index(name)
    wrong = known.append_column(name, lie) if place < 0 else known.set_column(place, name, lie)

    (text,) = statements(stores, wrong)

    assert said in text
    assert "shape" in text


def test_a_looser_claim_is_no_finding() -> None:
    stores = world()
    known = stats_columns(manifest(stores))
    loose = pa.array([{"low": -9.0, "high": 99.0}] * PARTS, SHAPE)
    place = known.schema.get_field_index("s.shape.2")

    assert statements(stores, known.set_column(place, "s.shape.2", loose)) == []


def statements(stores: Stores, stats: pa.Table) -> list[str]:
    """Return what a check of the format says of the first part."""
    state = Machine(stores).load("shard")
    ref = part_refs(manifest(stores))[0]
    recorded = stats.slice(0, 1).combine_chunks().to_batches()[0]
    data = part_bytes(source_of(stores.blob, state), ref)
    found = compare_part(Recorded(ref, recorded, state.relations, ()), data).findings
    return [one.statement for one in found]
