"""The sort order of a run of many columns as a short text: `7,2,9-200`.

A run names the columns by which it is sorted, all of them. In a shard of 200 columns that is 690
bytes of JSON a run, nearly the same in each; as ranges of neighbours it is some ten.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

SPELLED_OUT: Final = 16  # orders of at most this many columns stay lists
_COLUMNS_MAX: Final = 100_000  # of one order, however it is written
_TEXT: Final = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def order_text(order: Sequence[int]) -> str:
    """Return the column ids as ranges.

    >>> order_text((7, 2, 9, 10, 11))
    '7,2,9-11'
    """
    places = enumerate(order)
    pieces = (
        [i for _, i in some] for _, some in groupby(places, lambda found: found[1] - found[0])
    )
    return ",".join(f"{ids[0]}-{ids[-1]}" if len(ids) > 1 else str(ids[0]) for ids in pieces)


@lru_cache(maxsize=1024)
def order_of(text: str) -> tuple[int, ...]:
    """Return the column ids that `order_text` wrote.

    Raises: ValueError for any other text.
    """
    if not _TEXT.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is no order")
    ids: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        low, high = int(first), int(last or first)
        if high - low + len(ids) >= _COLUMNS_MAX:
            raise ValueError(f"{text[:80]!r} has too many columns")
        ids += range(low, high + 1)
    order = tuple(ids)
    if order_text(order) != text:
        raise ValueError(f"{text[:80]!r} is not how an order is written")
    return order
