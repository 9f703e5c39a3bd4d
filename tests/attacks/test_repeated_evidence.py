"""The same part under the same filter is one thing that was looked at, however many nights."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.audit import seen as module
from strata.audit.run import Check, Scope, validate_shard
from strata.audit.seen import filter_shape, pairs_of, with_pairs
from strata.errors import Conflict
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.machine.machine import Machine
from strata.machine.named import pointers
from strata.model.runner import serial
from strata.model.settings import StoreSettings
from strata.rollout import ladder
from strata.rollout.evidence import AuditCounts, Seen, add
from strata.state.state import Evidence, State, Stratum
from strata.state.step import step
from strata.store import keys
from strata.store.memory import MemoryBlob
from tests.support.audited import ID, WHERE, World, another, world_in
from tests.support.climb import NO_GATES
from tests.support.shards import NAME

DAY_MS = 86_400_000


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    name = f"memory://{request.node.name}"
    days = iter(range(1, 10_000))
    return world_in(StoreSettings(name, name), lambda: next(days) * DAY_MS // 10)


def night(world: World, number: int, where: object = WHERE) -> Evidence:
    scope = Scope(f"run {number}", check_format=False)
    world.run(scope, where=where)  # type: ignore[arg-type]
    return world.state.rollout.evidence


def test_a_hundred_nights_of_one_filter_are_a_hundred_nights_and_no_new_part(world: World) -> None:
    first = night(world, 0)
    assert first.parts > 1
    assert (first.repeats, first.distinct_parts, first.filters) == (0, first.parts, 1)
    for number in range(1, 30):
        last = night(world, number)
    assert (last.parts, last.strata) == (first.parts, first.strata)
    assert (last.repeats, last.runs) == (29 * first.parts, 30)
    assert last.days > first.days
    assert last.rows == 30 * first.rows
    more = night(world, 99, another(1))
    assert (more.parts, more.filters) == (2 * first.parts, 2)
    assert more.distinct_parts == first.distinct_parts


def test_a_filter_under_another_name_or_spelling_is_the_same(world: World) -> None:
    night(world, 0)
    before = world.state.rollout.evidence.parts
    twin = type(WHERE)(WHERE.expr, "ID   > 250 -- again", 0, 0)
    checks = [Check("another name", twin), Check("and another", WHERE)]
    validate_shard(
        world.stores, NAME, checks, world.judge, serial, Scope("run 2", check_format=False)
    )
    assert world.state.rollout.evidence.parts == before


def test_filters_that_differ_in_constants_only_are_one(world: World) -> None:
    """A reader who asks `id > 250`, `id > 251`, … a thousand times is no thousandfold evidence."""
    first = night(world, 0)
    column = Column(ID, "id", "long")

    def above(number: int) -> Call:
        return Call("greater_than", (column, Literal(number, "long")), "boolean")

    def listed(numbers: range) -> Call:
        items = tuple(Literal(n, "long") for n in numbers)
        return Call("in", (column, *items), "boolean")

    for number, exprs in enumerate(
        [
            [above(251 + n) for n in range(5)],
            [Call("and", (above(n), above(n + 1)), "boolean") for n in range(260, 263)],
            [Call("or", (above(260), Call("or", (above(261),) * 2, "boolean")), "boolean")],
        ]
    ):
        checks = [Check(f"{n}", Filter(expr, f"f{n}", 0, 0)) for n, expr in enumerate(exprs)]
        scope = Scope(f"more {number}", check_format=False)
        validate_shard(world.stores, NAME, checks, world.judge, serial, scope)
        last = world.state.rollout.evidence
        assert (last.filters, last.strata) == (1, first.strata)
        # Parts that `id > 250` needed are new under a filter that skips them.
        assert last.parts == last.distinct_parts
    lists = [listed(range(300, 300 + n)) for n in range(1, 5)]
    assert len({filter_shape(expr) for expr in lists}) == 1
    assert len({filter_shape(expr) for expr in (above(1), listed(range(1)), another(1).expr)}) == 3


def test_a_path_is_no_constant() -> None:
    """Another place has statistics of its own."""

    def at(path: str) -> Call:
        text = Call(
            "get_json_object", (Column(2, "j", "string"), Literal(path, "string")), "string"
        )
        return Call("equal_to", (text, Literal(path, "string")), "boolean")

    assert filter_shape(at("$.a")) != filter_shape(at("$.b"))


def test_what_was_audited_by_older_programs_begins_anew(world: World) -> None:
    """They kept each filter with its constants, which cannot be taken out of a digest."""
    first = night(world, 0)
    table = pa.table({name: pa.array([1], pa.uint64()) for name in ("filter", "part")})
    sink = BytesIO()
    pq.write_table(table, sink)
    key = keys.seen_key(NAME, keys.content_hash(sink.getvalue()))
    world.stores.blob.set(key, sink.getvalue())

    def older(state: State, now_ms: int) -> tuple[State, None]:
        rollout = replace(state.rollout, evidence=replace(first, seen=key, parts=5000))
        return step(state, now_ms, rollout=rollout), None

    Machine(world.stores).apply(NAME, older)
    last = night(world, 1)
    assert (last.parts, last.runs, last.repeats) == (first.parts, 1, 0)


def test_other_code_and_a_lost_list_begin_anew(world: World) -> None:
    first = night(world, 0)
    assert first.seen is not None
    assert first.seen in pointers(world.state), "garbage collection keeps it"
    world.stores.blob.delete(first.seen)
    lost = night(world, 1)
    assert (lost.parts, lost.repeats, lost.runs) == (first.parts, 0, 1)


def test_evidence_of_before_keeps_its_nights_and_loses_its_parts() -> None:
    old = Evidence(basis="b", runs=9, days=9, parts=5000, strata=(Stratum("x", 5000),))
    seen = add(old, AuditCounts(3, 3, 3, 0, 0, 100, {"x": 3}), DAY_MS, "b", counts_for_step=False)
    assert (seen.parts, seen.repeats, seen.runs, seen.days) == (3, 5000, 10, 10)
    assert seen.strata == (Stratum("x", 3),)


def test_two_validations_at_once_count_a_part_once(world: World) -> None:
    """Each has read the list before the other has written its own."""
    state = world.state
    pairs = pairs_of([(WHERE.expr, "p"), (WHERE.expr, "q")])
    blob = world.stores.blob
    both = [with_pairs(blob, NAME, None, pairs[:n], anew=False)[0] for n in (1, 2)]
    counts = [AuditCounts(n, 1, 1, 0, 0, 100, {"x": n}, seen=s) for n, s in enumerate(both, 1)]
    after, _ = ladder.record(state, DAY_MS, key="v1", counts=counts[0], policy=NO_GATES)
    with pytest.raises(Conflict, match="meanwhile"):
        ladder.record(after, DAY_MS, key="v2", counts=counts[1], policy=NO_GATES)


def test_a_race_is_counted_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., tuple[Seen, np.ndarray]] = with_pairs
    others = [7]

    def interrupted(*words: object, **options: object) -> tuple[Seen, np.ndarray]:
        found = real(*words, **options)  # type: ignore[arg-type]
        if others:
            night(world, others.pop())
        return found

    from strata.audit import run

    monkeypatch.setattr(run, "with_pairs", interrupted)
    last = night(world, 0)
    assert (last.parts, last.repeats, last.runs) == (last.distinct_parts, last.parts, 2)


def test_a_list_that_is_full_counts_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEEN_MAX", 2)
    blob = MemoryBlob()
    pairs = pairs_of([(WHERE.expr, name) for name in "abc"])
    seen, fresh = with_pairs(blob, "s", None, pairs[:2], anew=False)
    assert (seen.parts, fresh.tolist()) == (2, [True, True])
    full, fresh = with_pairs(blob, "s", seen.key, pairs, anew=False)
    assert (full.parts, fresh.tolist()) == (2, [False, False, False])


def test_a_pair_twice_in_one_run_is_new_once() -> None:
    pairs = pairs_of([(WHERE.expr, "a"), (WHERE.expr, "a"), (another(1).expr, "a")])
    seen, fresh = with_pairs(MemoryBlob(), "s", None, pairs, anew=False)
    assert fresh.tolist() == [True, False, True]
    assert (seen.parts, seen.filters) == (1, 2)
