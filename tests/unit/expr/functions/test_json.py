"""Paths of keys are read; anything else is not tracked."""

import pytest

from strata.expr.functions.json import parse_path
from strata.stats.wire import spark_path


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
    ],
)
def test_a_path_is_its_keys(text: str, keys: tuple[str, ...] | None) -> None:
    assert parse_path(text) == keys


@pytest.mark.parametrize("text", ["$", "$.a", "$.a.b['c d']", "$['a.b']", "$.a-b.ü"])
def test_paths_are_read_as_the_statistics_name_them(text: str) -> None:
    assert parse_path(text) == spark_path(text)
