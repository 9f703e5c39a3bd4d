"""Draw a share of the parts reproducibly: equal keys and salt give the same parts."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np

from strata.kernels.arrays import Bools, Words

Draws: TypeAlias = Words
_ALL: Final = 1 << 64


def draws(part_keys: Iterable[str], salt: str) -> Draws:
    """Return a number for each part, uniform over the 64-bit range.

    Shape: one element a key. Cost: a hash of each.
    """
    begun = blake2b(f"{salt}\0".encode(), digest_size=8)
    digests = []
    for key in part_keys:
        one = begun.copy()
        one.update(key.encode())
        digests.append(one.digest())
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def below(drawn: Draws, percent: int) -> Bools:
    """Return which draws belong to a share of `percent`."""
    if percent <= 0 or percent >= 100:
        return np.full(len(drawn), percent > 0)
    # Exact, where `draw * 100` would wrap.
    found: Bools = drawn < np.uint64(-(-percent * _ALL // 100))
    return found


def sampled(part_keys: Iterable[str], salt: str, percent: int) -> Bools:
    """Return which parts belong to a share; a larger share holds the smaller one."""
    return below(draws(part_keys, salt), percent)
