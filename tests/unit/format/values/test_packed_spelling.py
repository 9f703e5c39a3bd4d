"""A number that a computation left in any spelling is stored in one."""

import numpy as np
import pytest

from strata.format.values import packed
from strata.format.values.packed import PackedNumbers


def spelled(
    digits: list[int], exponent: int, *, negative: bool = False, **kind: bool
) -> PackedNumbers:
    """Return one number as a computation may leave it; `digits`: least significant first."""
    row = np.zeros((1, packed.MAX_DIGITS), np.uint8)
    row[0, : len(digits)] = digits
    bits = {"negative": negative, "infinite": False, "nan": False} | kind
    flags = {name: np.array([one]) for name, one in bits.items()}
    return PackedNumbers(row, np.array([exponent], np.int64), **flags)


@pytest.mark.parametrize(
    ("number", "plain"),
    [
        (spelled([0, 0, 5], 3), spelled([5], 5)),
        (spelled([0, 5], -1, negative=True), spelled([5], 0, negative=True)),
        (spelled([5, 0, 0, 7], 3), spelled([5, 0, 0, 7], 3)),
        (spelled([0] * 38 + [9], 0), spelled([9], 38)),
        (spelled([0, *[8] * 38], 0), spelled([8] * 38, 1)),
        (spelled([9] * 39, 4), spelled([9] * 39, 4)),
        (spelled([0], 7, negative=True), spelled([0], 0)),
        (spelled([0, 4], 7, infinite=True), spelled([0], 0, infinite=True)),
        (
            spelled([4], 7, negative=True, infinite=True),
            spelled([0], 0, negative=True, infinite=True),
        ),
        (spelled([4], 7, negative=True, nan=True), spelled([0], 0, nan=True)),
        (spelled([4], 7, negative=True, nan=True, infinite=True), spelled([0], 0, nan=True)),
    ],
)
def test_each_number_has_one_spelling(number: PackedNumbers, plain: PackedNumbers) -> None:
    """Alone, and beside a number that has nothing to move."""
    for place, beside in ((0, [number]), (1, [spelled([1], 0), number])):
        together = PackedNumbers(
            *(
                np.concatenate([getattr(one, field) for one in beside])
                for field in ("digits", "exponent", "negative", "infinite", "nan")
            )
        )
        found = packed.canonical(together)
        for field in ("digits", "exponent", "negative", "infinite", "nan"):
            assert np.array_equal(getattr(found, field)[place], getattr(plain, field)[0]), field
