"""The condition that another engine hands to a source: what is understood of it.

A front end makes it from the engine's own expression; `strata.plain.weaker` makes a plain filter of
it. Columns are named exactly. Values are those that the engine compares with, after its own casts.

Logic has three values. A leaf may be null on a row, `Among` and `IsNull` as their engine has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final


@dataclass(frozen=True, slots=True)
class Day:
    """A date."""

    days: int  # since 1970


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, with a zone (an instant) or without."""

    microseconds: int  # since 1970
    zoned: bool


Value = bool | int | float | Decimal | str | Day | Moment


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A condition that may be anything."""


@dataclass(frozen=True, slots=True)
class And:
    """True where all parts are true; false at most where one is false."""

    parts: Sequence["Condition"]


@dataclass(frozen=True, slots=True)
class Or:
    """True where a part is true; false at most where all are false."""

    parts: Sequence["Condition"]


@dataclass(frozen=True, slots=True)
class Not:
    """The negation; null stays null."""

    part: "Condition"


@dataclass(frozen=True, slots=True)
class Only:
    """What `then` is where `condition` is true, and null elsewhere."""

    condition: "Condition"
    then: "Condition"


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a value. NaN may be incomparable, or equal to itself and largest."""

    column: str
    operator: str  # one of `OPPOSITE`
    value: Value


@dataclass(frozen=True, slots=True)
class Among:
    """Whether a column is one of some values. A null of the column may be null, true or false."""

    column: str
    values: Sequence[Value]
    null: bool  # whether null is listed


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column is null; never null."""

    column: str
    nan: bool = False  # whether NaN counts as null


@dataclass(frozen=True, slots=True)
class IsNan:
    """Whether a column is NaN; null where the column is null."""

    column: str


@dataclass(frozen=True, slots=True)
class StartsWith:
    """Whether a text begins so, byte by byte."""

    column: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean column alone."""

    column: str


Leaf = Compare | Among | IsNull | IsNan | StartsWith | Flag
Condition = NotUnderstood | And | Or | Not | Only | Leaf

OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
