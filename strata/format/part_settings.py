"""Parquet settings of a part, chosen by measuring a sample of its values.

Fixed for all parts: zstd level 1 (level 3 writes at half the speed for no smaller files), page
checksums, no statistics of `k` and `v`, which nobody could use. In layout `both` those two are
LZ4: a copy that goes when the migration ends should cost little time, rather than little room.
Chosen column by column, from the sample alone, so that equal updates give equal bytes:

- a dictionary where values repeat;
- else differences of neighbours (integers, times), byte streams (floats) or lengths apart
  (texts), where that made the sample smaller than plain values did.

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
    paths, dictionary, other = [], [], {}
    for column in sample.column_names:
        for path, values in leaves(sample[column].combine_chunks(), column):
            paths.append(path)
            if _repeats(values, rows):
                dictionary.append(path)
            elif encoding := _alternative(values.type):
                other[path] = encoding
    settings = {
        **WRITER,
        "use_dictionary": dictionary or False,
        "column_encoding": _smaller(sample, dictionary, other) or None,
        "write_statistics": paths,
    }
    if layout == "both":
        settings["compression"] = dict.fromkeys(paths, "zstd") | {K: "lz4", V: "lz4"}
        settings["compression_level"] = dict.fromkeys(paths, WRITER["compression_level"])
    return settings


def _repeats(values: pa.Array, rows: int) -> bool:
    if pa.types.is_boolean(values.type) or (len(values) <= 2 and not values.null_count):
        return False  # so few are not looked at: they may be huge
    text = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    long = rows >= MANY_BLOCKS * SAMPLE_ROWS
    share = TEXT_SHARE if text and long else DICTIONARY_SHARE
    return bool(pc.count_distinct(values).as_py() < share * len(values))


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


def _smaller(sample: pa.Table, dictionary: list[str], other: dict[str, str]) -> dict[str, str]:
    """Return those of the `other` encodings that make their column smaller than plain does."""
    if not other or sample.num_rows < SAMPLE_ROWS:
        return {}
    plain = _sizes(sample, dictionary, {})
    found = _sizes(sample, dictionary, other)
    return {path: name for path, name in other.items() if found[path] < GAIN * plain[path]}


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
