"""Parquet settings of a part, chosen by measuring a sample of its values.

Fixed for all parts: zstd level 1 (level 3 writes at half the speed and saves no bytes), page
checksums, and no statistics of `k` and `v`, because they would be useless. In layout `both` these
two use LZ4: the copy is dropped when the migration ends, so it should cost little time rather than
little space.
Chosen column by column, from the sample alone, so that equal updates give equal bytes:

- differences of neighbours (integers, times) or byte streams (floats), if the sample becomes
  smaller than with plain values, or at most a twentieth larger than compressed plain values.
  Compressed plain values take two to four times as long to compress and read, a dictionary at
  least twice as long;
- a dictionary if values repeat, and not only next to each other; for numbers if it saves space;
- lengths stored separately (texts), if the sample becomes smaller than with plain values;
- no compression if it saves less than a tenth of the encoded sample: mostly for differences.

Figures in benchmarks/README.md. Any reader of Parquet 2 follows each of these encodings.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strata.format.columns import K_S, V_S, K, V
from strata.format.values.coded import is_text
from strata.format.values.nested import leaves
from strata.format.weigh import plain_bytes

SAMPLE_ROWS: Final = 1_024  # rows of each of the sample's blocks at most, and of a sample at least
SAMPLE_BLOCKS: Final = 4
SAMPLE_PART: Final = 4  # a sample is at most this part of the rows: measuring costs as writing does
MANY_BLOCKS: Final = 16  # a part of this many blocks repeats values that its sample has once
DICTIONARY_SHARE: Final = 0.5  # a dictionary pays when fewer values than this share are distinct
TEXT_SHARE: Final = 0.8  # the same for texts in a long part: a few thousand values in all
FEW_SHARE: Final = 0.1  # below this share of distinct texts, a dictionary pays wherever they repeat
SAVED_BYTES: Final = 0.25  # share of each value that a dictionary of numbers must save
GAIN: Final = 0.98  # another encoding must make a column at least this much smaller
LOSS: Final = 1.05  # for compressible numbers it may be this much larger: it takes half the time
SHRUNK: Final = 0.9  # compression must make a column at least this much smaller
LEVEL: Final = 1  # of zstd
NARROW_BYTES: Final = 128  # narrower rows (on average) are encoded in larger batches
ENCODED_ROWS: Final = (1_024, 4_096)  # the first is Arrow's own choice
WRITER: Final[Mapping[str, Any]] = {
    "version": "2.6",
    "data_page_size": 256 * 1024,  # stays in the cache between encoding and compressing
    "write_page_checksum": True,
    "store_schema": False,  # the part's own schema is added when it is closed
    "store_decimal_as_integer": True,  # up to 18 digits: faster and smaller than bytes
}


def sample_of(table: pa.Table) -> pa.Table:
    """Return some blocks of rows from all over a table, as one chunk."""
    if table.num_rows <= SAMPLE_ROWS:
        return table.combine_chunks()
    total = max(table.num_rows // SAMPLE_PART, SAMPLE_ROWS)
    rows = min(total // SAMPLE_BLOCKS, SAMPLE_ROWS)
    starts = [n * table.num_rows // SAMPLE_BLOCKS for n in range(SAMPLE_BLOCKS)]
    blocks = [table.slice(start, rows) for start in starts]
    return pa.concat_tables([table.schema.empty_table(), *blocks]).combine_chunks()


def writer_settings(sample: pa.Table, rows: int, layout: str) -> dict[str, Any]:
    """Return the options of `ParquetWriter` for a part of `rows` rows.

    `sample` has the part's columns except `k` and `v`.
    """
    columns = dict(
        leaf
        for column in sample.column_names
        for leaf in leaves(sample[column].combine_chunks(), column)
    )
    repeating = [path for path, values in columns.items() if _repeats(values, rows)]
    chosen = _choice(sample, columns, repeating)
    codecs = dict.fromkeys(columns, "zstd") | dict.fromkeys(chosen.bare, "none")
    if layout != "structured":
        codecs |= dict.fromkeys((K, V), "lz4" if layout == "both" else "zstd")
    return {
        **WRITER,
        "compression": codecs,
        "compression_level": {path: LEVEL for path, codec in codecs.items() if codec == "zstd"},
        "use_dictionary": list(chosen.dictionary) or False,
        "column_encoding": dict(chosen.other) or None,
        "write_statistics": list(columns),
        "write_batch_size": _batch_rows(sample),
    }


def _batch_rows(sample: pa.Table) -> int:
    """Return how many rows are encoded at a time; Arrow checks for a full page after each batch."""
    narrow = plain_bytes(sample) <= NARROW_BYTES * sample.num_rows
    return ENCODED_ROWS[narrow]


def few_texts(sample: pa.Table, dictionary: Collection[str]) -> list[str]:
    """Return the Parquet columns in `dictionary` that hold texts with few distinct values.

    They are passed on as codes, which Arrow's encoder takes unchanged. From codes it writes a
    dictionary of any size, whereas it abandons a dictionary of texts that grows too large.
    """
    return [
        path
        for struct in (K_S, V_S)
        if struct in sample.column_names
        for path, values in _fields(sample[struct].combine_chunks(), struct)
        if path in dictionary
        and is_text(values.type)
        and _few(pc.count_distinct(values).as_py(), values)
    ]


def _fields(struct: pa.StructArray, name: str) -> Iterator[tuple[str, pa.Array]]:
    for field, values in zip(struct.type, struct.flatten(), strict=True):
        yield f"{name}.{field.name}", values


@dataclass(frozen=True, slots=True)
class _Choice:
    """The choices for Parquet columns, by path."""

    dictionary: Sequence[str]
    other: Mapping[str, str]  # encodings other than plain
    bare: Sequence[str] = ()  # not compressed


def _choice(sample: pa.Table, columns: Mapping[str, pa.Array], repeating: Sequence[str]) -> _Choice:
    """Choose the encoding and compression of columns; `repeating` columns repeat their values."""
    sure = [path for path in repeating if is_text(columns[path].type)]
    other = {
        path: encoding
        for path, values in columns.items()
        if path not in sure and (encoding := _alternative(values.type))
    }
    if not other or sample.num_rows < SAMPLE_ROWS:
        return _Choice(repeating, {})
    plain, found = _sizes(sample, sure, {}), _sizes(sample, sure, other)
    taken = {path: plain[path] for path in columns}
    for path in other:
        if found[path].stored < _limit(columns[path], plain[path]) * plain[path].stored:
            taken[path] = found[path]
    dictionary = sure
    if len(sure) < len(repeating):
        small = _sizes(sample, repeating, {})
        better = [
            path
            for path in repeating
            if path not in sure
            and small[path].stored + SAVED_BYTES * len(columns[path])
            < min(plain[path].stored, found[path].stored)
        ]
        taken |= {path: small[path] for path in better}
        dictionary = [path for path in repeating if path in sure or path in better]
    bare = [path for path, size in taken.items() if size.stored > SHRUNK * size.encoded]
    encoded = {p: name for p, name in other.items() if taken[p] is found[p]}
    return _Choice(dictionary, encoded, bare)


def _limit(values: pa.Array, plain: "_Size") -> float:
    """Return the largest size of another encoding that is preferred to plain values.

    Plain numbers that do not shrink are the fastest.
    """
    slow = not is_text(values.type) and plain.stored <= SHRUNK * plain.encoded
    return LOSS if slow else GAIN


def _repeats(values: pa.Array, rows: int) -> bool:
    if pa.types.is_boolean(values.type) or (len(values) <= 2 and not values.null_count):
        return False  # so few values are not inspected: they may be huge
    distinct = pc.count_distinct(values).as_py()
    if not is_text(values.type):
        return bool(distinct < DICTIONARY_SHARE * len(values))
    share = TEXT_SHARE if rows >= MANY_BLOCKS * SAMPLE_ROWS else DICTIONARY_SHARE
    if distinct >= share * len(values):
        return False
    # Sorted texts may repeat and still be many: compression handles equal neighbours by itself.
    return _few(distinct, values) or bool(distinct < share * _stretches(values))


def _stretches(values: pa.Array) -> int:
    """Return the number of stretches of equal neighbouring values."""
    changes = pc.not_equal(values.slice(1), values.slice(0, len(values) - 1))
    return 1 + int(pc.sum(changes).as_py() or 0)


def _few(distinct: int, values: pa.Array) -> bool:
    return distinct < FEW_SHARE * len(values)


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


@dataclass(frozen=True, slots=True)
class _Size:
    """The size of a Parquet column of the sample, in bytes."""

    encoded: int
    stored: int  # compressed


def _sizes(
    sample: pa.Table, dictionary: Sequence[str], encodings: Mapping[str, str]
) -> dict[str, _Size]:
    """Return the sizes of each Parquet column of the sample."""
    sink = pa.BufferOutputStream()
    options = {
        **WRITER,
        "compression": "zstd",
        "compression_level": LEVEL,
        "use_dictionary": list(dictionary) or False,
        "write_statistics": False,
    }
    with pq.ParquetWriter(
        sink, sample.schema, column_encoding=dict(encodings) or None, **options
    ) as writer:
        writer.write_table(sample)
    group = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.row_group(0)
    chunks = (group.column(i) for i in range(group.num_columns))
    return {
        chunk.path_in_schema: _Size(chunk.total_uncompressed_size, chunk.total_compressed_size)
        for chunk in chunks
    }
