"""A table of PostgreSQL that has each update of a consumer exactly once.

The table has the wanted columns, then t and d. Its position is a row of `strata_positions`, which
changes in the transaction that adds the rows. So a program that dies finds both or neither.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from strata.errors import Fenced, InvalidRequest, Unavailable
from strata.model.extras import needed
from strata.model.settings import without_password
from strata.read.subscription import Delivery

if TYPE_CHECKING:
    import psycopg

    _Connection = psycopg.Connection[Any]

POSITIONS: Final = "strata_positions"
_MADE: Final = f"CREATE TABLE IF NOT EXISTS {POSITIONS} (target text PRIMARY KEY, position bigint)"
_SCALARS: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (lambda kind: kind in (pa.int8(), pa.int16(), pa.uint8()), "smallint"),
    (lambda kind: kind in (pa.int32(), pa.uint16()), "integer"),
    (lambda kind: kind in (pa.int64(), pa.uint32()), "bigint"),
    (lambda kind: kind == pa.uint64(), "numeric(20)"),
    (lambda kind: kind == pa.float32(), "real"),
    (lambda kind: kind == pa.float64(), "double precision"),
    (pa.types.is_decimal, "numeric"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "text"),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), "bytea"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
)


class PostgresTable:
    """The sink; the table and the positions are made with the first delivery."""

    def __init__(self, address: str, table: str) -> None:
        """Write to `table`, or `schema.table`, of the database at `postgresql://…`.

        Raises: InvalidRequest without the extra `postgres`.
        """
        with needed("postgres", "a table of PostgreSQL"):
            import psycopg
        self._psycopg, self._address, self._table = psycopg, address, table
        self._target = ".".join(map(_quoted, table.split(".", 1)))

    def position(self) -> int | None:
        """Return the time before which the table has everything; None: it has nothing yet.

        Raises: Unavailable when the database does not answer.
        """
        with self._transaction() as connection:
            _run(connection, _MADE)
            return self._stored(connection)

    def take(self, delivery: Delivery) -> int:
        """Store a delivery together with its upper; return how many rows it had.

        Raises: Fenced when another program has filled the table meanwhile; InvalidRequest for a
        value that PostgreSQL cannot hold, and then nothing is stored; as `position`.
        """
        with self._transaction() as connection:
            _run(connection, _MADE)
            _run(
                connection,
                f"INSERT INTO {POSITIONS} VALUES (%s, NULL) ON CONFLICT DO NOTHING",
                self._table,
            )
            there = self._stored(connection, lock=True)
            if there is not None and there > delivery.lower:
                raise Fenced(
                    "another program has filled this table meanwhile",
                    table=self._table,
                    position=there,
                    lower=delivery.lower,
                )
            self._shape(connection, delivery.schema)
            rows = self._copy(connection, delivery)
            _run(
                connection,
                f"UPDATE {POSITIONS} SET position = %s WHERE target = %s",
                delivery.upper,
                self._table,
            )
            return rows

    def _stored(self, connection: "_Connection", *, lock: bool = False) -> int | None:
        text = f"SELECT position FROM {POSITIONS} WHERE target = %s"
        found = _run(connection, text + " FOR UPDATE" * lock, self._table).fetchone()
        return None if found is None else found[0]

    def _shape(self, connection: "_Connection", schema: pa.Schema) -> None:
        """Make the table, or give it the columns that it lacks."""
        columns = {field.name: _type(field.type) for field in schema}
        listed = ", ".join(f"{_quoted(name)} {kind}" for name, kind in columns.items())
        _run(connection, f"CREATE TABLE IF NOT EXISTS {self._target} ({listed})")
        there = _run(connection, f"SELECT * FROM {self._target} LIMIT 0").description or ()
        for name in columns.keys() - {column.name for column in there}:
            added = f"{_quoted(name)} {columns[name]}"
            _run(connection, f"ALTER TABLE {self._target} ADD COLUMN {added}")

    def _copy(self, connection: "_Connection", delivery: Delivery) -> int:
        names = ", ".join(_quoted(name) for name in delivery.schema.names)
        rows = 0
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {self._target} ({names}) FROM STDIN".encode()) as copy,
        ):
            for batch in delivery.rows:
                columns = [_values(column) for column in batch.columns]
                for row in zip(*columns, strict=True):
                    copy.write_row(row)
                rows += batch.num_rows
        return rows

    @contextmanager
    def _transaction(self) -> Iterator["_Connection"]:
        """Open the database for one transaction; an error names the table, and undoes it."""
        shown = {"table": f"{without_password(self._address)} {self._table}"}
        try:
            with self._psycopg.connect(self._address) as connection:
                yield connection
        except self._psycopg.OperationalError as error:
            raise Unavailable(
                "the database of the table does not answer",
                certain=True,
                **shown,
                reason=str(error).strip(),
            ) from error
        except (self._psycopg.Error, ValueError, OverflowError) as error:
            raise InvalidRequest(
                "the table does not take these changes; nothing of them is stored",
                **shown,
                reason=str(error).strip(),
            ) from error


def _run(connection: "_Connection", text: str, *values: object) -> "psycopg.Cursor[Any]":
    return connection.execute(text.encode(), values or None)


def _type(kind: pa.DataType) -> str:
    """Return the type of PostgreSQL for values of an Arrow type; what is nested becomes JSON."""
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return next((name for fits, name in _SCALARS if fits(kind)), "jsonb")


def _values(column: pa.Array) -> list[Any]:
    """Return values as the driver takes them."""
    values: list[Any] = column.to_pylist()
    if _type(column.type) != "jsonb":
        return values
    return [None if value is None else json.dumps(value, default=str) for value in values]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
