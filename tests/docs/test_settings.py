"""docs/reference/settings.md has every setting, with the default and the range of the code."""

import re
from pathlib import Path
from typing import Any

import pytest

from strata.config.settings import effective_settings, known_settings, load_settings
from strata.errors import InvalidRequest
from strata.model.declared import Range, marker_of

PAGE = Path(__file__).parents[2] / "docs/reference/settings.md"
ROW = re.compile(r"^\| `(?P<name>[a-z_.]+)` \|(?P<rest>.*)\|$", re.M)


def defaults() -> dict[str, Any]:
    return {name: given.value for name, given in effective_settings(None, {}).items()}


def documented() -> dict[str, list[str]]:
    """Return the cells of each row: default, unit, range, cost, correctness."""
    section = PAGE.read_text("utf-8").partition("\n## All settings\n")[2].partition("\n## ")[0]
    return {m["name"]: [c.strip() for c in m["rest"].split("|")] for m in ROW.finditer(section)}


def shown(value: Any) -> str:
    plain = {"None": "unset", "True": "true", "False": "false", "": "empty"}
    return plain.get(str(value), f"`{value}`")


def test_every_setting_is_documented_with_its_default() -> None:
    assert {name: cells[0] for name, cells in documented().items()} == {
        name: shown(value) for name, value in defaults().items()
    }


def test_every_row_tells_range_and_effects() -> None:
    for name, cells in documented().items():
        assert len(cells) == 5, name
        assert all(cells[2:]), name


@pytest.mark.parametrize("name", [n for n, v in defaults().items() if type(v) is int])
def test_the_documented_range_is_the_one_that_holds(name: str) -> None:
    ends = marker_of(known_settings()[name])
    assert isinstance(ends, Range)
    low, high = ends.low, ends.high
    assert documented()[name][2] == str(ends)
    variable = "STRATA__" + name.upper().replace(".", "__")
    for value in (low, high if high is not None else low + 1):
        load_settings(None, {variable: str(value)})
    for value in (low - 1, *(() if high is None else (high + 1,))):
        with pytest.raises(InvalidRequest, match="does not fit"):
            load_settings(None, {variable: str(value)})


def test_every_variable_of_airflow_is_documented() -> None:
    """What the plugin and the DAGs read of their environment, and nothing else."""
    root = PAGE.parents[2]
    sources = [*root.glob("plugins/**/*.py"), *root.glob("dags/*.py")]
    read = {
        name
        for file in sources
        for name in re.findall(r'"(STRATA_[A-Z]+(?:_[A-Z]+)*)"', file.read_text("utf-8"))
    }
    table = PAGE.read_text("utf-8").partition("## In Airflow's environment\n")[2]
    told = {
        m[1]: [cell.strip() for cell in m[2].split("|")]
        for m in re.finditer(r"^\| `(STRATA_[A-Z_]+)` \|(.*)\|$", table, re.M)
    }
    assert told.keys() == read
    assert {len(cells) for cells in told.values()} == {5}
