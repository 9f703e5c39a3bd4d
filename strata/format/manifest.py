"""Manifests: a row for each part of a batch, with statistics as columns.

A manifest is an Arrow IPC file with compressed buffers: a reader loads only the columns that its
filter needs. A small manifest is packed as a whole, because most of it is the schema. Statistics
are columns `s.<column id>` and, inside JSON, `s.<column id>$.path`. A null there means "unknown",
and so does a missing column. Many parts are in pages, each a manifest, below an index
(`strata.format.pages`). Source: docs/reference/format.md.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.format.batch_read import has_one_batch, head_of_file, read_columns, schema_of
from strata.format.pack import encode_table, open_table, unpack

MANIFEST_VERSION: Final = 1
VERSION_KEY: Final = b"strata.manifest_version"
STATS_PREFIX: Final = "s."
BLOOM_PREFIX: Final = "s.bloom."
# The columns that name blobs, for `decode_manifest`: parts and bloom filters
BLOB_COLUMNS: Final = ("key", f"{BLOOM_PREFIX}*")
_ROWS_AT_ONCE: Final = 65_536  # rows whose values are held as Python objects, twice
PACKED_MAX: Final = 1 << 20  # bytes of a manifest that is packed as a whole
PIECE_PARTS: Final = 65_536  # rows of a piece: pieces are compressed and can be read separately

SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("run", pa.int32(), nullable=False),
        pa.field("layout", pa.string(), nullable=False),
        pa.field("relation_version", pa.int32(), nullable=False),
        pa.field("order", pa.list_(pa.field("item", pa.int32())), nullable=False),
        pa.field("t_low", pa.int64(), nullable=False),
        pa.field("t_high", pa.int64(), nullable=False),
        pa.field("diffs_sum", pa.int64(), nullable=False),
        pa.field("digest", pa.uint64(), nullable=False),
        pa.field("retractions", pa.bool_(), nullable=False),
        pa.field("key_low", pa.binary(), nullable=False),
        pa.field("key_high", pa.binary()),
        pa.field(
            "splits",
            pa.list_(pa.field("item", pa.struct([("row", pa.int64()), ("key", pa.binary())]))),
            nullable=False,
        ),
        pa.field("stats_version", pa.int32()),
        pa.field("stats_bytes", pa.int64(), nullable=False),
    ]
)
_NEVER_NULL: Final = frozenset(field.name for field in SCHEMA if not field.nullable)


@dataclass(frozen=True, slots=True)
class Split:
    """Where a row group of a part begins."""

    row: int  # number of its first row in the part
    key: bytes  # order-preserving bytes at or before that row's key, perhaps truncated


@dataclass(frozen=True, slots=True)
class PartRef:
    """The facts about a part that are known without opening it."""

    key: str  # blob key
    size_bytes: int
    rows: int
    run: int  # index of its run in the batch; parts of a run follow each other in order
    layout: str  # row | both | structured
    relation_version: int  # of the columns it was written with
    order: tuple[int, ...]  # column ids by which it is sorted, then t; () means unsorted
    t_low: int  # inclusive
    t_high: int  # inclusive
    diffs_sum: int  # modulo 2**64, signed: see `strata.model.sums`
    digest: int  # sum of d * hash(key, value), modulo 2**64
    retractions: bool  # some diff is negative
    key_low: bytes  # order-preserving bytes of the sort columns; at or before every row's
    key_high: bytes | None  # at or after every row's; None: no bound
    splits: tuple[Split, ...] = ()  # one for each row group
    stats_version: int | None = None  # None: the part has no statistics
    stats_bytes: int = 0  # encoded size of its statistics


def manifest_table(
    parts: Sequence[PartRef], stats: Sequence[pa.RecordBatch | None] | None = None
) -> pa.Table:
    """Return a manifest: one row per part, in the given order, with statistics appended.

    If a statistics row is None or lacks a column, the values are null: unknown.
    Raises: InvalidRequest when the numbers of statistics and parts differ.
    """
    names = SCHEMA.names
    base = pa.Table.from_pylist(
        [_row(part, names) for part in parts], schema=SCHEMA
    ).replace_schema_metadata({VERSION_KEY: str(MANIFEST_VERSION)})
    if stats is None:
        return base
    if len(stats) != len(parts):
        raise InvalidRequest("statistics and parts differ", stats=len(stats), parts=len(parts))
    rows = unify([_stats_row(row) for row in stats])
    for name in rows.column_names:
        if name.startswith(STATS_PREFIX):
            base = base.append_column(rows.schema.field(name), rows[name])
    return base


def unify(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables with different statistics columns; missing columns are null.

    Numbers of different width take the wider type. A column whose types cannot be reconciled keeps
    the last table's type; in tables with another type it is null, hence unknown.
    Errs: may forget statistics, never changes a value.
    """
    if not tables:
        return pa.table({})
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        types = {f.name: f for table in tables for f in table.schema}
        return pa.concat_tables([_fit(table, types) for table in tables], promote_options="default")


def encode_manifest(table: pa.Table, *, packed: bool = True) -> bytes:
    """Return a manifest as the bytes of its blob; equal tables give equal bytes.

    `packed`: a small one is packed as a whole, so that its schema takes little. Otherwise a reader
    decompresses only the columns that it needs.
    """
    metadata = {VERSION_KEY: str(MANIFEST_VERSION)}
    table = table.replace_schema_metadata(metadata).combine_chunks()
    return encode_table(table, PACKED_MAX if packed else 0, PIECE_PARTS)


def head_of(data: bytes) -> tuple[str, int]:
    """Return the version of a manifest, and its number of pieces; see `decode_manifest`.

    The version is that of `strata.format.pages` for the index of a manifest in pages.
    Raises: Corrupt for bytes that are not a manifest.
    """
    with damage():
        data = unpack(data)
        head = head_of_file(data)
        if head is not None and has_one_batch(data, head):
            return _version(schema_of(head)), 1
        reader = open_table(data)
        return _version(reader.schema), reader.num_record_batches


def _version(schema: pa.Schema) -> str:
    version: bytes = (schema.metadata or {}).get(VERSION_KEY, b"")
    return version.decode(errors="replace")


def has_columns(data: bytes, prefix: str) -> bool:
    """Return whether a manifest may have columns whose names begin so; damaged bytes may."""
    head = head_of_file(unpack(data))
    return head is None or any(name.startswith(prefix) for name in _names(head))


@lru_cache(maxsize=64)
def _names(head: bytes) -> tuple[str, ...]:
    with damage():
        return tuple(schema_of(head).names)


def decode_manifest(
    data: bytes,
    columns: Collection[str] | None = None,
    piece: int | None = None,
    *,
    threads: bool = True,
) -> pa.Table:
    """Return a manifest, or some of its columns; the others are not decompressed.

    `piece`: the number of the piece to return, see `head_of`; None: all rows. A name that ends with
    `*` matches every column with that prefix. Statistics columns that the manifest lacks are left
    out: unknown. `threads`: decompress many bytes side by side, unless manifests are decoded so.
    Raises: Corrupt for bytes that are not a manifest, are damaged, have an unknown version, or
    lack one of the fixed columns.
    """
    with damage():
        data = unpack(data)
        head = head_of_file(data)
        if head is None:
            raise Corrupt("a manifest does not begin as an Arrow file does")
        wanted = _wanted(head, None if columns is None else frozenset(columns))
        batch = None if piece else read_columns(data, head, wanted)
        if batch is not None:
            table = pa.Table.from_batches([batch])
        else:
            table = _read_by_arrow(data, wanted, piece, threads=threads)
        table.validate(full=True)
        _check_nulls(table)
    return table


def _read_by_arrow(
    data: bytes, wanted: tuple[int, ...], piece: int | None, *, threads: bool
) -> pa.Table:
    reader = open_table(data, list(wanted), threads=threads)
    if piece is None:
        return reader.read_all()
    return pa.Table.from_batches([reader.get_batch(piece)])


@lru_cache(maxsize=64)
def _wanted(head: bytes, columns: frozenset[str] | None) -> tuple[int, ...]:
    """Return the numbers of the columns to read, of a manifest with this message of its schema.

    Raises: Corrupt, InvalidRequest, and what Arrow raises.
    """
    schema = schema_of(head)
    _check_schema(schema)
    names = schema.names
    wanted = tuple(range(len(names))) if columns is None else _included(names, columns)
    if not wanted:
        raise InvalidRequest("no column of the manifest asked for", columns=sorted(columns or ()))
    return wanted


def part_refs(table: pa.Table) -> list[PartRef]:
    """Return the parts in a manifest, or in a selection of its rows.

    Cost: Python objects per row; select the rows first.
    """
    found: list[PartRef] = []
    orders: dict[tuple[int, ...], tuple[int, ...]] = {}  # most parts share one
    with damage():
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            # The fields of a PartRef are the columns, in their order.
            some = table.slice(start, _ROWS_AT_ONCE)
            columns = {name: some[name] for name in SCHEMA.names}
            plain = {name: c.to_pylist() for name, c in columns.items() if name != "splits"}
            plain["order"] = [orders.setdefault(o, o) for o in map(tuple, plain["order"])]
            plain["layout"] = list(map(intern, plain["layout"]))
            plain["splits"] = _splits(columns["splits"])
            found.extend(map(PartRef, *(plain[name] for name in SCHEMA.names)))
    return found


def _splits(column: pa.ChunkedArray) -> list[tuple[Split, ...]]:
    flat = pc.list_flatten(column)
    rows, keys = (pc.struct_field(flat, name).to_pylist() for name in ("row", "key"))
    splits = map(Split, rows, keys)
    return [tuple(islice(splits, count)) for count in pc.list_value_length(column).to_pylist()]


def stats_columns(table: pa.Table) -> pa.Table:
    """Return `rows` and the statistics columns of a manifest."""
    return table.select(["rows", *(n for n in table.column_names if n.startswith(STATS_PREFIX))])


def stats_rows(table: pa.Table) -> list[pa.RecordBatch | None]:
    """Return each part's statistics in the form of `manifest_table`; None if all are unknown.

    A row leaves out the columns that are null in it.
    """
    stats = stats_columns(table).combine_chunks()
    rows: list[pa.RecordBatch | None] = []
    for batch in (stats.slice(i, 1) for i in range(stats.num_rows)):
        known = [n for n in batch.column_names if n == "rows" or batch[n].null_count == 0]
        row = batch.select(known).combine_chunks().to_batches() if len(known) > 1 else []
        rows.append(row[0] if row else None)
    return rows


def blobs_of(table: pa.Table) -> tuple[str, ...]:
    """Return the keys of all blobs that a manifest names: parts, then their bloom filters.

    Shape: `table` has the columns of `BLOB_COLUMNS`.
    """
    found = table["key"].to_pylist()
    for name in table.column_names:
        if name.startswith(BLOOM_PREFIX):
            keys = pc.struct_field(table[name], "key")
            found += pc.drop_null(keys).to_pylist()
    return tuple(found)


def _row(part: PartRef, names: Sequence[str]) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(part, name) for name in names}
    row["splits"] = [{"row": split.row, "key": split.key} for split in part.splits]
    return row


def _stats_row(row: pa.RecordBatch | None) -> pa.Table:
    # The extra column gives a row to a part without any statistics.
    one = pa.table({"part": pa.nulls(1, pa.bool_())})
    if row is None:
        return one
    if row.num_rows != 1:
        raise InvalidRequest("a part's statistics are not one row", rows=row.num_rows)
    for field in row.schema:
        if field.name.startswith(STATS_PREFIX):
            one = one.append_column(field, row.column(field.name))
    return one


def _fit(table: pa.Table, types: dict[str, pa.Field]) -> pa.Table:
    for i, field in enumerate(table.schema):
        wanted = types[field.name]
        if field.type != wanted.type:
            table = table.set_column(i, wanted, pa.nulls(table.num_rows, wanted.type))
    return table


def _included(names: Sequence[str], columns: Collection[str]) -> tuple[int, ...]:
    missing = [n for n in columns if n in SCHEMA.names and n not in names]
    unknown = [n for n in columns if n not in SCHEMA.names and not n.startswith(STATS_PREFIX)]
    if missing:
        raise Corrupt("a manifest lacks a column", columns=missing)
    if unknown:
        raise InvalidRequest("manifests have no such column", columns=sorted(unknown))
    exact = {name for name in columns if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in columns if name.endswith("*"))
    return tuple(
        i for i, n in enumerate(names) if n in exact or (prefixes and n.startswith(prefixes))
    )


def _check_schema(schema: pa.Schema) -> None:
    version = _version(schema)
    if version != str(MANIFEST_VERSION):
        raise Corrupt("a manifest has an unknown version", version=version, known=MANIFEST_VERSION)
    for field in SCHEMA:
        index = schema.get_field_index(field.name)
        if index < 0 or schema.field(index).type != field.type:
            raise Corrupt("a manifest lacks a column or has it in another type", column=field.name)


def _check_nulls(table: pa.Table) -> None:
    there = set(table.column_names)
    for name in _NEVER_NULL & there:
        if table[name].null_count:
            raise Corrupt("a manifest has a null where there must be a value", column=name)
    if "order" in there and pc.list_flatten(table["order"]).null_count:
        raise Corrupt("a manifest has a null in a sort order")


@contextmanager
def damage(what: str = "a manifest") -> Iterator[None]:
    """Turn what Arrow raises about damaged bytes into Corrupt; `what` names them."""
    try:
        yield
    except StrataError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:300]
        raise Corrupt(f"{what} is damaged", reason=reason) from error
