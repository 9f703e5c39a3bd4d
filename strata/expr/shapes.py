"""What all texts of a part are written like: the numbers and moments that casts read from them."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from strata.expr.spec import Bounds, Flags, Json, Texts, Values, both, either, negated, occupied


@dataclass(frozen=True, slots=True)
class Shape:
    """What all texts of each part are written like: `strata.stats.shapes`."""

    whole: Flags  # whole numbers, of [low, high]
    low: Bounds  # int64
    high: Bounds
    number: Flags  # numbers with or without a fraction, of [num_low, num_high]
    num_low: Bounds  # float64, each rounded to the nearest
    num_high: Bounds
    patterns: dict[str, Flags]  # moments that exist, as a pattern reads them


@runtime_checkable
class KnowsShape(Protocol):
    """Members of a place whose texts may have a shape."""

    def shape(self) -> Shape | None:
        """Return what all texts of a part are written like; None if that is known nowhere."""


def shape_of(values: Values) -> Shape | None:
    """Return what texts are written like; None if nothing is known.

    Of JSON that is printed: in the parts where it is nothing but strings.
    """
    if not isinstance(values, Json):
        members = values.members if isinstance(values, Texts) else None
        return members.shape() if isinstance(members, KnowsShape) else None
    found = shape_of(values.strings)
    if found is None or values.quoted:
        return None
    others = either(either(values.true, values.false), either(values.lists, values.maps))
    only = negated(either(others, occupied(values.numbers)))
    return Shape(
        both(found.whole, only),
        found.low,
        found.high,
        both(found.number, only),
        found.num_low,
        found.num_high,
        {pattern: both(fits, only) for pattern, fits in found.patterns.items()},
    )
