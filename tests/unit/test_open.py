"""`strata.open`: shards by name, from a settings file, a folder, settings or the environment."""

from pathlib import Path

import pytest

import strata
from strata.errors import InvalidRequest
from strata.model.schema import Column, Relation
from strata.model.settings import Settings, StoreSettings
from strata.model.types import parse_type
from strata.store.open import open_stores
from tests.support.stored import append, create
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "n", parse_type("int64")),), (1,), ())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a local store that has one shard."""
    stores = open_stores(store_of(tmp_path))
    create(stores, RELATION, name="flights")
    append(stores, "flights", 0, 5, [table(RELATION, [(n, 1, 1) for n in range(10)])])
    return tmp_path


def store_of(folder: Path) -> StoreSettings:
    return StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")


def test_a_folder_in_which_commands_worked_without_settings_is_opened(folder: Path) -> None:
    work = folder / "work"
    (work / ".strata").mkdir(parents=True)
    stores = open_stores(store_of(work / ".strata"))
    create(stores, RELATION, name="flights")
    append(stores, "flights", 0, 5, [table(RELATION, [(1, 1, 1)])])

    assert list(strata.open(work)) == ["flights"]


def read(shards: object) -> list[int]:
    batches = shards["flights"].scan(where="n > 7", columns=["n"])  # type: ignore[index]
    return [n for batch in batches for n in batch.column("n").to_pylist()]


def test_a_folder_is_opened(folder: Path) -> None:
    shards = strata.open(folder)

    assert (list(shards), len(shards)) == (["flights"], 1)
    assert ("flights" in shards, "trains" in shards) == (True, False)
    assert read(shards) == [8, 9]


def test_a_settings_file_is_opened_by_its_name_its_folder_or_the_environment(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(folder)
    file = tmp_path_factory.mktemp("other") / "strata.toml"
    file.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    monkeypatch.setenv("STRATA_CONFIG", str(file))

    for address in (str(file), file, file.parent, None, Settings(store)):
        assert read(strata.open(address)) == [8, 9]


def test_a_shard_that_is_not_there_has_near_names(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="no such shard") as refused:
        strata.open(folder)["flihgts"]

    assert "flights" in str(refused.value)


@pytest.mark.parametrize("left", ["blob", "consensus.db"])
def test_half_a_store_is_none(folder: Path, left: str) -> None:
    for one in ("blob", "consensus.db"):
        if one != left:
            (folder / one).rename(folder / "elsewhere")
    with pytest.raises(InvalidRequest, match="holds no shards"):
        strata.open(folder)


def test_nothing_is_made_where_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="holds no shards"):
        strata.open(tmp_path)
    with pytest.raises(InvalidRequest, match="cannot be read"):
        strata.open(tmp_path / "nothing.toml")

    assert not list(tmp_path.iterdir())
