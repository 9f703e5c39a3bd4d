"""Comparisons keep a part if some value of the range may pass."""

from tests.spec.language import call, check, col, constant


def test_a_range_is_kept_where_it_reaches_the_constant() -> None:
    check(
        col("n") > 10,
        """
        n            | verdict
        [1, 10]      | SKIP
        [1, 11]      | KEEP
        [11, 11]     | KEEP
        [1, 10] null | SKIP
        only null    | SKIP
        """,
    )


def test_what_is_unknown_or_makes_no_sense_is_kept() -> None:
    check(
        col("n") > 10,
        """
        n       | verdict
        ?       | KEEP
        [1, …]  | KEEP
        […, 10] | SKIP
        […, …]  | KEEP
        [5, 1]  | KEEP
        """,
    )


def test_nan_is_greater_than_every_number() -> None:
    check(
        col("x") > 10.0,
        """
        x           | verdict
        [1, 10]     | SKIP
        [1, 10] NaN | KEEP
        [nan, 1]    | KEEP
        [5, nan]    | KEEP
        […, 1]      | SKIP
        """,
    )
    check(
        ~(col("x") < 100.0),
        """
        x           | verdict
        [1, 10]     | SKIP
        [1, 10] NaN | KEEP
        """,
    )


def test_equality_needs_an_overlap_and_its_negation_a_second_value() -> None:
    check(
        col("name") == "kiwi",
        """
        name          | verdict
        [apple, kiwi] | KEEP
        [apple, kiw]  | SKIP
        [lemon, pear] | SKIP
        […, kiw]      | SKIP
        [lemon, …]    | SKIP
        """,
    )
    check(
        ~(col("n") == 5),
        """
        n      | verdict
        [5, 5] | SKIP
        [5, 6] | KEEP
        """,
    )
    check(
        ~(col("x") == 5.0),
        """
        x          | verdict
        [5, 5]     | SKIP
        [5, 5] NaN | KEEP
        """,
    )


def test_two_columns_are_compared_by_their_ranges() -> None:
    check(
        col("n") > col("m"),
        """
        n      | m      | verdict
        [1, 5] | [5, 9] | SKIP
        [1, 5] | [4, 9] | KEEP
        """,
    )


def test_null_safe_equality_is_true_for_two_nulls() -> None:
    check(
        call("equal_null_safe", col("n"), constant(None, "integer")),
        """
        n           | verdict
        [1, 5]      | SKIP
        [1, 5] null | KEEP
        """,
    )


def test_in_looks_at_every_item() -> None:
    items = [constant(value, "integer") for value in range(0, 100, 10)]
    check(
        call("in", col("n"), *items),
        """
        n        | verdict
        [1, 9]   | SKIP
        [1, 10]  | KEEP
        [91, 99] | SKIP
        """,
    )


def test_null_tests_read_the_counts() -> None:
    check(
        call("is_null", col("n")),
        """
        n           | verdict
        [1, 5]      | SKIP
        [1, 5] null | KEEP
        only null   | KEEP
        ?           | KEEP
        """,
    )
    check(
        call("is_not_null", col("n")),
        """
        n         | verdict
        [1, 5]    | KEEP
        only null | SKIP
        """,
    )


def test_the_lesser_of_a_number_and_nan_is_the_number() -> None:
    least = call("least", col("x"), constant(5.0, "double"), kind="double")
    check(
        least == 5.0,
        """
        x          | verdict
        [1, 2]     | SKIP
        [1, 2] NaN | KEEP
        """,
    )
    greatest = call("greatest", col("x"), constant(5.0, "double"), kind="double")
    check(
        greatest > 100.0,
        """
        x          | verdict
        [1, 2]     | SKIP
        [1, 2] NaN | KEEP
        """,
    )


def test_zero_times_infinity_is_nan() -> None:
    check(
        call("is_nan", col("x") * float("inf")),
        """
        x       | verdict
        [1, 2]  | SKIP
        [-1, 1] | KEEP
        """,
    )


def test_a_remainder_reaches_one_less_than_the_divisor() -> None:
    check(
        col("n") % 5 == 4,
        """
        n         | verdict
        [0, 3]    | SKIP
        [0, 4]    | KEEP
        [10, 99]  | KEEP
        [-99, -1] | SKIP
        """,
    )
    check(
        col("n") % 5 == 5,
        """
        n         | verdict
        [0, 1000] | SKIP
        """,
    )
