"""Prefixes of texts as ranges, and LIKE patterns."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from strata.expr.functions.text import _parse_pattern, after_prefix, may_start
from strata.expr.spec import Texts

ALPHABET = (b"a", b"b", b"\xff", b"\x00")
WORDS = [b"".join(letters) for n in range(4) for letters in product(ALPHABET, repeat=n)]


def test_behind_a_prefix_comes_the_least_text_without_it() -> None:
    for prefix in WORDS:
        behind = after_prefix(prefix)
        later = [w for w in WORDS if w > prefix and not w.startswith(prefix)]
        if behind is None:
            assert not later
        else:
            assert all(w < behind for w in WORDS if w.startswith(prefix))
            assert all(w >= behind for w in later)


def test_a_range_may_start_with_a_prefix_if_some_text_in_it_does() -> None:
    few = WORDS[:40]
    for low, high in product(few, few):
        if low > high:
            continue
        values = Texts(pa.scalar(low), pa.scalar(high), np.array([False]))
        for prefix in (b"", b"a", b"ab", b"b\xff"):
            truth = [w.startswith(prefix) for w in WORDS if low <= w <= high]
            found = may_start(values, prefix)
            assert found.true[0] >= any(truth)
            assert found.false[0] >= (not all(truth))


@pytest.mark.parametrize(
    ("pattern", "parsed"),
    [
        ("ab%", ("ab", "%")),
        ("a_b", ("a", "_b")),
        ("a!%b", ("a%b", "")),
        ("a!!%", ("a!", "%")),
        ("a!", None),
        ("%!", None),
        ("a!b%", None),
        ("", ("", "")),
    ],
)
def test_a_pattern_has_a_fixed_start(pattern: str, parsed: tuple[str, str] | None) -> None:
    assert _parse_pattern(pattern, "!") == parsed
