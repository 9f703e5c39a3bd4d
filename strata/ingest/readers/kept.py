"""Rejected rows of formats that are not text, kept exactly: as a table of one row.

Read again as JSON, a timestamp would be a text, bytes another text, a NaN null, and a value that
was refused for its type would be taken in as another value. So the row is kept as an Arrow table
beside the JSON for people, in the field where a row of CSV has its header. It keeps the ids of its
columns: they may have other names when it is read again, be gone, or have come since.
"""

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
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
IDS: Final = b"strata.ids"  # of the shard's columns, by the name that each has in the row
NO_IDS: Final[Mapping[str, int]] = MappingProxyType({})


def keep_row(
    columns: Mapping[str, Raw],
    row: int,
    ids: Mapping[str, int] = NO_IDS,
    op: int | None = None,
    same: Collection[str] = (),
) -> str | None:
    """Return one row of raw columns as `read_kept` reads it; None: it cannot be kept.

    `ids`: of the shard's columns, by name. `op`, `same`: of a change, see
    `strata.ingest.readers.change`.
    """
    facts = {} if op is None else {OP: str(op).encode(), SAME: orjson.dumps(sorted(same))}
    if ids:
        facts[IDS] = orjson.dumps({name: id for name, id in ids.items() if name in columns})
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


def read_kept(
    source: SourceFile,
    names: Sequence[str],
    optional: Collection[str] = (),
    ids: Mapping[str, int] = NO_IDS,
) -> RawFile:
    """Return a kept row, as the reader of its format returned it.

    `ids`: of the shard's columns, by their present names. Of a row that is no change, a column that
    came since is at its default, or null, as in the rows of its file that were taken in. A column
    that went is left out.
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
    former: dict[str, int] = orjson.loads(facts.get(IDS, b"{}"))
    table, called = _by_present_names(table, former, ids)
    # A change says nothing of a column that came since: null might not be its value.
    rows = former and OP not in facts
    come = {n for n, id in ids.items() if rows and id not in former.values()}.difference(optional)
    check_columns(source.name, table.column_names, names, optional={*optional, *come})
    columns = {name: _column(table, name) for name in names if name in table.column_names}
    columns |= {name: pa.nulls(1) for name in come}
    change: dict[str, Any] = {}
    if OP in facts:
        sent = {called.get(name, name) for name in orjson.loads(facts[SAME])}
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


def _by_present_names(
    table: pa.Table, former: Mapping[str, int], ids: Mapping[str, int]
) -> tuple[pa.Table, Mapping[str, str]]:
    """Return a kept row with the present names of its columns, and these by the former ones.

    `former`, `ids`: of columns by their names then and now; without the former ones names stay.
    """
    now = {id: name for name, id in ids.items()}
    called = {name: now[id] for name, id in former.items() if id in now}
    stays = [n for n in table.column_names if n in called or n not in former]
    table = table.select(stays)
    return table.rename_columns([called.get(name, name) for name in stays]), called


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
