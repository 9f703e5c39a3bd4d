"""Reads PostgreSQL's change events with Arrow as a table: the fast way of `debezium`.

It handles files in which each line is a create, snapshot read, update, delete or tombstone with
exactly the declared columns, as nearly all files are. For any other file it returns None, and then
each event is judged by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.land.files import SourceFile
from strata.ingest.readers.change import DELETE, INSERT, UPDATE, UPSERT
from strata.ingest.readers.json_table import json_type, located, read_table, told_nulls
from strata.ingest.readers.jsonl import shown_object
from strata.ingest.readers.moments import check_unit
from strata.ingest.readers.position import Places
from strata.ingest.readers.source import Located, Raw, RawFile
from strata.ingest.readers.stream_tables import PLACE, StreamTables, table_of
from strata.ingest.values.cast import Cast, Rows, from_arrow, from_objects
from strata.ingest.values.connect import plain_values
from strata.kernels.arrays import Bools, Bytes
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, Kind

OPS: Final = {"c": INSERT, "r": UPSERT, "u": UPDATE, "d": DELETE}
SOURCE: Final = {
    **dict.fromkeys(
        ("version", "connector", "name", "snapshot", "db", "sequence", "schema", "table", "origin"),
        pa.string(),
    ),
    **dict.fromkeys(("ts_ms", "ts_us", "ts_ns", "txId", "lsn", "xmin", "origin_lsn"), pa.int64()),
}
TRANSACTION: Final = {
    "id": pa.string(),
    "total_order": pa.int64(),
    "data_collection_order": pa.int64(),
}
EVENT: Final = {
    "source": pa.struct([*SOURCE.items()]),
    "transaction": pa.struct([*TRANSACTION.items()]),
    "op": pa.string(),
    "ts_ms": pa.int64(),
    "ts_us": pa.int64(),
    "ts_ns": pa.int64(),
}
# Kinds that Debezium encodes as numbers, and kinds whose text is converted one by one.
NUMBERS: Final = {Kind.DATE: pa.int32(), Kind.TIMESTAMP: pa.int64(), Kind.TIME: pa.int64()}
SINGLY: Final = (Kind.TIME, Kind.INTERVAL, Kind.JSONB, Kind.BYTES, Kind.NUMERIC)
OUTER: Final = frozenset({"key", "value", "before", "after", "source", "transaction"})
SEQUENCE: Final = r'^\[(?:null|"(?P<commit>\d{1,18})"),(?:null|"\d{1,18}")\]$'  # all of it
BEGINS: Final = b'{"key":'  # of a record; otherwise the line is the event


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of a file as columns, tombstones left out."""

    kept: Rows  # which lines
    ops: Bytes
    rows: dict[str, pa.Array]  # of the row that each event is about
    times: pa.Array
    places: Places
    tables: StreamTables
    passed: int


def read_events(
    source: SourceFile,
    data: bytes,
    relation: Relation,
    names: Sequence[str],
    time_name: str,
    placeholders: Sequence[str],
) -> RawFile | None:
    """Return what `debezium` returns, for a text with one event per line; None: use `debezium`.

    `time_name`: the name in `names` that requests the time of the commit.
    """
    if any(name != time_name and name not in relation.by_name for name in names):
        return None
    fields = {column.name: _read_as(column) for column in relation.columns}
    if any(kind is None for kind in fields.values()):
        return None
    found = _events(data, relation, fields)
    if found is None:
        return None
    columns: dict[str, Raw] = {time_name: found.times} if time_name in names else {}
    original: dict[str, Raw] = {}
    same: dict[str, Bools] = {}
    for column in relation.columns:
        values = found.rows[column.name]
        if pa.types.is_string(values.type):
            mask = pc.is_in(values, value_set=pa.array(placeholders))
            if pc.any(mask).as_py():
                same[column.name] = mask.to_numpy(zero_copy_only=False)
                values = pc.if_else(mask, pa.scalar(None, values.type), values)
        elif column.type.kind is Kind.TIMESTAMP:
            check_unit(source.name, column.name, values.drop_null().to_numpy())
        original[column.name] = values
        columns[column.name] = _plain(values, column)
    where = located(data, source.before)

    def locate(rows: Rows) -> list[Located]:
        return where(found.kept[rows])

    return RawFile(
        file=source.name,
        count=len(found.kept),
        columns=columns,
        original=original,
        convert=_convert,
        shown=_shown,
        locate=locate,
        ops=found.ops,
        same=same,
        passed=found.passed,
        places=found.places,
        tables=found.tables,
    )


def _read_as(column: Column) -> pa.DataType | None:
    kind = column.type
    if kind.kind in NUMBERS:
        return NUMBERS[kind.kind]
    return json_type(kind) or (pa.string() if kind.kind in SINGLY else None)


def _plain(values: pa.Array, column: Column) -> Raw:
    """Return values in the form in which they are judged: as columns, or one by one."""
    if column.type.kind not in SINGLY or pa.types.is_decimal(values.type):
        return values
    return plain_values(values.to_pylist(), column, [None] * len(values))


def _convert(values: Raw, kind: ColumnType) -> Cast:
    if not isinstance(values, pa.Array):
        return from_objects(values, kind)
    if kind.kind is Kind.DATE and pa.types.is_int32(values.type):
        values = values.view(pa.date32())
    elif kind.kind is Kind.TIMESTAMP and pa.types.is_int64(values.type):
        values = values.view(pa.timestamp("us"))
    return from_arrow(values, kind)


def _shown(values: Raw, row: int) -> str | None:
    if isinstance(values, pa.Array):
        value = values[row].as_py()
        return value if value is None or isinstance(value, str) else _dumped(value)
    return shown_object(values, row)


def _dumped(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()


def _events(data: bytes, relation: Relation, fields: dict[str, Any]) -> _Events | None:
    """Return the events of a text; None: some are not plain."""
    row = pa.struct([*fields.items()])
    event = pa.struct([("before", row), ("after", row), *EVENT.items()])
    key = [column.name for column in relation.key_columns]
    recorded = data.startswith(BEGINS)
    if recorded:
        keys = pa.struct([(name, fields[name]) for name in key])
        table = read_table(data, pa.schema([("key", keys), ("value", event)]), others=False)
    else:
        table = read_table(data, pa.schema([*event]), others=False)
    if table is None:
        return None
    events = _struct(table["value"]) if recorded else _struct(table.to_struct_array())
    kept = np.flatnonzero(events.is_valid().to_numpy(zero_copy_only=False))
    if recorded and any(told_nulls(data, n) != table[n].null_count for n in ("key", "value")):
        return None  # a record without a value is not a tombstone and must be reported
    events = events.take(pa.array(kept))
    ops = _ops(events.field("op"))
    if ops is None or not _tells_columns(data, events, relation, key):
        return None
    keys_of_events = _struct(table["key"]).take(pa.array(kept)) if recorded else None
    rows = _rows(events, ops, keys_of_events, key, list(fields))
    source = events.field("source")
    places = _places(events, source, ops)
    if not len(kept) or rows is None or places is None:
        return None
    times = pc.coalesce(_child(source, "ts_ms"), events.field("ts_ms"))
    return _Events(kept, ops, rows, times, places, _tables(source), len(table) - len(kept))


def _tables(source: pa.StructArray) -> StreamTables:
    """Return the tables of events, by what `table_of` looks at."""
    names = [name for name in PLACE if name in SOURCE]
    codes = [_child(source, name).dictionary_encode(null_encoding="encode") for name in names]
    number = np.zeros(len(source), np.int64)
    for code in codes:
        number = number * len(code.dictionary) + code.indices.to_numpy()
    _, first, of_row = np.unique(number, return_index=True, return_inverse=True)
    table = pa.table({name: _child(source, name) for name in names})
    found = [table_of(one) for one in table.take(pa.array(first)).to_pylist()]
    return StreamTables(tuple(found), of_row)


def _struct(column: pa.ChunkedArray) -> pa.StructArray:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _child(struct: pa.StructArray, name: str) -> pa.Array:
    """Return a field, null where the struct is."""
    return pc.struct_field(struct, name)


def _ops(letters: pa.Array) -> Bytes | None:
    """Return the operations; None if there is any other."""
    index = pc.index_in(letters, value_set=pa.array([*OPS]))
    if index.null_count:
        return None
    found: Bytes = np.array([*OPS.values()], np.uint8)[index.to_numpy()]
    return found


def _tells_columns(
    data: bytes, events: pa.StructArray, relation: Relation, key: Sequence[str]
) -> bool:
    """Return whether every row has every column: the text has as many nulls as were read.

    A missing column would be read as null as well, and must be reported.
    """
    rows = [events.field(which) for which in ("before", "after")]
    for column in relation.columns:
        found = sum(
            int(pc.sum(pc.and_(row.is_valid(), _child(row, column.name).is_null())).as_py() or 0)
            for row in rows
        )
        if found and (column.name in key or _null_elsewhere(events, column.name)):
            return False
        if found and told_nulls(data, column.name) != found:
            return False
    return True


def _null_elsewhere(events: pa.StructArray, name: str) -> bool:
    """Return whether a key of this name may also be null outside of the rows."""
    around = [events.field("source"), events.field("transaction"), events]
    return name in OUTER or any(
        pc.any(pc.and_(struct.is_valid(), _child(struct, name).is_null())).as_py()
        for struct in around
        if struct.type.get_field_index(name) >= 0
    )


def _rows(
    events: pa.StructArray,
    ops: Bytes,
    keys_of_events: pa.StructArray | None,
    key: Sequence[str],
    names: Sequence[str],
) -> dict[str, pa.Array] | None:
    """Return the row that each event is about; None if one lacks its row or changes its key."""
    before, after = events.field("before"), events.field("after")
    deletes = pa.array(ops == DELETE)
    lacking = pc.if_else(deletes, before.is_null(), after.is_null())
    if pc.any(pc.and_(lacking, pc.invert(deletes))).as_py():
        return None
    if pc.any(lacking).as_py() and (keys_of_events is None or keys_of_events.null_count):
        return None
    updates = pc.and_(pa.array(ops == UPDATE), before.is_valid())
    rows = {}
    for name in names:
        old, new = _child(before, name), _child(after, name)
        values = pc.if_else(deletes, old, new)
        if name in key:
            same = pc.fill_null(pc.equal(old, new), False)
            if pc.any(pc.and_(updates, pc.invert(same))).as_py():
                return None
            if keys_of_events is not None:
                values = pc.if_else(lacking, _child(keys_of_events, name), values)
        rows[name] = values
    return rows


def _places(events: pa.StructArray, source: pa.StructArray, ops: Bytes) -> Places | None:
    """Return the events' positions in the log; None if one has no position."""
    lsn, mark = _child(source, "lsn"), _child(source, "snapshot")
    connector, sequence = _child(source, "connector"), _child(source, "sequence")
    if lsn.null_count or not pc.all(pc.equal(connector, "postgresql")).as_py():
        return None
    if pc.any(pc.less(lsn, 0)).as_py():
        return None
    if connector.null_count or mark.null_count:
        return None
    parts = pc.extract_regex(sequence, SEQUENCE)
    if parts.null_count:
        return None
    commit = pc.struct_field(parts, "commit")
    commits = pc.if_else(pc.equal(commit, ""), "0", commit).cast(pa.int64()).to_numpy()
    streamed = pc.is_in(mark, value_set=pa.array(["false", "incremental"]))
    read = (ops == UPSERT) & ~streamed.to_numpy(zero_copy_only=False)
    places = lsn.to_numpy()
    ends = pc.starts_with(mark, "last").to_numpy(zero_copy_only=False)
    return Places(
        np.where(read, 0, commits),
        np.where(read, 0, places),
        np.where(read, places, 0),
        read & ends,
    )
