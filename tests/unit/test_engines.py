"""PyArrow, Polars and DuckDB read a shard in one line, and fetch only what they need."""

from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.history.usage import recent
from strata.model.schema import Column, Relation
from strata.model.settings import UsageSettings
from strata.model.types import parse_type
from strata.plain.parse import plain_filter
from strata.shard import Shard
from tests.support.shards import let_skip
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0,
    (
        Column(1, "name", parse_type("string")),
        Column(2, "n", parse_type("int64")),
        Column(3, "x", parse_type("float64")),
    ),
    (1,),
    (),
)
Found = list[tuple[Any, ...]]


@pytest.fixture
def shard() -> Shard:
    """Return four batches; batch b has the rows ("b0", 10 b), ("b1", 10 b + 1)."""
    stores = memory_stores()
    create(stores, RELATION)
    for batch in range(4):
        rows = [(f"{batch}{i}", 10 * batch + i, batch + 0.5, batch, 1) for i in range(2)]
        append(stores, "shard", batch, batch + 1, [table(RELATION, rows)])
    let_skip(stores, "shard")
    return Shard(stores, "shard")


def in_arrow(shard: Shard) -> Found:
    wanted = (pc.field("n") > 20) & pc.starts_with(pc.field("name"), "3")
    found = shard.dataset().to_table(filter=wanted, columns=["n", "name"])
    return [tuple(row.values()) for row in found.to_pylist()]


def in_polars(shard: Shard) -> Found:
    wanted = (pl.col("n") > 20) & pl.col("name").str.starts_with("3")
    return shard.polars().filter(wanted).select("n", "name").collect().rows()


def in_duckdb(shard: Shard) -> Found:
    with duckdb.connect() as connection:
        flights = shard.duckdb(connection)
        return flights.filter("n > 20 and name >= '3'").project("n, name").fetchall()


ENGINES = pytest.mark.parametrize("found", [in_arrow, in_polars, in_duckdb])


@ENGINES
def test_an_engine_does_not_open_what_its_filter_rules_out(
    shard: Shard, found: Callable[[Shard], Found]
) -> None:
    plan = plan_read(shard.stores, shard.state(), filter=plain_filter(RELATION, "n >= 30"))
    assert len(plan.fetched) == 1
    for ref in plan_read(shard.stores, shard.state()).fetched:
        if ref.key != plan.fetched[0].key:
            shard.stores.blob.delete(ref.key)

    assert found(shard) == [(30, "30"), (31, "31")]


@ENGINES
def test_an_engine_reads_only_the_columns_that_it_needs(
    shard: Shard, found: Callable[[Shard], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    monkeypatch.setattr("strata.shard.emitted", lambda rows, *_: rows)
    from strata import shard as module

    real = module.scan
    monkeypatch.setattr(module, "scan", lambda *a, **k: read.append(k["columns"]) or real(*a, **k))
    found(shard)

    assert [set(columns) for columns in read] == [{"n", "name"}]


def test_a_count_reads_the_columns_of_its_filter(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    from strata import shard as module

    real = module.scan
    monkeypatch.setattr(module, "scan", lambda *a, **k: read.append(k["columns"]) or real(*a, **k))

    assert shard.dataset().count_rows(pc.field("n") > 20) == 3
    assert shard.polars().select(pl.len()).collect().item() == 8
    assert [len(columns) for columns in read] == [1, 1]


@ENGINES
def test_the_log_of_filters_has_the_plain_filter_that_skipped(
    shard: Shard, found: Callable[[Shard], Found]
) -> None:
    found(shard)

    (used,) = recent(shard.stores, "shard", UsageSettings())
    assert used.filter.sql.startswith("(`n` > 20) and (`name` ", 1)


@ENGINES
def test_a_shard_that_may_not_skip_gives_the_same_rows(found: Callable[[Shard], Found]) -> None:
    stores = memory_stores()
    create(stores, RELATION)
    append(stores, "shard", 0, 1, [table(RELATION, [("30", 30, 0.0, 0, 1), ("2", 2, 0.0, 0, 1)])])

    assert found(Shard(stores, "shard")) == [(30, "30")]


def test_every_scan_of_a_dataset_sees_the_state_at_which_it_was_made(shard: Shard) -> None:
    dataset, frame = shard.dataset(), shard.polars()
    append(shard.stores, "shard", 4, 5, [table(RELATION, [("new", 99, 0.0, 4, 1)])])

    assert dataset.count_rows() == frame.select(pl.len()).collect().item() == 8
    assert shard.dataset().count_rows() == 9
    assert shard.dataset(as_of=1).count_rows() == 4
    with pytest.raises(InvalidRequest):
        shard.dataset(as_of=77)


def test_the_first_rows_of_a_frame_are_the_first_of_the_shard(shard: Shard) -> None:
    frame = shard.polars()
    high = pl.col("n") > 5

    assert frame.head(3).filter(high).select("n").collect().rows() == [(10,)]
    assert frame.filter(high).head(3).select("n").collect().rows() == [(10,), (11,), (20,)]
    assert frame.filter(high).slice(1, 2).select("n").collect().rows() == [(11,), (20,)]


def test_duckdb_finds_a_dataset_by_the_name_of_a_variable(shard: Shard) -> None:
    flights = shard.dataset()
    with duckdb.connect() as connection:
        found = connection.sql("select sum(n * d) from flights where n >= 20")

        assert found.fetchall() == [(20 + 21 + 30 + 31,)]
        assert connection.sql("from flights limit 1").fetchall()[0][:2] == ("00", 0)
    assert flights.schema.names == ["name", "n", "x", "t", "d"]


def test_a_dataset_does_what_others_do(shard: Shard) -> None:
    dataset = shard.dataset()
    high = dataset.filter(pc.field("n") > 10).filter(pc.field("n") < 30)

    assert high.to_table(columns=["n"]).column("n").to_pylist() == [11, 20, 21]
    twice = high.to_table(columns={"twice": pc.add(pc.field("n"), pc.field("n"))})
    assert twice.to_pylist() == [{"twice": 22}, {"twice": 40}, {"twice": 42}]
    assert high.head(1, columns=["name"]).to_pylist() == [{"name": "11"}]
    assert high.take(pa.array([2]), columns=["n"]).to_pylist() == [{"n": 21}]
    assert sum(batch.num_rows for batch in high.to_batches(batch_size=1)) == 3
    assert high.to_reader(columns=["d"]).read_all().column("d").to_pylist() == [1, 1, 1]
    assert dataset.count_rows(filter=pc.field("t") == 3) == 8  # all rows are those of as_of
    assert dataset.scanner(columns=[]).to_table().num_rows == 8


@pytest.mark.parametrize(
    "use",
    [
        lambda dataset: dataset.get_fragments(),
        lambda dataset: dataset.replace_schema(dataset.schema),
        lambda dataset: dataset.sort_by("n"),
        lambda dataset: dataset.join(dataset, "n"),
        lambda dataset: dataset.join_asof(dataset, "n", "n", 1),
        lambda dataset: dataset.partition_expression,
        lambda dataset: dataset.__reduce__(),
    ],
)
def test_what_needs_files_is_refused(shard: Shard, use: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidRequest, match="no files"):
        use(shard.dataset())


def test_errors_come_through(shard: Shard) -> None:
    dataset, frame = shard.dataset(), shard.polars()
    with pytest.raises(pa.ArrowInvalid, match="nobody"):
        dataset.to_table(columns=["nobody"])
    with pytest.raises(pa.ArrowInvalid, match="nobody"):
        dataset.to_table(filter=pc.field("nobody") > 1)
    for ref in plan_read(shard.stores, shard.state()).fetched:
        shard.stores.blob.delete(ref.key)
    for read in (dataset.to_table, frame.collect, dataset.to_reader().read_all):
        with pytest.raises(Corrupt, match="a part is missing"):
            read()
    with duckdb.connect() as connection, pytest.raises(duckdb.Error, match="a part is missing"):
        shard.duckdb(connection).fetchall()


def test_a_frame_without_polars_names_the_extra(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)

    with pytest.raises(InvalidRequest, match=r"strata-shards\[polars\]"):
        shard.polars()
