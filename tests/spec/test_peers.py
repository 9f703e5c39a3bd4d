"""Wrong answers that other engines gave from statistics, each as bounds and verdicts here.

The numbers are those of the list of bugs in the notes on peers.
"""

import math
from dataclasses import replace

import pyarrow as pa
import pytest

from strata.decide.decision import decide
from strata.expr.filter import Filter
from tests.spec.language import RELATION, E, call, check, col, constant, path

N, X, NAME, TS, DAY = col("n"), col("x"), col("name"), col("ts"), col("day")


def test_1_a_remainder_is_not_the_range_of_its_ends() -> None:
    """duckdb-iceberg #1052: `pk % 8 = 2` was judged by the remainders of low and high."""
    check(N % 8 == 2, "n | verdict\n[0, 16] | KEEP\n[0, 1] | SKIP\n[-16, -9] | SKIP")


def test_2_an_error_inside_counts_although_neither_end_fails() -> None:
    """Materialize #37638: 1 / n on [-1, 1]."""
    divided = call("divide", constant(1.0, "double"), X, kind="double", ansi="ansi")
    check(divided > 5.0, "x | verdict\n[-1, 1] | KEEP\n[1, 2] | SKIP")


@pytest.mark.parametrize(("mode", "wraps"), [("ansi", "KEEP"), ("legacy", "KEEP"), ("try", "SKIP")])
def test_3_a_part_where_arithmetic_may_overflow_stays(mode: str, wraps: str) -> None:
    """Spark #58705: `i - 10 > 100` fails, wraps or is null below the least integer plus 10."""
    less = call("subtract", N, constant(10, "integer"), kind="integer", ansi=mode)
    check(less > 100, f"n | verdict\n[-2147483648, 0] | {wraps}\n[-2147483638, 0] | SKIP")


def test_4_nan_has_its_own_bit_and_survives_negation() -> None:
    """ClickHouse #113417, Hudi #18754: NOT (f < c) lost the rows of NaN."""
    check(~(X < 5.0), "x | verdict\n[0, 1] NaN | KEEP\n[0, 1] | SKIP")
    check(constant(math.nan, "double") == X, "x | verdict\n[0, 0] NaN | KEEP\n[0, 0] | SKIP")


def test_4_low_above_high_is_unknown_never_empty() -> None:
    """Materialize #38108: negative NaN inverted the bounds."""
    check(X == 7.0, "x | verdict\n[9, 1] | KEEP\n[8, 9] | SKIP")
    check(N == 7, "n | verdict\n[9, 1] | KEEP")
    check(NAME == "b", "name | verdict\n[z, y] | KEEP\n[c, d] | SKIP")


def test_5_unknown_is_neither_all_null_nor_without_null() -> None:
    """Hudi #18755, DuckLake #1135: a missing statistic was read as a count of 0, or of all."""
    check(call("is_null", N), "n | verdict\n? | KEEP\n[1, 2] | SKIP\nonly null | KEEP")
    check(call("is_not_null", N), "n | verdict\n? | KEEP\n[1, 2] | KEEP\nonly null | SKIP")
    check(N > 5, "n | verdict\n? | KEEP\n[…, 9] | KEEP\n[1, …] | KEEP\n[…, 5] | SKIP")


def test_6_text_is_compared_by_bytes_at_the_edges_of_unicode() -> None:
    """Iceberg #11161, Delta #3430: UTF-16 units sort surrogates before U+E000."""
    high = "\U00010000"
    check(
        constant(high, "string") == NAME, f"name | verdict\n[a, \ue000] | SKIP\n[a, {high}] | KEEP"
    )
    check(NAME > "\uffff", f"name | verdict\n[a, {high}] | KEEP\n[a, \uffff] | SKIP")


def test_7_a_loose_bound_proves_no_equality() -> None:
    """DuckDB #23728: equal truncated bounds were taken for the one value; `<>` skipped rows.

    Flags of exactness do not matter to a range: two equal inclusive bounds leave one value.
    """
    check(~(NAME == "ab"), "name | verdict\n[ab, ac] | KEEP\n[ab, ab] | SKIP")


def test_10_local_time_runs_backwards_in_autumn() -> None:
    """Doris #65903: day and hour are not monotone where a zone has a transition."""
    berlin = call("hour", TS, kind="integer", zone="Europe/Berlin")
    bounds = "[2013-10-27T00:30, 2013-10-27T01:30]"
    check(berlin == constant(2, "integer"), f"ts | verdict\n{bounds} | KEEP")
    day = call("date_trunc", constant("day", "string"), TS, kind="timestamp", zone="Europe/Berlin")
    check(day < "2013-10-27T00:00", f"ts | verdict\n{bounds} | KEEP")


def test_11_the_order_of_texts_is_not_the_order_of_times() -> None:
    """databend #20442: a space sorts before T, '10' before '9'."""
    when = NAME.cast("timestamp", "try")
    bounds = "[2013-01-01 05:00, 2013-01-01T01:00]"  # by time they would be inverted
    for later in (when > "2013-01-01T04:00", when < "2013-01-01T04:00"):
        check(later, f"name | verdict\n{bounds} | KEEP")
    check(NAME.cast("integer", "try") > 50, "name | verdict\n[1, 2] | KEEP")


def test_12_narrowing_wraps_and_a_negative_factor_flips() -> None:
    """Hudi #19445, ClickHouse #116946: both were on a list of names that keep order."""
    byte = N.cast("byte", "legacy")
    check(byte == constant(4, "byte"), "n | verdict\n[250, 300] | KEEP\n[5, 100] | SKIP")
    check(N * -1 > -5, "n | verdict\n[1, 4] | KEEP\n[5, 9] | SKIP")


def test_14_bounds_of_another_type_or_column_id_prove_nothing() -> None:
    """Paimon #5825: after a drop and an add of the same name the old bounds came back."""
    stats = pa.table(
        {
            "rows": [100],
            "s.1": pa.array([{"nulls": 0, "low": "1", "high": "2"}]),  # a text, of long ago
        }
    )
    assert decide(Filter((N > 5).expr, "", 0, 0), stats, RELATION).keep.tolist() == [True]
    renewed = E(replace(N.expr, id=99))  # type: ignore[type-var]
    stats = stats.set_column(1, "s.1", pa.array([{"nulls": 0, "low": 1, "high": 2}]))
    assert decide(Filter((renewed > 5).expr, "", 0, 0), stats, RELATION).keep.tolist() == [True]


def test_15_one_unknown_conjunct_does_not_disable_the_others() -> None:
    """Hudi #19479, Iceberg #17489: everything was correct, and nothing pruned."""
    check((N > 5) & (col("m") > 5), "n | m | verdict\n[1, 2] | ? | SKIP\n? | [1, 2] | SKIP")
    check((path("$.a") == "x") & (N > 5), "n | verdict\n[1, 2] | SKIP")


def test_20_a_filter_relative_to_the_clock_prunes() -> None:
    """DuckLake #918: `current_date - interval` read everything."""
    ago = call("date_sub", call("current_date", kind="date"), constant(30, "integer"), kind="date")
    check(
        ago <= DAY,
        "day | verdict\n[2013-01-01, 2013-02-28] | SKIP\n[2013-01-01, 2013-03-01] | KEEP",
    )
