"""Lists and maps in the domain: what their elements, keys and values may be, and how many.

This module is separate from `spec`, as `records` is. To functions that do not look inside, a list
or map is an untracked value. Its content is a Spec over the elements of all rows of a part
together: it has no value and no null where there is no element, and never fails.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from strata.expr.records import union
from strata.expr.spec import Anything, Bounds, Flags, Spec, Values, both, gate, negated

MOST: Final = 2**31 - 1  # elements that a list or map can have
_NONE: Final = np.array([0])
_MANY: Final = np.array([MOST])


def _unknown() -> Spec | None:
    return None


def no_element() -> Bounds:
    """Return the least length: a default that dataclasses accept."""
    return _NONE


def many() -> Bounds:
    """Return the greatest length."""
    return _MANY


@dataclass(frozen=True, slots=True)
class Elements(Anything):
    """Lists.

    `element`: what an element may be, null where it may be null; None where nothing is known.
    `shortest`, `longest`: bounds of the lengths of lists that are not null.
    `members`: each element by itself, for a list that is written out.
    `front`: some of the first elements by themselves, of a list that has them.
    """

    element: Callable[[], Spec | None] = _unknown
    shortest: Bounds = field(default_factory=no_element)
    longest: Bounds = field(default_factory=many)
    members: tuple[Spec, ...] = ()
    front: tuple[Spec, ...] = ()

    @property
    def some(self) -> Flags:
        """Return where a list may have an element."""
        flags: Flags = self.longest > 0
        return flags

    @property
    def bare(self) -> Flags:
        """Return where a list may have no element."""
        flags: Flags = self.shortest <= 0
        return flags

    def joined(self, other: Anything) -> Anything:
        """Return lists that enclose both."""
        empty = both(self.empty, other.empty)
        if not isinstance(other, Elements):
            return Anything(empty)
        shortest = _chosen(np.minimum, (self, self.shortest), (other, other.shortest))
        longest = _chosen(np.maximum, (self, self.longest), (other, other.longest))
        return Elements(empty, lambda: _either(self, other), shortest, longest)


def _chosen(pick: np.ufunc, one: tuple[Elements, Bounds], other: tuple[Elements, Bounds]) -> Bounds:
    """Return the lesser or greater of two lengths; where one side has no list, the other's."""
    (a, mine), (b, theirs) = one, other
    picked: Bounds = np.where(a.empty, theirs, np.where(b.empty, mine, pick(mine, theirs)))
    return picked


def _either(a: Elements, b: Elements) -> Spec | None:
    """Return what an element of either side may be, ignoring a side without a list."""
    one, other = a.element(), b.element()
    if one is None or other is None:
        return None
    return union(only_where(one, negated(a.empty)), only_where(other, negated(b.empty)))


@dataclass(frozen=True, slots=True)
class Entries(Anything):
    """Maps: their keys and their values as lists of equal length; keys are never null."""

    keys: Elements = field(default_factory=Elements)
    values: Elements = field(default_factory=Elements)

    def joined(self, other: Anything) -> Anything:
        """Return maps that enclose both."""
        empty = both(self.empty, other.empty)
        if not isinstance(other, Entries):
            return Anything(empty)
        keys = replace(self.keys, empty=self.empty).joined(replace(other.keys, empty=other.empty))
        values = replace(self.values, empty=self.empty).joined(
            replace(other.values, empty=other.empty)
        )
        assert isinstance(keys, Elements)
        assert isinstance(values, Elements)
        return Entries(empty, keys, values)


def as_list(values: Values) -> Elements:
    """Return what is known of lists; untracked ones may be anything."""
    return values if isinstance(values, Elements) else Elements()


def as_map(values: Values) -> Entries:
    """Return what is known of maps; untracked ones may be anything."""
    return values if isinstance(values, Entries) else Entries()


def element_type(list_type: str) -> str:
    """Return the type of the elements of a list, as Spark names types.

    >>> element_type("array<struct<a:int>>"), element_type("array<bigint>"), element_type("x")
    ('struct<a:int>', 'bigint', 'unknown')
    """
    if list_type.startswith("array<") and list_type.endswith(">"):
        return list_type[len("array<") : -1]
    return "unknown"


def key_type(map_type: str) -> str:
    """Return the type of the keys of a map.

    >>> key_type("map<decimal(10,2),map<int,int>>"), key_type("x")
    ('decimal(10,2)', 'unknown')
    """
    if not (map_type.startswith("map<") and map_type.endswith(">")):
        return "unknown"
    depth = 0
    for position, char in enumerate(map_type):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 1:
            return map_type[len("map<") : position]
    return "unknown"


def only_where(spec: Spec, where: Flags) -> Spec:
    """Return a Spec without its values and nulls where a flag is not set."""
    return Spec(gate(spec.values, where), both(spec.null, where), spec.fail)
