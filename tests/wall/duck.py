"""A second oracle: what is stored of CSV and Parquet is what DuckDB reads there, if it reads it."""

import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from strata.model.types import ColumnType, Kind
from tests.wall import sources
from tests.wall.rows import Row

TYPES: Final = {
    Kind.BOOL: "BOOLEAN",
    Kind.INT16: "SMALLINT",
    Kind.INT32: "INTEGER",
    Kind.INT64: "BIGINT",
    Kind.UINT8: "UTINYINT",
    Kind.UINT16: "USMALLINT",
    Kind.UINT32: "UINTEGER",
    Kind.UINT64: "UBIGINT",
    Kind.FLOAT32: "FLOAT",
    Kind.FLOAT64: "DOUBLE",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMPTZ: "TIMESTAMPTZ",
}
CSV: Final = (
    "read_csv('{path}', columns = {{'id': 'BIGINT', 'v': 'VARCHAR'}}, header = true, delim = ',', "
    "quote = '\"', escape = '\"', nullstr = ['', 'NA'], allow_quoted_nulls = false, "
    "auto_detect = false, max_line_size = 10000000)"
)


def readings(
    column_type: ColumnType, source: str, rows: Sequence[Row], folder: Path
) -> dict[int, Any]:
    """Return what DuckDB reads of rows that are stored, by id, in canonical form.

    What it does not read, or reads in another sense than the documents, is not there.
    """
    wanted = _type(column_type)
    if wanted is None or not rows:
        return {}
    if source == "csv":
        path = folder / "duck.csv"
        path.write_bytes(sources.csv_file("in/duck.csv", _copies(rows)).data)
        value = _without_exponents("trim(v)", wanted)
        return _asked(CSV.format(path=path), value, wanted, column_type)
    found: dict[int, Any] = {}
    for arrow_type in dict.fromkeys(row.cell[0] for row in rows):
        if not _alike(arrow_type, column_type):
            continue
        some = _copies([row for row in rows if row.cell[0] == arrow_type])
        path = folder / "duck.parquet"
        path.write_bytes(sources.parquet_file("in/duck.parquet", some, arrow_type).data)
        text = pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)
        value = _without_exponents("v", wanted) if text else "v"
        found |= _asked(f"read_parquet('{path}')", value, wanted, column_type)
    return found


def _without_exponents(text: str, wanted: str) -> str:
    """Return the texts that DuckDB reads exactly: it cuts digits of decimals with an exponent."""
    return f"case when v not ilike '%e%' then {text} end" if "DECIMAL" in wanted else text


def _copies(rows: Sequence[Row]) -> list[Row]:
    return [Row(row.id, row.text, row.expected, row.must, cell=row.cell) for row in rows]


def _type(column_type: ColumnType) -> str | None:
    if column_type.kind is Kind.NUMERIC and column_type.precision is not None:
        return f"DECIMAL({column_type.precision},{column_type.scale})"
    return TYPES.get(column_type.kind)


def _alike(arrow_type: pa.DataType, column_type: ColumnType) -> bool:
    """Tell whether DuckDB reads a column of Parquet in the sense of the documents."""
    if pa.types.is_decimal256(arrow_type):  # as doubles
        return False
    floats = column_type.kind in (Kind.FLOAT32, Kind.FLOAT64)
    if column_type.kind is Kind.NUMERIC:
        return not pa.types.is_floating(arrow_type)  # neither exactly nor by their texts
    return not (floats and pa.types.is_decimal(arrow_type))  # not to the nearest


def _asked(relation: str, value: str, wanted: str, column_type: ColumnType) -> dict[int, Any]:
    cast = f"try_cast({value} as {wanted})"
    if column_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        cast = f"case when isfinite({cast}) then epoch_us({cast}) end"
    if column_type.kind is Kind.DATE:
        cast = f"case when isfinite({cast}) then {cast} - date '1970-01-01' end"
    with duckdb.connect() as session:
        session.execute("set timezone = 'UTC'")
        answers = session.execute(f"select id, {cast} from {relation} where id > 0").fetchall()
    return {number: found for number, found in answers if found is not None}


def agree(stored: Any, read: Any) -> bool:
    """Tell whether a stored value is the one that DuckDB reads."""
    if isinstance(read, float) and math.isnan(read):
        return bool(stored == "NaN")
    if hasattr(stored, "tzinfo"):
        from strata.ingest.twin.times import EPOCH

        return bool((stored.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1) == read)
    if hasattr(stored, "year"):
        from strata.ingest.twin.times import EPOCH_DAY

        return bool((stored - EPOCH_DAY).days == read)
    return bool(stored == read)
