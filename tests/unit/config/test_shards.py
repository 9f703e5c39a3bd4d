"""Declared shards are created when they are first needed, and left alone afterwards."""

from itertools import count
from pathlib import Path

import pytest

from strata.config.shards import declared_shards, ensure_shards
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.store.open import open_stores

NUMBERS = count()


def declare(folder: Path, name: str, column: str = "id") -> None:
    (folder / f"{name}.yaml").write_text(
        f"name: {name}\ncolumns: [{{name: {column}, type: int64}}]\n"
    )


def machine() -> Machine:
    name = f"declared-{next(NUMBERS)}"
    return Machine(open_stores(StoreSettings(f"memory://{name}", f"memory://{name}")))


def test_missing_shards_are_created_and_others_left_as_they_are(tmp_path: Path) -> None:
    declare(tmp_path, "a")
    declare(tmp_path, "b")
    shards = machine()

    assert ensure_shards(shards, str(tmp_path), ["a"]) == ["a"]
    declare(tmp_path, "a", "other")
    assert ensure_shards(shards, str(tmp_path), []) == ["a", "b"]
    assert shards.names() == ["a", "b"]
    assert shards.load("a").relation.columns[0].name == "id"


def test_a_shard_that_no_file_declares_does_not_stop_the_others(tmp_path: Path) -> None:
    shards, said = machine(), list[str]()
    declare(tmp_path, "a")
    ensure_shards(shards, str(tmp_path), ["a"])
    (tmp_path / "a.yaml").unlink()
    declare(tmp_path, "b")

    assert ensure_shards(shards, str(tmp_path), ["a", "b"], said.append) == ["a", "b"]
    assert (shards.names(), said) == (["a", "b"], [])


def test_an_unknown_shard_is_refused_with_those_there_are(tmp_path: Path) -> None:
    declare(tmp_path, "a")

    with pytest.raises(InvalidRequest, match="no such shard") as error:
        ensure_shards(machine(), str(tmp_path), ["c"])
    assert error.value.cure == "one of: a"


def test_a_name_of_a_list_may_be_gone_by_now(tmp_path: Path) -> None:
    declare(tmp_path, "a")
    lines: list[str] = []
    names = ensure_shards(machine(), str(tmp_path), ["c", "a"], lines.append, found=True)
    assert (names, lines) == (["a"], ["c: passed over, because it was dropped meanwhile"])
    assert ensure_shards(machine(), str(tmp_path), ["c"], found=True) == []


def test_a_malformed_declaration_is_refused_by_file(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("{")
    with pytest.raises(InvalidRequest, match="not YAML"):
        declared_shards(str(tmp_path))
    (tmp_path / "x.yaml").write_text("[]")
    with pytest.raises(InvalidRequest, match="a mapping"):
        declared_shards(str(tmp_path))


def test_two_files_may_not_declare_the_same_shard(tmp_path: Path) -> None:
    declare(tmp_path, "a")
    (tmp_path / "b.yaml").write_text((tmp_path / "a.yaml").read_text())

    with pytest.raises(InvalidRequest, match="the same shard"):
        declared_shards(str(tmp_path))


def test_the_shards_of_the_demo_are_well_declared() -> None:
    folder = Path(__file__).parents[3] / "config" / "shards"

    assert sorted(declared_shards(str(folder))) == [
        "airports",
        "flight_events",
        "flights",
        "planes",
        "weather",
    ]
