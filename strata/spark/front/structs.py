"""Comparisons of structs that are written out, as in `(a, b) IN ((1, 2), (3, 4))`, field by field.

Spark compares structs as it orders them: null equals null and comes first, and a struct of nulls is
not null. So equality is `<=>` of all fields, and the first field that differs decides which is
less. Spark makes both structs before it compares them, so an error of a later field is not hidden;
a struct with a field that may fail stays opaque.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from strata.expr.conditions import join_conditions
from strata.expr.nodes import Call, Expr
from strata.spark.front.forms import is_closed, may_fail
from strata.spark.front.rewrites import Rule, Translator, opaque
from strata.spark.front.tree import Node
from strata.spark.front.vocabulary import BOOLEAN

_STRUCT: Final = "CreateNamedStruct"
_ORDERS: Final[Mapping[str, tuple[str, bool]]] = MappingProxyType(
    {
        "LessThan": ("less_than", False),
        "LessThanOrEqual": ("less_than", True),
        "GreaterThan": ("greater_than", False),
        "GreaterThanOrEqual": ("greater_than", True),
    }
)  # and whether equal ones pass


def _equality(translator: Translator, node: Node) -> Expr:
    """Return the equality of two sides."""
    sides = [_fields(translator, child) for child in node.children]
    found = _same(*sides) if len(sides) == 2 else None
    return found or translator.call(node, BOOLEAN[node.name], "boolean")


def _order(translator: Translator, node: Node) -> Expr:
    """Return which of two sides comes first, as a page of results asks for the one behind it."""
    one, other = (_fields(translator, child) for child in node.children)
    if not _are_alike(one, other):
        return translator.call(node, BOOLEAN[node.name], "boolean")
    function, equal = _ORDERS[node.name]
    cases: list[Expr] = []
    before: tuple[Expr, ...] = ()
    for pair in zip(one or (), other or (), strict=True):
        cases.append(join_conditions("and", (*before, _decides(function, pair))))
        before = (*before, Call("equal_null_safe", pair, "boolean"))
    return join_conditions("or", (*cases, join_conditions("and", before)) if equal else (*cases,))


def _decides(function: str, pair: tuple[Expr, Expr]) -> Expr:
    """Return whether a field decides the order; null comes before every value."""
    first, last = pair if function == "less_than" else pair[::-1]
    nulls = (Call("is_null", (first,), "boolean"), Call("is_not_null", (last,), "boolean"))
    decided = Call(function, pair, "boolean")
    return Call("coalesce", (decided, Call("and", nulls, "boolean")), "boolean")


def _in(translator: Translator, node: Node) -> Expr:
    """Return IN of a list, as equality with one of the items."""
    value = _fields(translator, node.children[0])
    if value is not None and len(node.children) > 1:
        found = [_same(value, _fields(translator, child)) for child in node.children[1:]]
        items = tuple(one for one in found if one is not None)
        if len(items) == len(found):
            return join_conditions("or", items)
    return translator.call(node, "in", "boolean")


def _struct(translator: Translator, node: Node) -> Expr:
    """Return a struct: nothing is known of it but whether it may fail."""
    found = opaque(node)
    if _fields(translator, node) is None:
        return found
    return Call("try_eval", (found,), found.type)


def _same(one: tuple[Expr, ...] | None, other: tuple[Expr, ...] | None) -> Expr | None:
    """Return the equality of the fields of two structs; None if it cannot be written so."""
    if one is None or other is None or not _are_alike(one, other):
        return None
    pairs = zip(one, other, strict=True)
    return join_conditions("and", tuple(Call("equal_null_safe", pair, "boolean") for pair in pairs))


def _are_alike(one: tuple[Expr, ...] | None, other: tuple[Expr, ...] | None) -> bool:
    """Return whether two structs are known by fields of the same types."""
    if one is None or other is None:
        return False
    return [field.type for field in one] == [field.type for field in other]


def _fields(translator: Translator, node: Node) -> tuple[Expr, ...] | None:
    """Return the fields of a struct that is written out; None for anything else.

    Between fields of the same names Spark puts a cast, which only lets them be null.
    """
    if node.name == "Cast" and node.children[0].name == _STRUCT:
        (inner,) = node.children
        node = inner if inner.type == node.type else node
    if node.name != _STRUCT or len(node.children) < 2:
        return None
    found = tuple(translator.expr(child) for child in node.children[1::2])
    return found if all(map(_is_plain, found)) else None


def _is_plain(expr: Expr) -> bool:
    """Return whether a field is tracked as it is compared, and cannot fail."""
    odd = "collate" in expr.type or expr.type == "interval"
    return not odd and is_closed(expr) and not may_fail(expr)


STRUCTS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(_ORDERS, _order),
        "EqualTo": _equality,
        "EqualNullSafe": _equality,
        "In": _in,
        _STRUCT: _struct,
    }
)
