"""SQLite keeps the contract of the seam, between processes and when it is in trouble."""

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import strata.store.sql
import strata.store.sqlite
from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.store.interface import Versioned
from strata.store.local_file import obstacle
from strata.store.sql import SqlConsensus
from tests.conformance.consensus import ConsensusSuite

COUNTER = """
import sys
from strata.store.interface import Versioned
from strata.store.sql import SqlConsensus
consensus = SqlConsensus(sys.argv[1])
consensus.compare_and_set("a", None, Versioned(0, b"0"))
done = 0
while done < 40:
    head = consensus.head("a")
    new = Versioned(head.seqno + int(sys.argv[2]), b"%d" % (int(head.data) + 1))
    done += consensus.compare_and_set("a", head.seqno, new)
"""


class RawSqlite:
    def __init__(self, path: Path) -> None:
        self.path = path

    def values(self, key: str) -> list[tuple[int, bytes]]:
        with sqlite3.connect(self.path) as connection:
            rows = connection.execute(
                "SELECT seqno, data FROM strata_consensus WHERE key = ? ORDER BY seqno", (key,)
            ).fetchall()
        connection.close()
        return rows

    def write(self, key: str, seqno: int, data: bytes) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute("INSERT INTO strata_consensus VALUES (?, ?, ?)", (key, seqno, data))
        connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "on the way" / "consensus.db"


@pytest.fixture
def consensus(path: Path) -> Iterator[SqlConsensus]:
    store = SqlConsensus(f"sqlite:///{path}")
    yield store
    store.close()


class TestSqlite(ConsensusSuite):
    @pytest.fixture
    def consensus(self, path: Path) -> Iterator[SqlConsensus]:
        store = SqlConsensus(f"sqlite:///{path}")
        yield store
        store.close()

    @pytest.fixture
    def raw(self, consensus: SqlConsensus, path: Path) -> RawSqlite:
        consensus._run(lambda _: None)  # makes the table; reading makes nothing
        return RawSqlite(path)


def test_of_many_processes_none_loses_an_increment(path: Path) -> None:
    """All start at once, on a database that does not exist yet."""
    command = [sys.executable, "-c", COUNTER, f"sqlite:///{path}"]
    workers = [subprocess.Popen([*command, str(1 + i)]) for i in range(4)]
    assert [worker.wait(timeout=240) for worker in workers] == [0, 0, 0, 0]
    assert [int(data) for _, data in RawSqlite(path).values("a")] == list(range(161))


def test_commits_are_durable_and_concurrent(consensus: SqlConsensus) -> None:
    assert consensus._run(lambda c: c.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
    # NORMAL: the sync of a commit is ours, see `strata.store.group_sync`
    assert consensus._run(lambda c: c.execute("PRAGMA synchronous").fetchone()) == (1,)


def test_a_forked_child_opens_its_own_connections(consensus: SqlConsensus) -> None:
    assert consensus.compare_and_set("a", None, Versioned(1, b"parent"))
    child = os.fork()
    if child == 0:
        os._exit(0 if consensus.compare_and_set("a", 1, Versioned(2, b"child")) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert consensus.head("a") == Versioned(2, b"child")


def test_a_locked_database_is_waited_for(consensus: SqlConsensus, path: Path) -> None:
    consensus.compare_and_set("a", None, Versioned(1, b"1"))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    release.start()
    assert consensus.compare_and_set("a", 1, Versioned(2, b"2"))
    release.join()
    other.close()


def test_what_was_refused_as_busy_is_asked_again_until_the_time_is_over(
    consensus: SqlConsensus, monkeypatch: pytest.MonkeyPatch
) -> None:
    consensus.compare_and_set("a", None, Versioned(1, b"1"))
    answers: list[str] = []

    def work(_: object) -> str:
        answers.append("busy")
        if len(answers) < 3:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return "done"

    assert consensus._run(work) == "done"
    monkeypatch.setattr(strata.store.sql, "BUSY_S", 0)
    answers.clear()
    with pytest.raises(Unavailable):
        consensus._run(work)
    assert len(answers) == 1


def test_a_database_that_stays_locked_is_surely_unchanged(
    consensus: SqlConsensus, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consensus.compare_and_set("a", None, Versioned(1, b"1"))
    consensus.close()
    monkeypatch.setattr(strata.store.sql, "BUSY_S", 0.2)
    monkeypatch.setattr(strata.store.sqlite, "BUSY_S", 0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable) as caught:
        consensus.compare_and_set("a", 1, Versioned(2, b"2"))
    other.execute("ROLLBACK")
    other.close()
    assert caught.value.certain
    assert consensus.head("a") == Versioned(1, b"1")


def test_who_may_only_read_leaves_nothing_beside_the_file(
    consensus: SqlConsensus, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consensus.compare_and_set("a", None, Versioned(1, b"1"))
    consensus.close()
    before = sorted(path.parent.iterdir())
    monkeypatch.setattr(strata.store.sqlite.Sqlite, "readable_only", lambda _: True)
    reader = SqlConsensus(f"sqlite:///{path}")

    assert reader.head("a") == Versioned(1, b"1")
    assert sorted(path.parent.iterdir()) == before
    with pytest.raises(Unavailable):
        reader.compare_and_set("a", 1, Versioned(2, b"2"))
    assert reader.head("a") == Versioned(1, b"1")


def test_a_file_that_was_replaced_since_is_surely_unchanged(
    consensus: SqlConsensus, path: Path
) -> None:
    consensus.compare_and_set("a", None, Versioned(1, b"1"))
    path.rename(path.with_suffix(".old"))

    with pytest.raises(Unavailable, match="was removed or replaced") as caught:
        consensus.compare_and_set("a", 1, Versioned(2, b"2"))
    assert caught.value.certain


def test_a_damaged_database_is_corrupt(consensus: SqlConsensus, path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(Corrupt):
        consensus.head("a")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="file") as caught:
        SqlConsensus(f"sqlite:///{tmp_path}/file/consensus.db").compare_and_set(
            "a", None, Versioned(1, b"1")
        )
    assert caught.value.certain


@pytest.mark.parametrize(
    ("file", "reason", "cure"),
    [
        ("folder", "folder is a folder", "name a file in it"),
        ("file/consensus.db", "file is no folder", "name a file in a folder"),
        ("gone/below/consensus.db", "the folder {}/gone is missing", "mount its disk, make it"),
    ],
)
def test_what_is_in_the_way_of_a_file_is_named(
    tmp_path: Path, file: str, reason: str, cure: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    found = obstacle(tmp_path / file)
    assert found[0].endswith(reason.format(tmp_path))
    assert found[1].startswith(cure)
    if "gone" not in file:  # such a folder is made
        with pytest.raises(Unavailable) as caught:
            SqlConsensus(f"sqlite:///{tmp_path}/{file}").compare_and_set(
                "a", None, Versioned(1, b"1")
            )
        assert caught.value.certain
        assert found[0] in str(caught.value)
        assert found[1] in str(caught.value)
    assert obstacle(tmp_path / "folder" / "consensus.db") == ("", "")


def test_a_full_disk_is_named_with_its_cure(path: Path) -> None:
    consensus = SqlConsensus(f"sqlite:///{path}")
    assert consensus.compare_and_set("a", None, Versioned(0, b"0"))
    migrated = strata.store.sqlite.Sqlite.migrate

    def migrate(self: strata.store.sqlite.Sqlite, connection: sqlite3.Connection) -> None:
        migrated(self, connection)
        connection.execute("PRAGMA max_page_count = 1")  # no more than it has

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strata.store.sqlite.Sqlite, "migrate", migrate)
        full = SqlConsensus(f"sqlite:///{path}")
        with pytest.raises(Unavailable, match="make room on this disk") as caught:
            full.compare_and_set("a", 0, Versioned(1, b"1" * 100_000))
    assert caught.value.certain
    assert consensus.compare_and_set("a", 0, Versioned(1, b"1" * 100_000))


def test_reading_a_file_that_is_not_there_makes_none(path: Path) -> None:
    store = SqlConsensus(f"sqlite:///{path}")
    assert (store.head("a"), store.scan("a", 0, 9), list(store.list())) == (None, [], [])
    assert store.user() == ""
    with store.turn("a") as waited:
        assert not waited
    assert not path.parent.exists()
    assert store.compare_and_set("a", None, Versioned(1, b"1"))
    assert store.head("a") == Versioned(1, b"1")
    store.close()


def test_a_lost_connection_leaves_the_outcome_open(
    consensus: SqlConsensus,
) -> None:
    """A failure while a write runs that is none of those known to be harmless."""
    consensus.compare_and_set("a", None, Versioned(1, b"1"))
    consensus._run(lambda c: c.execute("ALTER TABLE strata_consensus RENAME TO gone"))
    with pytest.raises(Unavailable) as caught:
        consensus.compare_and_set("a", 1, Versioned(2, b"2"))
    assert not caught.value.certain


@pytest.mark.parametrize(
    "url", ["", "nonsense", "sqlite://", "sqlite:///:memory:", "mysql://host/db", "file:///x"]
)
def test_an_address_that_cannot_hold_consensus_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        SqlConsensus(url)


def test_no_password_is_shown() -> None:
    def use() -> None:
        SqlConsensus("postgresql://user:secret@127.0.0.1:1/db").head("a")

    with pytest.raises((InvalidRequest, Unavailable)) as caught:  # without a driver; with one
        use()
    assert "secret" not in str(caught.value)
