"""Types as people write them, where that goes wrong."""

import pytest

from strata.errors import InvalidRequest
from strata.model.types import MAX_DEPTH, parse_type


def nested(levels: int) -> str:
    return "list<" * levels + "int32" + ">" * levels


def test_types_may_be_as_deep_as_rows_can_be_written() -> None:
    assert str(parse_type(nested(MAX_DEPTH))) == nested(MAX_DEPTH)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 5000])
def test_deeper_types_are_refused_when_they_are_declared(levels: int) -> None:
    with pytest.raises(InvalidRequest, match="nested too deeply") as caught:
        parse_type(nested(levels))

    assert caught.value.details["type"] == nested(levels)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("numeric(1)", "numeric(1,0)"),
        ("numeric(38, 38)", "numeric(38,38)"),
        ("decimal(10,0)", "numeric(10,0)"),
        ("numeric", "numeric"),
        ("char", "char(1)"),
        ("varchar( 7 )", "varchar(7)"),
        ("map<string, list<int>>", "map<list<int32>>"),
        (
            "record< a : numeric(4,2), b: record<c: int, d: text> >",
            "record<a: numeric(4,2), b: record<c: int32, d: string>>",
        ),
    ],
)
def test_a_type_is_read_and_printed_in_one_spelling(text: str, canonical: str) -> None:
    assert str(parse_type(text)) == canonical
    assert parse_type(canonical) == parse_type(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("numeric(0)", "out of range"), ("numeric(39,2)", "out of range"),
        ("numeric(10,11)", "out of range"), ("numeric(10,-1)", "out of range"),
        ("numeric(x)", "malformed numeric"), ("varchar(0)", "malformed length"),
        ("varchar(10485761)", "malformed length"), ("varchar[3]", "unknown column type"),
        ("int64(3)", "no parameters"), ("list", "needs <"), ("list<int32", "needs <"),
        ("map<int32, int32>", "keys of a map"), ("map<>", "malformed map"),
        ("array<array<int32>>", "any number of dimensions"), ("range<list<int32>>", "simple type"),
        ("record<a>", "malformed record"), ("record<: int32>", "malformed record"),
        ("record<a int32>", "malformed record"), ("record<a: int32, A: text>", "have this name"),
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        parse_type(text)

    assert caught.value.details["type"] == text
