"""The law of advice: carried out on the shard, each piece saves exactly what it has promised."""

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
import yaml

from strata.advise import Advice, Advised, advise, carry_out
from strata.advise.candidates import Help, candidates, used_places
from strata.advise.scratch import Scratch
from strata.decide.plan import plan_read
from strata.format.columns import updates_schema
from strata.history.usage import UsedFilter, unread
from strata.machine.machine import Machine
from strata.maintain.exchange import PARTIAL, Fresh, exchange, manifest_of
from strata.maintain.trim import trim_shard
from strata.model.settings import Settings
from strata.model.spec import ShardSpec, parse_spec
from strata.plain.parse import plain_filter
from strata.state.state import Batch, State
from strata.stats.wire import ROWS as ROWS_NAME
from strata.store.open import Stores, open_stores
from tests.support.stored import append, copied_stores, memory_stores, snapshot

COLUMNS = {
    "id": "int64",
    "kind": "string",
    "code": "string",
    "level": "int64",
    "at": "int64",
    "note": "string",
    "tag": "string",
}
ROWS = 150  # a run
LEAST = 40  # bytes of statistics a part: no texts of twenty characters fit
MORE = {**COLUMNS, "until": "int64"}  # by a little more than `at`
WORLDS = (
    "usual",
    "small statistics",
    "trimmed statistics",
    "old statistics",
    "large parts",
    "two columns",
)
SETTINGS = Settings()


def columns_of(types: dict[str, str]) -> Any:
    return [{"name": n, "type": t, "nullable": n != "id"} for n, t in types.items()]


def declared(**settings: Any) -> ShardSpec:
    return parse_spec(
        {
            "name": "shard",
            "key": ["id"],
            "part_bytes": 8192,
            "row_group_bytes": 4096,
            "columns": columns_of(COLUMNS),
            **settings,
        }
    )


def run(number: int, spec: ShardSpec, many: int) -> pa.Table:
    """Return the updates of a run: ids interleave with those of other runs, `at` follows them."""
    draw = random.Random(number)
    rows = [
        {
            "id": i * 16 + number,
            "kind": draw.choice(["a", f"kind-{number}", "z"]),
            "code": f"{draw.getrandbits(64):016x}",
            "level": draw.randrange(1000),
            "at": i * 16 + number + 10**6,
            "note": f"{draw.getrandbits(256):064x}",
            "tag": f"in the order of ids {i * 16 + number:08}",
            "until": i * 16 + number + 10**6 + 7 * i % 9,
        }
        for i in range(many)
    ]
    names = [column.name for column in spec.columns]
    columns = {str(n): [row[name] for row in rows] for n, name in enumerate(names, 1)}
    return pa.table(
        {**columns, "t": [0] * many, "d": [1] * many}, schema=updates_schema(spec.relation())
    )


def world(kind: str) -> Stores:
    """Return a shard of a kind, which a test may change."""
    return copied_stores(written(kind))


@cache
def written(kind: str) -> Stores:
    """Return a shard as usual, one with few or old statistics, or one in a few large parts."""
    settings: dict[str, Any] = {
        "small statistics": {"stats": {"budget_bytes": LEAST, "keep": []}},
        "large parts": {"part_bytes": 1 << 20, "row_group_bytes": 1 << 20},
        "two columns": {"columns": columns_of(MORE)},
    }
    spec = declared(**settings.get(kind, {}))
    stores = memory_stores()
    Machine(stores).create(spec)
    many = 10 * ROWS if kind == "large parts" else ROWS
    for number in range(3):
        state = append(stores, "shard", number, number + 1, [run(number, spec, many)])
        if kind == "old statistics":
            make_old(stores, state.batches[-1])
    if kind == "trimmed statistics":
        trim_shard(stores, "shard", budget_bytes=0)
    return stores


def make_old(stores: Stores, batch: Batch) -> None:
    """Give the parts of a batch what a first version of statistics might have said: nothing."""
    manifest = manifest_of(stores, "shard", batch)
    assert manifest is not None
    known = dict(zip(manifest["key"].to_pylist(), manifest["rows"].to_pylist(), strict=True))
    exchange(
        stores,
        "shard",
        batch,
        list(known),
        lambda key, _: Fresh(pa.RecordBatch.from_pydict({ROWS_NAME: [known[key]]}), PARTIAL),
    )


def load(stores: Stores) -> State:
    return Machine(stores).load("shard")


def used(state: State, *texts: str) -> list[UsedFilter]:
    """Return filters as the log has them; the first one was read with most."""
    return [
        replace(unread(plain_filter(state.relation, text)), reads=2 * len(texts) - n)
        for n, text in enumerate(texts)
    ]


def filters(kind: str) -> list[UsedFilter]:
    state = load(written(kind))
    if kind == "two columns":
        return used(state, "until < at", "kind = 'kind-1'")
    code = run(1, state.spec, 4)["3"][3].as_py()
    return {
        "usual": used(state, f"code = '{code}'", "kind = 'kind-1'", "level > 990", "id = 17"),
        "small statistics": used(state, "tag < 'in the order of ids 00000200'"),
        "trimmed statistics": used(state, "at < 1000200"),
        "old statistics": used(state, "at < 1000200"),
        "large parts": used(state, "id = 33"),
    }[kind]


@cache
def advised(kind: str) -> Advised:
    stores = world(kind)
    return advise(stores, load(stores), SETTINGS, filters(kind))


def in_any_order(rows: Any) -> list[list[str]]:
    """Return rows whose columns are in any sequence, which a sort order changes."""
    return sorted(sorted(map(str, row)) for row in rows)


def fetched(stores: Stores, one: UsedFilter) -> tuple[int, int]:
    plan = plan_read(stores, load(stores), filter=one.filter, mode="on")
    return plan.parts_fetched, plan.bytes_fetched


def by_kind(kind: str) -> dict[Help, Advice]:
    return {one.candidate.kind: one for one in reversed(advised(kind).advice)}


def test_each_kind_of_advice_is_given_somewhere() -> None:
    given = {kind: sorted(help.name for help in by_kind(kind)) for kind in WORLDS}
    assert {name for names in given.values() for name in names} == {help.name for help in Help}


@pytest.mark.parametrize("kind", WORLDS)
def test_advice_that_is_carried_out_saves_what_it_promised(kind: str) -> None:
    found = advised(kind)
    assert found.sample.whole
    assert found.advice
    asked = filters(kind)
    before = [fetched(written(kind), one) for one in asked]
    rows = in_any_order(snapshot(written(kind), "shard"))
    for advice in found.advice:
        stores = world(kind)
        state = load(stores)

        carry_out(stores, SETTINGS, state, advice.candidate.spec, advice.steps)

        after = [fetched(stores, one) for one in asked]
        promised = {e.filter: e for e in advice.effects}
        for one, was, is_now in zip(asked, before, after, strict=True):
            effect = promised[one.filter.sql]
            assert (effect.parts_before, effect.bytes_before) == was, advice.candidate
            assert (effect.parts_after, effect.bytes_after) == is_now, advice.candidate
        saved = [one.reads * (b[1] - a[1]) for one, b, a in zip(asked, before, after, strict=True)]
        assert advice.bytes_saved == sum(saved) > 0
        assert load(stores).spec == advice.candidate.spec
        assert in_any_order(snapshot(stores, "shard")) == rows


def test_bloom_filters_are_advised_only_where_sets_of_values_do_not_do() -> None:
    kinds = {
        (a.candidate.kind, a.candidate.what.split()[4])
        for a in advised("usual").advice
        if a.candidate.kind in (Help.SETS, Help.BLOOMS)
    }
    assert {name for kind, name in kinds if kind == Help.SETS} == {"kind", "code", "id"}
    assert not {name for kind, name in kinds if kind == Help.BLOOMS}
    assert Help.BLOOMS in by_kind("large parts")


def test_statistics_that_are_only_missing_need_no_other_declaration() -> None:
    for kind, command in (
        ("old statistics", "strata stats backfill shard"),
        ("trimmed statistics", "strata stats backfill shard --again"),
    ):
        collect = by_kind(kind)[Help.COLLECT]
        assert [step.command for step in collect.steps] == [command]
        assert not {Help.KEEP, Help.BUDGET} & by_kind(kind).keys()


@pytest.mark.parametrize("kind", WORLDS)
def test_what_a_file_has_to_say_is_what_was_measured(kind: str) -> None:
    columns = MORE if kind == "two columns" else COLUMNS
    state = load(written(kind))
    for one in advised(kind).advice:
        said = yaml.safe_load(one.candidate.yaml) or {}
        stats = {"budget_bytes": state.spec.stats.budget_bytes, "keep": state.spec.stats.keep}
        sizes = {"part_bytes": state.spec.part_bytes, "row_group_bytes": 1024}
        about = {**sizes, **said, "stats": {**stats, **said.get("stats", {})}}
        spec = declared(columns=columns_of(columns), **about)
        for name in ("order", "stats", "part_bytes"):
            assert getattr(spec, name) == getattr(one.candidate.spec, name)


@pytest.mark.parametrize("name", ["on", "a,b", "x: y", "#1", "0x1f", "*"])
def test_names_that_yaml_reads_otherwise_are_quoted(name: str) -> None:
    """`sets: [a,b]` were the values of two other columns, and `order: [on]` was no order."""
    spec = declared(columns=columns_of({"id": "int64", name: "string"}))
    stores = memory_stores()
    Machine(stores).create(spec)
    texts = [f"k{n % 3}{n:0200}" for n in range(200)]
    rows = {"1": range(200), "2": texts, "t": [0] * 200, "d": [1] * 200}
    schema = updates_schema(spec.relation())
    append(stores, "shard", 0, 1, [pa.table({n: [*v] for n, v in rows.items()}, schema=schema)])
    state = load(stores)
    given = candidates(stores, state, SETTINGS, [used(state, f"`{name}` = 'k3'")[0].filter], (), ())
    said = {one.kind: yaml.safe_load(one.yaml) for one in given if one.yaml}
    assert said[Help.ORDER] == {"order": [name]}
    assert said[Help.SETS] == {"stats": {"sets": [name]}}
    assert said[Help.BLOOMS] == {"stats": {"blooms": [name]}}


def test_what_skips_nothing_more_is_not_advised() -> None:
    stores = world("usual")
    found = advise(stores, load(stores), SETTINGS, used(load(stores), "level >= 0"))
    assert found.tried >= 2
    assert found.advice == ()


def test_advice_is_in_order_of_what_it_saves_for_its_cost() -> None:
    given = advised("usual").advice
    assert [one.worth for one in given] == sorted((one.worth for one in given), reverse=True)
    for one in given:
        rewrites = one.candidate.kind in (Help.ORDER, Help.MERGE, Help.PARTS)
        assert one.written_bytes == (one.read_bytes if rewrites else 0)
    assert all(one.reads for one in given)


def test_the_shard_and_its_stores_are_left_as_they_were() -> None:
    stores = world("usual")
    state, blobs = load(stores), sorted(info.key for info in stores.blob.list("shards/"))
    advise(stores, state, SETTINGS, filters("usual"))
    assert load(stores) == state
    assert sorted(info.key for info in stores.blob.list("shards/")) == blobs


def test_of_a_large_shard_a_sample_is_measured_and_named() -> None:
    stores = world("usual")
    state = load(stores)
    total = sum(batch.size_bytes for batch in state.batches)
    found = advise(stores, state, SETTINGS, filters("usual"), bytes_max=total // 3)
    sample = found.sample
    assert not sample.whole
    assert 0 < sample.parts < sample.parts_total == sum(b.parts for b in state.batches)
    assert sample.size_bytes <= total // 3
    assert sample.bytes_total == total
    whole = {one.candidate.kind: one for one in advised("usual").advice}
    for one in found.advice:
        assert all(e.parts_before <= sample.parts for e in one.effects)
        assert one.candidate.kind not in (Help.MERGE, Help.PARTS)
        if one.candidate.kind in whole:
            assert one.read_bytes == whole[one.candidate.kind].read_bytes, "it is of the shard"
    assert not found.to_json()["exact"]


def test_a_sample_has_a_part_of_any_size_and_an_empty_shard_has_none() -> None:
    stores = world("usual")
    scratch = Scratch(stores, load(stores), 1)
    assert scratch.sample.parts == 1
    scratch.close()
    empty = memory_stores()
    Machine(empty).create(declared())
    found = advise(empty, load(empty), SETTINGS, used(load(empty), "id = 1"))
    assert (found.sample.parts, found.advice) == (0, ())


def test_copies_do_not_stay_in_memory() -> None:
    stores = world("usual")
    scratch = Scratch(stores, load(stores), 1 << 30)
    with scratch.copy() as (copied, _):
        settings = copied.settings
        assert [*copied.blob.list("shards/")]
    assert [*open_stores(settings).blob.list("shards/")] == []
    scratch.close()


def test_places_are_named_as_a_declaration_names_them() -> None:
    state = load(world("usual"))
    found = used_places(
        state.relation, [one.filter for one in used(state, "kind = 'a' and id > 3")]
    )
    assert [(p.words, p.column, p.compared) for p in found] == [
        ("kind", "kind", True),
        ("id", "id", False),
    ]
