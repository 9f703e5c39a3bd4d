"""Consensus in a SQL database: SQLite embedded, PostgreSQL for several machines.

There is one table with one row a version. A compare-and-set is one statement that adds a row only
while the newest number is the expected one. The differences between the two databases are in
`strata.store.sqlite` and `strata.store.postgres`. Connections and their pool are SQLAlchemy's, but
statements go to the driver as text, because building one would take longer than running it.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.model.extras import cure
from strata.model.settings import without_password
from strata.store.cures import outside_cure
from strata.store.interface import Versioned
from strata.store.memory import check_step, check_truncation
from strata.store.postgres import Postgres
from strata.store.retry import Patience
from strata.store.sqlite import Sqlite

T = TypeVar("T")

BUSY_S: Final = 30.0  # how long to wait for other writers before giving up
UNWRITABLE: Final = "give this user the right to write the database file and its folder"
_PAUSES: Final = Patience(first_ms=5, ceiling_ms=200)

# Step from key to key over the index. DISTINCT would read each stored version.
_KEYS: Final = (
    "WITH RECURSIVE every(key) AS (SELECT min(key) FROM strata_consensus UNION ALL"
    " SELECT (SELECT min(key) FROM strata_consensus WHERE key > every.key)"
    " FROM every WHERE every.key IS NOT NULL)"
    " SELECT every.key FROM every WHERE every.key IS NOT NULL"
)
_NEWEST: Final = (
    " AND EXISTS (SELECT 1 FROM strata_consensus AS one WHERE one.key = every.key AND one.seqno ="
    " (SELECT max(seqno) FROM strata_consensus WHERE key = every.key) AND ({}))"
)


class SqlConsensus:
    """Versioned heads in a table; safe for threads, for processes and over a fork."""

    def __init__(self, url: str) -> None:
        """Use the database at a SQLAlchemy address; opened at first use.

        The first process with the right to do so creates a missing table. A process that only
        reads does not create a missing file.

        Raises: InvalidRequest for an address that cannot be used.
        """
        self._url = _parse(url)
        self._database = self._new()
        self._engine: sa.Engine | None = None
        self._pid = 0

    def head(self, key: str) -> Versioned | None:
        """See `Consensus.head`."""
        rows = self._read(key, self._database.HEAD, (key,))
        return rows[0] if rows else None

    def compare_and_set(self, key: str, expected: int | None, new: Versioned) -> bool:
        """See `Consensus.compare_and_set`."""
        check_step(key, expected, new)

        def insert(cursor: Any) -> bool:
            done = self._database.compare_and_set(cursor, key, expected, new.seqno, new.data)
            if done:
                self._settle(key, new.seqno, written=True)
                self._database.check_there(certain=False)
            return done

        return self._run(insert, writes=True)

    def scan(self, key: str, from_seqno: int, limit: int) -> list[Versioned]:
        """See `Consensus.scan`."""
        return self._read(key, self._database.PAGE, (key, from_seqno, max(limit, 0)))

    def truncate(self, key: str, seqno: int) -> int:
        """See `Consensus.truncate`."""

        def drop(cursor: Any) -> int:
            # The head only grows, so what holds here also holds at the delete.
            cursor.execute(self._database.NEWEST, (key,))
            check_truncation(key, cursor.fetchone()[0], seqno)
            cursor.execute(self._database.DROP, (key, seqno))
            return int(cursor.rowcount)

        return self._run(drop, writes=True)

    def scrub(self) -> str:
        """See `Scrubbing.scrub`. Cost: rewrites the table."""
        return self._run(self._database.scrub, writes=True)

    @contextmanager
    def turn(self, key: str) -> Iterator[bool]:
        """See `Consensus.turn`."""
        if self._engine is None or self._pid != os.getpid():
            self.head(key)  # opens the database
        with self._database.turn(key) as waited:
            yield waited

    def describe(self) -> tuple[str, str]:
        """Return which database this is, and why it is not trusted; empty if it is.

        Raises: Unavailable.
        """
        return self._run(self._database.describe)

    def read_only(self) -> bool:
        """Return whether our user may read the file of states, and not write it.

        Errs: False for a database that asks for a login: its `describe` says what a role lacks.
        """
        return isinstance(self._database, Sqlite) and self._database.readable_only()

    def user(self) -> str:
        """Return our user in the database; empty if it has none. Raises: Unavailable."""
        if isinstance(self._database, Sqlite):
            return ""  # only the rights on the file are known
        return self._run(self._database.user)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
            self._database.close()

    # ------------------------------------------------------------------ inside

    def _absent(self) -> bool:
        self._database.check_there()
        return self._database.absent()

    def _new(self) -> Sqlite | Postgres:
        return (Sqlite if self._url.get_backend_name() == "sqlite" else Postgres)(self._url)

    def _read(self, key: str, query: str, values: tuple[object, ...]) -> list[Versioned]:
        def read(cursor: Any) -> list[Versioned]:
            rows = _all(cursor, query, values)
            found = [Versioned(seqno, bytes(data)) for seqno, data in rows]
            if found:
                self._settle(key, found[-1].seqno, written=False)
            return found

        return [] if self._absent() else self._run(read)

    def _settle(self, key: str, seqno: int, *, written: bool) -> None:
        """Make a version durable before anybody learns of it; the connection is still open."""
        try:
            self._database.settle(key, seqno)
        except OSError as error:
            raise Unavailable(
                "the log of the consensus database could not be synced",
                certain=not written,
                address=self._address(),
                reason=error.strerror,
                cure=outside_cure(error),
            ) from error

    def _run(self, work: Callable[[Any], T], *, writes: bool = False) -> T:
        """Return what `work` returns, waiting for other writers up to `BUSY_S`."""
        deadline = time.monotonic() + BUSY_S
        attempt = 0
        while True:
            self._database.check_there()
            connection = self._connection(deadline)
            try:
                with _cursor(connection) as cursor:
                    return work(cursor)
            except self._database.ERRORS as error:
                busy = self._database.busy(error)
                if self._database.broken(error):
                    connection.invalidate(error)
                if not busy or time.monotonic() > deadline:
                    raise self._translate(error, certain=busy or not writes) from error
            finally:
                connection.close()
            time.sleep(_PAUSES.pause_s(attempt))
            attempt += 1

    def _connection(self, deadline: float) -> Any:
        """Return a live connection, waiting while the database is locked on opening."""
        attempt = 0
        failures: tuple[type[Exception], ...] = (SQLAlchemyError, *self._database.ERRORS)
        while True:
            try:
                return self._connect()
            except failures as error:
                busy = self._database.busy(getattr(error, "orig", None) or error)
                if not busy or time.monotonic() > deadline:
                    raise self._translate(error, certain=True) from error
            time.sleep(_PAUSES.pause_s(attempt))
            attempt += 1

    def _connect(self) -> Any:
        """Return a connection of this process; connections from before a fork are never used."""
        if self._engine is None or self._pid != os.getpid():
            if self._engine is not None:
                self._engine.dispose(close=False)
                self._database = self._new()
            self._engine, self._pid = self._opened(), os.getpid()
        while True:
            connection = self._engine.raw_connection()
            if not self._database.stale(connection.driver_connection):
                return connection
            connection.invalidate()
            connection.close()

    def _opened(self) -> sa.Engine:
        engine = self._database.engine()
        try:
            connection = engine.raw_connection()
            try:
                self._database.migrate(connection.driver_connection)
            finally:
                connection.close()
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _translate(self, error: BaseException, *, certain: bool) -> Corrupt | Unavailable:
        """Return the error kind for a failure; `certain`: the call surely had no effect."""
        cause = getattr(error, "orig", None) or error
        details = {"address": self._address(), "reason": str(cause)}
        cure = UNWRITABLE if "readonly" in str(cause) else None
        if isinstance(self._database, Sqlite):
            reason, found = self._database.obstacle(cause)
            details["reason"] = reason or details["reason"]
            cure = found or cure
        if self._database.damaged(cause):
            return Corrupt("the consensus database is damaged", **details)
        return Unavailable(
            "the consensus database cannot be used",
            certain=certain or self._database.refused(cause),
            **details,
            cure=cure,
        )

    def _address(self) -> str:
        return without_password(self._url.render_as_string(hide_password=True))

    # Last in the class: below it, `list` in an annotation would name this method.
    def list(self, holding: tuple[bytes, ...] = ()) -> "list[str]":
        """See `Consensus.list`."""
        if self._absent():
            return []
        query = _KEYS
        if holding:
            query += _NEWEST.format(" OR ".join([self._database.HOLDS] * len(holding)))
        rows = self._run(lambda cursor: _all(cursor, query, holding))
        return sorted(str(key) for (key,) in rows)


@contextmanager
def _cursor(connection: Any) -> Iterator[Any]:
    cursor = connection.cursor()
    try:
        yield cursor
    finally:
        cursor.close()


def _all(cursor: Any, query: str, values: tuple[object, ...]) -> "list[Any]":
    cursor.execute(query, values)
    rows: list[Any] = cursor.fetchall()
    return rows


def _parse(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError) as error:  # the latter for a port that is no number
        raise InvalidRequest(
            "not an address of a consensus store",
            cure="sqlite:////path/file.db, postgresql://user@host/database or memory://name",
        ) from error
    backend = parsed.get_backend_name()
    if backend == "sqlite" and (parsed.database or ":memory:") == ":memory:":
        raise InvalidRequest("SQLite in memory cannot be shared", cure="memory://name")
    if parsed.drivername == "postgresql":
        driver = next((d for d in ("psycopg", "psycopg2") if find_spec(d)), None)
        if driver is None:
            raise InvalidRequest("no PostgreSQL driver is installed", cure=cure("postgres"))
        parsed = parsed.set(drivername=f"postgresql+{driver}")
    elif backend not in ("sqlite", "postgresql"):
        raise InvalidRequest("this database cannot hold consensus", backend=backend)
    return parsed
