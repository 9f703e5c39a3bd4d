"""Comparisons by another collation than that of bytes, where it compares what a function makes.

`UTF8_LCASE` compares texts in lower case, and `..._RTRIM` without the spaces behind them. So such a
comparison is one of `lower(x)` or `rtrim(x)`. Collations of ICU's languages are opaque.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from strata.expr.nodes import Call, Expr, Literal
from strata.spark.front.constants import node_type, text_of
from strata.spark.front.forms import is_closed, may_fail
from strata.spark.front.rewrites import Rule, Translator, opaque, options
from strata.spark.front.tree import Node, attribute_id

COMPARED: Final = frozenset(
    {
        "equal_to",
        "equal_null_safe",
        "less_than",
        "less_than_or_equal",
        "greater_than",
        "greater_than_or_equal",
        "in",
        "is_null",
        "is_not_null",
    }
)
# Source: CollationAwareUTF8String.compareLowerCase and CollationSpecUTF8 of Spark 4.1
_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "string collate UTF8_LCASE": ("lower",),
        "string collate UTF8_BINARY_RTRIM": ("string_trim_right",),
        "string collate UTF8_LCASE_RTRIM": ("string_trim_right", "lower"),
    }
)


def by_collation(translator: Translator, node: Node, function: str) -> Expr:
    """Return a comparison of texts with a collation; opaque for any other call or collation."""
    kinds = {child.type for child in node.children}
    makes = _KEYS.get(*kinds) if len(kinds) == 1 and function in COMPARED else None
    if makes is None:
        return opaque(node)
    args = [_key(translator, child, makes) for child in node.children]
    known = tuple(arg for arg in args if arg is not None)
    if len(known) < len(args):
        return opaque(node)
    return Call(function, known, "boolean", options(node))


def collated(node: Node, text: Expr) -> Expr:
    """Return a text that gets a collation: nothing is known of it but whether it may fail."""
    found = opaque(node)
    if not is_closed(text) or may_fail(text):
        return found
    return Call("try_eval", (found,), found.type)


def _collate(translator: Translator, node: Node) -> Expr:
    return collated(node, translator.expr(node.children[0]))


def _key(translator: Translator, node: Node, makes: tuple[str, ...]) -> Expr | None:
    """Return what a collation compares of a text; None for a text that is not known here."""
    shared = translator.aliases.get(attribute_id(node)) if _is_name(node) else None
    if shared is not None:  # made before the filter, and no collation can fail
        return _key(translator, shared, makes)
    if node.name == "Literal":
        found = _constant(node)
    elif node.name in ("Collate", "Cast"):
        found = translator.expr(node.children[0])
    else:
        return None
    if found == Literal(None, "void"):
        found = Literal(None, "string")
    if found is None or found.type != "string":
        return None
    for function in makes:
        found = Call(function, (found,), "string")
    return found


def _is_name(node: Node) -> bool:
    return node.name == "AttributeReference"


def _constant(node: Node) -> Literal | None:
    assert "collate" in node_type(node)
    value = None if node.fields["value"] is None else text_of(node.jvm.value())
    known = node.fields["value"] is None or value is not None
    return Literal(value, "string") if known else None


COLLATIONS: Final[Mapping[str, Rule]] = MappingProxyType({"Collate": _collate})
