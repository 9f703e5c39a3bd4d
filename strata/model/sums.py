"""Sums of diffs: how they are recorded, and how an update says one that no int64 holds.

What is recorded of parts, manifests, batches and merges is a sum modulo 2^64, as a signed number:
like the digest beside it, it adds up whatever the order and the split, and fits its column whatever
the diffs. States from before may hold the plain sum, which is the same number modulo 2^64.

The diffs of one row are not wrapped: that would change how often the row is there. They become the
fewest updates that add up to their sum.
"""

from typing import Final

MODULUS: Final = 2**64
LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1


def wrapped(total: int) -> int:
    """Return a sum of diffs as it is recorded: modulo 2^64, within int64.

    >>> wrapped(2**62 + 2**62) == LEAST, wrapped(LEAST + LEAST), wrapped(-3)
    (True, 0, -3)
    """
    return (total - LEAST) % MODULUS + LEAST


def fewest(total: int) -> list[int]:
    """Return the diffs that add up to `total`: as few as can be, the greatest first; none for 0.

    Never more than the diffs of int64 that were added up to it.

    >>> fewest(5), fewest(0), fewest(MOST + 1) == [MOST, 1], fewest(2 * LEAST) == [LEAST, LEAST]
    ([5], [], True, True)
    """
    end = MOST if total > 0 else LEAST
    times = total // end
    rest = total - times * end
    return [end] * times + ([rest] if rest else [])
