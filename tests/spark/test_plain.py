"""Plain filters mean what Spark means: the same trees, and the same rows."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest
from strata.expr.nodes import Call, Expr
from strata.plain.parse import plain_or_none
from strata.spark.front.catalyst import analyse
from tests.support.plain_filters import RELATION, drawn

pytestmark = pytest.mark.spark
NOW = 1_700_000_000_000_000


def differences(spark: SparkSession, seed: int, count: int) -> Iterator[str]:
    """Yield filters that are read otherwise without Spark than with it; assert that many are plain.

    A filter that Spark refuses may not be plain; a plain one has Spark's tree.
    """
    draw = random.Random(seed)
    plain = 0
    for _ in range(count):
        where = drawn(draw)
        found = plain_or_none(RELATION, where, NOW)
        if found is None:
            continue
        plain += 1
        try:
            wanted = analyse(spark, RELATION, where, now=NOW)
        except InvalidRequest as error:
            yield f"{where!r}: Spark refuses it: {error}"
            continue
        if found.expr != _tests_for_null(wanted.expr):
            yield f"{where!r}: {found.expr} is {wanted.expr}"
    assert plain > count / 5


def test_a_plain_filter_has_the_tree_that_spark_makes_of_it(spark: SparkSession) -> None:
    assert not list(differences(spark, 7, 600))


@pytest.mark.long
def test_twenty_thousand_filters_have_sparks_trees(spark: SparkSession) -> None:
    assert not list(differences(spark, 8, 60_000))


def _tests_for_null(expr: Expr) -> Expr:
    """Return the tree in which the negation of a test for null is the other test."""
    if not isinstance(expr, Call):
        return expr
    match expr:
        case Call("not", (Call("is_null" | "is_not_null" as function, args),)):
            other = "is_null" if function == "is_not_null" else "is_not_null"
            return Call(other, args, "boolean")
    return replace(expr, args=tuple(map(_tests_for_null, expr.args)))
