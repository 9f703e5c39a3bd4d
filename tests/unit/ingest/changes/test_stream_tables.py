"""Events of several tables in one stream: refused, unless the declaration names the tables."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.ingest.readers import debezium
from strata.state.declare import redeclare
from tests.unit.ingest.changes.test_tasks import event, put, run, table_at, world_of
from tests.unit.ingest.test_engine import DAY, World

ABOUT = "changes of several tables"
POSTGRES = {"connector": "postgresql", "snapshot": "false", "sequence": '["1","2"]'}


def of(table: str, number: int, op: str = "c", **source: Any) -> dict[str, Any]:
    """Return a change of a table, named db.schema.table or db.table."""
    db, *schema, name = table.split(".")
    place = {"db": db, "table": name} | ({"schema": schema[0]} if schema else {})
    found = event(op, number, None if op in "dt" else ("a", None), 1)
    found["source"] |= place | source
    return found


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize(
    "other", ["shop.public.orders_2", "shop.archive.orders_1", "mall.public.orders_1"]
)
def test_changes_of_two_tables_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, files: int, at_once: bool
) -> None:
    """Where their columns fit, they were applied to one another's rows."""
    if at_once:
        monkeypatch.setattr(debezium, "SMALL_BYTES", 0)
    world = world_of(tmp_path, "debezium")
    changes = [of("shop.public.orders_1", 1, lsn=5, **POSTGRES), of(other, 2, lsn=6, **POSTGRES)]
    put(world, 1, changes[:1] if files > 1 else changes)
    if files > 1:
        put(world, 1, changes[1:], "y")

    with pytest.raises(InvalidRequest, match="changes of several tables") as refused:
        run(world, 1, 1)

    assert refused.value.details["tables"] == sorted(["shop.public.orders_1", other])
    if files == 1:
        assert str(refused.value.details["file"]).endswith("x.jsonl")
    assert world.state.upper < DAY


@pytest.mark.parametrize("tables", ["orders_*", "*.orders_?", ["public.orders_1", "shop.*.*_2"]])
def test_tables_that_are_declared_come_together(tmp_path: Path, tables: Any) -> None:
    world = world_of(tmp_path, "debezium", tables=tables)
    put(world, 1, [of("shop.public.orders_1", 1), of("shop.public.orders_2", 2)])

    run(world, 1, 1)

    assert table_at(world, DAY - 1).keys() == {1, 2}


@pytest.mark.parametrize("other", ["shop.public.orders", "shop.orders_1.items"])
def test_another_table_is_refused_also_alone(tmp_path: Path, other: str) -> None:
    world = world_of(tmp_path, "debezium", tables="orders_*")
    put(world, 1, [of(other, 1)])

    with pytest.raises(InvalidRequest, match=r"that source.tables does not name") as refused:
        run(world, 1, 1)

    assert refused.value.details["tables"] == [other]


def test_shards_of_mysql_are_tables_of_several_databases(tmp_path: Path) -> None:
    changes = [of("shop_1.orders", 1), of("shop_2.orders", 2)]
    world = world_of(tmp_path, "debezium")
    put(world, 1, changes)
    with pytest.raises(InvalidRequest, match="changes of several tables") as refused:
        run(world, 1, 1)
    assert 'source.tables: ["shop_*.orders"]' in str(refused.value.cure)

    world = world_of(tmp_path, "debezium", tables="shop_*.orders")
    run(world, 1, 1)
    assert table_at(world, DAY - 1).keys() == {1, 2}


def test_a_truncation_of_one_of_several_tables_is_refused(tmp_path: Path) -> None:
    """It emptied the rows of all of them."""
    world = world_of(tmp_path, "debezium", tables="orders_*")
    put(world, 1, [of("s.orders_1", 1), of("s.orders_2", 2)])
    run(world, 1, 1)
    put(world, 2, [of("s.orders_1", 0, "t")])

    with pytest.raises(InvalidRequest, match="one of several tables was truncated") as refused:
        run(world, 2, 2)

    assert refused.value.details["line"] == 1
    assert table_at(world, DAY - 1).keys() == {1, 2}


@pytest.mark.parametrize("tables", [(), "orders", "s.orders"])
def test_the_only_table_may_be_truncated(tmp_path: Path, tables: Any) -> None:
    world = world_of(tmp_path, "debezium", tables=tables)
    put(world, 1, [of("s.orders", 1), of("s.orders", 0, "t"), of("s.orders", 3)])
    run(world, 1, 1)
    assert table_at(world, DAY - 1).keys() == {3}


@pytest.mark.parametrize("op", ["c", "d", "t"])
def test_another_table_is_refused_also_days_later(tmp_path: Path, op: str) -> None:
    """Only one batch was looked at: a delete of another table took the row of this one."""
    world = world_of(tmp_path, "debezium")
    for day in (1, 2):
        put(world, day, [of("shop.public.orders", day)])
        run(world, day, day)
    put(world, 3, [of("shop.public.people", 1, op)])

    for how in ({"dry_run": True}, {}):
        with pytest.raises(InvalidRequest, match=ABOUT) as refused:
            run(world, 3, 3, **how)
        assert refused.value.details["tables"] == ["shop.public.orders", "shop.public.people"]

    assert table_at(world, world.state.upper - 1).keys() == {1, 2}


@pytest.mark.parametrize("files", [1, 2])
def test_a_name_without_a_pattern_means_one_table(tmp_path: Path, files: int) -> None:
    """Its end fitted two tables, and a truncation of one emptied both."""
    world = world_of(tmp_path, "debezium", tables="orders")
    put(world, 1, [of("shop_1.orders", 1), *[of("shop_2.orders", 2)][: 2 - files]])
    put(world, 1, [of("shop_2.orders", 0, "t")], "y")

    with pytest.raises(InvalidRequest, match=ABOUT) as refused:
        run(world, 1, 1)

    assert 'source.tables: ["shop_*.orders"]' in str(refused.value.cure)


def test_a_renamed_table_goes_on_under_its_new_name(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, [of("shop.orders", 1)])
    run(world, 1, 1)
    put(world, 2, [of("shop.sales", 2), of("shop.sales", 1, "d")])
    with pytest.raises(InvalidRequest, match=ABOUT) as refused:
        run(world, 2, 2)
    assert refused.value.details["tables"] == ["shop.orders", "shop.sales"]
    assert "a renamed table by its new name" in str(refused.value.cure)

    declare(world, "shop.sales")
    run(world, 2, 2)

    assert table_at(world, world.state.upper - 1).keys() == {2}


def declare(world: World, table: str) -> None:
    spec = world.state.spec
    renamed = replace(spec, source=replace(spec.source, tables=(table,)))
    world.machine.apply("s", partial(redeclare, asked=renamed, seen=spec))


@pytest.mark.parametrize("days", [0, 1])
@pytest.mark.parametrize("at_once", [False, True])
def test_two_databases_with_positions_do_not_come_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool, days: int
) -> None:
    """The log of one was ahead, so that the changes of the other counted as repeated."""
    if at_once:
        monkeypatch.setattr(debezium, "SMALL_BYTES", 0)
    world = world_of(tmp_path, "debezium", tables="shop_*.public.orders")
    put(world, 1, [of("shop_1.public.orders", 1, lsn=1000, **POSTGRES)])
    if days:
        run(world, 1, 1)
    put(world, 1 + days, [of("shop_2.public.orders", 2, lsn=50, **POSTGRES)], "y")

    with pytest.raises(InvalidRequest, match="changes of several databases") as refused:
        run(world, 1 + days, 1 + days)

    assert refused.value.details["tables"] == ["shop_1.public.orders", "shop_2.public.orders"]
    assert "if it is one that was renamed" in str(refused.value.cure)
    if days:
        declare(world, "shop_2.public.*")
        run(world, 2, 2)
        assert world.state.upper == 2 * DAY
