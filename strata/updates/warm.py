"""Use every kernel of the merge once, so that it is compiled and kept."""

import pyarrow as pa

from strata.format.columns import D
from strata.updates.arrange import arrange
from strata.updates.consolidate import consolidate_arranged


def warm() -> None:
    """Arrange and consolidate rows that tie in a number and in a text longer than its words."""
    number = pa.array([1, 1, 1])
    text = pa.array(["x" * 64, "x" * 40 + "y" * 24, "x" * 64])
    tail = pa.array(["", "y" * 50, "x" * 50])
    arrange([number, text, tail, pa.array([True, None, False])])
    order, equal = arrange([number])
    consolidate_arranged(pa.table({"c": number, D: number}), order, equal)
