"""Comparisons of structs that are written out, as in `(a, b) IN ((1, 2), (3, 4))`, field by field.

Spark compares structs as it orders them: null equals null, and a struct of nulls is not null. So
equality is `<=>` of all fields. Spark makes both structs before it compares them, so an error of a
later field is not hidden; a struct with a field that may fail stays opaque.
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


def _equality(translator: Translator, node: Node) -> Expr:
    """Return the equality of two sides."""
    sides = [_fields(translator, child) for child in node.children]
    found = _same(*sides) if len(sides) == 2 else None
    return found or translator.call(node, BOOLEAN[node.name], "boolean")


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
    if one is None or other is None or [e.type for e in one] != [e.type for e in other]:
        return None
    pairs = zip(one, other, strict=True)
    return join_conditions("and", tuple(Call("equal_null_safe", pair, "boolean") for pair in pairs))


def _fields(translator: Translator, node: Node) -> tuple[Expr, ...] | None:
    """Return the fields of a struct that is written out; None for anything else."""
    if node.name != _STRUCT or len(node.children) < 2:
        return None
    found = tuple(translator.expr(child) for child in node.children[1::2])
    return found if all(map(_is_plain, found)) else None


def _is_plain(expr: Expr) -> bool:
    """Return whether a field is tracked as it is compared, and cannot fail."""
    odd = "collate" in expr.type or expr.type == "interval"
    return not odd and is_closed(expr) and not may_fail(expr)


STRUCTS: Final[Mapping[str, Rule]] = MappingProxyType(
    {"EqualTo": _equality, "EqualNullSafe": _equality, "In": _in, _STRUCT: _struct}
)
