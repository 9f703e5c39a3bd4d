"""Plain filters mean what Spark means: the same trees, and the same rows."""

import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest
from strata.expr.nodes import Call, Expr
from strata.plain.clock import settled
from strata.plain.constants import CASES
from strata.plain.parse import UnknownColumn, plain_or_none
from strata.plain.rows import accepts
from strata.spark.front.catalyst import analyse
from tests.support.plain_filters import RELATION, drawn
from tests.support.sizes import tries

pytestmark = pytest.mark.spark
NOW = 1_700_000_000_000_000
_FIXED = {
    "now()": f"timestamp_micros({NOW}L)",
    "current_date()": f"cast(timestamp_micros({NOW}L) as date)",
}
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


VALUES = {
    "id": pa.array(range(16), pa.int64()),
    "a": pa.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), None] * 2, pa.int32()),
    "b": pa.array([0, -1, 2**63 - 1, -(2**63), 10, None, 4, 5] * 2, pa.int64()),
    "Sh": pa.array([*range(-8, 7), None], pa.int16()),
    "s": pa.array(["", "a", "ab", "xay", "é", "𝄞a", None, "a%", "AB", "\u212a", "\u0131\u017f", "ß",
                   "ﬁA", "İ", "aΣ", "A"]),
    "de": pa.array([Decimal(n * 50 - 100).scaleb(-2) for n in range(15)] + [None],
                   pa.decimal128(10, 2)),
    "x": pa.array([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, None, 3e-320] * 2),
    "bo": pa.array([True, False, None, True] * 4),
    "dd": pa.array(
        [0, -1, -719_162, 2_932_896, 16_070, 11_016, 15_706, None, -141_428, 19_357, 19_722, 19_723,
         -25_567, -25_568, 20_088, 18_321], pa.int32(),
    ).cast(pa.date32()),
    "ts": pa.array(
        [0, -1, -62_135_596_800_000_000, 253_402_300_799_999_999, 1_385_901_000_123_456, None,
         86_399_999_999, 86_400_000_000, -86_400_000_001, 1_700_000_000_000_000,
         1_699_999_999_999_999, 1_699_913_600_000_000, -12_219_292_800_000_000, 59_999_999, 1, 2],
        pa.timestamp("us", "UTC"),
    ),
}  # fmt: skip
VALUES["n"] = VALUES["ts"].cast(pa.timestamp("us")).take(pa.array([*range(8, 16), *range(8)]))
ASKED = (
    "year({0}) = 1970", "year({0}) < 1900", "quarter({0}) in (1, 4)", "month({0}) between 2 and 11",
    "day({0}) = 31", "dayofyear({0}) >= 365", "dayofweek({0}) in (1, 7)", "weekofyear({0}) >= 52",
    "weekofyear({0}) <= 1", "date({0}) < '1970-01-01'", "to_date({0}) = '1969-12-31'",
    "cast({0} as date) not in ('1970-01-01', '2023-11-14')",
)  # fmt: skip
CLOCKS = (
    "hour({0}) = 23", "minute({0}) <> 0", "second({0}) = 59", "{0} >= now()",
    "{0} > now() - interval 1 day", "{0} < timestamp'1970-01-01'", "{0} <> timestamp'1970-01-01'",
    "extract(hour from {0}) not between 1 and 22",
)  # fmt: skip
OTHERS = (
    "a % 2 = 1", "a % 7 = 0", "mod(a, 2) = -1", "b % 10 = -8", "a % 3000000000 < 0",
    "length(s) = 2", "length(s) not between 1 and 2", "startswith(s, 'a')", "not endswith(s, 'a')",
    "contains(s, '')", "coalesce(a, 5) = 5", "nvl(b, 0) <= 0", "coalesce(s, 'none') like 'n%'",
    "coalesce(x, 0) = 0", "coalesce(x, 1) in (1, 1.5)", "coalesce(x, 0) > 1", "isnan(x)",
    "not isnan(x)", "coalesce(bo, true)", "not coalesce(bo, false)", "ts = n", "n < ts",
    "ts <=> n", "dd >= current_date()", "dd > current_date() - 7", "date(ts) = current_date()",
    "n > now() - interval '36' hours",
    "a > 6.5", "a >= -0.5", "a < 0.5", "a <= -1.5", "0.5 < a", "b between 1.5 and 1e3", "a = 7.0",
    "b = 9.223372036854775807e18", "b > 9e18", "a in (7, 2.5)", "a in (7, null)", "a <> -1.0",
    "not (a not in (7, null))", "a = '7'", "b > '9000000000000000000'", "x > '1.25'", "Sh < a",
    "Sh <=> a", "de > 1.234", "de in (1, 2.505)", "de <> 150", "lower(s) = 'ab'", "s ilike '%A'",
    "upper(s) like '%A%'", "upper(s) > 'AB'", "lower(s) in ('a', 'k')", "upper(s) = 'IS'",
    "not (lower(s) like 'a%')", "startswith(upper(s), 'SS')", "s in ('a', null)", "bo = 'true'",
    "x in (1.5, null)", "not (x not in (0.0, null))", "dd in ('1970-01-01', null)",
    "ts > current_date() - 7", "n >= current_date() - 19000", "ts > '1969-12-31 23:59:59.5-00:30'",
    "x > 0D", "x = 1.5D", "x in (1.5D, 0D)", "a > 0.5D", "coalesce(x, 0D) > 1D", "a = 7D",
    "x <> -1D", "b = 9.223372036854775807e18D", "x >= cast(0.1 as double)", "b in (9D, 7)",
    "a <= -0.5D",
    "coalesce(a, 0) > 6.5", "length(s) in (2, null)", "a % 7 = 0.0",
)  # fmt: skip


def test_the_functions_of_plain_filters_accept_sparks_rows(spark: SparkSession) -> None:
    table = pa.table(VALUES)
    (batch,) = table.to_batches()
    rows = spark.createDataFrame(table)
    dates = [text.format(name) for text in ASKED for name in ("dd", "ts", "n")]
    moments = [text.format(name) for text in CLOCKS for name in ("ts", "n")]
    of_clock = re.compile(r"now\(\)|current_date\(\)")
    accepted = 0
    for where in (*dates, *moments, *OTHERS):
        filter = plain_or_none(RELATION, where, NOW)
        assert filter is not None, where
        fixed = of_clock.sub(lambda found: _FIXED[found[0]], where)
        wanted = sorted(row.id for row in rows.where(fixed).select("id").collect())
        found = batch.filter(accepts(batch, settled(filter)))["id"].to_pylist()
        assert found == wanted, where
        accepted += 0 < len(wanted) < len(batch)
    assert accepted > 60


def test_the_letters_whose_other_case_is_ascii_are_those_of_python(spark: SparkSession) -> None:
    """So an ASCII text is in the same place of a text in another case, in Java and in Python."""
    letters = [chr(code) for code in range(0x80, 0x110000) if not 0xD800 <= code < 0xE000]
    rows = spark.createDataFrame(pa.table({"c": letters}))
    shown = [f"regexp_replace({how}(c), '[^\\\\x00-\\\\x7f]+', '~') as {how}_" for how in CASES]
    odd = rows.selectExpr("c", *shown).where("lower_ <> '~' or upper_ <> '~'").collect()
    found = {row.c: (row.lower_, row.upper_) for row in odd}

    beyond = re.compile("[^\\x00-\\x7f]+")
    python = {c: tuple(beyond.sub("~", one) for one in (c.lower(), c.upper())) for c in letters}
    assert found == {c: shapes for c, shapes in python.items() if shapes != ("~", "~")}
    assert found["\u212a"][0] == "k"


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
