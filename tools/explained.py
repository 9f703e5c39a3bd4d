"""Mutants of rules that agree with the rule on every row, and why; see `tools/mutate.py`."""

from collections.abc import Mapping
from typing import Final

_LOW, _HIGH, _ENDS = "low bound too high", "high bound too low", "ends taken for the range"
_EXTREME: Final = "the rule says any number; that none is as extreme as the ends is not claimed"

_ANY: Final = ("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "cosh", "acosh", "atan2",
               "hypot", "bit_length")  # fmt: skip
_MEMBERS: Final = (
    "the elements of both ends together are the range of the elements, and are no longer known one "
    "by one, so the mutant is only wider"
)

# Of these each run sees that the mutant says all that the rule says.
WIDER: Final = frozenset(
    {
        ("get_timestamp", _ENDS),
        ("create_array", _ENDS),
        ("transform", _ENDS),
    }
)

EXPLAINED: Final[Mapping[tuple[str, str], str]] = {
    **{(name, title): _EXTREME for name in _ANY for title in (_LOW, _HIGH)},
    ("create_array", _ENDS): _MEMBERS,
    ("transform", _ENDS): _MEMBERS,
    ("get_timestamp", _ENDS): (
        "the rule is monotone; a low end is read downward and a high end upward, the mutant reads "
        "both ends both ways, so its range is only wider"
    ),
    ("next_day", _ENDS): (
        "the rule is monotone, but for one week's room where the low bound is at the edge of 32 "
        "bits: the mutant spares that room"
    ),
}
