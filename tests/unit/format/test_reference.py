"""The page on formats has the table that the code has."""

from pathlib import Path

import pytest

from strata.errors import InvalidRequest
from strata.format.reference import BEGIN, END, types_table, with_table
from strata.model.types import Kind, parse_type

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "format.md"


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert text == with_table(text), "run python -m strata.format.reference"


def test_every_kind_has_a_row() -> None:
    rows = types_table().splitlines()[2:]
    kinds = {parse_type(row.split("|")[1].strip(" `")).kind for row in rows}
    assert kinds == set(Kind)
    assert all(row.count("|") == 7 for row in rows)


def test_only_what_stands_between_the_marks_changes() -> None:
    page = with_table(f"before {BEGIN} old {END} after")
    assert page.startswith(f"before {BEGIN}\n| Type |")
    assert page.endswith(f"\n{END} after")
    with pytest.raises(InvalidRequest):
        with_table("no marks")
