"""Compute each sub-expression of a filter with Spark on the rows of one part."""

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strata.audit.escape import SeenValues
from strata.expr.filter import Filter
from strata.expr.nodes import Call
from strata.model.schema import Relation
from strata.spark.front.rowfilter import stopped
from strata.spark.front.translate import Translator
from strata.spark.front.tree import (
    Identity,
    Node,
    analysed_filter,
    attribute_id,
    filtered,
    normalised,
    read_tree,
)

AT_ONCE: Final = 40  # sub-expressions of a query
# Types whose Arrow values compare like bounds.
_COMPARED: Final = frozenset({
    "boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date",
    "timestamp", "timestamp_ntz",
})  # fmt: skip


def witnessed(
    spark: SparkSession, rows: DataFrame, relation: Relation, filter: Filter
) -> Iterator[SeenValues]:
    """Yield the values of sub-expressions on rows, innermost first; an error stays with its row.

    The clock is the beginning of the filter's span. Sub-expressions inside a lambda, and those
    without a plain value, are left out.
    """
    plan = analysed_filter(filtered(rows, filter.sql))
    if plan is None:
        return
    fixed = plan.copy(stopped(spark, plan.condition(), filter.now_low), plan.child())
    condition = normalised(spark, fixed)
    if condition is None:
        return
    translator = Translator(relation, condition)
    found: list[tuple[Call, JavaObject]] = []
    for tree in (*condition.aliases.values(), condition.node):
        for node in _inside_out(tree):
            expr = translator.expr(node)
            plain = expr.type in _COMPARED or expr.type.startswith("decimal")
            if isinstance(expr, Call) and plain and expr not in [e for e, _ in found]:
                found.append((expr, _spelt(spark, node.jvm, condition.aliases)))
    for start in range(0, len(found), AT_ONCE):
        yield from _evaluated(spark, rows, found[start : start + AT_ONCE])


def _evaluated(
    spark: SparkSession, rows: DataFrame, found: list[tuple[Call, JavaObject]]
) -> Iterator[SeenValues]:
    guarded = [_guarded(spark, node) for _, node in found]
    failed = [g.isNull().alias(f"f{n}") for n, g in enumerate(guarded)]
    values = [g.getField("v").alias(f"v{n}") for n, g in enumerate(guarded)]
    table: pa.Table = rows.select(*failed, *values).toArrow()
    for n, (expr, _) in enumerate(found):
        value, fails = (table[f"{letter}{n}"].combine_chunks() for letter in "vf")
        yield SeenValues(expr, value, fails)


def _inside_out(node: Node) -> Iterator[Node]:
    """Yield a node after everything below it; lambdas are skipped."""
    if node.name == "LambdaFunction":
        return
    for child in node.children:
        yield from _inside_out(child)
    yield node


def _spelt(spark: SparkSession, node: JavaObject, aliases: Mapping[Identity, Node]) -> JavaObject:
    """Return an expression with common expressions in place of their generated names."""
    if not aliases:
        return node
    if node.getClass().getSimpleName() == "AttributeReference":
        shared = aliases.get(attribute_id(read_tree(node)))
        return node if shared is None else _spelt(spark, shared.jvm, aliases)
    children = node.children()
    spelt = [_spelt(spark, children.apply(i), aliases) for i in range(children.size())]
    return node.withNewChildren(spark._jvm.PythonUtils.toSeq(spelt))  # type: ignore[union-attr]


def _guarded(spark: SparkSession, node: JavaObject) -> Column:
    """Return a column that is null where the expression fails, else a struct with its value."""
    jvm = spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    boxed = F.struct(Column(jvm.classic.ExpressionUtils.column(node)).alias("v"))
    inner = jvm.classic.ExpressionUtils.expression(boxed._jc)
    return Column(jvm.classic.ExpressionUtils.column(jvm.catalyst.expressions.TryEval(inner)))
