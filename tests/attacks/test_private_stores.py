"""S12: other users of the machine read no store, and nobody reads its password in what is shown."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.model.settings import Settings, StoreSettings, without_password
from strata.store.disk import DiskBlob
from strata.store.open import open_stores
from tests.support.shards import build

pytestmark = pytest.mark.slow


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_store_is_its_owners_alone(tmp_path: Path, umask: int) -> None:
    """A whole shard: blobs, drafts, the database with its log, and what was deleted."""
    root = tmp_path / "store"
    events = build(root)
    blob = events.stores.blob
    blob.set("shards/x/a", b"1")
    blob.delete("shards/x/a")
    found = [path for path in (root, *root.rglob("*")) if path != tmp_path]
    assert len(found) > 20
    for path in found:
        assert rights(path) & 0o077 == 0, path


def test_a_root_that_is_made_beforehand_shares_what_is_below(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "blob"
    root.mkdir()
    root.chmod(0o2770)
    blob = DiskBlob(root)
    blob.set("shards/x/a", b"1")
    draft = blob.draft()
    draft.file.write(b"2")
    draft.finish()
    draft.keep("shards/x/b")
    assert {rights(root / "shards" / "x" / name) for name in "ab"} == {0o660}
    assert {rights(root / name) for name in ("shards", "shards/x", ".tmp")} == {0o2770}


def test_a_database_file_that_is_there_keeps_its_rights(tmp_path: Path) -> None:
    file = tmp_path / "c.db"
    file.touch()
    file.chmod(0o660)
    stores = open_stores(StoreSettings(f"file://{tmp_path}/b", f"sqlite:///{file}"))
    assert list(stores.consensus.list()) == []
    assert rights(file) == 0o660


@pytest.mark.parametrize("password", ["hunter2", "hun/ter2", "hun@ter2", "hun:ter2", "h?u#n@ter2"])
def test_no_password_is_shown(password: str) -> None:
    address = f"postgresql+psycopg://u:{password}@db.example/strata?sslpassword={password}"
    store = StoreSettings(consensus=address)
    for shown in (repr(store), str(store), repr(Settings(store)), without_password(address)):
        assert "ter2" not in shown
        assert password not in shown
        assert "db.example" in shown
    assert store.consensus == address
