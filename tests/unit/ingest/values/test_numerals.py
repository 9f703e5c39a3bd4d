"""Numbers with other marks than a point: which are read, and which are no numbers."""

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest

from strata.ingest.values.numerals import from_marked, plain_numbers
from strata.model.types import parse_type


def read(texts: Sequence[str | None], kind: str, decimal: str, thousands: str) -> list[object]:
    """Return what texts are as a type; a bad one is the text `bad`."""
    values = pa.array([t and t.encode() for t in texts], pa.binary())
    cast = from_marked(values, parse_type(kind), decimal, thousands)
    found: list[object] = cast.values.to_pylist()
    for row in cast.bad.tolist():
        assert found[row] is None
        found[row] = "bad"
    return found


def test_a_comma_is_before_the_fraction() -> None:
    texts = ["1,5", "-,5", "+2,", "7", " 1,5 ", "1,5e3", "inf", None, ","]
    assert read(texts, "float64", ",", "") == [
        *(1.5, -0.5, 2.0, 7.0, 1.5, 1500.0, float("inf"), None, "bad")
    ]
    assert read(["1.5", "1,2,3", "1,5x"], "float64", ",", "") == ["bad"] * 3


def test_groups_have_three_digits() -> None:
    good = ["1.234,56", "1234,56", "12.345.678", "999", "-1.000", "1.234,5e2"]
    assert read(good, "float64", ",", ".") == [1234.56, 1234.56, 12345678.0, 999, -1000.0, 123450.0]
    bad = ["1.23", "1.2345", "1234.567", ".123", "1..234", "1.234.56", "1,234.5", "1.234,567.8"]
    assert read(bad, "float64", ",", ".") == ["bad"] * len(bad)
    assert read(["12,34,567", "1,23,456"], "int64", ".", ",") == ["bad"] * 2  # lakh


@pytest.mark.parametrize("mark", [",", " ", "'", "’", "_", "\u00a0", "\u202f"])
def test_each_mark_between_thousands(mark: str) -> None:
    texts = [f"1{mark}234", f"-12{mark}345{mark}678", f"1{mark}23", f"1{mark}{mark}234", "1234"]
    assert read(texts, "int64", ".", mark) == [1234, -12345678, "bad", "bad", 1234]
    assert read([f"1{mark}234.5"], "numeric(8,2)", ".", mark) == [Decimal("1234.50")]


def test_numbers_of_each_type_have_marks_and_other_types_have_none() -> None:
    texts = ["1.234"]
    for kind in ("int16", "int64", "uint8", "uint64", "oid"):
        expected = "bad" if kind == "uint8" else 1234
        assert read(texts, kind, ",", ".") == [expected]
    assert read(texts, "string", ",", ".") == ["1.234"]
    assert read(["1,5"], "numeric(4,1)", ",", ".") == [Decimal("1.5")]
    assert read(["[1.5]"], "jsonb", ",", ".") == ["[1.5]"]
    assert read(["[1.5]"], "list<float64>", ",", ".") == [[1.5]]
    assert read(["1.000"], "bool", ",", ".") == ["bad"]
    assert read(["5,0", "0x10", "1,000"], "int64", ",", "") == ["bad"] * 3


def test_a_text_that_is_not_utf8_is_bad() -> None:
    cast = from_marked(pa.array([b"1,5", b"\xff,"]), parse_type("float64"), ",", "")

    assert (cast.values.to_pylist(), cast.bad.tolist()) == ([1.5, None], [1])


def test_a_column_without_marks_is_not_touched() -> None:
    texts = pa.array(["1", None, " x "])

    assert plain_numbers(texts, ",", ".").values is texts
