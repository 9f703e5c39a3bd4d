"""S12: other users of the machine read no store, and nobody reads its password in what is shown."""

import os
import stat
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from strata.cli.app import main
from strata.errors import InvalidRequest
from strata.history import metrics
from strata.model.settings import MetricsSettings, Settings, StoreSettings, without_password
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


@pytest.mark.parametrize(
    "address",
    [
        "host=db user=u password=hunter2",
        "host=db password='hunter2 or more' user=u",
        "abfss://c@lake.dfs.core.windows.net/orders?sv=1&sig=hunter2",
        "s3://bucket/p?x_credential=hunter2",
    ],
)
def test_no_password_in_another_programs_spelling_is_shown(address: str) -> None:
    error = InvalidRequest(f"no {address}", backup=address, reason=OSError(address))
    for shown in (str(error), without_password(address), repr(StoreSettings(address))):
        assert "hunter2" not in shown
        assert "***" in shown


@pytest.mark.parametrize("address", ["postgresql://u:hunter2@db/x", "s3://k:hunter2@lake/t"])
def test_no_password_of_an_address_that_was_taken_for_a_file_is_shown(address: str) -> None:
    assert "hunter2" not in str(InvalidRequest("no such file", file=str(Path(address))))


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:///{folder}/u:hunter2@db/states.db",
        "sqlite:///file:{folder}/states.db?uri=true&password=hunter2",
        "postgresql:///u:hunter2@db/states",
    ],
)
def test_no_command_shows_a_password_in_the_path_or_query_of_a_database(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("STRATA_CONFIG", raising=False)
    monkeypatch.setenv("STRATA__STORE__BLOB", f"file://{tmp_path}/b")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STRATA__STORE__CONSENSUS", address.format(folder=tmp_path))
    monkeypatch.setattr("sys.argv", ["strata", "shards"])
    with pytest.raises(SystemExit):
        main()
    said = "".join(capfd.readouterr())
    assert "***" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "name", [f.name for f in fields(Settings) if is_dataclass(getattr(Settings(), f.name))]
)
def test_no_setting_shows_the_password_of_an_address(name: str) -> None:
    """Of every section, each text that may be an address."""
    section = getattr(Settings(), name)
    address = "https://u:hunter2@collector.example/v1?api_key=hunter2"
    for one in fields(section):
        if isinstance(getattr(section, one.name), str):
            shown = repr(replace(Settings(), **{name: replace(section, **{one.name: address})}))
            assert "hunter2" not in shown, one.name


def test_a_receiver_of_figures_that_cannot_be_is_named_without_its_password(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(endpoint: str) -> None:
        raise ValueError(f"no address: {endpoint}")

    monkeypatch.setattr(metrics, "_OpenTelemetry", refused)
    address = "https://u:hunter2@collector.example/v1"
    metrics.Metrics(MetricsSettings(otlp=address)).count("read", 1, {})
    assert "collector.example" in caplog.text
    assert "hunter2" not in caplog.text
