"""A shard's scan is an Arrow stream: other engines take it in two lines, errors come through."""

from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import numpy
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.history.usage import recent
from strata.model.schema import Column, Relation
from strata.model.settings import ReadSettings, Settings, UsageSettings
from strata.model.types import parse_type
from strata.plain.parse import plain_filter
from strata.read.folder_sink import ParquetFolder
from strata.read.subscription import Subscription
from strata.shard import AddColumn, Shard, open_shard
from tests.support.shards import let_skip
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0, (Column(1, "name", parse_type("string")), Column(2, "n", parse_type("int64"))), (1,), ()
)


@pytest.fixture
def shard() -> Shard:
    stores = memory_stores()
    create(stores, RELATION)
    append(stores, "shard", 0, 5, [table(RELATION, [("a", 1, 0, 1), ("b", 2, 1, 1)])])
    append(stores, "shard", 5, 9, [table(RELATION, [("a", 1, 6, -1), ("c", None, 7, 2)])])
    return Shard(stores, "shard")


def test_duckdb_takes_a_scan(shard: Shard) -> None:
    rows = duckdb.from_arrow(shard.stream())
    found = rows.aggregate("name, n, sum(d) as d").filter("d <> 0").order("name")

    assert found.fetchall() == [("b", 2, 1), ("c", None, 2)]


def test_polars_takes_a_scan(shard: Shard) -> None:
    frame = pl.DataFrame(shard.stream(columns=["n"], consolidate=True))

    assert frame.rows() == [(2, 8, 1), (None, 8, 2)]


def test_pandas_takes_a_scan(shard: Shard) -> None:
    frame = shard.stream(as_of=3).read_pandas()

    assert frame.to_dict("list") == {"name": ["a", "b"], "n": [1, 2], "t": [3, 3], "d": [1, 1]}


def test_a_scan_of_nothing_has_its_columns() -> None:
    stores = memory_stores()
    create(stores, RELATION)

    assert Shard(stores, "shard").stream().read_all().schema.names == ["name", "n", "t", "d"]


def test_what_is_wrong_is_said_as_ever(shard: Shard) -> None:
    with pytest.raises(InvalidRequest):
        shard.stream(as_of=9)
    with pytest.raises(InvalidRequest):
        shard.stream(columns=["nobody"])
    for ref in plan_read(shard.stores, shard.state()).fetched:
        shard.stores.blob.delete(ref.key)
    with pytest.raises(pa.ArrowInvalid, match="a part is missing"):
        pa.table(shard.stream())


def test_an_opened_shard_reads_as_its_settings_say(shard: Shard) -> None:
    settings = Settings(shard.stores.settings, read=ReadSettings(fetchers=1))

    assert open_shard(settings, "shard").settings == settings.read


@pytest.mark.parametrize("consolidate", [False, True])
def test_a_scan_with_a_plain_filter_gives_the_rows_that_it_accepts(
    shard: Shard, consolidate: bool
) -> None:
    found = pa.Table.from_batches(shard.scan(where="n >= 2", consolidate=consolidate))

    assert found.select(["name", "n", "d"]).to_pylist() == [{"name": "b", "n": 2, "d": 1}]


def test_a_column_that_only_the_filter_reads_is_left_out(shard: Shard) -> None:
    found = shard.stream(where="NAME = 'b' or n is null", columns=["n"]).read_all()

    assert found.column_names == ["n", "t", "d"]
    assert found.column("n").to_pylist() == [2, None]


def test_a_scan_with_a_filter_skips_only_where_readers_may(shard: Shard) -> None:
    """The log of readers remembers the filter, so that soft evaluation tries it."""
    where = "name >= 'c'"
    plan = plan_read(shard.stores, shard.state(), filter=plain_filter(RELATION, where), mode="on")
    (kept,) = plan.fetched
    for ref in plan_read(shard.stores, shard.state()).fetched:
        if ref.key != kept.key:
            shard.stores.blob.delete(ref.key)

    with pytest.raises(Corrupt, match="a part is missing"):
        list(shard.scan(where=where))
    let_skip(shard.stores, "shard")
    rows = pa.Table.from_batches(shard.scan(where=where))

    assert rows.column("name").to_pylist() == ["c"]
    used = recent(shard.stores, "shard", UsageSettings())
    assert [one.filter.sql for one in used] == [where]


def test_the_least_and_the_greatest_value_are_asked_for_and_logged(shard: Shard) -> None:
    assert (shard.min("name"), shard.max("name")) == ("b", "c")
    assert (shard.min("n", where="name < 'c'"), shard.min("name", as_of=3)) == (2, "a")
    used = recent(shard.stores, "shard", UsageSettings())
    assert {one.filter.sql for one in used} == {
        "`name` is not null",
        "(name < 'c') AND (`n` is not null)",
    }


def test_history_has_the_last_states_with_the_commit_and_the_changes_of_each(
    shard: Shard,
) -> None:
    shard.tag("noon", at=3)
    whole = shard.history(9)

    assert [one["seqno"] for one in whole] == [4, 3, 2, 1]
    assert [bool(one["commit"]) for one in whole] == [False, True, True, False]
    assert shard.history(2) == whole[:2]


def test_what_changes_a_shard_is_done_unless_it_is_only_tried(shard: Shard) -> None:
    column = AddColumn("new", parse_type("int64"))
    for dry_run in (True, False):
        before = shard.state().seqno
        shard.evolve(column, **({"dry_run": True} if dry_run else {}))
        assert shard.revert(5, 9, **({"dry_run": True} if dry_run else {})).rows == 2
        assert (shard.state().seqno == before) is dry_run
        assert ("new" in [one.name for one in shard.state().relation.columns]) is not dry_run
    assert shard.count() == 2


def test_what_differs_between_two_times_may_be_filtered(shard: Shard) -> None:
    def names(where: str | None) -> list[str]:
        found = pa.Table.from_batches(shard.changed_rows(3, where=where))
        return sorted(found.column("name").to_pylist())

    assert (names(None), names("name = 'c'")) == (["a", "c"], ["c"])


def test_a_consumer_with_a_sink_goes_on_where_the_sink_is(shard: Shard, tmp_path: Path) -> None:
    sink = ParquetFolder(tmp_path / "all")
    assert shard.subscribe("c", sink).into(sink) == (1, 4)
    with pytest.raises(InvalidRequest, match="lacks changes"):
        shard.subscribe("c", ParquetFolder(tmp_path / "none"))
    assert isinstance(shard.subscribe("c"), Subscription)


def test_a_dataset_has_each_update_and_logs_its_filter(shard: Shard) -> None:
    assert shard.dataset().to_table().num_rows == 4
    assert shard.dataset(consolidate=True).to_table().num_rows == 2
    assert recent(shard.stores, "shard", UsageSettings()) == []
    shard.dataset().to_table(filter=pc.field("n") > 1)
    assert len(recent(shard.stores, "shard", UsageSettings())) == 1


def test_a_filter_of_one_read_may_ask_for_the_day() -> None:
    stores = memory_stores()
    days = Relation(0, (Column(1, "day", parse_type("date")),), (1,), ())
    create(stores, days)
    append(
        stores, "shard", 0, 5, [table(days, [(date(1999, 1, 1), 0, 1), (date(9999, 1, 1), 0, 1)])]
    )

    assert Shard(stores, "shard").count(where="day < current_date()") == 1


def test_a_filter_that_needs_spark_is_refused_before_anything_is_read(shard: Shard) -> None:
    with pytest.raises(InvalidRequest, match="needs Spark") as refused:
        list(shard.scan(where="trim(name) = 'B'"))

    assert refused.value.details["construct"] == "TRIM(name)"


def test_each_time_of_a_program_is_a_whole_number(shard: Shard) -> None:
    """Also of numpy; a datetime ended in errors of Python, and a fraction in damage."""
    asked = (
        lambda at: shard.count(as_of=at),
        lambda at: next(shard.listen(at)),
        lambda at: shard.subscribe("c", start=at),
        lambda at: shard.revert(0, at, dry_run=True),
        lambda at: shard.revert(at, 9, dry_run=True),
    )
    for ask in asked:
        ask(numpy.int64(5))
        with pytest.raises(InvalidRequest, match="gives a time as an int"):
            ask(datetime(2024, 1, 1, tzinfo=UTC))
