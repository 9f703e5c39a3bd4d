"""The load: rounds that end in silence, when the content of every table is written down.

`record` leaves in a folder what was captured (`landing/`) and `rounds.json`: for each round the
time of the silence, how many files of each table were there, what the tables held, and how the
declared columns are changed before the round's files are taken in.

    python -m tests.debezium.record FILE.zip            a short run as the frozen recording
    python -m tests.debezium.record --nulls FILE.zip    of nulls alone
"""

import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import psycopg

from tests.debezium.shards import TABLES
from tests.debezium.source import Capture, Database, captured

Changes = list[list[Any]]  # of columns: shard, "add" or "drop", column, type, default
BIG: Final = 400


@dataclass
class Recorder:
    """Runs the load and writes it down."""

    database: Database
    capture: Capture
    size: int  # of the larger statements, in rows
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def silence(self, name: str, changes: Changes | None = None) -> None:
        """End a round."""
        now = self.database.silence()
        content = self.database.content(tuple(TABLES))
        self.capture.wait_for(self.database.mark)
        landing = self.capture.landing
        self.rounds.append(
            {
                "name": name,
                "at": now,
                "changes": changes or [],
                "files": {
                    t: len([*landing.glob(f"source.public.{t}/[0-9]*.jsonl")]) for t in TABLES
                },
                "content": content,
            }
        )

    def begin(self) -> None:
        """Rows that the snapshot finds."""
        self.database.things(*range(self.size // 20))
        self.database.run(
            f"INSERT INTO notes SELECT g, 'n' || g FROM generate_series(1, {self.size}) g",
            "INSERT INTO grown SELECT g, 'v' || g FROM generate_series(1, 20) g",
            "INSERT INTO preset SELECT g, NULL, NULL, NULL FROM generate_series(1, 5) g",
            "INSERT INTO preset (id) SELECT g FROM generate_series(6, 10) g",
        )
        self.capture.start()
        self.database.silence()
        self.capture.wait_for(self.database.mark)  # the snapshot is as of a moment before
        self.silence("snapshot")

    def pgbench(self) -> None:
        """Transactions of pgbench, side by side."""
        count = str(max(5, self.size // 4))
        self.database.server.run("pgbench", "-n", "-c", "3", "-t", count, "postgres")
        self.silence("pgbench")

    def types(self) -> None:
        """All types; large values that an update does not change are not sent again."""
        self.database.things(*range(100, 100 + self.size // 20))
        self.database.run(
            "UPDATE things SET f = NOT f WHERE id % 3 < 2",
            "UPDATE things SET v = NULL, ai = NULL WHERE id % 10 = 5 AND id > 100",
            "UPDATE things SET id = id + 1000 WHERE id % 10 = 0",
            "DELETE FROM things WHERE id % 4 = 3",
            "INSERT INTO things (id, n, r, dp) VALUES (-1, 'NaN', 'NaN', '-Infinity')",
        )
        self.silence("types")

    def nulls(self) -> None:
        """Nulls in columns that have a DEFAULT: put in, set, taken away, set again."""
        self.database.run(
            "INSERT INTO preset VALUES (11, NULL, NULL, NULL), (12, NULL, 'x', NULL)",
            "INSERT INTO preset (id) VALUES (13)",
            "UPDATE preset SET z = NULL, b = NULL WHERE id IN (6, 7, 13)",
            "UPDATE preset SET s = NULL WHERE id = 7",
            "UPDATE preset SET z = DEFAULT WHERE id IN (1, 6)",
            "UPDATE preset SET s = '' WHERE id = 2",
            "DELETE FROM preset WHERE id = 3",
        )
        self.silence("nulls")

    def keys(self) -> None:
        """Replica identity full, a key of two columns, keys that change and come back."""
        self.database.run(
            "INSERT INTO pairs SELECT g, 'b' || g, repeat('x', g), g / 8.0 "
            f"FROM generate_series(1, {self.size // 4}) g",
            "UPDATE pairs SET a = a + 1000 WHERE a < 50; UPDATE pairs SET v = NULL WHERE a > 1010;"
            "DELETE FROM pairs WHERE a = 6; INSERT INTO pairs VALUES (6, 'b6', 'again', -1);",
            "BEGIN; DELETE FROM pairs WHERE a = 1011; ROLLBACK",
            "BEGIN; SAVEPOINT s; DELETE FROM pairs WHERE a = 1012; ROLLBACK TO s;"
            "UPDATE pairs SET b = 'c' WHERE a = 1013; COMMIT",
            "UPDATE pairs SET a = a - 1000 WHERE a BETWEEN 1002 AND 1005",
        )
        self.silence("keys")

    def interleaved(self) -> None:
        """A transaction that begins first and ends last."""
        with self.database.connect() as long:
            long.execute("BEGIN")
            long.execute("INSERT INTO pairs VALUES (5001, 'long', 'begins first', 1)")
            self.database.run(
                "INSERT INTO pairs VALUES (5002, 'short', 'within', 2)",
                "UPDATE pairs SET v = 'short' WHERE a = 5002",
            )
            long.execute("UPDATE pairs SET v = 'ends last' WHERE a = 5002")
            long.execute("COMMIT")
        self.silence("interleaved")

    def truncation(self) -> None:
        """Truncation of two tables at once, then rows of which many share a place in the log."""
        self.database.run("TRUNCATE notes, pairs", "INSERT INTO notes VALUES (3, 'new')")
        self.silence("truncation")
        self.copy(1000)
        self.database.run("DELETE FROM notes WHERE id % 2 = 0", "UPDATE notes SET note = 'u'")
        self.silence("copy")

    def copy(self, first: int) -> None:
        """Put rows in with COPY."""
        with (
            self.database.connect() as connection,
            connection.cursor() as cursor,
            cursor.copy("COPY notes FROM STDIN") as copy,
        ):
            for i in range(first, first + self.size):
                copy.write_row((i, f"copied {i}"))

    def columns(self) -> None:
        """Columns come and go; the shard is told so by its owner."""
        self.database.run(
            "UPDATE grown SET v = 'w' WHERE id < 5",
            "ALTER TABLE grown ADD COLUMN z int DEFAULT 7",
            "UPDATE grown SET z = z + id WHERE id > 15",
            "INSERT INTO grown (id) VALUES (50)",
        )
        self.silence("column added", [["grown", "add", "z", "int32", 7]])
        self.database.run(
            "UPDATE grown SET v = 'x' WHERE id = 3",
            "ALTER TABLE grown DROP COLUMN v",
            "UPDATE grown SET z = 0 WHERE id = 2",
            "INSERT INTO grown VALUES (51, 1)",
        )
        self.silence("column dropped", [["grown", "drop", "v", None, None]])

    def killed(self, times: int) -> None:
        """The engine is killed within transactions and COPYs."""
        for turn in range(times):
            before, first = self.capture.lines(), 10_000 * (turn + 1)
            self.capture.kill()
            self.copy(first)
            self.database.run(
                f"UPDATE notes SET note = 'k{turn}' WHERE id % 3 = {turn % 3}; INSERT INTO pairs "
                f"SELECT g, 'k{turn}', 'x', 1 FROM generate_series(1, {self.size}) g",
            )
            self.capture.start()
            while self.capture.lines() < before + self.size:
                time.sleep(0.01)
        if times:
            self.capture.kill()
            self.capture.start()
            self.silence("killed")

    def crashed(self) -> None:
        """The server crashes within a transaction; then engine and server end in order."""
        database = self.database
        with database.connect() as connection:
            connection.execute("BEGIN")
            connection.execute("UPDATE notes SET note = 'lost'")
            database.server.stop(signal.SIGQUIT)
            try:
                connection.execute("COMMIT")
            except psycopg.OperationalError:
                pass
            else:
                raise AssertionError("the server did not crash")
        assert database.server.start()
        database.run(
            "UPDATE notes SET note = 'after' WHERE id % 5 = 0", "DELETE FROM things WHERE id = 1"
        )
        self.silence("crashed")
        self.capture.end()
        database.server.stop()
        assert database.server.start()
        self.capture.start()
        database.run("INSERT INTO notes VALUES (-1, NULL)", "TRUNCATE grown")
        self.silence("restarted")


def record(folder: Path, *, schema: bool, size: int = BIG, kills: int = 3) -> Path:
    """Run the load, leave the recording in a folder and return it."""
    with captured(folder, schema=schema, accounts=5 * size) as (database, capture):
        recorder = Recorder(database, capture, size)
        recorder.begin()
        recorder.pgbench()
        recorder.types()
        recorder.nulls()
        recorder.keys()
        recorder.interleaved()
        recorder.truncation()
        recorder.columns()
        recorder.killed(kills)
        recorder.crashed()
        capture.end()
    (folder / "rounds.json").write_bytes(orjson.dumps(recorder.rounds))
    return folder


def record_nulls(folder: Path, *, schema: bool, without: Sequence[str] = ()) -> Path:
    """Record nulls alone, some settings of the connector left at their defaults."""
    with captured(folder, schema=schema, accounts=5, without=without) as (database, capture):
        recorder = Recorder(database, capture, 20)
        recorder.begin()
        recorder.nulls()
        capture.end()
    (folder / "rounds.json").write_bytes(orjson.dumps(recorder.rounds))
    return folder


def main() -> None:
    """Write a short run as the frozen recording."""
    with tempfile.TemporaryDirectory() as temporary:
        run = Path(temporary, "run")
        if sys.argv[1] == "--nulls":
            folder = record_nulls(run, schema=False)
        else:
            folder = record(run, schema=False, size=40, kills=1)
        with zipfile.ZipFile(sys.argv[-1], "w", zipfile.ZIP_LZMA) as kept:
            files = [folder / "rounds.json", *folder.glob("landing/source.public.*/[0-9]*.jsonl")]
            for path in sorted(files):
                kept.writestr(str(path.relative_to(folder)), path.read_bytes())


if __name__ == "__main__":
    main()
