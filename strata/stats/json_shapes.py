"""What strings at paths of JSON are written like, from what the scanner wrote down."""

from functools import cache

from strata.kernels import json_state as node
from strata.kernels.arrays import Floats, Ints
from strata.kernels.json_shape import JOINED
from strata.stats.shapes import CLOCKS, DATES, TextShape


def scanned_shape(row: Ints, amounts: Floats) -> TextShape:
    """Return what the strings of a path, at least one, are written like.

    `row`: the cells of its node; `amounts`: the least and the greatest number.
    """
    cells: list[int] = row.tolist()
    like = cells[node.LIKE]
    low, high = amounts.tolist()
    return TextShape(
        (cells[node.LOW_WHOLE], cells[node.HIGH_WHOLE]) if like & node.WHOLES else None,
        (low, high) if like & node.NUMBERS else None,
        _patterns(like, cells[node.FORM]),
    )


@cache
def _patterns(like: int, form: int) -> frozenset[str]:
    """Return the patterns of moments of one form, in the orders in which all are days."""
    layout, sign, join, size, zone = ((form >> shift) & 0xFF for shift in range(0, 40, 8))
    time = ""
    if join:
        clock = next(one for one in CLOCKS if len(one) == size)
        time = ("'T'" if join == ord("T") else " ") + clock + ("'Z'" if zone else "")
    orders = zip((node.YEAR_FIRST, node.DAY_FIRST, node.MONTH_FIRST), DATES, strict=True)
    return frozenset(
        date.format("" if layout == JOINED else chr(sign)) + time
        for order, date in orders
        if like & order
    )
