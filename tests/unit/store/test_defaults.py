"""What stores do unless they are asked for something else."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from strata.errors import Unavailable
from strata.store import local_file, s3
from strata.store.draft import ABANDONED_MS, _Aside, _Collected, draft_of
from strata.store.local_file import obstacle
from strata.store.memory import MemoryBlob
from strata.store.s3 import S3Blob
from strata.store.s3_client import S3Address
from strata.store.sqlite import Sqlite


def test_a_draft_is_in_memory_unless_its_pieces_are_huge() -> None:
    assert type(draft_of(MemoryBlob())) is _Collected
    huge = draft_of(MemoryBlob(), huge=True)
    assert type(huge) is _Aside
    huge.drop()


def test_a_file_has_to_be_written_unless_it_is_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "consensus.db"
    file.touch()
    monkeypatch.setattr(local_file, "may", lambda _, rights: not rights & os.W_OK)

    assert "may not read and write" in obstacle(file)[0]
    assert obstacle(file, writes=False) == ("", "")


def test_uploads_of_the_last_day_may_be_what_others_write(monkeypatch: pytest.MonkeyPatch) -> None:
    until: list[int] = []
    monkeypatch.setattr(S3Blob, "_list", lambda *_: iter(()))
    monkeypatch.setattr(S3Blob, "_abort_uploads", lambda _, at: until.append(at))
    monkeypatch.setattr(s3.time, "time_ns", lambda: 5 * ABANDONED_MS * 1_000_000)
    blob = S3Blob(S3Address.parse("s3://bucket/prefix"))

    assert blob.purge(0) == 0
    assert until == [4 * ABANDONED_MS]


def sqlite_at(file: Path) -> Sqlite:
    return Sqlite(sa.URL.create("sqlite", database=str(file)))


@pytest.mark.parametrize("how", [{}, {"certain": False}])
def test_nothing_was_written_to_a_file_that_is_gone_unless_somebody_says_so(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    found = sqlite_at(tmp_path / "consensus.db")
    found.check_there(**how)
    found._seen = (1, 1)

    with pytest.raises(Unavailable, match="removed or replaced") as gone:
        found.check_there(**how)
    assert gone.value.certain is not bool(how)


def test_a_database_says_which_it_is_and_why_it_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sqlite, "readable_only", lambda _: False)
    with sqlite3.connect(":memory:") as connection:
        shown, why = sqlite_at(tmp_path / "consensus.db").describe(connection.cursor())

    assert shown == f"SQLite {sqlite3.sqlite_version}"
    assert why == "its journal is memory, not wal: readers keep writers waiting"
