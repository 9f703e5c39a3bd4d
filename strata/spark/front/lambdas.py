"""Functions with a lambda over the elements of a list, and other accesses to lists and maps.

The variable of a lambda becomes `element(list)`, which stands for any element, so the body is an
argument like others. Any other shape is opaque.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from strata.expr.nodes import Call, Expr, Literal
from strata.expr.sparktype import spark_type
from strata.spark.front.constants import node_type, plain_type_name
from strata.spark.front.rewrites import Rule, Translator, opaque, options
from strata.spark.front.tree import Node, attribute_id

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ArrayExists": "exists",
        "ArrayForAll": "forall",
        "ArrayFilter": "filter",
        "ArrayTransform": "transform",
    }
)

_FIXED: Final = frozenset({"bool", "int", "float", "decimal"})  # families whose values do not grow


def _over_elements(translator: Translator, node: Node) -> Expr:
    lists, function = translator.expr(node.children[0]), node.children[1]
    if function.name != "LambdaFunction" or not lists.type.startswith("array<"):
        return opaque(node)
    body, *variables = function.children
    kinds = [plain_type_name(node_type(variable)) for variable in variables]
    if len(variables) > 2 or any("collate" in kind or kind == "interval" for kind in kinds):
        return opaque(node)
    for variable, kind, name in zip(variables, kinds, ("element", "element_index"), strict=False):
        translator.bound[attribute_id(variable)] = Call(name, (lists,), kind)
    kept = () if node.fields.get("followThreeValuedLogic", True) else (("logic", "two"),)
    result = (
        "boolean" if node.name in ("ArrayExists", "ArrayForAll") else plain_type_name(node.type)
    )
    return Call(_NAMES[node.name], (lists, translator.expr(body)), result, kept)


def _aggregate(translator: Translator, node: Node) -> Expr:
    """Return a lambda that goes from element to element; opaque for values that grow."""
    lists, start, merge, finish = node.children
    source, first = translator.expr(lists), translator.expr(start)
    known = source.type.startswith("array<") and spark_type(first.type).family in _FIXED
    if not known or [f.name for f in (merge, finish)] != ["LambdaFunction"] * 2:
        return opaque(node)
    (body, so_far, item), (last, whole) = merge.children, finish.children
    kind = plain_type_name(node_type(item))
    if "collate" in kind or kind == "interval":
        return opaque(node)
    variable = (("variable", str(translator.depth)),)
    accumulated = Call("accumulated", (source,), first.type, variable)
    for one in (so_far, whole):
        translator.bound[attribute_id(one)] = accumulated
    translator.bound[attribute_id(item)] = Call("element", (source,), kind)
    translator.depth += 1
    made, result = translator.expr(body), translator.expr(last)
    translator.depth -= 1
    if made.type != first.type:
        return opaque(node)
    return Call("aggregate", (source, first, made, result), result.type, variable)


def _variable(translator: Translator, node: Node) -> Expr:
    return translator.bound.get(attribute_id(node)) or opaque(node)


def _fields(translator: Translator, node: Node) -> Expr:
    """Return the access to a field of all structs of a list, by its ordinal."""
    ordinal = Literal(int(node.fields["ordinal"]), "integer")
    lists = translator.expr(node.children[0])
    return Call("get_array_struct_fields", (lists, ordinal), plain_type_name(node.type))


def _element_at(translator: Translator, node: Node) -> Expr:
    source = node.children[0]
    if node.fields.get("defaultValueOutOfBound"):
        if source.name != "StringSplitSQL":
            return opaque(node)
        args = (
            *(translator.expr(child) for child in source.children),
            translator.expr(node.children[1]),
        )
        collated = any("collate" in arg.type for arg in args)
        return opaque(node) if collated else Call("split_part", args, "string")
    return translator.call(node, "element_at", plain_type_name(node.type))


def _size(translator: Translator, node: Node) -> Expr:
    call = translator.call(node, "size", "integer")
    if not isinstance(call, Call) or not node.fields.get("legacySizeOfNull"):
        return call
    return Call("size", call.args, call.type, (*options(node), ("of_null", "-1")))


LAMBDAS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(_NAMES, _over_elements),
        "ArrayAggregate": _aggregate,
        "NamedLambdaVariable": _variable,
        "GetArrayStructFields": _fields,
        "ElementAt": _element_at,
        "Size": _size,
    }
)
