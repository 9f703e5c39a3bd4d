"""Counts obey the rollout, reach the log for soft evaluation, and a lie behind one is found."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from strata.audit.run import Check, Scope, validate_shard
from strata.audit.soft import Evaluated
from strata.audit.used import used_filters
from strata.decide.plan import plan_read
from strata.decide.whole import complement
from strata.errors import Corrupt, InvalidRequest
from strata.expr.filter import Filter
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.schema import Column, Relation
from strata.model.settings import StoreSettings, UsageSettings
from strata.model.sums import LEAST
from strata.model.types import parse_type
from strata.plain.parse import plain_filter
from strata.plain.rows import accepts
from strata.read.count import any_row, count_rows
from strata.read.scan import read_updates
from strata.shard import Shard
from tests.support.audited import World, lie, world_in
from tests.support.shards import NAME, let_skip
from tests.support.stored import append, create, killed, memory_stores
from tests.support.updates import table

DAY = 86_400_000
RELATION = Relation(
    0,
    (Column(1, "name", parse_type("string")), Column(2, "n", parse_type("int64"))),
    (1,),
    (1,),
)


@pytest.fixture
def shard() -> Shard:
    stores = memory_stores()
    create(stores, RELATION)
    first = [("a", 1, 0, 1), ("b", 2, 1, 1), ("b", 2, DAY - 1, 3)]
    append(stores, "shard", 0, DAY, [table(RELATION, first)])
    second = [("a", 1, DAY, -1), ("c", None, 2 * DAY - 1, 2)]
    append(stores, "shard", DAY, 2 * DAY, [table(RELATION, second)])
    return Shard(stores, "shard")


def without_parts(shard: Shard) -> Shard:
    for ref in plan_read(shard.stores, shard.state()).fetched:
        shard.stores.blob.delete(ref.key)
    return shard


def test_a_row_counts_as_often_as_it_is_there(shard: Shard) -> None:
    assert shard.count() == 6
    assert shard.count(where="name = 'a'") == 0
    assert shard.count(where="n is null") == 2
    assert shard.count(as_of=1) == 2
    assert shard.counts("day") == {"1970-01-01T00:00:00Z": 5, "1970-01-02T00:00:00Z": 1}
    assert shard.counts("year", where="name >= 'b'") == {"1970-01-01T00:00:00Z": 6}


def test_a_row_may_be_in_the_last_part_that_is_read() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    for number in range(7):
        append(stores, "shard", number, number + 1, [table(RELATION, [("a", number, number, 1)])])
    state = Machine(stores).load("shard")

    for n, parts in ((0, 1), (1, 2), (6, 7), (7, 7)):
        found, seen = any_row(stores, state, filter=plain_filter(RELATION, f"n = {n}"), mode="off")
        assert (found, seen.plan.parts_fetched) == (n < 7, parts)
        assert seen.count == int(n < 7)


def test_the_whole_shard_counts_without_a_part(shard: Shard) -> None:
    assert without_parts(shard).count() == 6


def test_a_batch_that_ends_with_the_read_counts_without_its_manifest(shard: Shard) -> None:
    for batch in shard.state().batches:
        assert batch.manifest is not None
        shard.stores.blob.delete(batch.manifest)

    assert shard.count() == 6
    assert shard.count(as_of=DAY - 1) == 5
    with pytest.raises(Corrupt, match="manifest"):
        shard.count(as_of=DAY - 2)


def test_a_filter_counts_unread_only_where_readers_may_skip(shard: Shard) -> None:
    without_parts(shard)

    with pytest.raises(Corrupt, match="a part is missing"):
        shard.count(where="name >= 'a'")
    let_skip(shard.stores, "shard")
    assert shard.count(where="name >= 'a'") == 6
    assert shard.count(where="name > 'x'") == 0
    assert shard.counts("day", where="name >= 'a'") == shard.counts("day")
    with pytest.raises(Corrupt, match="a part is missing"):
        shard.count(where="n >= 1")  # null in the second part
    with pytest.raises(Corrupt, match="a part is missing"):
        shard.counts("hour", where="name >= 'a'")
    with pytest.raises(Corrupt, match="a part is missing"):
        Shard(killed(shard.stores), "shard").count(where="name >= 'a'")


def test_sums_beyond_int64_wrap_as_everywhere() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    rows = [("a", 1, 0, LEAST), ("b", 1, 0, -1)]
    append(stores, "shard", 0, 9, [table(RELATION, rows)])
    shard = Shard(stores, "shard")

    assert shard.count() == 2**63 - 1
    assert shard.count(where="n = 1") == 2**63 - 1  # read


def test_what_cannot_be_counted_is_refused(shard: Shard) -> None:
    with pytest.raises(InvalidRequest, match="unknown bucket"):
        shard.counts("week")
    with pytest.raises(InvalidRequest, match="needs Spark"):
        shard.count(where="trim(name) = 'A'")
    with pytest.raises(InvalidRequest, match="no read is possible"):
        shard.count(as_of=2 * DAY)


def test_an_empty_shard_has_no_row() -> None:
    stores = memory_stores()
    create(stores, RELATION)

    assert Shard(stores, "shard").count() == 0
    assert Shard(stores, "shard").counts("day", where="n = 1") == {}


def test_the_log_gets_the_filter_and_its_complement(shard: Shard) -> None:
    shard.count(where="n = 1")

    used = used_filters(shard.stores, "shard", UsageSettings(), [], 9)

    assert {one.filter.sql for one in used} == {"n = 1", "NOT ((n = 1) <=> true)"}
    found = {one.filter.sql: one.filter.expr for one in used}
    assert found["NOT ((n = 1) <=> true)"] == complement(plain_filter(RELATION, "n = 1")).expr


def judge(world: World, filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
    """Run a plain filter on the rows of parts."""
    found = []
    for ref in refs:
        rows = read_updates(world.stores, world.state, ref)
        names = {str(c.id): c.name for c in world.state.relation.columns}
        named = rows.rename_columns([names.get(n, n) for n in rows.column_names])
        count = sum(sum(accepts(b, filter.expr).to_pylist()) for b in named.to_batches())
        found.append(Evaluated(ref.key, rows.num_rows, count))
    return found


def test_soft_evaluation_of_the_complement_finds_the_lie_behind_a_count() -> None:
    world = world_in(StoreSettings("memory://count", "memory://count"))
    filter = plain_filter(world.state.relation, "id < 250")
    check = Check("used", complement(filter))

    def validated() -> list[str]:
        report = validate_shard(
            world.stores,
            NAME,
            [check],
            lambda f, refs, groups=None: judge(world, f, refs),
            serial,
            Scope("run 1", check_format=False),
        )
        return [v.part for v in report.mismatches if v.check == check.name]

    assert not validated()
    right = count_rows(world.stores, world.state, filter=filter, mode="on")
    assert right.count == 250
    assert right.parts_counted == 6  # and four without statistics are read
    last = world.parts(2)[-1]
    world.tamper(2, lie(row=3, low=200, high=224))
    assert count_rows(world.stores, world.state, filter=filter, mode="on").count == 275

    assert validated() == [last.key]
    assert world.state.rollout.mode == "off"
    assert count_rows(world.stores, world.state, filter=filter).count == 250


def test_a_part_in_quarantine_is_read(shard: Shard) -> None:
    let_skip(shard.stores, "shard")
    state = shard.state()
    (first, _) = plan_read(shard.stores, state).fetched
    state = replace(state, rollout=replace(state.rollout, quarantine=(first.key,)))

    found = count_rows(shard.stores, state, filter=plain_filter(RELATION, "name >= 'a'"), mode="on")

    assert [ref.key for ref in found.plan.fetched] == [first.key]
    assert found.count == 6
