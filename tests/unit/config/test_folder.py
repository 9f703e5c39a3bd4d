"""Declarations are read up to their limits, and shown as YAML that reads back the same."""

from pathlib import Path

import pytest

from strata.config import folder
from strata.config.folder import yaml_line, yaml_mapping
from strata.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a: [1, 2, 3]", 6),
        ("a: &a [1, 2]\nb: *a", 9),
        ("a: &a {x: 1}\nb: [*a, *a]", 13),
    ],
)
def test_an_alias_counts_as_what_it_stands_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, values: int
) -> None:
    """Of a mapping, names and values count, and so does the mapping itself."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    monkeypatch.setattr(folder, "VALUES_MAX", values)
    assert yaml_mapping(file)
    monkeypatch.setattr(folder, "VALUES_MAX", values - 1)
    with pytest.raises(InvalidRequest, match="stand for too much"):
        yaml_mapping(file)


def test_a_line_of_yaml_is_short_and_shows_letters_as_they_are() -> None:
    assert yaml_line({"name": "größe", "key": ["on", "größe"]}) == (
        "{name: größe, key: ['on', größe]}"
    )
