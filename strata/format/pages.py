"""Indexes of large manifests: one row for each page, with what its parts hold together.

A manifest of many parts is a tree. Its pages are manifests of some thousand parts each, as
`strata.format.manifest` writes them. An index has a row for each page: exact counts, and the union
of the parts' statistics in the same columns as in a page. An index of many rows is itself in pages.
A reader opens what the rows of an index cannot rule out. Source: docs/reference/format.md.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from strata.errors import Corrupt
from strata.format.manifest import STATS_PREFIX, VERSION_KEY, damage
from strata.format.pack import encode_table, open_table, unpack

INDEX_VERSION: Final = 2
LEVEL_KEY: Final = b"strata.manifest_level"
PAGE_PARTS: Final = 4096  # parts of a page
INDEX_ROWS: Final = 4096  # rows of an index
PAGED_PARTS: Final = 4 * PAGE_PARTS  # a manifest of at most this many parts is one blob
LEVELS_MAX: Final = 8  # more than any number of parts needs
PACKED_MAX: Final = 1 << 20  # bytes of an index that is packed as a whole

INDEX_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),  # of the page's blob
        pa.field("pages", pa.int64(), nullable=False),  # blobs: itself, and all below
        pa.field("blob_bytes", pa.int64(), nullable=False),  # of the page itself
        pa.field("stored_bytes", pa.int64(), nullable=False),  # of all these blobs
        pa.field("parts", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),  # of the parts
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("run_low", pa.int32(), nullable=False),
        pa.field("run_high", pa.int32(), nullable=False),
        pa.field("relation_version", pa.int32(), nullable=False),  # the newest of the parts
        pa.field("order", pa.list_(pa.field("item", pa.int32()))),  # null: the parts differ
        pa.field("t_low", pa.int64(), nullable=False),  # the least of the parts
        pa.field("t_last", pa.int64(), nullable=False),  # the greatest t_low of the parts
        pa.field("t_high", pa.int64(), nullable=False),
        pa.field("diffs_sum", pa.int64(), nullable=False),
        pa.field("digest", pa.uint64(), nullable=False),
        pa.field("retractions", pa.bool_(), nullable=False),
        pa.field("key_low", pa.binary(), nullable=False),
        pa.field("key_high", pa.binary()),
        pa.field("stats_parts", pa.int64(), nullable=False),  # parts that have statistics
        pa.field("stats_bytes", pa.int64(), nullable=False),
        pa.field("unknown_bytes", pa.int64(), nullable=False),  # of the parts without statistics
    ]
)


@dataclass(frozen=True, slots=True)
class Index:
    """An index, or some of its columns. Shape: `table` has one row a page, in the parts' order."""

    level: int  # 1: of pages that list parts; n: of indexes of level n - 1
    table: pa.Table


def encode_index(index: Index) -> bytes:
    """Return an index as the bytes of its blob; equal indexes give equal bytes."""
    metadata = {VERSION_KEY: str(INDEX_VERSION), LEVEL_KEY: str(index.level)}
    table = index.table.replace_schema_metadata(metadata).combine_chunks()
    return encode_table(table, PACKED_MAX)


def decode_index(data: bytes, columns: Collection[str] | None = None) -> Index:
    """Return an index with its fixed columns and some statistics; None means all.

    A name that ends with `*` matches every statistics column with that prefix. Those that the index
    lacks are left out: unknown.
    Raises: Corrupt for bytes that are not an index, are damaged, or lack one of the fixed columns.
    """
    with damage("an index of a manifest"):
        data = unpack(data)
        schema = open_table(data).schema
        level = _check_schema(schema)
        table = open_table(data, _included(schema.names, columns)).read_all()
        table.validate(full=True)
        for field in INDEX_SCHEMA:
            if not field.nullable and table[field.name].null_count:
                raise Corrupt("an index of a manifest lacks a value", column=field.name)
    return Index(level, table)


def _included(names: list[str], columns: Collection[str] | None) -> list[int]:
    wanted = {*INDEX_SCHEMA.names, *(columns or ())}
    prefixes = tuple(name[:-1] for name in wanted if name.endswith("*"))
    if columns is None:
        prefixes = (STATS_PREFIX,)
    return [i for i, n in enumerate(names) if n in wanted or (prefixes and n.startswith(prefixes))]


def _check_schema(schema: pa.Schema) -> int:
    metadata = schema.metadata or {}
    version = metadata.get(VERSION_KEY, b"").decode(errors="replace")
    if version != str(INDEX_VERSION):
        raise Corrupt(
            "an index of a manifest has an unknown version", version=version, known=INDEX_VERSION
        )
    for field in INDEX_SCHEMA:
        place = schema.get_field_index(field.name)
        if place < 0 or schema.field(place).type != field.type:
            raise Corrupt("an index of a manifest lacks a column", column=field.name)
    level = int(metadata.get(LEVEL_KEY, b"0"))
    if not 1 <= level <= LEVELS_MAX:
        raise Corrupt("an index of a manifest has an impossible level", level=level)
    return level
