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


def test_each_part_starts_with_a_prefix_as_it_does_by_itself() -> None:
    few = [None, *WORDS[:24]]
    ranges = [(a, b) for a, b in product(few, few) if a is None or b is None or a <= b]
    low, high = (pa.array(side, pa.binary()) for side in zip(*ranges, strict=True))
    none = np.arange(len(ranges)) % 5 == 0
    for prefix in (b"", b"a", b"ab", b"\xff", b"b\xff\x00", b"zz"):
        found = may_start(Texts(low, high, none), prefix)
        for row in range(len(ranges)):
            one = may_start(Texts(low[row : row + 1], high[row : row + 1], none[[row]]), prefix)
            flags = (np.broadcast_to(f, len(ranges))[row] for f in (found.true, found.false))
            assert tuple(flags) == (one.true[0], one.false[0])
