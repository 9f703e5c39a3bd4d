"""A store that goes meanwhile: an error names the place, and nothing is made in its place."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.compact import compact_shard
from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.parts.fetch import part_bytes, source_of
from strata.shard import Shard
from strata.store.disk import DiskBlob
from strata.store.named import get_named
from strata.store.open import Stores, open_blob, open_stores
from strata.store.retry import Patience
from strata.store.sql import SqlConsensus

SPEC = {
    "name": "s",
    "columns": [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}],
    "key": ["id"],
    "source": {"paths": ["in/"], "format": "csv"},
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patience, "pause_s", lambda *_: 0.0)


class Store:
    """Stores on a disk, of one process after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        places = f"file://{root}/st/blob", f"sqlite:///{root}/st/c.db"
        self.settings = Settings(store=StoreSettings(*places, str(root)))

    def open(self) -> Stores:
        return open_stores(self.settings.store)

    def add(self, stores: Stores, number: int) -> None:
        file = self.root / f"{number}.csv"
        file.write_text(f"id,name\n{number},a\n{number + 1},b\n")
        ingest(stores, self.settings, "s", paths=[str(file)])

    def read(self, stores: Stores) -> int:
        shard = Shard(stores, "s")
        return sum(batch.num_rows for batch in shard.scan())


def closed(stores: Stores) -> None:
    assert isinstance(stores.consensus, SqlConsensus)
    stores.consensus.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return filled(tmp_path)


def filled(root: Path) -> Store:
    root.mkdir(exist_ok=True)
    store = Store(root)
    stores = store.open()
    Machine(stores).create(parse_spec(SPEC))
    for number in range(2):
        store.add(stores, number)
    closed(stores)
    return store


def unlinked(root: Path) -> None:
    for file in (root / "st").glob("c.db*"):
        file.unlink()


LOST: dict[str, tuple[Callable[[Path], object], str]] = {
    "the store": (lambda root: shutil.rmtree(root / "st"), "st"),
    "the blobs": (lambda root: shutil.rmtree(root / "st/blob"), "st/blob"),
    "the states": (unlinked, "st/c.db"),
    "a store that was moved": (lambda root: (root / "st").rename(root / "away"), "st"),
}
DONE: dict[str, Callable[[Store, Stores], object]] = {
    "ingest": lambda store, stores: store.add(stores, 7),
    "read": lambda store, stores: store.read(stores),
    "compact": lambda store, stores: compact_shard(stores, "s", store.settings, full=True),
}


class Steps:
    """Counts the operations of both stores; before one of them something happens."""

    def __init__(self, at: int, event: Callable[[], object]) -> None:
        self.left, self._event = at, event

    def over(self, inner: Any) -> Any:
        return _Over(inner, self)

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._event()


class _Over:
    def __init__(self, inner: Any, steps: Steps) -> None:
        self._inner, self._steps = inner, steps

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._inner, name)

        def call(*args: Any, **named: Any) -> Any:
            self._steps.step()
            return operation(*args, **named)

        return call if callable(operation) else operation


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("done", DONE)
def test_nothing_is_made_in_the_place_of_what_went(tmp_path: Path, done: str, lost: str) -> None:
    lose, place = LOST[lost]
    failed = 0
    for at in range(2, 99):  # in the first step nothing is open yet
        store = filled(tmp_path / f"{at}")
        steps = Steps(at, lambda: lose(store.root))  # noqa: B023  runs below
        inner = store.open()
        stores = replace(inner, blob=steps.over(inner.blob), consensus=steps.over(inner.consensus))
        try:
            DONE[done](store, stores)
        except Unavailable as error:
            failed += str(store.root / "st") in str(error)  # it names the place
        closed(inner)
        if steps.left > 0:
            break
        assert not (store.root / place).exists()
        if (store.root / "away").exists():
            (store.root / "away").rename(store.root / "st")
            again = store.open()
            DONE[done](store, again)
            assert store.read(again) in {4, 6}
            closed(again)
    assert failed > 3


@pytest.mark.parametrize("done", DONE)
def test_a_process_that_finds_no_blobs_names_their_folder(store: Store, done: str) -> None:
    shutil.rmtree(store.root / "st/blob")
    stores = store.open()
    with pytest.raises(Unavailable, match="the folder of blobs is gone") as caught:
        DONE[done](store, stores)
    assert caught.value.cure is not None
    assert not (store.root / "st/blob").exists()


def test_a_task_that_finds_no_blobs_names_their_folder_too(store: Store) -> None:
    """A task has a plan, and opens the blobs alone: it has not seen their folder before."""
    stores = store.open()
    plan = Shard(stores, "s").plan()
    source = source_of(open_blob(store.settings.store), Machine(stores).load("s"))
    (store.root / "st/blob").rename(store.root / "away")
    for call in (
        lambda: part_bytes(source, plan.fetched[0]),
        lambda: get_named(source.blob, plan.fetched[0].key, "a part"),
    ):
        with pytest.raises(Unavailable, match="the folder of blobs is gone"):
            call()
    (store.root / "st/blob").mkdir()
    with pytest.raises(Corrupt, match="a part is missing"):
        part_bytes(source, plan.fetched[0])


def test_no_shard_begins_anew_over_the_blobs_of_another_life(store: Store) -> None:
    """A sweep would take them for garbage, and delete what the lost states need."""
    (store.root / "st/c.db").rename(store.root / "c.db")
    unlinked(store.root)
    with pytest.raises(Corrupt, match="the database of states does not know it") as caught:
        Machine(store.open()).create(parse_spec(SPEC))
    assert "sqlite:///" in str(caught.value)
    with pytest.raises(InvalidRequest, match=r"no such shard.*sqlite:"):
        store.read(store.open())
    (store.root / "c.db").rename(store.root / "st/c.db")
    assert store.read(store.open()) == 4
    other = parse_spec(SPEC | {"name": "other"})
    assert Machine(store.open()).create(other).name == "other"


def test_a_replaced_database_is_not_written(store: Store) -> None:
    stores = store.open()
    assert store.read(stores) == 4
    shutil.copy(store.root / "st/c.db", store.root / "copy")
    (store.root / "copy").rename(store.root / "st/c.db")
    with pytest.raises(Unavailable, match="was removed or replaced"):
        store.add(stores, 7)
    assert store.read(store.open()) == 4


def test_a_folder_that_was_never_there_is_made(tmp_path: Path) -> None:
    blob = DiskBlob(tmp_path / "a/b")
    assert blob.get("shards/s/parts/x") is None
    assert list(blob.list("")) == []
    assert blob.delete("shards/s/parts/x") is None
    blob.set("shards/s/parts/x", b"1")
    shutil.rmtree(tmp_path / "a")
    for call in (
        lambda: blob.get("shards/s/parts/x"),
        lambda: list(blob.list("")),
        lambda: blob.set("shards/s/parts/x", b"1"),
        lambda: blob.delete("shards/s/parts/x"),
        blob.draft,
    ):
        with pytest.raises(Unavailable, match="the folder of blobs is gone"):
            call()
    assert not (tmp_path / "a").exists()
