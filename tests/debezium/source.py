"""A PostgreSQL, and Debezium that listens to it."""

import math
import os
import random
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import orjson
import psycopg

from tests.debezium.shards import TABLES as SHARDS
from tests.debezium.shards import Row, number, shown
from tests.support.postgres import Server

HERE: Final = Path(__file__).parent
PYTHON: Final = HERE.parents[1] / ".venv-debezium" / "bin" / "python"
OPTIONS: Final = (
    "wal_level=logical",
    "fsync=off",
    "jit=off",
    "wal_sender_timeout=10s",
    "timezone=UTC",
)
SEED: Final = 41
WAIT_S: Final = 400  # machines are busy
NULL_SETTINGS: Final = (  # unless both are false, a null becomes the column's DEFAULT
    "converter.replace.null.with.default",
    "value.converter.replace.null.with.default",
)
THINGS: Final = """
id int PRIMARY KEY, v text, n numeric, m numeric(10,2), ts timestamp, ts3 timestamp(3),
tz timestamptz, dt date, j jsonb, ai int[], al bigint[], at text[], b bytea, f bool, u uuid,
tm time, iv interval, r real, dp float8, sm smallint, vc varchar(10), ch char(5)"""
TABLES: Final = f"""
CREATE TABLE things ({THINGS});
CREATE TABLE pairs (a int, b text, v text, n numeric(12,3), PRIMARY KEY (a, b));
ALTER TABLE pairs REPLICA IDENTITY FULL;
CREATE TABLE notes (id bigint PRIMARY KEY, note text);
CREATE TABLE grown (id int PRIMARY KEY, v text);
CREATE TABLE preset (
  id int PRIMARY KEY, z int DEFAULT 7, s text DEFAULT 'new', b bool DEFAULT true);
CREATE TABLE marks (id int PRIMARY KEY);
"""
# How a column is selected, by its type, to be compared; the rest as it is.
SELECT: Final = {
    "numeric": "{}::text",
    "jsonb": "{}::text",
    "bytea": "encode({}, 'hex')",
    "timestamp without time zone": "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')",
    "timestamp with time zone": "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
    "date": "{}::text",
    "uuid": "{}::text",
    "time without time zone": "to_char({}, 'HH24:MI:SS.US')",
    "character": "{}::text",  # without the blanks at its end
    "interval": "CASE WHEN {0} IS NULL THEN NULL ELSE ARRAY[extract(year FROM {0})::int8 * 12 + "
    "extract(month FROM {0})::int8, extract(day FROM {0})::int8, extract(epoch FROM {0} - "
    "justify_interval('0') - make_interval(0, extract(year FROM {0})::int * 12 + "
    "extract(month FROM {0})::int, 0, extract(day FROM {0})::int))::numeric * 1000000] END",
}


class Database:
    """The source tables."""

    def __init__(self, seed: int, accounts: int) -> None:
        """Start a server and make its tables, with so many rows for pgbench."""
        self.random = random.Random(seed)
        self.server = Server(OPTIONS)
        self.mark = 0
        self.run(TABLES)
        self.server.run("pgbench", "-i", "-q", "-s", "1", "postgres")
        self.run(f"DELETE FROM pgbench_accounts WHERE aid > {accounts}", "VACUUM pgbench_accounts")

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new connection."""
        address = f"postgresql://strata@127.0.0.1:{self.server.port}/postgres"
        return psycopg.connect(address, autocommit=True)

    def run(self, *statements: str) -> None:
        """Run statements, each a transaction of its own."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def content(self, tables: tuple[str, ...]) -> dict[str, list[Row]]:
        """Return the rows of each table, comparable with those of a shard."""
        with self.connect() as connection:
            return {table: self._rows(connection, table) for table in tables}

    def _rows(self, connection: psycopg.Connection[Any], table: str) -> list[Row]:
        kinds = dict(
            connection.execute(
                "SELECT column_name::text, data_type::text FROM information_schema.columns "
                "WHERE table_name = %s ORDER BY ordinal_position",
                [table],
            ).fetchall()
        )
        chosen = ", ".join(f"{SELECT.get(k, '{}').format(n)} AS {n}" for n, k in kinds.items())
        rows = connection.execute(f"SELECT {chosen} FROM {table}".encode())
        found = [dict(zip(kinds, row, strict=True)) for row in rows]
        for row in found:
            for name, kind in kinds.items():
                if row[name] is not None:
                    row[name] = _told(row[name], kind)
        return sorted(found, key=repr)

    def silence(self) -> int:
        """Mark the end of a round in the log; return a time behind all before, before all after."""
        self.mark += 1
        with self.connect() as connection:
            connection.execute("INSERT INTO marks VALUES (%s)", [self.mark])
            now = connection.execute("SELECT clock_timestamp()").fetchone()
        assert now is not None
        time.sleep(0.01)
        return int(now[0].timestamp() * 1000) + 1

    def things(self, *ids: int) -> None:
        """Put rows of all types in."""
        places = ", ".join(["%s"] * 22)
        with self.connect() as connection:
            for i in ids:
                connection.execute(f"INSERT INTO things VALUES ({places})".encode(), self._thing(i))

    def _thing(self, i: int) -> list[Any]:
        r = self.random
        if i % 7 == 0:
            return [i, *[None] * 21]
        many = 3000 if i % 5 == 0 else 30  # the former is stored aside, and sent only if it changed
        moment = datetime(1, 1, 2) + timedelta(  # noqa: DTZ001  PostgreSQL's timestamp has no zone
            days=r.randrange(3_600_000), microseconds=r.randrange(86_400_000_000)
        )
        digits = "".join(r.choices("0123456789", k=r.choice([1, 5, 30])))
        zone = timezone(timedelta(hours=r.randrange(-11, 12)))
        letters = [*range(32, 127), *range(161, 5000)]
        items = (None, "NULL", 'a "b"', "c,{}", "")
        document = {
            "a": [1, 2.5, None, "é"],
            "b": r.random(),
            "c": "x" * r.randrange(5),
            "d": [r.randrange(10**9) for _ in range(many // 8)],
        }
        span = f"{r.randrange(-20, 20)} mon {r.randrange(-40, 40)} days {r.randrange(10**6)} us"
        return [
            i,
            "".join(map(chr, r.choices(letters, k=many))),
            Decimal(f"-{digits}e-{r.randrange(6)}") if i % 2 else Decimal(digits),
            Decimal(r.randrange(-(10**10) + 1, 10**10)).scaleb(-2),
            moment,
            moment,
            (moment + timedelta(days=2)).replace(tzinfo=zone),
            moment.date(),
            orjson.dumps(document).decode(),
            [r.choice([None, r.randrange(-(2**31), 2**31)]) for _ in range(many // 3)],
            [r.randrange(-(2**63), 2**63) for _ in range(many // 6)],
            [r.choice([*items, str(r.random())]) for _ in range(many // 6)],
            r.randbytes(many),
            r.random() < 0.5,
            UUID(int=r.getrandbits(128)),
            moment.time(),
            span,
            r.choice([1.5, -0.1, 3e38, float("nan"), float("inf")]) if i % 3 else 0.0,
            r.random() * 10 ** r.randrange(-300, 300),
            r.randrange(-32768, 32768),
            "vär"[: r.randrange(4)],
            "ch"[: r.randrange(3)],
        ]


def _told(value: Any, kind: str) -> Any:
    if kind == "numeric":
        return value if value == "NaN" else number(value)
    if kind == "jsonb":
        return shown(orjson.loads(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return [int(item) for item in value] if kind == "interval" else value


def engine_settings(database: Database, folder: Path, *, schema: bool) -> dict[str, str]:
    """Return the connector's settings, as docs/how-to/debezium.md recommends them."""
    told = "true" if schema else "false"
    return {
        "name": "strata",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "1000",
        "topic.prefix": "source",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.server.port),
        "database.user": "strata",
        "database.password": "-",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "slot.name": "strata",
        "publication.autocreate.mode": "filtered",
        "table.include.list": ",".join(f"public.{name}" for name in (*SHARDS, "marks")),
        "snapshot.mode": "initial",
        "skipped.operations": "none",  # without it, truncations are not told
        "tombstones.on.delete": "true",
        "provide.transaction.metadata": "true",
        "heartbeat.interval.ms": "1000",
        "decimal.handling.mode": "string",
        "time.precision.mode": "adaptive" if schema else "microseconds",
        "interval.handling.mode": "string",
        "binary.handling.mode": "bytes",
        "key.converter.schemas.enable": told,
        "value.converter.schemas.enable": told,
        **dict.fromkeys(NULL_SETTINGS, "false"),
        "max.batch.size": "500",
        "max.queue.size": "1000",
        "poll.interval.ms": "20",
        "errors.max.retries": "20",
        "errors.retry.delay.initial.ms": "200",
    }


class Capture:
    """Debezium's engine in a process of its own, that can be ended and killed."""

    def __init__(
        self, database: Database, folder: Path, *, schema: bool, without: Sequence[str] = ()
    ) -> None:
        """Prepare, some settings left at their defaults; `start` starts."""
        self.folder, self.landing = folder, folder / "landing"
        self.landing.mkdir(parents=True)
        engine = engine_settings(database, folder, schema=schema)
        for name in without:
            del engine[name]
        settings = {"engine": engine, "landing": str(self.landing)}
        (folder / "settings.json").write_bytes(orjson.dumps(settings))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the engine, where it stopped if it ran before."""
        command = [str(PYTHON), str(HERE / "capture.py"), str(self.folder / "settings.json")]
        with (self.folder / "engine.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )

    def kill(self) -> None:
        """Kill the engine."""
        assert self.process is not None
        self.process.kill()
        self._ended()

    def end(self) -> None:
        """End the engine in order."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._ended()

    def _ended(self) -> None:
        assert self.process is not None
        self.process.wait(60)
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process = None

    def lines(self) -> int:
        """Return how many messages are there."""
        return sum(path.read_bytes().count(b"\n") for path in self.landing.glob("*/[0-9]*.jsonl"))

    def wait_for(self, mark: int) -> None:
        """Wait until a mark, and all before it, is there."""
        sign = f'"id":{mark}}}'.encode()
        deadline = time.monotonic() + WAIT_S
        while not any(
            sign in p.read_bytes() for p in self.landing.glob("source.public.marks/[0-9]*.jsonl")
        ):
            ended = self.process is None or self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                log = (self.folder / "engine.log").read_text(errors="replace")
                raise AssertionError(f"Debezium did not come to mark {mark}: {log[-3000:]}")
            time.sleep(0.1)


@contextmanager
def captured(
    folder: Path, *, schema: bool, accounts: int, without: Sequence[str] = ()
) -> Iterator[tuple[Database, Capture]]:
    """Give a database and its capture, not yet started, and end both."""
    database = Database(SEED, accounts)
    capture = Capture(database, folder, schema=schema, without=without)
    try:
        yield database, capture
    finally:
        if capture.process is not None:
            capture.kill()
        database.server.close()
