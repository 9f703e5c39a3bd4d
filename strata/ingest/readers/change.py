"""Changes of keyed rows, as change streams report them, in the order in which they happened.

A change names a key and says what happened to its row. The row that it replaces is in the shard. It
is looked up (`strata.ingest.changes.lookup`), and both together become updates
(`strata.ingest.changes.resolve`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.columns import T, child, updates_schema
from strata.format.values.physical import stored_offsets
from strata.format.values.sortable import sortable_bytes
from strata.kernels.arrays import Words
from strata.model.schema import Relation
from strata.updates.order import one_chunk

INSERT: Final = 0  # the key must not be there
UPDATE: Final = 1  # the key must be there
DELETE: Final = 2  # the key must be there
UPSERT: Final = 3  # the key may be there or not
REMOVE: Final = 4  # as DELETE, but the key may be missing
TRUNCATE: Final = 5  # all keys
WHOLE: Final = (INSERT, UPDATE, UPSERT)  # operations that carry a whole row
OLD: Final = 9  # not a change: the row that is in the shard

OP: Final = "op"
AT: Final = "at"  # place in the stream: number of the file << 32 | number of the row
KEY: Final = "key"  # bytes that sort like the key; see `key_bytes`
COMMIT: Final = "commit"  # position in the log of the database: see `position`
LSN: Final = "lsn"
SOURCE_TIME: Final = "source.ts_ms"  # where a change stream has the time of the commit
SAME: Final = "same."  # before a column's name: the column did not change in this row
WORD_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Truncation:
    """All keys were removed."""

    at: int  # place in the stream
    time: int
    commit: int  # position in the log of the database
    lsn: int


def changes_schema(relation: Relation, same: Sequence[int] = ()) -> pa.Schema:
    """Return the schema of changes: the columns by id, then t, op, at, key, commit, lsn.

    `same`: ids of columns with a mask of the rows in which they did not change.
    """
    columns = [updates_schema(relation).field(child(c.id)) for c in relation.columns]
    own = [
        pa.field(T, pa.int64()),
        pa.field(OP, pa.uint8()),
        pa.field(AT, pa.int64()),
        pa.field(KEY, pa.binary()),
        pa.field(COMMIT, pa.int64()),
        pa.field(LSN, pa.int64()),
    ]
    return pa.schema([*columns, *own, *(pa.field(f"{SAME}{i}", pa.bool_()) for i in same)])


def key_ids(relation: Relation) -> tuple[int, ...]:
    """Return the key columns in the order in which they sort."""
    return tuple(i for i in relation.sort_ids if i in relation.key)


def key_bytes(rows: pa.Table | pa.RecordBatch, ids: Sequence[int]) -> pa.BinaryArray:
    """Return some columns of each row as bytes that sort like them; none is a prefix of another."""
    columns = [sortable_bytes(one_chunk(rows.column(child(i)))) for i in ids]
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, b"")


def leading_key_ids(relation: Relation) -> tuple[int, ...]:
    """Return the key columns that lead the sort order; only these help to choose parts."""
    ids: list[int] = []
    for i in relation.sort_ids:
        if i not in relation.key:
            break
        ids.append(i)
    return tuple(ids)


def combined(tables: Sequence[pa.Table], relation: Relation) -> pa.Table:
    """Return changes of several files as one table, sorted by key and place."""
    names = {name for table in tables for name in table.column_names if name.startswith(SAME)}
    same = sorted(int(name.removeprefix(SAME)) for name in names)
    schema = changes_schema(relation, same)
    whole = pa.concat_tables([_filled(table, schema) for table in tables] or [schema.empty_table()])
    whole = whole.combine_chunks()
    return whole if _in_order(whole) else _sorted(whole)


def _sorted(changes: pa.Table) -> pa.Table:
    """Return changes, which are in one chunk, sorted by key and place."""
    places = one_chunk(changes[AT]).to_numpy()
    words = _words(one_chunk(changes[KEY]))
    if words is None or (places[1:] < places[:-1]).any():
        return changes.sort_by([(KEY, "ascending"), (AT, "ascending")])
    return changes.take(pa.array(np.argsort(words, kind="stable")))


def _words(keys: pa.BinaryArray) -> Words | None:
    """Return numbers that sort like the keys; None: not all are equally long and alike but for 8.

    Those of a whole number, a date or a time are; NumPy sorts numbers in a third of Arrow's time.
    """
    edges = stored_offsets(keys)
    width = int(edges[1] - edges[0]) if len(keys) else 0
    if keys.null_count or not width or (np.diff(edges) != width).any():
        return None
    data = np.frombuffer(keys.buffers()[2], np.uint8)[edges[0] : edges[-1]].reshape(-1, width)
    first = max(width - WORD_BYTES, 0)
    if (data[:, :first] != data[0, :first]).any():
        return None
    words = np.zeros((len(keys), WORD_BYTES), np.uint8)
    words[:, WORD_BYTES - (width - first) :] = data[:, first:]
    found: Words = words.view(">u8").ravel().astype(np.uint64)
    return found


def _in_order(changes: pa.Table) -> bool:
    """Return whether changes are already sorted by key and place; many sources deliver them so.

    `changes`: in one chunk.
    """
    if changes.num_rows < 2:
        return True
    keys, places = one_chunk(changes[KEY]), one_chunk(changes[AT]).to_numpy()
    rises = pc.less(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False)
    level = np.flatnonzero(~rises)
    same = pc.equal(keys.take(pa.array(level)), keys.take(pa.array(level + 1)))
    return pc.all(same).as_py() is not False and bool((places[level] <= places[level + 1]).all())


def _filled(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if table.schema.equals(schema, check_metadata=True):
        return table
    there = set(table.column_names)
    for field in schema:
        if field.name not in there:
            table = table.append_column(field, pa.array(np.zeros(table.num_rows, bool)))
    return table.select(schema.names).cast(schema)
