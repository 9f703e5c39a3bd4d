"""Ingest and merges choose JSON paths by what filters used, and merges by their inputs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.compact import compact_shard
from strata.compact.keep import work_of
from strata.compact.plan import plan
from strata.compact.run import manifests_of
from strata.compact.tasks import merge_tasks
from strata.decide.descent import load_manifest
from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.history import usage
from strata.history.metrics import Metrics
from strata.maintain.worth import merged_worth, paths_used
from strata.model.settings import UsageSettings
from strata.stats.worth import NO_WORTH, StatsWorth
from tests.unit.ingest.test_engine import World

COLUMNS = [{"name": "id", "type": "int64", "nullable": False}, {"name": "doc", "type": "jsonb"}]
STATS = {"budget_bytes": 1 << 20, "keep": ["doc.kept"]}


def world_of(root: Path, **changes: Any) -> World:
    spec = {"columns": COLUMNS, "key": ["id"], "source": {"format": "jsonl"}, "stats": STATS}
    return World(root, **{"time": {"from": "interval"}, **spec, **changes})


def document(base: int, n: int) -> dict[str, int]:
    """Return 400 keys that are the same everywhere; three others are in half of the rows."""
    rare = {"kept": n, "wanted": base + n, "apart": base + n} if n % 2 else {}
    return {f"k{key:03}": n % 3 for key in range(400)} | rare


def take_in(world: World, base: int, day: int) -> None:
    lines = (json.dumps({"id": base + n, "doc": document(base, n)}) for n in range(8))
    file = world.put(f"in/{base}.jsonl", "\n".join(lines) + "\n")
    world.ingest(file, lower=day, upper=day + 1)


def read_with_a_filter(world: World, path: str = "wanted") -> None:
    doc = Call(
        "get_json_object", (Column(2, "doc", "string"), Literal(f"$.{path}", "string")), "string"
    )
    where = Filter(Call("equal_to", (doc, Literal("3", "string")), "boolean"), path, 0, 0)
    plan = plan_read(world.stores, world.state, filter=where, mode="on")
    assert (
        usage.record(world.stores, world.state, plan, where, UsageSettings(), Metrics())
        == "written"
    )


def known(world: World) -> list[set[str]]:
    """Return the rare paths that each part knows, and one that is the same everywhere."""
    names = {f"s.2$.{key}": key for key in ("kept", "wanted", "apart", "k399")}
    return [
        {key for name, key in names.items() if row.get(name) is not None}
        for batch in world.state.batches
        for row in load_manifest(world.stores, world.state, batch).to_pylist()
    ]


def test_ingest_keeps_what_is_declared_and_then_what_filters_used(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    take_in(world, 0, 0)
    assert known(world) == [{"kept"}]
    read_with_a_filter(world)
    take_in(world, 1000, 1)
    assert known(world) == [{"kept"}, {"kept", "wanted"}]


def test_changes_of_keys_choose_alike(tmp_path: Path) -> None:
    world = world_of(tmp_path, source={"format": "jsonl", "envelope": "upsert"})
    take_in(world, 0, 0)
    read_with_a_filter(world)
    take_in(world, 1000, 1)
    assert known(world)[1] == {"kept", "wanted"}


def test_a_merge_chooses_by_use_and_by_what_differs_between_its_inputs(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    wide = {**STATS, "keep": ["doc.kept", "doc.apart", "doc.k0*", "doc.k1*"]}
    wide_world = world_of(tmp_path, stats=wide)
    for one in (world, wide_world):
        for day in range(3):
            take_in(one, 1000 * day, day)
    assert all("apart" in part for part in known(wide_world)), "else no input knows that it differs"
    state = wide_world.state
    worth = merged_worth(wide_world.stores, state, state.batches, {})
    assert "s.2$.apart" not in worth.same
    assert "s.2$.k000" in worth.same
    assert worth.weights["s.2$.apart"] > worth.weights["s.2$.k000"]

    read_with_a_filter(world)
    compact_shard(world.stores, "s", world.settings, full=True)

    [merged] = known(world)
    assert {"kept", "wanted"} <= merged
    # Paths that the inputs know as the same make room: those that no input knew come first
    assert merged == {"kept", "wanted", "apart", "k399"}


def test_a_shard_without_json_reads_no_log_and_no_manifest(tmp_path: Path) -> None:
    world = world_of(tmp_path, columns=COLUMNS[:1], stats={"keep": []})
    nothing: Any = None
    state = world.state
    assert paths_used(nothing, state, UsageSettings()) == {}
    assert merged_worth(nothing, state, state.batches, {"s.1": 1.0}) is NO_WORTH


def test_a_log_that_cannot_be_read_makes_nothing_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strata.errors import Unavailable

    def gone(*_: object, **__: object) -> None:
        raise Unavailable("the store is away", certain=True)

    world = world_of(tmp_path)
    monkeypatch.setattr(usage, "recent", gone)
    take_in(world, 0, 0)
    assert known(world) == [{"kept"}]


def test_what_filters_ask_meanwhile_does_not_begin_a_merge_anew(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    for day in range(2):
        take_in(world, 1000 * day, day)
    state = world.state
    [request] = plan(state, world.settings.compact, full=True, now_ms=0).requests
    manifests = manifests_of(world.stores, state, request)
    tasks = merge_tasks(state, request, manifests, world.settings.store, 1 << 30)
    other = [
        replace(one, worth=StatsWorth({"s.2$.a": 1.0}, frozenset({"s.2$.a"}))) for one in tasks
    ]
    assert work_of(request, tasks) == work_of(request, other)
