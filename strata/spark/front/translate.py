"""Translate Catalyst's tree into calls of the registry, one call for each node.

A node that is not in the tables becomes `Opaque`: it may yield anything, null or an error.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from strata.expr.conditions import flat
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.model.schema import Relation
from strata.spark.front.arrays import ARRAYS
from strata.spark.front.collations import COLLATIONS, by_collation, collated
from strata.spark.front.constants import (
    DATETIME,
    DAY_TIME,
    YEAR_MONTH,
    fold_constant,
    literal_value,
    node_type,
    plain_type_name,
)
from strata.spark.front.forms import also_failing, fails_only, is_closed
from strata.spark.front.lambdas import LAMBDAS
from strata.spark.front.rewrites import REWRITES, opaque, options
from strata.spark.front.structs import STRUCTS
from strata.spark.front.tree import Condition, Node, attribute_id, column_id
from strata.spark.front.vocabulary import BOOLEAN, FUNCTIONS, SHELLS, UNARY

CLOCK_BASE: Final = 1_000_000  # of the ordinals that stand for readings of the clock


def translate(condition: Condition, relation: Relation) -> Expr:
    """Return the typed expression of a condition, after everything that Spark evaluates first."""
    return Translator(relation, condition).condition()


class Translator:
    """Translates one condition, and remembers the common expressions that it uses."""

    def __init__(
        self, relation: Relation, condition: Condition, clocks: Sequence[Node] = ()
    ) -> None:
        """Begin. `clocks`: readings replaced for the optimiser, by number above `CLOCK_BASE`."""
        self._top = condition
        self.relation = relation
        self.spark = condition.spark
        self.aliases = condition.aliases
        self.clocks = clocks
        self.shared: list[Expr] = []
        self.lists: dict[Expr, Call] = {}  # the IN of an expression
        self.bound: dict[object, Expr] = {}
        self.depth = 0

    def condition(self) -> Expr:
        """Return the expression of the whole, preceded by everything that Spark evaluates first."""
        expr = self.expr(self._top.node)
        # Spark evaluates a common expression before the filter, for every row, unless it reads the
        # variable of a lambda.
        shared = [e for e in self.shared if not isinstance(e, Column | Literal) and is_closed(e)]
        if not shared:
            return expr
        # Spark moves conjuncts that do not use it below that.
        moved = sorted(_conjuncts(self._top.node), key=self._top.uses_alias)
        parts = (part for node in moved for part in flat("and", self.expr(node)))
        expr = also_failing(expr, Call("and", tuple(parts), "boolean"))
        return Call("and", (*map(fails_only, shared), *flat("and", expr)), "boolean")

    def expr(self, node: Node) -> Expr:
        """Return the expression of a node."""
        rule = _RULES.get(node.name)
        if rule is not None:
            return rule(self, node)
        constant = fold_constant(node)
        if constant is not None:
            return constant
        if node.name in _REWRITES:
            return _REWRITES[node.name](self, node)
        if node.name in BOOLEAN:
            return self.call(node, BOOLEAN[node.name], "boolean")
        if node.name in FUNCTIONS:
            return self.call(node, FUNCTIONS[node.name], plain_type_name(node.type))
        return opaque(node)

    def shell(self, node: Node) -> Expr:
        """Return the expression inside a node that changes no value."""
        return self.expr(node.children[0])

    def literal(self, node: Node) -> Expr:
        """Return a constant."""
        return literal_value(node) or opaque(node)

    def args(self, node: Node) -> tuple[Expr, ...]:
        """Return the expressions of a node's children."""
        return tuple(self.expr(child) for child in node.children)

    def call(self, node: Node, function: str, result: str) -> Expr:
        """Return a call, or Opaque if the node means more than the registry's function."""
        if node.name in UNARY and len(node.children) != 1:
            return opaque(node)
        if node.fields.get("legacyInterval") or result == "interval":
            return opaque(node)
        args = self.args(node)
        if any("collate" in a.type for a in args):
            return by_collation(self, node, function)
        if any(a.type == "interval" for a in args) or "collate" in result:
            return opaque(node)
        call = Call(function, args, result, options(node))
        if function == "in":
            self.lists[args[0]] = call
        return call

    def in_set(self, node: Node) -> Expr:
        """Return an IN of many constants, which Spark's optimiser hides in an InSet."""
        arg = self.expr(node.children[0])
        if arg in self.lists:
            return self.lists[arg]
        unknown = Call("try_eval", (opaque(node),), "boolean")
        return Call("or", (Call("is_null", (arg,), "boolean"), unknown), "boolean")

    def clock(self, node: Node) -> Expr:
        """Return the reading of the clock that a reference stands for."""
        number = int(node.fields["ordinal"]) - CLOCK_BASE
        return self.expr(self.clocks[number]) if number in range(len(self.clocks)) else opaque(node)

    def attribute(self, node: Node) -> Expr:
        """Return a column, or the common expression behind a generated name."""
        name = node.fields["name"]
        shared = self.aliases.get(attribute_id(node))
        if shared is not None:
            expr = self.expr(shared)
            if expr not in self.shared:
                self.shared.append(expr)
            return expr
        number = column_id(self.relation, name)
        if number is None:
            return opaque(node)
        column = self.relation.by_id[number]
        return Column(number, column.name, plain_type_name(node_type(node)), column.nullable)

    def logic(self, node: Node) -> Expr:
        """Return and/or with nested ones of the same kind flattened, in order of evaluation."""
        function = node.name.lower()
        args = tuple(a for child in node.children for a in flat(function, self.expr(child)))
        return Call(function, args, "boolean")

    def cast(self, node: Node) -> Expr:
        """Return a cast; a constant one is folded, one without effect is left out."""
        constant = fold_constant(node)
        if constant is not None:
            return constant
        target = node_type(node)
        arg = self.expr(node.children[0])
        if arg.type == target:
            return arg
        if "collate" in target and arg.type == "string":
            return collated(node, arg)
        if "collate" in arg.type or "collate" in target:
            return opaque(node)
        if target in DATETIME and arg.type == "string" and isinstance(arg, Literal):
            return opaque(node)  # a constant that Spark could not evaluate: 'now', or an error
        if target.startswith("interval") and (
            target not in (DAY_TIME, YEAR_MONTH) or plain_type_name(arg.type) != target
        ):
            return opaque(node)
        return Call("cast", (arg,), plain_type_name(target), options(node))

    def struct_field(self, node: Node) -> Expr:
        """Return the access to a field of a struct, by its ordinal."""
        ordinal = Literal(int(node.fields["ordinal"]), "integer")
        return Call("get_struct_field", (*self.args(node), ordinal), plain_type_name(node.type))


def _conjuncts(node: Node) -> list[Node]:
    if node.name != "And":
        return [node]
    return [part for child in node.children for part in _conjuncts(child)]


_Rule = Callable[[Translator, Node], Expr]
_REWRITES: Final = {**REWRITES, **LAMBDAS, **ARRAYS, **STRUCTS, **COLLATIONS}
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        **dict.fromkeys(SHELLS, Translator.shell),
        "AttributeReference": Translator.attribute,
        "Literal": Translator.literal,
        "And": Translator.logic,
        "Or": Translator.logic,
        "Cast": Translator.cast,
        "GetStructField": Translator.struct_field,
        "InSet": Translator.in_set,
        "BoundReference": Translator.clock,
    }
)
