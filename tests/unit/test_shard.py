"""A shard's scan is an Arrow stream: other engines take it in two lines, errors come through."""

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.model.schema import Column, Relation
from strata.model.settings import ReadSettings, Settings
from strata.model.types import parse_type
from strata.shard import Shard, open_shard
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
