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
    texts = [_text(translator, child) for child in node.children]
    keys = tuple(_key(text, makes) for text in texts if text is not None)
    if len(keys) < len(texts):
        return opaque(node)
    return Call(function, keys, "boolean", options(node))


def _key(text: Expr, makes: tuple[str, ...]) -> Expr:
    """Return what a collation compares of a text."""
    for function in makes:
        text = Call(function, (text,), "string")
    return text


def collated(node: Node, text: Expr) -> Expr:
    """Return a text that gets a collation: nothing is known of it but whether it may fail."""
    found = opaque(node)
    if not is_closed(text) or may_fail(text):
        return found
    return Call("try_eval", (found,), found.type)


def _collate(translator: Translator, node: Node) -> Expr:
    return collated(node, translator.expr(node.children[0]))


def _text(translator: Translator, node: Node) -> Expr | None:
    """Return the text behind its collations; None for one that is not known here."""
    if node.name == "Literal":
        return _constant(node)
    if node.name == "AttributeReference":
        shared = translator.aliases.get(attribute_id(node))  # made in front; no collation can fail
        return None if shared is None else _text(translator, shared)
    if node.name not in ("Collate", "Cast"):
        return None
    (source, *_) = node.children
    if source.type.startswith("string collate ") or source.name == "Literal":
        return _text(translator, source)
    found = translator.expr(source)
    return found if found.type == "string" else None


def _constant(node: Node) -> Literal | None:
    if node.fields["value"] is None:
        return Literal(None, "string")
    value = text_of(node.jvm.value()) if node_type(node).startswith("string") else None
    return None if value is None else Literal(value, "string")


COLLATIONS: Final[Mapping[str, Rule]] = MappingProxyType({"Collate": _collate})
