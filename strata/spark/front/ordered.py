"""Write a filter so that Spark evaluates its conditions one after the other, as written.

Spark does not preserve the order of conditions: it evaluates IS NOT NULL late, factors out common
terms, puts derived conditions in front, computes repeated sub-expressions first, and combines the
filters of several `where`. Then an error could appear that the planner has proven hidden, or be
missing although the planner expects it. So the executed filter leaves Spark no choice:

    If(a, If(b, c, false), false)    for a AND b AND c
    If(a, true, b)                   for a OR b

An expression in a branch is evaluated only if the branch is taken. `KnownNullable` around the whole
keeps Spark from splitting it into conjuncts, and a sample of all rows above it keeps Spark from
combining it with filters that a user adds.

Spark evaluates Python functions and subqueries that read the row outside a filter, for every row of
its input. So they are in a second filter above, which rejected rows never reach. See
docs/explanation/decisions/0011-what-runs.md.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strata.spark.front.java import boolean, expression, spark_sql
from strata.spark.front.tree import CLASS_PREFIX

_SUBQUERIES: Final = frozenset({"Exists", "InSubquery", "ListQuery"})


@dataclass(frozen=True)
class Stages:
    """The conditions that run one after the other; None: no such stage."""

    first: JavaObject | None  # rewritten for evaluation in their written order
    written: JavaObject | None  # the same conditions as written
    late: JavaObject | None  # conditions that Spark evaluates outside the filter, as written


def stages(spark: SparkSession, condition: JavaObject) -> Stages:
    """Return the stages in which an analysed condition runs."""
    conjuncts = _conjuncts(condition)
    outside = [False] * len(conjuncts)
    if _is_outside(condition):
        outside = [_is_outside(conjunct) for conjunct in conjuncts]
    first = [c for c, out in zip(conjuncts, outside, strict=True) if not out]
    late = [c for c, out in zip(conjuncts, outside, strict=True) if out]
    if not first:
        return Stages(None, None, condition)
    ordered = _Ordering(spark).all_of(first)
    written, later = _joined(spark, first), _joined(spark, late)
    return Stages(expression(spark, "KnownNullable")(ordered), written, later)


def run_in_order(spark: SparkSession, plan: JavaObject, condition: JavaObject) -> DataFrame:
    """Return the rows of the child of `plan`, a filter, that satisfy `condition`, in order."""
    found = stages(spark, condition)
    frame = None
    below = plan.child()
    for stage in (found.first, found.late):
        if stage is not None:
            frame = frame_of(spark, plan.copy(stage, below)).sample(False, 1.0, 0)
            below = frame._jdf.queryExecution().analyzed()
    assert frame is not None  # there is a condition, so there is a stage
    return frame


def run_at_once(spark: SparkSession, plan: JavaObject, condition: JavaObject) -> DataFrame | None:
    """Return what `run_in_order` returns, of rows that the driver has; no job begins.

    None: it fails on a row, or Spark evaluates none of it, or not all, before it is optimised.
    """
    found = stages(spark, condition)
    if found.first is None or found.late is not None:
        return None
    with suppress(PySparkException, Py4JJavaError):
        rule = spark_sql(spark, "catalyst.optimizer.ConvertToLocalRelation.apply")
        rows = rule(plan.copy(found.first, plan.child()))
        if rows.nodeName() == "LocalRelation":
            return frame_of(spark, rows)
    return None


def frame_of(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """Return the DataFrame of a logical plan."""
    jdf = spark_sql(spark, "classic.Dataset.ofRows")(spark._jsparkSession, plan)
    return DataFrame(jdf, spark)


class _Ordering:
    """Writes AND, OR and NOT as branches; a result that is not true may be null or false."""

    def __init__(self, spark: SparkSession) -> None:
        self._if, self._not = expression(spark, "If"), expression(spark, "Not")
        self._true, self._false = boolean(spark, True), boolean(spark, False)

    def all_of(self, conjuncts: list[JavaObject]) -> JavaObject:
        """Return a condition that is true where all conjuncts are."""
        result = self.holds(conjuncts[-1])
        for conjunct in reversed(conjuncts[:-1]):
            result = self._if(self.holds(conjunct), result, self._false)
        return result

    def holds(self, node: JavaObject) -> JavaObject:
        """Return a condition that is true where `node` is true."""
        match _name(node):
            case "And":
                return self._both(self.holds(node.left()), self.holds(node.right()))
            case "Or":
                return self._either(self.holds(node.left()), self.holds(node.right()))
            case "Not":
                return self.fails(node.child())
            case _:
                return node

    def fails(self, node: JavaObject) -> JavaObject:
        """Return a condition that is true where `node` is false."""
        match _name(node):
            case "And":
                return self._either(self.fails(node.left()), self.fails(node.right()))
            case "Or":
                return self._both(self.fails(node.left()), self.fails(node.right()))
            case "Not":
                return self.holds(node.child())
            case _:
                return self._not(node)

    def _both(self, one: JavaObject, other: JavaObject) -> JavaObject:
        return self._if(one, other, self._false)

    def _either(self, one: JavaObject, other: JavaObject) -> JavaObject:
        return self._if(one, self._true, other)


def _name(node: JavaObject) -> str:
    return str(node.getClass().getSimpleName())


def _conjuncts(node: JavaObject) -> list[JavaObject]:
    if _name(node) != "And":
        return [node]
    return [*_conjuncts(node.left()), *_conjuncts(node.right())]


def _is_outside(node: JavaObject) -> bool:
    """Return whether Spark evaluates part of a condition below the filter, or as a join."""
    for below in json.loads(node.toJSON()):
        name = str(below["class"]).removeprefix(CLASS_PREFIX)
        if "Python" in name or name in _SUBQUERIES:
            return True
        if "Subquery" in name and below["num-children"]:  # its children are columns of the row
            return True
    return False


def _joined(spark: SparkSession, conjuncts: list[JavaObject]) -> JavaObject | None:
    result = None
    for conjunct in conjuncts:
        result = conjunct if result is None else expression(spark, "And")(result, conjunct)
    return result
