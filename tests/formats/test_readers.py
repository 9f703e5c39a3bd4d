"""Whoever reads Parquet sees typed columns in a part; Spark's turn is in tests/spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.format.columns import child
from strata.format.encodings import arrow_type
from strata.format.part import Description, encode_part
from strata.model.schema import Column
from tests.formats.every_type import RELATION, ROWS, updates

LAYOUTS: Final = ("structured", "both")
# Python has no such dates and times; what the readers hold is right.
FAR: Final = {"date", "timestamp", "timestamptz", "interval day to second"}
# Bytes to DuckDB and Polars in Arrow's way of saying it; see docs/reference/format.md, 1.1.
DUCKDB: Final = {
    "bool": "BOOLEAN",
    "int16": "SMALLINT",
    "uint8": "UTINYINT",
    "uint64": "UBIGINT",
    "oid": "UINTEGER",
    "numeric": 'STRUCT("approx" DOUBLE, "binary" BLOB)',
    "time": "BLOB",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "interval day to second": "BIGINT",
    "uuid": "BLOB",
    "list<list<string>>": "VARCHAR[][]",
    "map<int64>": "MAP(VARCHAR, BIGINT)",
    "int2vector": "STRUCT(dims STRUCT(lower_bound BIGINT, length BIGINT)[], vals SMALLINT[])",
}


@pytest.fixture(scope="module", params=LAYOUTS)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a part with every type, in several row groups."""
    made = encode_part(
        updates(),
        RELATION,
        request.param,
        description=Description(-5, 1000, 0),
        row_group_bytes=4000,
    )
    assert len(made.row_groups) > 1
    path = tmp_path_factory.mktemp("readers") / "part.parquet"
    path.write_bytes(made.data)
    return path


def columns() -> Iterator[tuple[Column, str]]:
    """Yield each column and the struct that it is in."""
    for column in RELATION.columns:
        yield column, "k_s" if column.id in RELATION.key else "v_s"


def test_pyarrow_sees_every_type_and_its_extension_name(path: Path) -> None:
    table = pq.read_table(path)

    for column, side in columns():
        field = table.schema.field(side).type.field(child(column.id))
        assert field.type == arrow_type(column.type), column
        name = column.type.kind.replace(" ", "_")
        assert field.metadata[b"ARROW:extension:name"].decode() == f"strata.{name}.v1"
        found = table[side].combine_chunks().field(child(column.id))
        wanted = updates()[child(column.id)].combine_chunks()
        if column.type.kind not in FAR:
            assert plain(found.to_pylist()) == plain(wanted.to_pylist()), column
        else:
            assert str(found) == str(wanted)


def test_duckdb_sees_every_type(path: Path) -> None:
    with duckdb.connect() as connection:
        inside = f"describe select unnest(k_s), unnest(v_s) from '{path}'"
        query = f"select column_name, column_type from ({inside})"
        types = dict(connection.execute(query).fetchall())
        for column, side in columns():
            name = child(column.id)
            if str(column.type) in DUCKDB:
                assert types[name] == DUCKDB[str(column.type)]
            query = f"""select count(*), count({side}."{name}") from '{path}'"""
            assert connection.execute(query).fetchone() == (ROWS, ROWS - 1), column
        found = connection.execute(
            f"""select v_s."37"."a.b", v_s."39".lower, v_s."5" from '{path}' where t = -5"""
        ).fetchone()
    assert found == ([1, None], 1, 0)


@pytest.mark.filterwarnings("ignore:Extension type")
def test_polars_sees_every_type_as_the_storage_of_an_extension(path: Path) -> None:
    frame = polars.read_parquet(path)

    assert frame["d"].sum() == sum(updates()["d"].to_pylist())
    sides = {side: frame[side].struct.unnest() for side in ("k_s", "v_s")}
    for column, side in columns():
        values = sides[side][child(column.id)].ext.storage()
        assert values.null_count() == 1, column
        arrow = updates()[child(column.id)]
        if column.type.kind not in FAR and not pa.types.is_nested(arrow.type):
            assert plain(values.to_list()) == plain(arrow.to_pylist()), column
    assert sides["v_s"]["39"].ext.storage().struct.field("lower").to_list()[0] == 1


def plain(value: Any) -> Any:
    """Return values such that NaN equals NaN."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return "NaN" if value != value else value  # noqa: PLR0124 -- NaN
