"""Paths of keys are read; anything else is not tracked."""

import pytest

from strata.expr.functions.json import parse_path


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("$", ()),
        ("$.a", ("a",)),
        ("$.a.b['c d']", ("a", "b", "c d")),
        ("$['a.b']", ("a.b",)),
        ("$.a[0]", None),
        ("$.a[*]", None),
        ("$..a", None),
        ("a", None),
        ("", None),
        ("$.", None),
        ("$['a']['b c']", ("a", "b c")),
        ("$['a ']", ("a ",)),
        ("$[' a']", None),  # Spark reads the key without the space
        ("$['\ta']", None),
        ("$. a", None),
        ("$.a b", None),
        ("$.*", None),
        ("$['*']", None),
        ("$[0]", None),
        ("$.a[0].b", None),
        ("$['a?']", None),
    ],
)
def test_a_path_is_its_keys(text: str, keys: tuple[str, ...] | None) -> None:
    assert parse_path(text) == keys
