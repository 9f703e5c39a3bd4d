"""A shard's scan is an Arrow stream: other engines take it in two lines, errors come through."""

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.history.usage import recent
from strata.model.schema import Column, Relation
from strata.model.settings import ReadSettings, Settings, UsageSettings
from strata.model.types import parse_type
from strata.plain.parse import plain_filter
from strata.shard import Shard, open_shard
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


def test_a_filter_that_needs_spark_is_refused_before_anything_is_read(shard: Shard) -> None:
    with pytest.raises(InvalidRequest, match="needs Spark") as refused:
        list(shard.scan(where="trim(name) = 'B'"))

    assert refused.value.details["construct"] == "TRIM(name)"
