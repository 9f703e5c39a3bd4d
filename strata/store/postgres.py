"""PostgreSQL as a consensus store: several machines, one server.

A compare-and-set is one call of the function `strata_compare_and_set`: it takes a lock of the key
until the end of the transaction, finds the newest number, and adds a row. This is one round trip
and one transaction; two keys never block each other. Rows never change, so a role with SELECT,
INSERT and DELETE suffices. The server's own group commit shares syncs.

The tables have a version. A role with the right to do so upgrades them at first use; other roles
get an error.
"""

import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from threading import BoundedSemaphore
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from strata.errors import InvalidRequest

_LIBPQ: Final = {"connect_timeout": 10, "tcp_user_timeout": 30_000, "application_name": "strata"}
_BUSY: Final = ("40001", "40P01")  # serialization failure, deadlock
# Errors of these classes had no effect: bad data, bad state, no rights, no room, bad request.
_REFUSED: Final = ("22", "23", "25", "28", "3D", "42", "53", "54")
_RIGHT_LACKS, _NO_TABLE, _LOCKED = "42501", "42P01", "55P03"
WRITES: Final = ("INSERT", "DELETE")  # the rights that a role needs beside SELECT to write
TURN_MS: Final = 5_000
TURNS: Final = 5  # at once in a process: each has a connection, and needs another one to commit

MIGRATIONS: Final = (
    "CREATE TABLE IF NOT EXISTS strata_consensus (key TEXT NOT NULL, seqno BIGINT NOT NULL,"
    " data BYTEA NOT NULL, PRIMARY KEY (key, seqno))",
    """CREATE OR REPLACE FUNCTION strata_compare_and_set(
        of_key text, expected bigint, following bigint, content bytea
    ) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        -- Each statement must see what was committed before it, not before the first one.
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'strata_compare_and_set needs READ COMMITTED';
        END IF;
        PERFORM pg_advisory_xact_lock(hashtextextended(of_key, 7361));
        IF (SELECT max(seqno) FROM strata_consensus WHERE key = of_key)
            IS DISTINCT FROM expected THEN
            RETURN false;
        END IF;
        INSERT INTO strata_consensus VALUES (of_key, following, content) ON CONFLICT DO NOTHING;
        RETURN FOUND;
    END $$""",
)
_VERSIONS: Final = "CREATE TABLE IF NOT EXISTS strata_schema (version INTEGER PRIMARY KEY)"
_TURN: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 7362))"
_FREE: Final = (
    f"SELECT set_config('lock_timeout', '{TURN_MS}', true),"
    f" set_config('idle_in_transaction_session_timeout', '{4 * TURN_MS}', true),"
    " pg_try_advisory_xact_lock(hashtextextended(%s, 7362))"
)


class Postgres:
    """The parts that differ between databases, for PostgreSQL."""

    HEAD: Final = (
        "SELECT seqno, data FROM strata_consensus WHERE key = %s ORDER BY seqno DESC LIMIT 1"
    )
    PAGE: Final = (
        "SELECT seqno, data FROM strata_consensus WHERE key = %s AND seqno >= %s"
        " ORDER BY seqno LIMIT %s"
    )
    NEWEST: Final = "SELECT max(seqno) FROM strata_consensus WHERE key = %s"
    DROP: Final = "DELETE FROM strata_consensus WHERE key = %s AND seqno < %s"
    HOLDS: Final = "position(%s::bytea IN one.data) > 0"
    _SET: Final = "SELECT strata_compare_and_set(%s::text, %s::bigint, %s::bigint, %s::bytea)"

    def __init__(self, url: sa.URL) -> None:
        """Keep the address; nothing is opened yet."""
        self.url = url
        # Without these, libpq would notice a dead server only after minutes.
        quick = {k: v for k, v in _LIBPQ.items() if k not in url.query}
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", connect_args=quick)
        sa.event.listen(self._engine, "connect", _prepare)
        self._places = BoundedSemaphore(TURNS)
        self.ERRORS: tuple[type[Exception], ...] = (self._engine.dialect.loaded_dbapi.Error,)

    def engine(self) -> sa.Engine:
        """Return a pool of connections."""
        return self._engine

    def migrate(self, connection: Any) -> None:
        """Upgrade the tables to the newest version if they are older.

        Raises: InvalidRequest when they are newer, or this role may not change them.
        """
        cursor = connection.cursor()
        found = _version(cursor, self.ERRORS)
        if found > len(MIGRATIONS):
            raise InvalidRequest(
                "the consensus database was made by a newer version of Strata",
                found=found,
                known=len(MIGRATIONS),
                cure="use that version here too",
            )
        if found == len(MIGRATIONS):
            return
        try:
            cursor.execute("; ".join(_steps(found)))  # one message: one transaction
        except self.ERRORS as error:
            if _state(error) != _RIGHT_LACKS:
                raise
            raise InvalidRequest(
                "the tables of the consensus database are missing or old, and this role may not"
                " make them",
                found=found,
                wanted=len(MIGRATIONS),
                cure="run `strata doctor` once as the role that owns them",
            ) from error

    def compare_and_set(
        self, cursor: Any, key: str, expected: int | None, seqno: int, data: bytes
    ) -> bool:
        """Add a version if the newest is the expected one."""
        cursor.execute(self._SET, (key, expected, seqno, data))
        return bool(cursor.fetchone()[0])

    def settle(self, key: str, seqno: int) -> None:
        """Do nothing: the server shows only durable versions."""

    @contextmanager
    def turn(self, key: str) -> Iterator[bool]:
        """Wait for a turn at a key; a writer for whom there is no place may still try."""
        if not self._places.acquire(blocking=False):
            yield False
            return
        try:
            yield from self._queued(key)
        finally:
            self._places.release()

    def _queued(self, key: str) -> Iterator[bool]:
        """Yield once the turn has come, in the order of the server's own queue."""
        waits = False
        try:
            held = self._engine.connect().execution_options(isolation_level="READ COMMITTED")
        except SQLAlchemyError:
            yield waits  # a writer that cannot queue may still try
            return
        try:
            with suppress(SQLAlchemyError):
                # This overtakes no waiting writer: a lock that others wait for is not free.
                waits = not held.exec_driver_sql(_FREE, (key,)).one()[2]
                if waits:
                    held.exec_driver_sql(_TURN, (key,))
            yield waits
        finally:
            with suppress(SQLAlchemyError):
                held.rollback()
            with suppress(SQLAlchemyError):
                held.close()

    def close(self) -> None:
        """Do nothing: there is nothing to close beside the connections."""

    def describe(self, cursor: Any) -> tuple[str, str]:
        """Return which database this is, how it is reached, and why it is not trusted."""
        names = ("server_version", "fsync", "synchronous_commit", "is_superuser")
        show = {name: str(cursor.execute(f"SHOW {name}").fetchone()[0]) for name in names}
        found = f"PostgreSQL {show['server_version']}"
        if cursor.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
            return found, "it is a standby, which takes no commits"
        for name in ("fsync", "synchronous_commit"):
            if show[name] == "off":
                return found, f"{name} is off: a commit that was acknowledged may be lost"
        reads, lacks = rights_of(cursor)
        if lacks:
            return found, lacks
        found += f", {reads}" if reads else ""
        near, encrypted = _way(cursor)
        found += ", on this machine" if near else f", {'' if encrypted else 'not '}encrypted"
        if not near and not encrypted:
            return found, "the way there is not encrypted: add ?sslmode=verify-full to the address"
        if show["is_superuser"] == "on":
            found += ", as a superuser"
            if not near:
                return found, "this role is a superuser: SELECT, INSERT and DELETE are enough"
        return found, ""

    def scrub(self, cursor: Any) -> str:
        """Have the server drop dead rows where this role may; say what only an owner can do."""
        cursor.execute(
            "SELECT pg_has_role(session_user, relowner, 'USAGE') FROM pg_class"
            " WHERE oid = 'strata_consensus'::regclass"
        )
        owns = bool(cursor.fetchone()[0])
        if owns and _vacuumed(cursor, self.ERRORS):
            return "the write-ahead log of PostgreSQL and its archive, until they are recycled"
        when = ", which was in use, while no transaction is open" if owns else ""
        return (
            "dead rows of PostgreSQL: as the owner of the table run VACUUM FULL strata_consensus"
            f"{when}; then its write-ahead log and archive, until they are recycled"
        )

    def check_there(self, *, certain: bool = True) -> None:
        """Do nothing: the server says so itself."""

    def absent(self) -> bool:
        """Return False: reading creates nothing, since a server exists or does not."""
        return False

    def user(self, cursor: Any) -> str:
        """Return the user that the server has authenticated, even if another role was set later."""
        cursor.execute("SELECT session_user")
        return str(cursor.fetchone()[0])

    def busy(self, error: BaseException) -> bool:
        """Return whether another writer interfered, so that surely nothing happened."""
        return _state(error) in _BUSY

    def broken(self, error: BaseException) -> bool:
        """Return whether the connection must not be used again."""
        return not _state(error).startswith(_REFUSED) and not self.busy(error)

    def stale(self, connection: Any) -> bool:
        """Return whether the connection died while idle: then its socket has something to read.

        Costs no round trip. If a connection dies a moment later, the request itself fails.
        """
        if connection.closed:
            return True
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def damaged(self, error: BaseException) -> bool:
        """Return whether the database is damaged."""
        return _state(error) in ("XX001", "XX002")

    def refused(self, error: BaseException) -> bool:
        """Return whether a write with this error surely did not happen."""
        return _state(error).startswith(_REFUSED)


def _prepare(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    # Needed for any default of the server: the function reads again under its lock.
    cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
    cursor.close()


def _vacuumed(cursor: Any, errors: tuple[type[Exception], ...]) -> bool:
    """Write the table anew; False while others have it in use.

    A wait for the table keeps all others waiting: behind a dump, for hours.
    """
    try:
        cursor.execute(f"SET lock_timeout = {TURN_MS}")
        cursor.execute("VACUUM (FULL) strata_consensus")
    except errors as error:
        if _state(error) != _LOCKED:
            raise
        return False
    finally:
        with suppress(*errors):  # the connection is gone
            cursor.execute("RESET lock_timeout")
    return True


def _version(cursor: Any, errors: tuple[type[Exception], ...]) -> int:
    try:
        cursor.execute("SELECT coalesce(max(version), 0) FROM strata_schema")
    except errors as error:
        if _state(error) != _NO_TABLE:
            raise
        return 0
    return int(cursor.fetchone()[0])


def _steps(found: int) -> Iterator[str]:
    # Two processes at once upgrade one after the other, and each step may be repeated.
    yield "SELECT pg_advisory_xact_lock(7363)"
    yield _VERSIONS
    for number, step in enumerate(MIGRATIONS[found:], found + 1):
        yield step
        yield f"INSERT INTO strata_schema VALUES ({number}) ON CONFLICT DO NOTHING"


def rights_of(cursor: Any) -> tuple[str, str]:
    """Return what is to say of a role that only reads, and what is wrong with its rights."""
    rights = ("SELECT", *WRITES)
    asked = ", ".join(f"has_table_privilege('strata_consensus', '{right}')" for right in rights)
    *has, user = cursor.execute(f"SELECT {asked}, session_user").fetchone()
    lacks = tuple(right for right, there in zip(rights, has, strict=True) if not there)
    if lacks == WRITES:
        return f"read only: role {user} may not write it", ""
    return "", f"this role lacks {', '.join(lacks)} on strata_consensus" if lacks else ""


def _way(cursor: Any) -> tuple[bool, bool]:
    """Return whether the server is on this machine, and whether the connection is encrypted."""
    query = (
        "SELECT host(inet_server_addr()), host(inet_client_addr()),"
        " coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)"
    )
    server, client, encrypted = cursor.execute(query).fetchone()
    near = server is None or server == client or ip_address(server).is_loopback
    return near, bool(encrypted)


def _state(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")
