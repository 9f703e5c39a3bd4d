"""A file of somebody else and our tail behind it are a part: it reads as its rows, by any writer.

Twin: the rows themselves, written by the writer of parts and read back.
"""

import io
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st

from strata.format.columns import D, T, child
from strata.format.layout import Description, Footer
from strata.format.part import encode_part, read_part
from strata.format.splice import FILE_KEY, NotSplicedError, Splicer, TheirFile, their_file
from strata.model.schema import Relation
from strata.model.types import parse_type
from tests.support.facts import EVERY_TYPE, plain, poison, table
from tests.support.plain import relation_of
from tests.support.sizes import tries
from tests.support.updates import relations, updates

AT = Description(5, 6, -(2**63))
WRITERS = st.fixed_dictionaries(
    {
        "row_group_size": st.sampled_from([1, 3, 1000]),
        "compression": st.sampled_from(["none", "snappy", "zstd", "lz4", "gzip"]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "use_dictionary": st.booleans(),
        "version": st.sampled_from(["1.0", "2.4", "2.6"]),
        "write_page_index": st.booleans(),
        "write_page_checksum": st.booleans(),
        "data_page_size": st.sampled_from([64, 1 << 20]),
        "store_schema": st.booleans(),
    }
)


def at_once(rows: pa.Table) -> pa.Table:
    """Return updates that were all added at the time of the batch."""
    for name, value in ((T, AT.lower), (D, 1)):
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        rows = rows.set_column(place, field, pa.array([value] * rows.num_rows, pa.int64()))
    return rows


def as_file(rows: pa.Table, relation: Relation, required: bool, how: dict[str, Any]) -> bytes:
    """Return a file with the columns of a relation by their names, and one more."""
    fields, columns = [], []
    for column in relation.columns:
        values = rows[child(column.id)]
        never_null = required and not values.null_count
        fields.append(pa.field(column.name, values.type, nullable=not never_null))
        columns.append(values)
    more = pa.array([[number] for number in range(rows.num_rows)])
    schema = pa.schema([pa.field("more", more.type), *fields])
    out = io.BytesIO()
    pq.write_table(pa.table([more, *columns], schema=schema), out, **how)
    return out.getvalue()


def opened(data: bytes) -> TheirFile:
    return their_file(len(data), lambda start, length: data[start : start + length])


def spliced(data: bytes, rows: pa.Table, relation: Relation) -> tuple[bytes, Splicer]:
    """Return a file with a tail, and what made it."""
    footer = Footer("structured", relation.version, AT, rows.num_rows)
    names = {column.id: column.name for column in relation.columns}
    splicer = Splicer(opened(data), rows, relation, footer, names, "file:///a")
    return data + splicer.tail(), splicer


def read(part: bytes, relation: Relation, **how: Any) -> pa.Table:
    return pa.Table.from_batches(list(read_part(part, relation, **how)))


def shown(values: pa.ChunkedArray) -> str:
    """Return values so that NaN equals NaN, and no date is beyond Python's."""
    return str(values.combine_chunks().cast(plain(values.type)).to_pylist())


def assert_is_a_part(part: bytes, rows: pa.Table, relation: Relation) -> None:
    """Compare what is read with what a part of our own reads as."""
    made = encode_part(rows, relation, "structured", description=AT, row_group_bytes=1 << 20)
    found, wanted = read(part, relation), read(made.data, relation)
    assert found.schema == wanted.schema
    for name in wanted.column_names:
        assert shown(found[name]) == shown(wanted[name]), name


@trying(max_examples=tries(40, 4000))
@given(st.data(), relations(), st.booleans(), WRITERS)
def test_it_reads_as_its_rows(
    data: st.DataObject, relation: Relation, required: bool, how: dict[str, Any]
) -> None:
    rows = at_once(data.draw(updates(relation).filter(lambda drawn: drawn.num_rows)))
    file = as_file(rows, relation, required, how)

    part, splicer = spliced(file, rows, relation)

    assert_is_a_part(part, rows, relation)
    assert part.startswith(file)
    flat = {c.name for c in relation.columns if str(c.type) not in {"numeric(12,2)"}}
    if how["version"] == "2.6":  # earlier ones have no times in microseconds of their own
        assert flat <= {*splicer.staying.values()}
    for column in relation.columns:
        only = read(part, relation, columns=[column.id])
        name = child(column.id)
        assert shown(only[name]) == shown(read(part, relation)[name])


@trying(max_examples=tries(8, 400))
@given(poison(EVERY_TYPE).filter(lambda drawn: drawn.num_rows), WRITERS)
def test_columns_of_every_type_stay_or_come_along(rows: pa.Table, how: dict[str, Any]) -> None:
    rows = at_once(rows)
    part, _ = spliced(as_file(rows, EVERY_TYPE, True, how), rows, EVERY_TYPE)
    assert_is_a_part(part, rows, EVERY_TYPE)


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_files_of_other_writers(version: str, tmp_path: Path) -> None:
    """DuckDB stores texts and numbers as differences, and has no schema of Arrow."""
    count = 5000
    columns = [
        range(count),
        [f"{n % 7}" for n in range(count)],
        [n % 3 or None for n in range(count)],
    ]
    relation = relation_of([parse_type(kind) for kind in ("int64", "string", "float64")])
    rows = at_once(table([*map(list, columns)], relation))
    shown = rows.select(["1", "2", "3"]).rename_columns([c.name for c in relation.columns])
    file = tmp_path / "of_duckdb.parquet"
    with duckdb.connect() as connection:
        connection.register("shown", shown)
        connection.execute(f"copy shown to '{file}' (format parquet, parquet_version {version})")

    part, splicer = spliced(file.read_bytes(), rows, relation)

    assert [*splicer.staying.values()] == [c.name for c in relation.columns]
    assert_is_a_part(part, rows, relation)


def test_the_tail_of_columns_that_stay_is_small_and_says_of_which_file() -> None:
    relation = relation_of([parse_type("int32"), parse_type("int64")])
    rows = at_once(table([list(range(100_000))] * 2, relation))
    file = as_file(rows, relation, True, {"row_group_size": 50_000})
    part, splicer = spliced(file, rows, relation)
    assert len(splicer.staying) == 2
    assert len(part) - len(file) < 5_000
    assert pq.ParquetFile(io.BytesIO(part)).metadata.metadata[FILE_KEY] == b"file:///a"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no plain Parquet file"),
        (b"PAR1" + b"\xff" * 40 + b"\x20\0\0\0PAR1", "footer is damaged"),
        (b"PAR1" + b"\xff" * 40 + b"\xff\xff\xff\x7fPAR1", "footer is damaged"),
        (b"PARE" + b"\0" * 40 + b"PARE", "no plain Parquet file"),
    ],
)
def test_what_is_no_file_of_parquet_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(NotSplicedError, match=reason):
        opened(data)


def test_a_file_of_other_rows_is_refused() -> None:
    relation = relation_of([parse_type("int32")])
    rows = at_once(table([[1, 2, 3]], relation))
    file = as_file(rows, relation, True, {})
    with pytest.raises(NotSplicedError, match="other rows"):
        spliced(file, rows.slice(1), relation)
