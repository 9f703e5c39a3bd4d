"""Rejected rows of formats that are not text, kept exactly: as a table of one row.

Read again as JSON, a timestamp would be a text, bytes another text, a NaN null, and a value that
was refused for its type would be taken in as another value. So the row is kept as an Arrow table
beside the JSON for people, in the field where a row of CSV has its header.
"""

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, read_bytes
from strata.ingest.readers.source import Located, Raw, RawFile, check_columns
from strata.ingest.values.cast import Cast, Rows, from_arrow, from_objects
from strata.ingest.values.column import plainly
from strata.ingest.values.shown import FAILS, json_text, shown, shown_scalar
from strata.model.types import ColumnType

KEPT: Final = "\0arrow;base64,"  # a CSV header never begins like this
OBJECTS: Final = {b"strata": b"json"}  # marks a column of objects, as JSON
OP, SAME = b"strata.op", b"strata.same"  # of a change: its operation, its unsent values


def keep_row(
    columns: Mapping[str, Raw], row: int, op: int | None = None, same: Collection[str] = ()
) -> str | None:
    """Return one row of raw columns as `read_kept` reads it; None: it cannot be kept.

    `op`, `same`: of a change, see `strata.ingest.readers.change`.
    """
    facts = {} if op is None else {OP: str(op).encode(), SAME: orjson.dumps(sorted(same))}
    try:
        pairs = [_one(name, values, row) for name, values in columns.items()]
        schema = pa.schema([field for field, _ in pairs], facts)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(pa.record_batch([array for _, array in pairs], schema=schema))
    except FAILS:
        return None
    return KEPT + b64encode(sink.getvalue()).decode()


def _one(name: str, values: Raw, row: int) -> tuple[pa.Field, pa.Array]:
    if isinstance(values, list):
        text = None if values[row] is None else json_text(values[row])
        if text is not None and orjson.loads(text) != values[row]:
            raise ValueError("not what JSON has: bytes, or not a number")
        array = pa.array([text], pa.string())
        return pa.field(name, array.type, metadata=OBJECTS), array
    array = plainly(values.slice(row, 1)).take(pa.array([0]))
    return pa.field(name, array.type), array


def read_kept(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return a kept row, as the reader of its format returned it.

    Raises: InvalidRequest if it is not such a row, or its columns are not the declared ones.
    """
    try:
        data = b64decode(read_bytes(source)[len(KEPT) :], validate=True)
        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all()
    except FAILS as error:
        raise InvalidRequest(
            "a rejected row was not kept whole",
            file=source.name,
            reason=str(error),
            cure="take in the file that it came from again",
        ) from error
    facts = table.schema.metadata or {}
    check_columns(source.name, table.column_names, names, optional=optional)
    columns = {name: _column(table, name) for name in names if name in table.column_names}
    change: dict[str, Any] = {}
    if OP in facts:
        sent = set(orjson.loads(facts[SAME]))
        change["ops"] = np.array([int(facts[OP])], np.uint8)
        change["same"] = {name: np.array([True]) for name in sent if name in columns}

    def locate(rows: Rows) -> list[Located]:
        return [(int(row) + 1, "") for row in rows]

    return RawFile(
        file=source.name,
        count=table.num_rows,
        columns=columns,
        convert=convert,
        shown=shown_raw,
        locate=locate,
        number=source.number,
        whole=False,
        **change,
    )


def _column(table: pa.Table, name: str) -> Raw:
    values = table.column(name).combine_chunks()
    if (table.schema.field(name).metadata or {}) != OBJECTS:
        return values
    return [None if text is None else orjson.loads(text) for text in values.to_pylist()]


def convert(values: Raw, target: ColumnType) -> Cast:
    """Return a column of objects or of Arrow, typed.

    Raises: ArrowInvalid for texts that are not UTF-8, which Arrow reads from files unchecked.
    """
    if isinstance(values, list):
        return from_objects(values, target, typed=True)
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        elif pa.types.is_nested(values.type):
            values = values.take(pa.array(np.arange(len(values))))
        else:
            raise
        values.validate(full=True)  # without what other rows hold
    return from_arrow(values, target)


def shown_raw(values: Raw, row: int) -> str | None:
    """Return a raw value as people read it."""
    return shown(values[row]) if isinstance(values, list) else shown_scalar(values[row])
