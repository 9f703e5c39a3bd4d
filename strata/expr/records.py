"""Structs in the domain: their fields, each a range of its own.

This module is separate from `spec`, so that certificates of functions that never meet a struct do
not depend on it. To every function but the access to a field, a struct is an untracked value. Lists
and maps are in `strata.expr.elements`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from strata.expr.nodes import Call, Expr, Literal
from strata.expr.spec import Anything, Spec, both, either, hull


def _no_field(ordinal: int) -> Spec | None:
    return None


@dataclass(frozen=True, slots=True)
class Record(Anything):
    """Structs whose fields are known one by one.

    `child`: what the field at an ordinal yields on the rows, null where the struct is null; None
    where nothing is known of it.
    """

    child: Callable[[int], Spec | None] = _no_field

    def joined(self, other: Anything) -> Anything:
        """Return structs that enclose both; a field that one side does not know is unknown."""
        empty = both(self.empty, other.empty)
        if not isinstance(other, Record):
            return Anything(empty)
        return Record(empty, lambda ordinal: union(self.child(ordinal), other.child(ordinal)))


def union(a: Spec | None, b: Spec | None) -> Spec | None:
    """Return the Spec that encloses both; None (nothing known) unless both are known."""
    if a is None or b is None:
        return None
    return Spec(hull(a.values, b.values), either(a.null, b.null), either(a.fail, b.fail))


def field_name(expr: Expr) -> str | None:
    """Return the name of the field that an expression reads from a struct, or from a list of them.

    Errs: None for other expressions, and for names that hide in their type's text.
    """
    if not isinstance(expr, Call) or expr.function not in _READS or len(expr.args) != 2:
        return None
    struct, ordinal = expr.args[0].type, expr.args[1]
    if expr.function == "get_array_struct_fields":
        struct = struct.removeprefix("array<").removesuffix(">")
    names = _names(struct)
    place = ordinal.value if isinstance(ordinal, Literal) else None
    return names[place] if isinstance(place, int) and 0 <= place < len(names) else None


_READS = frozenset({"get_struct_field", "get_array_struct_fields"})


@lru_cache(maxsize=1024)
def _names(struct: str) -> tuple[str, ...]:
    """Return the names of the fields in Spark's text for a struct.

    >>> _names("struct<lat:double,size:struct<x:int,y:int>,price:decimal(10,2)>")
    ('lat', 'size', 'price')
    """
    if not (struct.startswith("struct<") and struct.endswith(">")):
        return ()
    depth, items = 0, [""]
    for char in struct[len("struct<") : -1]:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            items.append("")
        else:
            items[-1] += char
    return tuple(item.partition(":")[0] for item in items)
