"""What surrounds an audit: resuming, sampling, the table of all verdicts, used filters, others."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from strata.audit import format as format_check
from strata.audit import table
from strata.audit.contain import contain
from strata.audit.run import Scope, ValidationReport, validate_shard
from strata.audit.used import PREFIX, used_filters
from strata.audit.verdict import Verdict
from strata.config.filters import RegisteredFilter
from strata.decide.plan import plan_read
from strata.history import usage
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.settings import StoreSettings, UsageSettings
from strata.read.scan import scan
from tests.support.audited import WHERE, World, lie, world_in
from tests.support.climb import standing
from tests.support.shards import NAME

NUMBERS = count()


@pytest.fixture
def world() -> World:
    name = f"memory://around {next(NUMBERS)}"
    return world_in(StoreSettings(name, name))


class Killed(Exception):
    """The process ends here."""


class Counting:
    """A runner that counts items, and may be killed after some."""

    def __init__(self, last: int | None = None) -> None:
        self.items, self.last = 0, last

    def __call__(self, function: Any, items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            if self.items == self.last:
                raise Killed
            self.items += 1
            yield function(item)


def run(world: World, runner: Any, name: str = "run", **scope: Any) -> ValidationReport:
    return validate_shard(world.stores, NAME, [], world.judge, runner, Scope(name, **scope))


def test_a_killed_format_check_goes_on_where_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format_check, "CHUNK_PARTS", 4)
    with pytest.raises(Killed):
        run(world, Counting(9))
    rest = Counting()

    report = run(world, rest)

    assert rest.items == 4  # of 12; two chunks of four were done
    assert report.totals()["audited_parts"] == 12
    assert sum(column.parts for column in report.columns if column.column == "id") == 12
    again = Counting()
    run(world, again)
    assert again.items == 12  # what is recorded is done; the same name begins anew


def test_what_was_checked_otherwise_is_checked_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format_check, "CHUNK_PARTS", 4)
    with pytest.raises(Killed):
        run(world, Counting(9))
    world.tamper(1, lie(0, low=1000))  # batches 1 and 2 have statistics; this part was clean

    report = run(world, Counting())

    bad = [v.part for v in report.mismatches if v.layout != "manifest"]
    assert bad == [world.first_part(1).key]


def test_a_verdict_that_does_not_come_back_is_missing(world: World) -> None:
    def loses(function: Any, items: Sequence[Any]) -> Iterator[Any]:
        yield from serial(function, items[:-2])

    totals = run(world, loses).totals()

    assert (totals["checked_parts"], totals["audited_parts"], totals["missing"]) == (12, 10, 2)


def test_a_sampled_format_check_is_reproducible(world: World) -> None:
    parts = [
        {v.part for v in run(world, serial, name, format_percent=50).verdicts}
        for name in ("a", "a", "b")
    ]
    assert parts[0] == parts[1] != parts[2]
    assert 3 < len(parts[0]) < 15  # with the three manifests


def test_all_verdicts_are_a_shard_that_is_read_like_any_other(world: World) -> None:
    report = world.validate()
    for _ in range(2):  # a retry
        assert table.publish(world.stores, "run 1", report.verdicts) == len(report.verdicts)
    second = [replace(v, run="run 2") for v in report.verdicts[:3]]
    table.publish(world.stores, "run 2", second)

    state = Machine(world.stores).load(table.SHARD)
    plan = plan_read(world.stores, state)
    rows = [r for batch in scan(world.stores, state, plan) for r in batch.to_pylist()]

    assert len(rows) == len(report.verdicts) + 3
    assert {(r["run"], r["part"]) for r in rows} == {
        (v.run, v.part) for v in (*report.verdicts, *second)
    }
    assert {r["outcome"] for r in rows} == {"clean"}
    assert table.publish(world.stores, "run 3", []) == 0


def test_filters_that_readers_used_are_audited_beside_registered_ones(world: World) -> None:
    settings = UsageSettings()
    plan = plan_read(world.stores, world.state, filter=WHERE, mode="on")
    usage.record(world.stores, world.state, plan, WHERE, settings, Metrics())
    unsaid = replace(WHERE, sql="", expr=WHERE.expr.args[0])  # type: ignore[union-attr]
    usage.record(world.stores, world.state, plan, unsaid, settings, Metrics())

    found = used_filters(world.stores, NAME, settings, [], 5)

    assert [(one.filter.sql, one.filter.expr) for one in found] == [(WHERE.sql, WHERE.expr)]
    assert found[0].filter.now_low == found[0].filter.now_high
    assert found[0].name.startswith(PREFIX)
    known = [RegisteredFilter(NAME, "big", " id   > 250 ")]
    assert used_filters(world.stores, NAME, settings, known, 5) == []
    assert used_filters(world.stores, NAME, settings, [], 0) == []


@pytest.mark.parametrize(("suspects", "mode"), [("greater_than", "soft"), ("1", "on")])
def test_a_wrong_rule_takes_every_shard_back_a_lying_statistic_only_its_own(
    world: World, suspects: str, mode: str
) -> None:
    machine = Machine(world.stores)
    on = partial(standing, mode="on", percent=1)
    machine.apply(NAME, on)
    verdict = Verdict(
        "r", "origin", "c", "", "p", "mismatch", 1, 1, 1, "both", 1, "", "", suspects=suspects
    )

    lowered = contain(machine, "origin", [verdict])

    assert (lowered, world.state.rollout.mode) == ([NAME] if mode == "soft" else [], mode)
    assert contain(machine, NAME, [verdict]) == []
