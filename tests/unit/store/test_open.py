"""Addresses open the stores they name, and nothing else."""

import pickle
from pathlib import Path

import pytest

from strata.errors import InvalidRequest, StrataError
from strata.model.settings import StoreSettings
from strata.store.disk import DiskBlob
from strata.store.interface import Versioned
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import address_of, open_stores, wall_clock
from strata.store.sql import SqlConsensus


def test_file_and_sqlite_open_a_folder_and_a_database(tmp_path: Path) -> None:
    stores = open_stores(StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/c.db"))
    assert isinstance(stores.blob, DiskBlob)
    assert isinstance(stores.consensus, SqlConsensus)
    stores.blob.set("a", b"1")
    assert (tmp_path / "blob" / "a").read_bytes() == b"1"
    assert stores.consensus.compare_and_set("a", None, Versioned(1, b"1"))
    assert (tmp_path / "c.db").is_file()
    stores.consensus.close()


def test_a_relative_address_starts_at_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stores = open_stores(StoreSettings("file://.strata/blob", "sqlite:///.strata/c.db"))
    stores.blob.set("a", b"1")
    assert stores.consensus.head("a") is None
    assert not (tmp_path / ".strata" / "c.db").exists()  # looking makes nothing
    assert stores.consensus.compare_and_set("a", None, Versioned(0, b"1"))
    assert (tmp_path / ".strata" / "blob" / "a").is_file()
    assert (tmp_path / ".strata" / "c.db").is_file()
    assert isinstance(stores.consensus, SqlConsensus)
    stores.consensus.close()


def test_memory_means_the_same_store_for_the_same_name() -> None:
    settings = StoreSettings("memory://test-open", "memory://test-open")
    one, two = open_stores(settings), open_stores(settings)
    assert isinstance(one.blob, MemoryBlob)
    assert isinstance(one.consensus, MemoryConsensus)
    assert (one.blob, one.consensus) == (two.blob, two.consensus)


def test_the_settings_travel_to_workers() -> None:
    settings = StoreSettings("memory://test-open", "memory://test-open")
    assert pickle.loads(pickle.dumps(open_stores(settings).settings)) == settings


def test_the_clock_is_the_one_given() -> None:
    settings = StoreSettings("memory://test-open", "memory://test-open")
    assert open_stores(settings, clock=lambda: 42).clock() == 42
    assert open_stores(settings).clock is wall_clock
    assert wall_clock() > 1_600_000_000_000


@pytest.mark.parametrize(
    "blob", ["", "file://", "/plain/path", "memory://", "s3://", "ftp://host/x"]
)
def test_an_unknown_blob_address_is_refused(blob: str) -> None:
    with pytest.raises(InvalidRequest, match=r"store\.blob"):
        open_stores(StoreSettings(blob=blob))


@pytest.mark.parametrize("consensus", ["", "memory://", "memory:", "ftp://host/x"])
def test_an_unknown_consensus_address_is_refused(consensus: str) -> None:
    with pytest.raises(InvalidRequest):
        open_stores(StoreSettings(consensus=consensus))


@pytest.mark.parametrize(
    "settings",
    [
        StoreSettings("http://u:hunter2@h/x"),
        StoreSettings(consensus="postgresql://u:hunter2@127.0.0.1:1/db"),
        StoreSettings(consensus="postgresql://127.0.0.1:1/db?user=u&password=hunter2"),
        StoreSettings(consensus="postgresql://u:hunter2@127.0.0.1:1x/db"),
    ],
)
def test_no_password_of_an_address_stands_in_an_error(settings: StoreSettings) -> None:
    """Errors go to logs, mails, and the journal, which everybody who looks at the console reads."""
    pytest.importorskip("psycopg")
    with pytest.raises(StrataError) as found:
        open_stores(settings).consensus.head("a")
    assert "hunter2" not in f"{found.value}{found.value.details}"


def test_a_store_without_an_address_for_others_hides_its_password() -> None:
    with pytest.raises(InvalidRequest) as found:
        address_of(StoreSettings("memory://u:hunter2@x"))
    assert "hunter2" not in str(found.value)
