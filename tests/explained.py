"""Mutants of rules that no row can tell from the rule itself, and why; see `tests/mutate.py`."""

from collections.abc import Mapping
from typing import Final

_LOW, _HIGH, _ENDS = "low bound too high", "high bound too low", "ends taken for the range"
_INFINITE: Final = "the rule says any number; that this one is never infinite is not claimed"

EXPLAINED: Final[Mapping[tuple[str, str], str]] = {
    ("cos", _LOW): _INFINITE,
    ("cos", _HIGH): _INFINITE,
    ("sin", _LOW): _INFINITE,
    ("sin", _HIGH): _INFINITE,
    ("hypot", _LOW): _INFINITE,
    ("multiply", "direction reversed"): (
        "the rule takes the least and the greatest of four products, whatever their order; what "
        "is left is a NaN feared in vain"
    ),
    ("get_timestamp", _ENDS): (
        "the rule is monotone; a low end is read downward and a high end upward, the mutant reads "
        "both ends both ways, so its range is only wider"
    ),
    ("next_day", _ENDS): (
        "the rule is monotone, but for one week's room where the low bound is at the edge of 32 "
        "bits: the mutant spares that room"
    ),
}
