"""The front end: a filter in Spark SQL, or a `Column`, becomes Strata's typed expression.

Spark itself resolves names, types, casts and zones against an empty DataFrame of the shard's
schema; the resolved tree is translated by the table below into the registry's names
(`strata.expr.registry`). What the table does not have becomes `Opaque`: it may yield anything,
null or an error, so nothing is ever skipped because of it. A constant sub-expression is
evaluated by Spark, and arrives as an exact literal.

Errs: towards `Opaque`. A filter that Spark refuses is the only error.
"""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession

from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal, Opaque
from strata.model.schema import Relation
from strata.spark.constants import (
    DATETIME,
    DAY_TIME,
    SPECIAL,
    SPECIAL_IN_SQL,
    YEAR_MONTH,
    fold,
    json_type,
    literal,
    plain_type,
)
from strata.spark.derived import with_derived
from strata.spark.lambdas import LAMBDAS
from strata.spark.optimised import also_failing, fails_only, flat, with_propagated
from strata.spark.rewrites import REWRITES, opaque, options
from strata.spark.tree import (
    Condition,
    Node,
    analysed_filter,
    column_id,
    empty_frame,
    filtered,
    normalised,
    referenced_names,
)
from strata.spark.vocabulary import BOOLEAN, FUNCTIONS, SHELLS, UNARY

Now = int | tuple[int, int] | None


def analyse(
    spark: SparkSession, relation: Relation, where: str | SparkColumn, *, now: Now = None
) -> Filter:
    """Return the filter that `where` means for rows of `relation`.

    Units: `now` in microseconds since 1970, or the range that it lies in; None takes the clock.
    Raises: InvalidRequest when Spark does not accept `where` as a condition on these columns.
    Cost: about 20 ms, 0.3 s the first time in a JVM; no Spark job.
    """
    if now is None:
        now = time.time_ns() // 1000
    low, high = now if isinstance(now, tuple) else (now, now)
    frame = filtered(empty_frame(spark, relation), where)
    try:
        condition = normalised(spark, frame)
        if condition is None:
            expr: Expr = Opaque("a plan of unexpected shape", "boolean")
        else:
            expr = translate(condition, relation, where if isinstance(where, str) else "")
            expr = with_derived(spark, expr)
        sql = where if isinstance(where, str) else _column_sql(frame)
    except Exception as error:
        # Whatever surprises must cost speed, never correctness or the read itself.
        expr = Opaque(f"not understood: {type(error).__name__}: {str(error)[:80]}", "boolean")
        sql = str(where)
    return Filter(expr, sql, low, high)


def referenced(
    spark: SparkSession, relation: Relation, where: str | SparkColumn
) -> tuple[int, ...]:
    """Return the ids of the columns that `where` reads, in declared order; all if unclear."""
    everything = tuple(c.id for c in relation.columns)
    names = referenced_names(filtered(empty_frame(spark, relation), where))
    if names is None:
        return everything
    ids = {column_id(relation, name) for name in names}
    return everything if None in ids else tuple(i for i in everything if i in ids)


def translate(condition: Condition, relation: Relation, sql: str = "") -> Expr:
    """Return the typed expression of an analysed condition."""
    if _reads_spark_clock(condition, sql):
        return Opaque("a date or time literal such as timestamp'now'; use now()", "boolean")
    translator = _Translator(relation, condition)
    expr = with_propagated(translator.expr(condition.node))
    # Spark evaluates a common expression before the filter, for every row: its errors come first.
    shared = [e for e in translator.shared if not isinstance(e, Column | Literal)]
    if not shared:
        return expr
    moved = sorted(_conjuncts(condition.node), key=condition.uses_alias)
    parts = (part for node in moved for part in flat("and", translator.expr(node)))
    expr = also_failing(expr, with_propagated(Call("and", tuple(parts), "boolean")))
    return Call("and", (*map(fails_only, shared), *flat("and", expr)), "boolean")


def _conjuncts(node: Node) -> list[Node]:
    if node.name != "And":
        return [node]
    return [part for child in node.children for part in _conjuncts(child)]


def _reads_spark_clock(condition: Condition, sql: str) -> bool:
    """Tell whether the text has a typed literal like timestamp'now', resolved while parsing."""
    written = len(SPECIAL_IN_SQL.findall(sql))
    if not written:
        return False
    trees = (condition.node, *condition.aliases.values())
    strings = (
        n.fields["value"]
        for tree in trees
        for n in tree.walk()
        if n.name == "Literal" and n.fields["dataType"] == "string" and n.fields["value"]
    )
    # Strings among them are plain texts; any more of them were typed literals.
    return sum(1 for s in strings if SPECIAL.match(s)) < written


class _Translator:
    """Translate one condition; remembers which common expressions it used."""

    def __init__(self, relation: Relation, condition: Condition) -> None:
        self.relation = relation
        self.spark = condition.spark
        self.aliases = condition.aliases
        self.shared: list[Expr] = []
        self.bound: dict[object, Expr] = {}

    def expr(self, node: Node) -> Expr:
        """Return the expression of a node."""
        rule = _RULES.get(node.name)
        if rule is not None:
            return rule(self, node)
        constant = fold(node)
        if constant is not None:
            return constant
        if node.name in _REWRITES:
            return _REWRITES[node.name](self, node)
        if node.name in BOOLEAN:
            return self.call(node, BOOLEAN[node.name], "boolean")
        if node.name in FUNCTIONS:
            return self.call(node, FUNCTIONS[node.name], plain_type(node.type))
        return opaque(node)

    def shell(self, node: Node) -> Expr:
        """Return what stands inside a node that changes no value."""
        return self.expr(node.children[0])

    def literal(self, node: Node) -> Expr:
        """Return a constant."""
        return literal(node) or opaque(node)

    def args(self, node: Node) -> tuple[Expr, ...]:
        """Return the expressions of a node's children."""
        return tuple(self.expr(child) for child in node.children)

    def call(self, node: Node, function: str, result: str) -> Expr:
        """Return a call, or Opaque where the node means more than the registry's function."""
        if node.name in UNARY and len(node.children) != 1:
            return opaque(node)
        if node.fields.get("legacyInterval") or result == "interval":
            return opaque(node)
        args = self.args(node)
        if any("collate" in a.type or a.type == "interval" for a in args) or "collate" in result:
            return opaque(node)
        return Call(function, args, result, options(node))

    def attribute(self, node: Node) -> Expr:
        """Return a column, or the common expression that an invented name stands for."""
        name = node.fields["name"]
        if name in self.aliases:
            expr = self.expr(self.aliases[name])
            if expr not in self.shared:
                self.shared.append(expr)
            return expr
        number = column_id(self.relation, name)
        if number is None:
            return opaque(node)
        column = self.relation.by_id[number]
        return Column(number, column.name, plain_type(json_type(node)), column.nullable)

    def logic(self, node: Node) -> Expr:
        """Return and/or with nested ones of the same kind laid flat, in order of evaluation."""
        function = node.name.lower()
        args = tuple(a for child in node.children for a in flat(function, self.expr(child)))
        return Call(function, args, "boolean")

    def cast(self, node: Node) -> Expr:
        """Return a cast; a constant one folded, one that changes nothing left out."""
        constant = fold(node)
        if constant is not None:
            return constant
        target = json_type(node)
        arg = self.expr(node.children[0])
        if arg.type == target:
            return arg
        if "collate" in arg.type or "collate" in target:
            return opaque(node)
        if target in DATETIME and arg.type == "string" and isinstance(arg, Literal):
            return opaque(node)  # a constant that Spark could not evaluate: 'now', or an error
        if target.startswith("interval") and (
            target not in (DAY_TIME, YEAR_MONTH) or plain_type(arg.type) != target
        ):
            return opaque(node)
        return Call("cast", (arg,), plain_type(target), options(node))

    def struct_field(self, node: Node) -> Expr:
        """Return the access to a field of a struct, by its ordinal."""
        ordinal = Literal(int(node.fields["ordinal"]), "integer")
        return Call("get_struct_field", (*self.args(node), ordinal), plain_type(node.type))


_Rule = Callable[[_Translator, Node], Expr]
_REWRITES: Final = {**REWRITES, **LAMBDAS}
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        **dict.fromkeys(SHELLS, _Translator.shell),
        "AttributeReference": _Translator.attribute,
        "Literal": _Translator.literal,
        "And": _Translator.logic,
        "Or": _Translator.logic,
        "Cast": _Translator.cast,
        "GetStructField": _Translator.struct_field,
    }
)


def _column_sql(frame: DataFrame) -> str:
    plan = analysed_filter(frame)
    return str(plan.condition().sql()) if plan is not None else ""
