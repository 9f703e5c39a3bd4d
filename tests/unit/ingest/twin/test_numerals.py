"""The twin's numbers with marks."""

import pytest

from strata.ingest.twin import NUMBERS, Unreadable, plain_number
from strata.ingest.values import numerals


@pytest.mark.parametrize(
    ("text", "decimal", "thousands", "plain"),
    [
        ("1.234,5", ",", ".", "1234.5"),
        (b" -1 234 567 ", ".", " ", "-1234567"),
        ("+1,5e-3", ",", "", "+1.5e-3"),
        ("nan", ",", ".", "nan"),
        (",5", ",", ".", ".5"),
        ("1,", ",", ".", "1."),
    ],
)
def test_a_number_is_written_plainly(
    text: str | bytes, decimal: str, thousands: str, plain: str
) -> None:
    assert plain_number(text, decimal, thousands) == plain


@pytest.mark.parametrize(
    "text", ["1.5", "1.2345", "1234.567", ".123", "1,2,3", "a,5", "٣,5", b"\xff"]
)
def test_a_number_of_another_form_is_unreadable(text: str | bytes) -> None:
    with pytest.raises(Unreadable):
        plain_number(text, ",", ".")


def test_the_twin_means_the_same_types() -> None:
    assert NUMBERS == numerals.NUMBERS
