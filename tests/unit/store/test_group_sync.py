"""Nothing is told before it is durable, and one sync does for many."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from strata.errors import Unavailable
from strata.store import group_sync, sqlite
from strata.store.group_sync import GroupSync
from strata.store.interface import Versioned
from strata.store.sql import SqlConsensus

pytestmark = pytest.mark.skipif(not group_sync.possible(), reason="SQLite syncs by itself here")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database whose log is there; no SQLite is needed."""
    (tmp_path / "c.db-wal").write_bytes(b"log")
    (tmp_path / "c.db").write_bytes(b"")
    return tmp_path / "c.db"


@pytest.fixture
def opened(database: Path) -> Iterator[list[GroupSync]]:
    """As many processes would have it open."""
    found = [GroupSync(database) for _ in range(8)]
    yield found
    for one in found:
        one.close()


def test_one_sync_does_for_all_who_wait(
    opened: list[GroupSync], monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[float] = []
    waiting = threading.Barrier(len(opened))

    def slow(_: int) -> None:
        syncs.append(time.monotonic())
        time.sleep(0.1)

    def work(number: int, one: GroupSync) -> None:
        waiting.wait()
        one.wait(f"k{number}", 1)

    monkeypatch.setattr(os, "fdatasync", slow)
    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(opened)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= len(syncs) <= 4


def test_a_sync_that_had_begun_before_is_not_enough(
    opened: list[GroupSync], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    syncs: list[int] = []

    def sync(file: int) -> None:
        syncs.append(file)
        begun.set()
        if len(syncs) == 1:
            go_on.wait(10)

    monkeypatch.setattr(os, "fdatasync", sync)
    first = threading.Thread(target=opened[0].wait, args=("a", 1))
    first.start()
    begun.wait(10)
    late = threading.Thread(target=opened[1].wait, args=("b", 1))
    late.start()
    time.sleep(0.05)
    go_on.set()
    first.join()
    late.join()
    assert len(syncs) == 2


def test_what_is_durable_is_known_to_all_and_nothing_else(opened: list[GroupSync]) -> None:
    opened[0].wait("a", 5)
    assert opened[1].durable("a", 5)
    assert opened[1].durable("a", 4)
    assert not opened[1].durable("a", 6)
    assert not opened[1].durable("b", 1)


def test_after_a_new_start_of_the_machine_nothing_is_known(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boot").write_text("one")
    monkeypatch.setattr(group_sync, "_BOOT", tmp_path / "boot")
    GroupSync(database).wait("a", 5)
    assert GroupSync(database).durable("a", 5)
    (tmp_path / "boot").write_text("another")
    assert not GroupSync(database).durable("a", 5)


def test_who_holds_the_lock_and_does_nothing_stops_nobody(
    opened: list[GroupSync], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_sync, "PATIENCE_S", 0.05)
    group_sync.fcntl.flock(opened[0]._file, group_sync.fcntl.LOCK_EX)
    opened[1].wait("a", 1)


def test_the_log_is_not_copied_beside_a_sync_nor_after_one_that_never_ended(
    opened: list[GroupSync],
) -> None:
    """It would count as a sync, and the one that lost bytes would be forgotten."""
    one, other = opened[0], opened[1]
    with other._alone() as alone:
        one.copy_log()
        assert alone
    assert [*one._words[:2]] == [0, 0]
    one._words[0] = 1  # begun, and its process was killed

    other.copy_log()

    assert [*one._words[:2]] == [1, 0]


def test_a_commit_whose_sync_fails_may_or_may_not_have_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consensus = SqlConsensus(f"sqlite:///{tmp_path}/c.db")
    assert consensus.compare_and_set("a", None, Versioned(1, b"1"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(Unavailable) as caught:
            consensus.compare_and_set("a", 1, Versioned(2, b"2"))
        assert not caught.value.certain
        with pytest.raises(Unavailable) as caught:
            consensus.head("a")  # what is not durable is shown to nobody
        assert caught.value.certain
    written = noted_writes(monkeypatch)
    assert consensus.head("a") == Versioned(2, b"2")
    assert written == [b"log", b"sync"]
    assert consensus.compare_and_set("a", 2, Versioned(3, b"3"))
    consensus.close()


def noted_writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list that gets `log` when a whole log is written as it was, and `sync`."""
    found: list[bytes] = []
    write, sync = os.pwrite, os.fdatasync

    def noted(file: int, data: bytes, at: int) -> int:
        assert os.pread(file, len(data) + 1, at) == data
        assert at == 0
        found.append(b"log")
        return write(file, data, at)

    monkeypatch.setattr(os, "pwrite", noted)
    monkeypatch.setattr(os, "fdatasync", lambda file: (found.append(b"sync"), sync(file))[1])
    return found


def test_what_a_failed_sync_may_have_lost_is_written_again_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux takes the bytes of a sync that failed for written, and calls the next one a success."""
    consensus = SqlConsensus(f"sqlite:///{tmp_path}/c.db")
    assert consensus.compare_and_set("a", None, Versioned(1, b"1"))
    reader = sqlite3.connect(tmp_path / "c.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM sqlite_master")  # a copy of the database keeps this open
    written, synced = noted_writes(monkeypatch), os.fdatasync
    failures = iter([OSError(5, "Input/output error")])

    def once(file: int) -> None:
        for error in failures:
            raise error
        synced(file)

    monkeypatch.setattr(os, "fdatasync", once)
    assert consensus.compare_and_set("a", 1, Versioned(2, b"2"))
    assert written == [b"log", b"sync"]
    assert consensus.compare_and_set("a", 2, Versioned(3, b"3"))
    assert written == [b"log", b"sync", b"sync"]
    reader.close()
    consensus.close()
    again = SqlConsensus(f"sqlite:///{tmp_path}/c.db")
    assert again.head("a") == Versioned(3, b"3")
    again.close()


def broken(_: object) -> None:
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize("stopped", [False, True])
def test_a_process_that_never_saw_the_failed_sync_writes_the_log_again_too(
    opened: list[GroupSync], monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    """Who saw it was killed, or was stopped while it holds the lock."""
    moved: list[Path] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        patch.setattr(group_sync, "_write_log_again", broken)
        with pytest.raises(OSError, match="Input"):
            opened[0].wait("a", 1)
    monkeypatch.setattr(group_sync, "_write_log_again", moved.append)
    monkeypatch.setattr(group_sync, "PATIENCE_S", 0.05)
    if stopped:
        group_sync.fcntl.flock(opened[0]._file, group_sync.fcntl.LOCK_EX)
    opened[1].wait("b", 1)
    assert len(moved) == 1
    if not stopped:
        opened[2].wait("c", 1)
        assert len(moved) == 1, "it is on the disk"


def test_after_a_kill_within_a_sync_the_log_is_written_again(
    opened: list[GroupSync], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have failed, and nobody was told."""
    moved: list[Path] = []
    monkeypatch.setattr(group_sync, "_write_log_again", moved.append)
    with monkeypatch.context() as patch:

        def killed(_: int) -> None:
            raise KeyboardInterrupt

        patch.setattr(os, "fdatasync", killed)
        with pytest.raises(KeyboardInterrupt):
            opened[0].wait("a", 1)
    opened[1].wait("b", 1)
    opened[2].wait("b", 2)
    assert len(moved) == 1


def test_a_sync_that_fails_as_the_log_is_copied_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where SQLite copied it within a commit, it forgot that; later openers learn of nothing."""
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 20)
    consensus, other = (SqlConsensus(f"sqlite:///{tmp_path}/c.db") for _ in range(2))
    copy, copied = group_sync._is_copied, list[bool]()

    def once(database: Path) -> bool:
        copied.append(bool(copied) and copy(database))  # the first one fails
        return copied[-1]

    monkeypatch.setattr(group_sync, "_is_copied", once)
    for number in count(1):
        new = Versioned(number, b"x" * 9000)
        assert consensus.compare_and_set("a", number - 1 or None, new)
        if copied:
            break
    size, written = (tmp_path / "c.db").stat().st_size, noted_writes(monkeypatch)
    assert other.compare_and_set("b", None, Versioned(1, b""))
    assert written == [b"log", b"sync", b"sync"]
    assert copied == [False, True]
    assert (tmp_path / "c.db").stat().st_size > size, "nothing else copies the log"
    consensus.close()
    other.close()


def test_on_a_full_disk_the_log_is_whole_and_copied_later(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code, whole in ((sqlite3.SQLITE_FULL, True), (sqlite3.SQLITE_IOERR_FSYNC, False)):

        def failed(*_: object, code: int = code, **__: object) -> None:
            error = sqlite3.OperationalError("no")
            error.sqlite_errorcode = code
            raise error

        monkeypatch.setattr(sqlite3, "connect", failed)
        assert group_sync._is_copied(database) == whole


def test_what_was_acknowledged_or_read_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is sure to be on the disk is what was in the files as the last sync began."""
    writer, reader = (SqlConsensus(f"sqlite:///{tmp_path}/c.db") for _ in range(2))
    disk = tmp_path / "disk"
    disk.mkdir()
    kept = os.fdatasync

    def sync(file: int) -> None:
        for name in ("c.db", "c.db-wal"):
            shutil.copy(tmp_path / name, disk / name)
        kept(file)

    monkeypatch.setattr(os, "fdatasync", sync)
    for number in range(1, 13):
        before = number - 1 or None
        assert writer.compare_and_set("a", before, Versioned(number, b"x" * 500 * number))
        assert after_the_cut(disk, tmp_path / f"w{number}") == number
        assert writer._run(lambda c: writer._database.compare_and_set(c, "b", None, 1, b"")) == (
            number == 1
        )  # written and not waited for: who reads it has to
        assert reader.head("b") == Versioned(1, b"")
    writer.close()
    reader.close()


def after_the_cut(disk: Path, folder: Path) -> int:
    shutil.copytree(disk, folder)
    found = SqlConsensus(f"sqlite:///{folder}/c.db")
    head = found.head("a")
    found.close()
    return head.seqno if head else 0
