"""Indexes of pages: what is asked for comes, and what is no index is refused."""

import pyarrow as pa
import pytest

from strata.errors import Corrupt
from strata.format.manifest import VERSION_KEY, manifest_table
from strata.format.pages import (
    INDEX_SCHEMA,
    LEVEL_KEY,
    LEVELS_MAX,
    Index,
    decode_index,
    encode_index,
)
from strata.parts.pages import row_of_parts
from tests.support.paged import Invented, part

REF, STATS = part(1, Invented(1, 4))
ROW = row_of_parts(manifest_table([REF], [STATS]), "a key", 77)
FIXED = INDEX_SCHEMA.names


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (None, [*FIXED, "s.1", "s.2"]),
        ((), FIXED),
        (["s.1"], [*FIXED, "s.1"]),
        (["s.2*"], [*FIXED, "s.2"]),
        (["s.1", "s.2*"], [*FIXED, "s.1", "s.2"]),
        (["s.9*", "s.8"], FIXED),
    ],
)
def test_only_the_statistics_asked_for_come(columns: list[str] | None, names: list[str]) -> None:
    found = decode_index(encode_index(Index(3, ROW)), columns)

    assert found.level == 3
    assert found.table.column_names == names
    assert found.table.equals(ROW.select(names))


def encoded(table: pa.Table, version: str = "2", level: str = "1") -> bytes:
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata({VERSION_KEY: version, LEVEL_KEY: level})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encoded(ROW, "1"), "unknown version"),
        (encoded(ROW.drop_columns(["t_last"])), "lacks a column"),
        (
            encoded(ROW.set_column(0, "key", pa.array([b"k"]))),
            "lacks a column",
        ),
        (encoded(ROW.set_column(0, "key", pa.nulls(1, pa.string()))), "lacks a value"),
        (encoded(ROW, level="0"), "impossible level"),
        (encoded(ROW, level=str(LEVELS_MAX + 1)), "impossible level"),
        (b"", "is damaged"),
    ],
)
def test_what_is_no_index_is_corrupt(data: bytes, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        decode_index(data)


def test_every_level_that_there_may_be_is_read() -> None:
    levels = [1, LEVELS_MAX]
    assert [decode_index(encoded(ROW, level=str(level))).level for level in levels] == levels
