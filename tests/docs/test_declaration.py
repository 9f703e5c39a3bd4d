"""docs/reference/declaration.md has every field of a declaration, with its default and choices."""

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.model import spec

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "declaration.md"
SECTIONS: dict[str, Any] = {
    "The shard": spec.ShardSpec,
    "A column": spec.ColumnSpec,
    "source": spec.SourceSpec,
    "time": spec.TimeSpec,
    "stats": spec.StatsSpec,
    "rollout": spec.RolloutSpec,
}
RENAMED = {"origin": "from"}
# Choices that are not a tuple of a name in `strata.model.spec`.
WITH_CHOICES = [
    ("source", name)
    for name in (
        "format",
        "envelope",
        "same_content",
        "late_files",
        "contradictions",
        "snapshots",
        "schema_changes",
        "verify",
    )
] + [
    ("time", "from"),
    ("time", "late"),
    ("time", "early"),
    ("rollout", "mode"),
    ("", "write_format"),
    ("", "read_format"),
]


def rows(section: str) -> dict[str, list[str]]:
    """Return the cells of each row of a section by the field's name."""
    part = PAGE.read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \|(.*)\|$", part, re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split(" | ")] for name, rest in found}


def shown(default: Any) -> str | None:
    """Return how the page shows a default; None where it does so in words."""
    if default is MISSING or isinstance(default, tuple):
        return None
    plain = {"None": "null", "True": "`true`", "False": "`false`", "": "empty"}
    return plain.get(str(default), f"`{default}`")


@pytest.mark.parametrize("section", SECTIONS)
def test_every_field_is_documented_with_its_default(section: str) -> None:
    there = rows(section)
    known = {RENAMED.get(f.name, f.name): f for f in fields(SECTIONS[section])}
    assert there.keys() == known.keys()
    for name, field in known.items():
        if (default := shown(field.default)) is not None:
            assert there[name][0] == default, name


@pytest.mark.parametrize(("section", "name"), WITH_CHOICES)
def test_the_documented_choices_are_those_that_hold(section: str, name: str) -> None:
    choices = re.findall(r"`([^`]+)`", rows(section or "The shard")[name][1])
    assert len(choices) >= 2
    base = {"name": "s", "columns": [{"name": "a", "type": "int64"}]}
    more = {"column": "a"} if (section, name) == ("time", "from") else {}
    for choice in choices:
        part = {name: choice, **more}
        spec.parse_spec({**base, **({section: part} if section else part)})
    part = {name: "something else"}
    with pytest.raises(InvalidRequest, match=re.escape("something else")) as refused:
        spec.parse_spec({**base, **({section: part} if section else part)})
    allowed = str(refused.value).partition("one of ")[2]
    assert [w for w in re.findall(r"\w+", allowed) if w in choices or w in allowed.split(", ")]
    assert set(choices) <= set(re.findall(r"\w+", allowed))
