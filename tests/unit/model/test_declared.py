"""What a setting takes, as an error says it where a value does not fit."""

from typing import Annotated, Any

import pytest

from strata.errors import InvalidRequest
from strata.model.declared import OneOf, Range, expectation
from strata.model.spec import ColumnSpec, SourceSpec, parse_spec

TAKES = [
    (SourceSpec, "source", "a mapping"),
    (tuple[ColumnSpec, ...], "columns", "a list of mappings"),
    (tuple[str, ...], "key", "a list of texts"),
    (tuple[tuple[str, ...], ...], "pairs", "a list of lists of texts"),
    (Annotated[str, OneOf("a", "b")], "mode", "one of 'a', 'b'"),
    (Annotated[int, Range(1, 9)], "keep_days", "a whole number, 1 to 9"),
    (Annotated[int, Range(4)], "budget_bytes", "a whole number of bytes, 4 or more"),
    (float, "grace_ms", "a number"),
    (int | None, "hold_s", "a whole number of seconds"),
    (bool, "log", "true or false"),
    (object, "default", None),
]


@pytest.mark.parametrize(("hint", "name", "text"), TAKES)
def test_what_a_setting_takes(hint: Any, name: str, text: str | None) -> None:
    assert expectation(hint, name) == text


def test_the_cure_says_what_the_setting_takes() -> None:
    columns = [{"name": "id", "type": "int64"}]
    with pytest.raises(InvalidRequest, match="does not fit") as caught:
        parse_spec({"name": "s", "columns": columns, "source": 5})

    assert caught.value.details["setting"] == "source"
    assert (caught.value.details["value"], caught.value.cure) == (5, "a mapping")
