"""Consensus in a SQL database: SQLite embedded, PostgreSQL for several machines.

One table, one row a version. A compare-and-set is one INSERT whose SELECT yields a row only
while the newest number is the expected one. SQLite runs one writer at a time, so that this is
enough; PostgreSQL runs it under SERIALIZABLE isolation, because two writers that expect the
same head but write different numbers would not meet in the primary key.

SQLite: write-ahead log with full syncs, so that what was acknowledged survives a power cut;
any number of processes on one machine, never over a network file system.
"""

import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.store.interface import Versioned
from strata.store.memory import check_step, check_truncation
from strata.store.retry import Policy

T = TypeVar("T")

BUSY_S: Final = 30.0  # how long to wait for other writers before giving up
_PAUSES: Final = Policy(first_ms=5, ceiling_ms=200)
_BUSY: Final = ("database is locked", "database table is locked", "database schema is locked")
_DAMAGED: Final = ("malformed", "not a database", "file is encrypted")
_REFUSED: Final = ("readonly database", "database or disk is full", "unable to open database")
_LIBPQ: Final = {"connect_timeout": 10, "tcp_user_timeout": 30_000, "application_name": "strata"}
_SERIALIZATION: Final = ("40001", "40P01")  # PostgreSQL: serialization failure, deadlock

_TABLE: Final = sa.Table(
    "strata_consensus",
    sa.MetaData(),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("seqno", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
_C: Final = _TABLE.c

# Statements are made once: to build one takes longer than to run it.
_KEY: Final = _C.key == sa.bindparam("_key", type_=sa.Text)
_VERSIONS: Final = sa.select(_C.seqno, _C.data).where(_KEY)
_HEAD: Final = _VERSIONS.order_by(_C.seqno.desc()).limit(1)
_PAGE: Final = (
    _VERSIONS.where(_C.seqno >= sa.bindparam("_from", type_=sa.BigInteger))
    .order_by(_C.seqno)
    .limit(sa.bindparam("_limit", type_=sa.Integer))
)
_NEWEST: Final = sa.select(sa.func.max(_C.seqno)).where(_KEY).scalar_subquery()


class SqlConsensus:
    """Versioned heads in a table; safe for threads, for processes and over a fork."""

    def __init__(self, url: str) -> None:
        """Use the database at a SQLAlchemy address; opened, and its table made, at first use.

        Raises: InvalidRequest for an address that cannot be used.
        """
        self._url = _parse(url)
        self._engine: sa.Engine | None = None
        self._pid = 0

    def head(self, key: str) -> Versioned | None:
        """See `Consensus.head`."""
        rows = self._run(lambda c: _read(c, _HEAD, _key=key))
        return rows[0] if rows else None

    def compare_and_set(self, key: str, expected: int | None, new: Versioned) -> bool:
        """See `Consensus.compare_and_set`."""
        check_step(key, expected, new)
        statement = _BEGIN if expected is None else _FOLLOW
        values = {"_key": key, "_seqno": new.seqno, "_data": new.data, "_expected": expected}

        def insert(connection: sa.Connection) -> bool:
            try:
                return connection.execute(statement, values).rowcount == 1
            except IntegrityError:
                return False  # this number is taken: somebody was faster

        return self._run(insert, writes=True)

    def scan(self, key: str, from_seqno: int, limit: int) -> list[Versioned]:
        """See `Consensus.scan`."""
        page = {"_key": key, "_from": from_seqno, "_limit": max(limit, 0)}
        return self._run(lambda c: _read(c, _PAGE, **page))

    def truncate(self, key: str, seqno: int) -> int:
        """See `Consensus.truncate`."""
        statement = _TABLE.delete().where(_C.key == key, _C.seqno < seqno)

        def drop(connection: sa.Connection) -> int:
            # The head only ever grows, so what holds here holds at the delete as well.
            head = connection.execute(sa.select(_NEWEST), {"_key": key}).scalar()
            check_truncation(key, head, seqno)
            return int(connection.execute(statement).rowcount)

        return self._run(drop, writes=True)

    # Last of the public methods: below it, `list` in an annotation would name this method.
    def list(self) -> "list[str]":
        """See `Consensus.list`."""
        query = sa.select(_C.key).distinct()
        return sorted(self._run(lambda c: [str(key) for (key,) in c.execute(query)]))

    def describe(self) -> tuple[str, str]:
        """Return which database this is, and why it cannot be trusted; empty if it can.

        Raises: Unavailable.
        """
        return self._run(_describe)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _run(self, work: Callable[[sa.Connection], T], *, writes: bool = False) -> T:
        """Return what `work` returns, waiting for other writers up to `BUSY_S`."""
        deadline = time.monotonic() + BUSY_S
        attempt = 0
        while True:
            try:
                return self._once(work, writes)
            except DBAPIError as error:
                if not _busy(error) or time.monotonic() > deadline:
                    raise _translate(
                        error, self._url, certain=_busy(error) or not writes
                    ) from error
            time.sleep(_PAUSES.pause_s(attempt))
            attempt += 1

    def _once(self, work: Callable[[sa.Connection], T], writes: bool) -> T:
        try:
            connection = self._connect()
        except DBAPIError as error:
            if _busy(error):
                raise
            raise _translate(error, self._url, certain=True) from error
        with connection:
            if writes and connection.dialect.name != "sqlite":
                connection = connection.execution_options(isolation_level="SERIALIZABLE")
                with connection.begin():
                    return work(connection)
            return work(connection)

    def _connect(self) -> sa.Connection:
        """Return a connection of this process; one made before a fork is never used after it."""
        if self._engine is None or self._pid != os.getpid():
            if self._engine is not None:
                self._engine.dispose(close=False)
            engine = _engine(self._url)
            with engine.connect() as connection:
                _make_table(connection)
            self._engine, self._pid = engine, os.getpid()
        return self._engine.connect()


def _describe(connection: sa.Connection) -> tuple[str, str]:
    if connection.dialect.name == "sqlite":
        return f"SQLite {connection.execute(sa.text('SELECT sqlite_version()')).scalar()}", ""
    show = {
        name: str(connection.execute(sa.text(f"SHOW {name}")).scalar())
        for name in ("server_version", "fsync", "synchronous_commit")
    }
    server = f"PostgreSQL {show['server_version']}"
    if connection.execute(sa.text("SELECT pg_is_in_recovery()")).scalar():
        return server, "it is a standby, which takes no commits"
    for name in ("fsync", "synchronous_commit"):
        if show[name] == "off":
            return server, f"{name} is off: a commit that was acknowledged may be lost"
    return server, ""


def _insert(unchanged: sa.ColumnElement[bool]) -> sa.Insert:
    """Return the insertion of a version that happens only while the condition holds."""
    row = sa.select(
        sa.bindparam("_key", type_=sa.Text),
        sa.bindparam("_seqno", type_=sa.BigInteger),
        sa.bindparam("_data", type_=sa.LargeBinary),
    )
    statement = _TABLE.insert().from_select(["key", "seqno", "data"], row.where(unchanged))
    # Not every driver's count of inserted rows outlives the statement.
    return statement.execution_options(preserve_rowcount=True)


_BEGIN: Final = _insert(_NEWEST.is_(None))
_FOLLOW: Final = _insert(sa.bindparam("_expected", type_=sa.BigInteger) == _NEWEST)


def _parse(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
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
            raise InvalidRequest(
                "no PostgreSQL driver is installed", cure="pip install 'psycopg[binary]'"
            )
        parsed = parsed.set(drivername=f"postgresql+{driver}")
    elif backend not in ("sqlite", "postgresql"):
        raise InvalidRequest("this database cannot hold consensus", backend=backend)
    return parsed


def _engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() != "sqlite":
        # Of a server that is gone libpq would be sure only after minutes.
        quick = {k: v for k, v in _LIBPQ.items() if k not in url.query}
        return sa.create_engine(
            url, isolation_level="AUTOCOMMIT", pool_pre_ping=True, connect_args=quick
        )
    if url.database:
        folder = Path(url.database).absolute().parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                "the folder of the consensus database cannot be made",
                certain=True, path=str(error.filename or folder), reason=error.strerror,
            ) from error  # fmt: skip
    # AUTOCOMMIT: each statement is its own transaction and takes the write lock at its start.
    engine = sa.create_engine(
        url, isolation_level="AUTOCOMMIT", connect_args={"timeout": BUSY_S / 3}
    )
    sa.event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _make_table(connection: sa.Connection) -> None:
    """Make the table if it is not there: who may only use it need not be allowed to make one."""
    if connection.dialect.name == "sqlite" or not sa.inspect(connection).has_table(_TABLE.name):
        try:
            connection.execute(CreateTable(_TABLE, if_not_exists=True))
        except IntegrityError:  # PostgreSQL, when two make it at the same moment
            if not sa.inspect(connection).has_table(_TABLE.name):
                raise


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _read(
    connection: sa.Connection, query: sa.Select[int, bytes], **values: object
) -> list[Versioned]:
    return [Versioned(seqno, bytes(data)) for seqno, data in connection.execute(query, values)]


def _busy(error: DBAPIError) -> bool:
    """Return whether another writer was in the way, so that surely nothing happened."""
    return getattr(error.orig, "sqlstate", getattr(error.orig, "pgcode", None)) in (
        _SERIALIZATION
    ) or any(text in str(error.orig) for text in _BUSY)


def _translate(error: SQLAlchemyError, url: sa.URL, *, certain: bool) -> Corrupt | Unavailable:
    """Return the error kind for a failure; `certain`: the call surely had no effect."""
    reason = str(getattr(error, "orig", error))
    address = url.render_as_string(hide_password=True)
    if any(text in reason for text in _DAMAGED):
        return Corrupt("the consensus database is damaged", address=address, reason=reason)
    return Unavailable(
        "the consensus database cannot be used",
        certain=certain or any(text in reason for text in _REFUSED),
        address=address, reason=reason,
    )  # fmt: skip
