"""Plain filters mean what Spark means: the same trees, and the same rows."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest
from strata.expr.nodes import Call, Expr
from strata.plain.parse import UnknownColumn, plain_or_none
from strata.spark.front.catalyst import analyse
from tests.support.plain_filters import RELATION, drawn
from tests.support.sizes import tries

pytestmark = pytest.mark.spark
NOW = 1_700_000_000_000_000
NAMES_OF_SPARK = (
    "current_date", "current_timestamp", "localtimestamp", "current_user", "user", "session_user",
    "current_catalog", "current_database", "current_schema", "current_path", "current_time",
    "timestamp_ltz", "timestamp_ntz", "interval", "now", "default", "date", "nan", "infinity",
    "grouping__id", "t", "d", "unknown", "null", "day", "year", "binary", "x", "r", "n", "session",
    "sysdate", "today", "rownum", "_metadata", "any", "some", "all", "distinct", "values", "row",
)  # fmt: skip


def differences(spark: SparkSession, seed: int, count: int) -> Iterator[str]:
    """Yield filters that are read otherwise without Spark than with it; assert that many are plain.

    A filter that Spark refuses may not be plain; a plain one has Spark's tree.
    """
    draw = random.Random(seed)
    plain = 0
    for _ in range(count):
        where = drawn(draw)
        try:
            found = plain_or_none(RELATION, where, NOW)
        except UnknownColumn:
            continue
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
    assert not list(differences(spark, 7, tries(200, 600)))


def accepted_names(spark: SparkSession, seed: int, count: int) -> Iterator[str]:
    """Yield filters with a name that is taken for a misspelt one, although Spark understands it."""
    draw = random.Random(seed)
    refused = 0
    while refused < count:
        where = misspelt(draw, drawn(draw))
        try:
            plain_or_none(RELATION, where, NOW)
        except UnknownColumn:
            refused += 1
            try:
                analyse(spark, RELATION, where, now=NOW)
            except InvalidRequest:
                continue
            yield where


def misspelt(draw: random.Random, where: str) -> str:
    """Return a filter with another word in the place of one; it may stand inside quotes."""
    words = list(re.finditer(r"\w+", where))
    if not words:
        return where
    word = draw.choice(words)
    other = draw.choice(
        (word[0][1:], word[0] + "x", draw.choice(words)[0], draw.choice(NAMES_OF_SPARK))
    )
    return where[: word.start()] + other + where[word.end() :]


def test_a_name_that_no_column_has_is_refused_by_spark_too(spark: SparkSession) -> None:
    assert not list(accepted_names(spark, 9, tries(60, 300)))


@pytest.mark.long
def test_five_thousand_misspelt_names_are_refused_by_spark_too(spark: SparkSession) -> None:
    assert not list(accepted_names(spark, 10, 5_000))


@pytest.mark.long
def test_twenty_thousand_filters_have_sparks_trees(spark: SparkSession) -> None:
    assert not list(differences(spark, 8, 70_000))


def _tests_for_null(expr: Expr) -> Expr:
    """Return the tree in which the negation of a test for null is the other test."""
    if not isinstance(expr, Call):
        return expr
    match expr:
        case Call("not", (Call("is_null" | "is_not_null" as function, args),)):
            other = "is_null" if function == "is_not_null" else "is_not_null"
            return Call(other, args, "boolean")
    return replace(expr, args=tuple(map(_tests_for_null, expr.args)))
