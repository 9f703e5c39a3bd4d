"""Spark's answer for every row; `tests.spark.escapes` is the test that the range contains it."""

from collections.abc import Sequence
from functools import lru_cache

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strata.expr.nodes import Call, Expr
from strata.model.schema import Relation
from strata.spark.front.translate import translate
from strata.spark.front.tree import analysed, empty_frame, filtered, normalised
from tests.spark.escapes import Answers
from tests.spark.ranges import RELATION, Parts


def spark_answers(
    spark: SparkSession, parts: Parts, texts: Sequence[str], at_once: int = 120
) -> list[Answers]:
    """Evaluate all expressions on all rows; an error of one row and one expression stays there."""
    frame = spark.createDataFrame(parts.rows, f"part bigint, {parts.ddl}").coalesce(1)
    answers = []
    for start in range(0, len(texts), at_once):
        guarded = [_guarded(spark, text) for text in texts[start : start + at_once]]
        failed = [column.isNull() for column in guarded]
        values = [column.getField("v") for column in guarded]
        names = [f"c{i}" for i in range(2 * len(guarded))]
        chosen = [c.alias(name) for c, name in zip((*failed, *values), names, strict=True)]
        table = frame.select("part", *chosen).toArrow()
        assert table["part"].equals(parts.rows["part"]), "rows out of order"
        arrays = [table[name].combine_chunks() for name in names]
        for flags, found in zip(arrays[: len(guarded)], arrays[len(guarded) :], strict=True):
            answers.append(Answers(found, flags.to_numpy(zero_copy_only=False)))
    return answers


def _guarded(spark: SparkSession, text: str) -> SparkColumn:
    """Return a column that is null where the expression fails, else a struct around its value."""
    jvm = spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    boxed = F.struct(F.expr(text).alias("v"))
    inner = jvm.classic.ExpressionUtils.expression(boxed._jc)
    return SparkColumn(jvm.classic.ExpressionUtils.column(jvm.catalyst.expressions.TryEval(inner)))


@lru_cache(maxsize=2)
def _frame(spark: SparkSession, relation: Relation) -> DataFrame:
    return empty_frame(spark, relation)


def translated(spark: SparkSession, text: str, relation: Relation = RELATION) -> Expr:
    """Return the expression that the front end makes of SQL text of any type."""
    sql = f"({text}) IS NULL"
    condition = normalised(spark, analysed(filtered(_frame(spark, relation), sql)))
    assert condition is not None, text
    expr = translate(condition, relation)
    assert isinstance(expr, Call), text
    if expr.function == "is_null":
        return expr.args[0]
    return expr.args[-1].args[0] if isinstance(expr.args[-1], Call) else expr
