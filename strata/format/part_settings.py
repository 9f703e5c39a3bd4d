"""Parquet settings of a part, chosen by measuring a sample of its values.

Fixed for all parts: zstd level 1 (level 3 writes at half the speed for no smaller files), page
checksums, no statistics of `k` and `v`, which nobody could use. In layout `both` those two are
LZ4: a copy that goes when the migration ends should cost little time, rather than little room.
Chosen column by column, from the sample alone, so that equal updates give equal bytes:

- differences of neighbours (integers, times) or byte streams (floats), where that made the
  sample smaller than plain values did: a dictionary costs twice the time or more;
- a dictionary where values repeat, and not only beside one another; of numbers where it saves room;
- lengths apart (texts), where that made the sample smaller than plain values did.

Figures in benchmarks/README.md. Any reader of Parquet 2 follows each of these encodings.
"""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strata.format.columns import K, V
from strata.format.nested import leaves

SAMPLE_ROWS: Final = 1_024  # rows of each of the sample's blocks
SAMPLE_BLOCKS: Final = 4
MANY_BLOCKS: Final = 16  # a part this many blocks long repeats values that a sample has once
DICTIONARY_SHARE: Final = 0.5  # a dictionary pays when fewer values than this share are distinct
TEXT_SHARE: Final = 0.8  # the same for texts in a long part: some thousand values in all
FEW_SHARE: Final = 0.1  # texts of which fewer are distinct have a dictionary wherever they repeat
SAVED_BYTES: Final = 0.25  # what the dictionary of numbers must save, of each value
GAIN: Final = 0.98  # another encoding must make a column at least this much smaller
WRITER: Final[Mapping[str, Any]] = {
    "version": "2.6",
    "compression": "zstd",
    "compression_level": 1,
    "data_page_size": 256 * 1024,  # stays in the cache between encoding and compressing
    "write_page_checksum": True,
    "store_schema": True,
    "store_decimal_as_integer": True,  # up to 18 digits: faster and smaller than bytes
}


def sample_of(table: pa.Table) -> pa.Table:
    """Return some blocks of rows from all over a table, as one chunk."""
    step = max(table.num_rows // SAMPLE_BLOCKS, SAMPLE_ROWS)
    if table.num_rows <= SAMPLE_ROWS:
        return table.combine_chunks()
    blocks = [table.slice(start, SAMPLE_ROWS) for start in range(0, table.num_rows, step)]
    return pa.concat_tables([table.schema.empty_table(), *blocks]).combine_chunks()


def writer_settings(sample: pa.Table, rows: int, layout: str) -> dict[str, Any]:
    """Return what `ParquetWriter` is to be told about a part of `rows` rows.

    `sample` has the part's columns but for `k` and `v`.
    """
    columns = dict(
        leaf
        for column in sample.column_names
        for leaf in leaves(sample[column].combine_chunks(), column)
    )
    repeating = [path for path, values in columns.items() if _repeats(values, rows)]
    dictionary, other = _choice(sample, columns, repeating)
    paths = list(columns)
    settings = {
        **WRITER,
        "use_dictionary": dictionary or False,
        "column_encoding": other or None,
        "write_statistics": paths,
    }
    if layout == "both":
        settings["compression"] = dict.fromkeys(paths, "zstd") | {K: "lz4", V: "lz4"}
        settings["compression_level"] = dict.fromkeys(paths, WRITER["compression_level"])
    return settings


def _choice(
    sample: pa.Table, columns: Mapping[str, pa.Array], repeating: list[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the columns that get a dictionary, and the encodings of others but for plain ones."""
    sure = [path for path in repeating if _is_text(columns[path].type)]
    other = {
        path: encoding
        for path, values in columns.items()
        if path not in sure and (encoding := _alternative(values.type))
    }
    if not other or sample.num_rows < SAMPLE_ROWS:
        return repeating, {}
    plain, found = _sizes(sample, sure, {}), _sizes(sample, sure, other)
    other = {path: name for path, name in other.items() if found[path] < GAIN * plain[path]}
    if len(sure) < len(repeating):
        small = _sizes(sample, repeating, {})
        sure = [
            path
            for path in repeating
            if path in sure
            or small[path] + SAVED_BYTES * len(columns[path]) < min(plain[path], found[path])
        ]
    return sure, {path: name for path, name in other.items() if path not in sure}


def _repeats(values: pa.Array, rows: int) -> bool:
    if pa.types.is_boolean(values.type) or (len(values) <= 2 and not values.null_count):
        return False  # so few are not looked at: they may be huge
    distinct = pc.count_distinct(values).as_py()
    if not _is_text(values.type):
        return bool(distinct < DICTIONARY_SHARE * len(values))
    share = TEXT_SHARE if rows >= MANY_BLOCKS * SAMPLE_ROWS else DICTIONARY_SHARE
    if distinct >= share * len(values):
        return False
    # Sorted texts that repeat may be many all the same: the compression sees neighbours by itself.
    return bool(distinct < FEW_SHARE * len(values) or distinct < share * _stretches(values))


def _stretches(values: pa.Array) -> int:
    """Return how many stretches of values there are that differ from the one before."""
    changes = pc.not_equal(values.slice(1), values.slice(0, len(values) - 1))
    return 1 + int(pc.sum(changes).as_py() or 0)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _alternative(kind: pa.DataType) -> str | None:
    """Return the encoding that may beat plain values of a type."""
    if pa.types.is_floating(kind):
        return "BYTE_STREAM_SPLIT"
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "DELTA_LENGTH_BYTE_ARRAY"
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return "DELTA_BINARY_PACKED"
    if pa.types.is_decimal(kind) and kind.precision <= 18:  # stored as integers
        return "DELTA_BINARY_PACKED"
    return None


def _sizes(sample: pa.Table, dictionary: list[str], encodings: dict[str, str]) -> dict[str, int]:
    """Return how many bytes each Parquet column of the sample takes."""
    sink = pa.BufferOutputStream()
    options = {**WRITER, "use_dictionary": dictionary or False, "write_statistics": False}
    with pq.ParquetWriter(
        sink, sample.schema, column_encoding=encodings or None, **options
    ) as writer:
        writer.write_table(sample)
    group = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.row_group(0)
    chunks = (group.column(i) for i in range(group.num_columns))
    return {chunk.path_in_schema: chunk.total_compressed_size for chunk in chunks}
