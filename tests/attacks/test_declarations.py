"""A declaration of a few lines takes no memory beyond it, and is refused by name."""

from pathlib import Path

import pytest

from strata.config.folder import yaml_mapping
from strata.errors import InvalidRequest
from strata.model.spec import parse_spec

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 10)
)
BOMBS = {
    "aliases of aliases": f"{LAUGHS}columns: *a9\n",
    "merges of merges": f"{MERGES}columns: *a9\n",
    "a merge of itself": "columns: &a {<<: *a}\n",
    "lists in lists": "columns: " + "[" * 20_000 + "]" * 20_000,
    "mappings in mappings": "columns: " + "{a: " * 3_000 + "1" + "}" * 3_000,
    "a list of itself": "columns: &a [*a, *a, *a]\n",
    "a default of itself": "columns: [{name: id, type: int64, default: &a [*a, *a]}]\n",
    "a mapping of itself": "columns: &a {b: *a, c: *a}\n",
    "a program": "columns: !!python/object/apply:os.system [id]\n",
    "a long number": "part_bytes: " + "9" * 100_000 + "\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_declaration_that_is_a_bomb_is_refused_by_name(tmp_path: Path, bomb: str) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(BOMBS[bomb])

    with pytest.raises(InvalidRequest) as refused:
        yaml_mapping(file)

    assert str(file) in str(refused.value)
    assert len(str(refused.value)) < 2_000


def test_an_alias_that_repeats_a_little_is_read(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "columns: [{name: id, type: int64}, {name: b, type: int64}]\nkey: &k [id]\norder: *k\n"
    )

    assert parse_spec({"name": "s", **yaml_mapping(file)}).order == ("id",)


def test_a_merge_of_a_little_is_read(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("a: &a {name: id, type: int64}\nb: &b {<<: *a, name: b}\nc: [*a, *b]\n")

    a, b = {"name": "id", "type": "int64"}, {"name": "b", "type": "int64"}
    assert yaml_mapping(file) == {"a": a, "b": b, "c": [a, b]}


@pytest.mark.parametrize(("levels", "read"), [(99, True), (100, False), (300, False)])
def test_a_hundred_levels_are_read(tmp_path: Path, levels: int, read: bool) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("a: " + "[" * levels + "1" + "]" * levels + "\n")

    if read:
        assert len(str(yaml_mapping(file))) == len("{'a': 1}") + 2 * levels
        return
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        yaml_mapping(file)
