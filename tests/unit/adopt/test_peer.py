"""What an error of another library may say, and which files of a table are new."""

from types import SimpleNamespace
from typing import Any

import pytest

from strata.adopt.iceberg import _more
from strata.adopt.peer import first_words


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no key in s3://k:pw@lake/t?sig=abc here", "no key in s3://lake/t?… here"),
        ("no bucket 'k:pw@lake'", "no bucket 'lake'"),
        ("two\n lines,\x1b[31m red", "two lines, red"),
        ("mail ann@example.org", "mail ann@example.org"),
    ],
)
def test_an_error_is_told_without_secrets(said: str, shown: str) -> None:
    assert first_words(OSError(said)) == shown


def test_a_file_that_is_named_twice_counts_twice() -> None:
    one, other = (
        SimpleNamespace(file=SimpleNamespace(file_path=name), delete_files=[]) for name in "ab"
    )
    some: Any = [one, one, other]

    assert _more(some, [one]) == [one, other]
    assert _more([one], some) == []
