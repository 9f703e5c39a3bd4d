"""Functions of single texts that are not evaluated where that would be long, or is an error."""

import pytest

from strata.expr.functions.exact_texts import like
from strata.expr.functions.points import NotEvaluated
from strata.expr.nodes import Call

LIKE = Call("like", (), "boolean")


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("abc", "%b%", True),
        ("abc", "a_c", True),
        ("abc", "_b", False),
        ("abcd", "%a%b%c%", True),
        ("a%", "a\\%", True),
        ("ab", "a\\%", False),
        ("%%%%%%", "\\%" * 6, True),
        ("a\nb", "a%b", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
    ],
)
def test_a_pattern_matches_a_text_as_a_whole(text: str, pattern: str, *, matches: bool) -> None:
    assert like(LIKE, (text, pattern)) is matches


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("a" * 60, "%a" * 5),  # each more of them costs a power of the length
        ("a" * 60, "%" * 5),
        ("a", "a\\"),
        ("ab", "\\ab"),
    ],
)
def test_a_pattern_that_costs_too_much_or_is_an_error_is_not_evaluated(
    text: str, pattern: str
) -> None:
    with pytest.raises(NotEvaluated):
        like(LIKE, (text, pattern))
