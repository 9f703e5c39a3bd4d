"""A table of PostgreSQL that has each update of a consumer exactly once.

The table has the wanted columns, then t and d. Its bookmark is a row of `strata_positions` of the
same schema, which changes in the transaction that adds the rows. So a program that dies finds both
or neither.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest, Unavailable
from strata.format.values.beyond import python_values
from strata.format.values.json_text import canonical_json
from strata.model.extras import needed
from strata.model.settings import without_password
from strata.model.shown import as_json_value
from strata.read.subscription import Delivery

if TYPE_CHECKING:
    import psycopg

    _Connection = psycopg.Connection[Any]

POSITIONS: Final = "strata_positions"
NAME_BYTES: Final = 63  # of a name; PostgreSQL cuts longer ones, and then two may be one
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
_STATES: Final = "25"  # class of errors about the state of a transaction
_LONG: Final = {  # names of types as PostgreSQL shows them
    "numeric(20)": "numeric(20,0)",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
}
_TEXTS: Final = ("text", "character varying")  # each value is written as a text
# Of the type of a column that is there: those to which it grows, with all its values.
_WIDER: Final = {
    "smallint": ("integer", "bigint", "numeric(20)", "numeric"),
    "integer": ("bigint", "numeric(20)", "numeric"),
    "bigint": ("numeric(20)", "numeric"),
    "real": ("double precision",),
}
_AS_WELL: Final = {  # of a wanted type: others that take its values, or refuse them
    "text": ("uuid", "json", "jsonb"),
    "jsonb": ("json",),
    "numeric(20)": ("numeric",),
}
# Of each column of a table: its name and its type, that below a domain.
_COLUMNS: Final = """SELECT attname, CASE typtype WHEN 'd' THEN format_type(typbasetype, typtypmod)
    ELSE format_type(atttypid, atttypmod) END
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_BEYOND: Final = re.compile(r"([+-]?\d+)(-\d\d-\d\d)T?([\d:.]*)(Z?)")  # Python's calendar
_UUID: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_DIGITS: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_SHOWN_CHARS: Final = 80  # of a value in an error


class PostgresTable:
    """The sink; the table and the positions are made with the first delivery."""

    def __init__(self, address: str, table: str) -> None:
        """Write to `table`, or `schema.table`, of the database at `postgresql://…`.

        Raises: InvalidRequest without the extra `postgres`.
        """
        with needed("postgres", "a table of PostgreSQL"):
            import psycopg
        self._psycopg, self._address, self._table = psycopg, address, table
        *schema, name = table.split(".", 1)
        if name == POSITIONS:
            raise InvalidRequest("this table is for bookmarks", table=table, cure="another name")
        self._schema, self._name = "".join(schema), _short(name)
        self._target = self._marks = ""  # quoted, with the schema, once it is known

    def bookmark(self) -> str | None:
        """Return the bookmark of the last delivery that the table has; None: it has none yet.

        Raises: Unavailable when the database does not answer; InvalidRequest when there is a
        bookmark and no table.
        """
        with self._transaction() as connection:
            return self._stored(connection)

    def take(self, delivery: Delivery) -> int:
        """Store a delivery together with its bookmark; return how many rows it had.

        Raises: as `Delivery.check_follows`; InvalidRequest for a value that PostgreSQL cannot hold,
        and then nothing is stored; as `bookmark`.
        """
        with self._transaction() as connection:
            _run(
                connection,
                f"INSERT INTO {self._marks} (target) VALUES (%s) ON CONFLICT DO NOTHING",
                self._name,
            )
            delivery.check_follows(self._stored(connection, lock=True))
            rows = self._copy(connection, delivery, self._shape(connection, delivery.schema))
            _run(
                connection,
                f"UPDATE {self._marks} SET position = %s, bookmark = %s WHERE target = %s",
                delivery.upper,
                delivery.bookmark,
                self._name,
            )
            return rows

    def _stored(self, connection: "_Connection", *, lock: bool = False) -> str | None:
        text = f"SELECT bookmark FROM {self._marks} WHERE target = %s"
        found = _run(connection, text + " FOR UPDATE" * lock, self._name).fetchone()
        if found is None or found[0] is None:
            return None
        if not self._there(connection, self._target):
            raise InvalidRequest(
                "the table of these changes is gone",
                table=self._table,
                cure=f"restore it; or delete its row of {POSITIONS}, and begin anew with a new "
                "consumer",
            )
        return str(found[0])

    def _there(self, connection: "_Connection", quoted: str) -> bool:
        found = _run(connection, "SELECT to_regclass(%s) IS NOT NULL", quoted).fetchone()
        return found is not None and bool(found[0])

    def _place(self, connection: "_Connection") -> None:
        """Learn the schema, so that one table has one bookmark, and make a table for bookmarks."""
        if not self._schema:
            found = _run(connection, "SELECT current_schema()").fetchone()
            self._schema = found[0] or "" if found else ""
        inside = f"{_quoted(_short(self._schema))}."
        self._target, marks = f"{inside}{_quoted(self._name)}", f"{inside}{POSITIONS}"
        self._marks = marks.replace("%", "%%")  # it stands where values have a %s
        if not self._there(connection, marks):
            # Of two that make it at one time PostgreSQL refuses one, in spite of IF NOT EXISTS.
            _run(connection, "SELECT pg_advisory_xact_lock(hashtext(%s))", marks)
            columns = "target text PRIMARY KEY, position bigint, bookmark text"
            _run(connection, f"CREATE TABLE IF NOT EXISTS {marks} ({columns})")

    def _shape(self, connection: "_Connection", schema: pa.Schema) -> dict[str, str]:
        """Make the table, or give it the columns that it lacks, and wider ones where they grew.

        Return the types of the columns that it had.
        """
        columns = {_short(field.name): (_type(field.type), field.type) for field in schema}
        listed = ", ".join(f"{_quoted(name)} {kind}" for name, (kind, _) in columns.items())
        _run(connection, f"CREATE TABLE IF NOT EXISTS {self._target} ({listed})")
        there = dict(_run(connection, _COLUMNS, self._target).fetchall())
        for name, (kind, values) in columns.items():
            change = f"ALTER TABLE {self._target} "
            if name not in there:
                _run(connection, f"{change}ADD COLUMN {_quoted(name)} {kind}")
            elif kind in _WIDER.get(there[name], ()):
                _run(connection, f"{change}ALTER COLUMN {_quoted(name)} TYPE {kind}")
            elif not _holds(there[name], kind, values):
                raise InvalidRequest(
                    "a column of the table would change these values; nothing of them is stored",
                    table=self._table,
                    column=name,
                    type=there[name],
                    wanted=kind,
                    cure=f"{change}ALTER COLUMN {_quoted(name)} TYPE {kind}, or rename it there; "
                    "or leave it out with --columns",
                )
        return there

    def _copy(self, connection: "_Connection", delivery: Delivery, there: dict[str, str]) -> int:
        names = ", ".join(_quoted(name) for name in delivery.schema.names)
        rows = 0
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {self._target} ({names}) FROM STDIN".encode()) as copy,
        ):
            for batch in delivery.rows:
                pairs = zip(batch.schema.names, batch.columns, strict=True)
                columns = [_values(*pair, there.get(pair[0], "")) for pair in pairs]
                for row in zip(*columns, strict=True):
                    copy.write_row(row)
                rows += batch.num_rows
        return rows

    def _is_address(self) -> bool:
        """Return whether the driver understands the address: its errors repeat the password."""
        try:
            parts = self._psycopg.conninfo.conninfo_to_dict(self._address)
        except self._psycopg.Error:
            return False
        return "@" not in str(parts.get("host", ""))  # the password would end at the first @

    @contextmanager
    def _transaction(self) -> Iterator["_Connection"]:
        """Open the database for one transaction; an error names the table, and undoes it."""
        shown = {"table": f"{without_password(self._address)} {self._table}"}
        if not self._is_address():
            raise InvalidRequest(
                "this is no address of PostgreSQL",
                **shown,
                cure="postgresql://user@host/db; write %40 for @ and %25 for % in a password",
            )
        try:
            with self._psycopg.connect(self._address) as connection:
                self._place(connection)
                yield connection
        except (self._psycopg.Error, ValueError, OverflowError) as error:
            if _may_pass(error, self._psycopg.OperationalError):
                raise Unavailable(
                    "the database of the table does not answer",
                    certain=False,
                    **shown,
                    reason=str(error).strip(),
                ) from error
            raise InvalidRequest(
                "the table does not take these changes; nothing of them is stored",
                **shown,
                reason=str(error).strip(),
                cure="leave the column out with --columns, or such rows with --where",
            ) from error


def _may_pass(error: Exception, operational: type[Exception]) -> bool:
    """Return whether another try may help: the server is away, or ends what takes long.

    A standby, and a transaction that the server has ended, are of the class of invalid states,
    which are no operational errors to the driver.
    """
    state = str(getattr(error, "sqlstate", None) or "")
    return isinstance(error, operational) or state.startswith(_STATES)


def _run(connection: "_Connection", text: str, *values: object) -> "psycopg.Cursor[Any]":
    return connection.execute(text.encode(), values or None)


def _type(kind: pa.DataType) -> str:
    """Return the type of PostgreSQL for values of an Arrow type; what is nested becomes JSON."""
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return next((name for fits, name in _SCALARS if fits(kind)), "jsonb")


def _holds(there: str, wanted: str, values: pa.DataType) -> bool:
    """Return whether a column of the type `there` keeps each value of a wanted type as it is.

    A text of digits would become a number in a column of numbers, and a time would lose its zone.
    """
    digits = _DIGITS.fullmatch(there)
    if digits is not None and pa.types.is_decimal(values):
        precision, scale = map(int, digits.groups())
        before = precision - scale
        return bool(scale >= values.scale and before >= values.precision - values.scale)
    others = (*_TEXTS, *_AS_WELL.get(wanted, ()), *_WIDER.get(wanted, ()))
    return there.replace("(6)", "") in {_LONG.get(kind, kind) for kind in (wanted, *others)}


def _values(name: str, column: pa.Array, there: str) -> list[Any]:
    """Return the values of a column as the driver takes them.

    Raises: InvalidRequest for a text that PostgreSQL refuses, or changes in the type `there`.
    """
    kind = _type(column.type)
    if kind == "text":
        _check_texts(name, column)
        _check_spelt(name, column, there)
    values = python_values(column, pairs=True)
    if kind == "jsonb":
        return [None if v is None else json.dumps(as_json_value(v, wide=True)) for v in values]
    if kind in ("date", "timestamp", "timestamptz"):
        return [_moment(value) if isinstance(value, str) else value for value in values]
    return values


def _moment(text: str) -> str:
    """Return a day or moment beyond Python's calendar as PostgreSQL writes it.

    >>> _moment("+10000-01-01"), _moment("0000-12-31T23:59:59.000001Z")
    ('10000-01-01', '0001-12-31 23:59:59.000001+00 BC')
    """
    match = _BEYOND.fullmatch(text)
    assert match is not None, text
    year, rest = int(match[1]), f" {match[3]}" if match[3] else ""
    zone = "+00" if match[4] else ""
    if year > 0:
        return f"{year:04}{match[2]}{rest}{zone}"
    return f"{1 - year:04}{match[2]}{rest}{zone} BC"


def _check_texts(name: str, column: pa.Array) -> None:
    found = pc.match_substring(column, "\0")
    if pc.any(found).as_py():
        value = column.filter(found)[0].as_py()
        raise InvalidRequest(
            "PostgreSQL has no NUL in a text; nothing of them is stored",
            column=name,
            value=value[:_SHOWN_CHARS],
            cure="leave the column out with --columns, or such rows with --where",
        )


def _check_spelt(name: str, column: pa.Array, there: str) -> None:
    """Refuse a text that a column keeps in another spelling, or without a repeated key."""
    if there == "uuid":
        same = pc.match_substring_regex(column, _UUID)
    elif there == "jsonb":
        same = pc.equal(canonical_json(column)[0], column)
    else:
        return
    changed = pc.and_(column.is_valid(), pc.invert(pc.fill_null(same, False)))
    if pc.any(changed).as_py():
        raise InvalidRequest(
            "a column of the table would change this value; nothing of them is stored",
            column=name,
            type=there,
            value=column.filter(changed)[0].as_py()[:_SHOWN_CHARS],
            cure="give the column of the table the type text; or leave it out with --columns",
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _short(name: str) -> str:
    """Return a name. Raises: InvalidRequest for one that PostgreSQL would cut or refuse."""
    if 0 < len(name.encode()) <= NAME_BYTES and "\0" not in name:
        return name
    raise InvalidRequest(
        f"PostgreSQL has names of 1 to {NAME_BYTES} bytes", name=name, cure="a shorter name"
    )
