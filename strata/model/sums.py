"""Sums of diffs: how they are recorded, and how updates express a sum that exceeds int64.

Parts, manifests, batches and merges record a sum modulo 2^64, as a signed number. Like the digest
beside it, the sum adds up in any order and any split, and it fits its column for any diffs. Older
states may hold the plain sum, which is the same number modulo 2^64.

The diffs of one row are not wrapped, because that would change how often the row is there. They
become the fewest updates that add up to their sum.
"""

from typing import Final

MODULUS: Final = 2**64
LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1


def wrapped(total: int) -> int:
    """Return the recorded form of a sum of diffs: modulo 2^64, within int64.

    >>> wrapped(2**62 + 2**62) == LEAST, wrapped(LEAST + LEAST), wrapped(-3)
    (True, 0, -3)
    """
    return (total - LEAST) % MODULUS + LEAST


def fewest(total: int) -> list[int]:
    """Return the fewest diffs that add up to `total`, the largest first; none for 0.

    They are never more than the int64 diffs that were added up to `total`.

    >>> fewest(5), fewest(0), fewest(MOST + 1) == [MOST, 1], fewest(2 * LEAST) == [LEAST, LEAST]
    ([5], [], True, True)
    """
    end = MOST if total > 0 else LEAST
    times = total // end
    rest = total - times * end
    return [end] * times + ([rest] if rest else [])
