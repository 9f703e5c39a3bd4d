"""Lists that are made of lists, and the first piece of a text that is split."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from strata.expr.nodes import Call, Expr, Literal
from strata.spark.front.constants import plain_type_name
from strata.spark.front.rewrites import Rule, Translator, opaque
from strata.spark.front.tree import Node, attribute_id

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Flatten": "flatten",
        "Slice": "slice",
        "ArrayRemove": "array_remove",
        "ArrayExcept": "array_except",
        "ArrayIntersect": "array_intersect",
        "ArrayUnion": "array_union",
    }
)
_OF_LISTS: Final[Mapping[str, str]] = MappingProxyType(
    {"Reverse": "reverse_list", "Concat": "concat_lists"}
)
_OF_TEXTS: Final[Mapping[str, str]] = MappingProxyType({"Reverse": "reverse", "Concat": "concat"})
# A regular expression that stands for one text: letters that mean themselves, or one after a \
_TEXT: Final = re.compile(r"[A-Za-z0-9 _/:@#%&=~,;<>!\"'-]+|\\([.|$^*+?(){}\[\]\\/-])")


# Source: ArraySort.comparator of Spark 4.3
_NEITHER: Final = ("If", ("LessThan", "l", "r"), "-1", ("If", ("GreaterThan", "l", "r"), "1", "0"))
_COMPARATOR: Final = (
    "If",
    ("And", ("IsNull", "l"), ("IsNull", "r")),
    "0",
    ("If", ("IsNull", "l"), "1", ("If", ("IsNull", "r"), "-1", _NEITHER)),
)


def _made(translator: Translator, node: Node) -> Expr:
    return translator.call(node, _NAMES[node.name], plain_type_name(node.type))


def _of_texts_or_lists(translator: Translator, node: Node) -> Expr:
    kind = plain_type_name(node.type)
    names = _OF_LISTS if kind.startswith("array<") else _OF_TEXTS
    return translator.call(node, names[node.name], kind)


def _sorted(translator: Translator, node: Node) -> Expr:
    """Return `array_sort` without a comparator; a comparator may fail in ways of its own."""
    lists = translator.expr(node.children[0])
    if not _is_default(node) or "collate" in lists.type:
        return opaque(node)
    return Call("array_sort", (lists,), lists.type)


def _is_default(node: Node) -> bool:
    """Return whether the comparator is the one that Spark adds where none is given."""
    function = node.children[1]
    if function.name != "LambdaFunction" or len(function.children) != len(("body", "l", "r")):
        return False
    body, *variables = function.children
    return _shape(body, [attribute_id(variable) for variable in variables]) == _COMPARATOR


def _shape(node: Node, variables: list[object]) -> object:
    """Return a tree as nested tuples, with `l` and `r` for two variables."""
    if node.name == "NamedLambdaVariable":
        known = attribute_id(node) in variables
        return "lr"[variables.index(attribute_id(node))] if known else None
    if node.name == "Literal":
        return node.fields["value"]
    return (node.name, *(_shape(child, variables) for child in node.children))


def _item(translator: Translator, node: Node) -> Expr:
    """Return an element of a list; `split(x, d)[0]` is what stands in front of the first `d`."""
    split, index = node.children
    if split.name == "StringSplit":
        args = [translator.expr(child) for child in (*split.children, index)]
        found = _first_piece(args)
        if found is not None:
            return found
    return translator.call(node, "get_array_item", plain_type_name(node.type))


def _first_piece(args: list[Expr]) -> Expr | None:
    text, *constants = args
    if text.type != "string" or not all(isinstance(arg, Literal) for arg in constants):
        return None
    pattern, limit, index = (arg.value for arg in constants if isinstance(arg, Literal))
    match = _TEXT.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None or index != 0 or not isinstance(limit, int) or limit in (0, 1):
        return None
    delimiter = Literal(match[1] or match[0], "string")
    return Call("substring_index", (text, delimiter, Literal(1, "integer")), "string")


ARRAYS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(_NAMES, _made),
        **dict.fromkeys(_OF_LISTS, _of_texts_or_lists),
        "ArraySort": _sorted,
        "GetArrayItem": _item,
    }
)
