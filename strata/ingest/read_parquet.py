"""Read Parquet and ORC files: columns by name, cast without loss; there are no lines, only rows."""

from collections.abc import Collection, Sequence

import orjson
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from strata.errors import InvalidRequest
from strata.ingest.cast import Rows, from_arrow
from strata.ingest.files import SourceFile, open_file
from strata.ingest.source import Located, Raw, RawFile, check_columns
from strata.updates.order import one_chunk


def read_parquet(
    source: SourceFile, names: Sequence[str], optional: Collection[str] = ()
) -> RawFile:
    """Return the columns `names`; `locate` counts rows from 1 in place of lines.

    Those that are `optional` may be missing.

    Raises: InvalidRequest for a file that is no Parquet or whose columns are not the declared.
    Cost: the whole file in memory.
    """
    try:
        with open_file(source) as stream, pq.ParquetFile(stream) as file:
            check_columns(source.name, file.schema_arrow.names, names, optional=optional)
            table = file.read()
    except pa.ArrowInvalid as error:
        raise InvalidRequest(
            "not a readable Parquet file",
            file=source.name, reason=str(error), cure="check source.format",
        ) from error  # fmt: skip

    return raw_table(source, table, names)


def read_orc(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return the columns `names`; otherwise as `read_parquet`."""
    try:
        with open_file(source) as stream:
            file = po.ORCFile(stream)
            check_columns(source.name, file.schema.names, names, optional=optional)
            table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidRequest(
            "not a readable ORC file",
            file=source.name, reason=str(error), cure="check source.format",
        ) from error  # fmt: skip
    return raw_table(source, table, names)


def raw_table(source: SourceFile, table: pa.Table, names: Sequence[str]) -> RawFile:
    """Return the rows of a table as those of a file."""

    def locate(rows: Rows) -> list[Located]:
        taken = table.take(pa.array(rows)).to_pylist()
        texts = [orjson.dumps(row, default=str).decode() for row in taken]
        return [(int(row) + 1, text) for row, text in zip(rows, texts, strict=True)]

    return RawFile(
        file=source.name,
        count=table.num_rows,
        columns={
            name: one_chunk(table.column(name)) for name in names if name in table.column_names
        },
        convert=from_arrow,
        shown=_shown,
        locate=locate,
    )


def _shown(values: Raw, row: int) -> str | None:
    value = values[row].as_py()
    return None if value is None else str(value)
