"""The owner of a store's folder puts links in it, and the superuser works on the store."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from strata.errors import Unavailable
from strata.store import local_file
from strata.store.disk import DiskBlob
from strata.store.interface import Versioned
from strata.store.keys import content_hash
from strata.store.local_file import open_itself
from strata.store.sql import SqlConsensus

NOBODY = 65534
SECRET = b"root's own"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_bytes(SECRET)
    file.chmod(0o600)
    return file


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    _give_to_nobody(folder)
    return folder


def _give_to_nobody(path: Path) -> None:
    """Another user's, where this one can do that; links are refused in one's own folder, too."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)


def untouched(victim: Path) -> bool:
    found = victim.stat()
    rights = (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))
    return rights == (os.geteuid(), os.getegid(), 0o600) and victim.read_bytes() == SECRET


LINKS: list[Callable[[Path, Path], None]] = [
    lambda place, victim: place.symlink_to(victim),
    lambda place, victim: place.hardlink_to(victim),
]


@pytest.mark.parametrize("link", LINKS, ids=["symbolic", "hard"])
@pytest.mark.parametrize("ending", ["-sync", "-turn"])
def test_files_beside_a_database(
    store: Path, victim: Path, link: Callable[[Path, Path], None], ending: str
) -> None:
    database = store / "c.db"
    database.touch()
    _give_to_nobody(database)
    link(store / f"c.db{ending}", victim)
    consensus = SqlConsensus(f"sqlite:///{database}")
    assert consensus.compare_and_set("key", None, Versioned(0, b"state"))  # slower, without it
    consensus.close()
    assert untouched(victim)


@pytest.mark.parametrize("link", LINKS, ids=["symbolic", "hard"])
def test_a_new_blob_that_is_replaced_before_it_is_given_away(
    store: Path,
    victim: Path,
    link: Callable[[Path, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def replaced(path: Path, *rest: int) -> int:
        if path.is_file():
            path.unlink()
            link(path, victim)
        return open_itself(path, *rest)

    monkeypatch.setattr("strata.store.disk.open_itself", replaced)
    data = b"rows"
    with pytest.raises(Unavailable):
        DiskBlob(store).set(f"shards/s/parts/r0/{content_hash(data)}.parquet", data)
    assert untouched(victim)


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
def test_in_earnest_it_is_given_away(store: Path) -> None:
    data = b"rows"
    key = f"shards/s/parts/r0/{content_hash(data)}.parquet"
    DiskBlob(store).set(key, data)
    assert (store / key).stat().st_uid == NOBODY
    assert local_file.user_name(NOBODY)
