"""A reader's filter as long as the log takes, on many parts: verdicts do not repeat it for each.

The text stood twice in each verdict: 60 KB on 100,000 parts were 12 GB, in the driver.
"""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from strata.audit.run import Scope
from strata.audit.soft import SQL_CHARS, Evaluated
from strata.audit.verdict import verdict_table
from strata.expr.filter import Filter
from strata.format.manifest import PartRef
from strata.history.usage import ENTRY_BYTES_MAX
from strata.model.settings import StoreSettings
from tests.support.audited import WHERE, World, lie, world_in

SHORT = "id > 250"
LONG = f"{SHORT} and id not in (" + ", ".join(map(str, range(1000, 11_000))) + ")"


@pytest.fixture
def world(tmp_path: Path) -> World:
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/c.db")
    return world_in(store, rows_of_part=5)


def table_of(world: World, sql: str) -> pa.Table:
    report = world.run(Scope("run", check_format=False), where=replace(WHERE, sql=sql))
    assert len(report.verdicts) == 30
    assert {verdict.outcome for verdict in report.verdicts} == {"clean"}
    return verdict_table(report.verdicts)


def test_a_long_filter_makes_no_large_verdicts(world: World) -> None:
    assert 50_000 < len(LONG) < ENTRY_BYTES_MAX
    short, long = table_of(world, SHORT), table_of(world, LONG)

    assert long.nbytes < short.nbytes + long.num_rows * 2 * SQL_CHARS
    [shown] = set(long["sql"].to_pylist())
    assert shown.startswith(LONG[:SQL_CHARS])
    assert shown.endswith(f"({len(LONG):,} characters)")
    assert set(long["replay"].to_pylist()) == {""}
    assert all(SHORT in command for command in short["replay"].to_pylist())


@pytest.mark.parametrize("outcome", ["failed", "missing"])
def test_nor_does_one_that_never_ends(world: World, outcome: str) -> None:
    def lost(filter: Filter, refs: list[PartRef], *groups: object) -> list[Evaluated]:
        found = [Evaluated(ref.key, 0, 0, failed="stopped") for ref in refs]
        return found if outcome == "failed" else []

    report = world.run(Scope("run", check_format=False), lost, where=replace(WHERE, sql=LONG))

    assert {verdict.outcome for verdict in report.verdicts} == {outcome}
    assert max(len(verdict.sql) + len(verdict.replay) for verdict in report.verdicts) < 3000


def test_a_mismatch_can_be_replayed_however_long_its_filter_is(world: World) -> None:
    row, part = world.accepted()
    world.tamper(2, lie(row, high=250))

    report = world.run(Scope("run", check_format=False), where=replace(WHERE, sql=LONG))

    [verdict] = report.mismatches
    assert verdict.sql == LONG
    assert verdict.replay.endswith(f'--filter "{LONG}" --now 0 --part {part.key}')
