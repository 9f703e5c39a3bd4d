"""A part is kept if the filter may fail on it, in the order in which conjuncts are evaluated."""

from tests.spec.language import call, check, col, constant


def test_an_overflow_is_an_error_only_where_it_can_happen() -> None:
    check(
        col("n") + 10 > 2_000_000_000,
        """
        n               | verdict
        [1, 5]          | SKIP
        [1, 2147483637] | KEEP
        […, 5]          | SKIP
        [5, …]          | KEEP
        """,
    )


def test_division_by_zero_keeps_a_part() -> None:
    check(
        col("n").cast("double") / col("x") > 1000.0,
        """
        n      | x        | verdict
        [1, 5] | [1, 2]   | SKIP
        [1, 5] | [-1, 1]  | KEEP
        [1, 5] | [-2, -1] | SKIP
        """,
    )


def test_a_false_conjunct_hides_the_errors_behind_it_only() -> None:
    fails = col("m") + 1 > 0
    check(
        (col("n") > 10) & fails,
        """
        n           | m               | verdict
        [1, 5]      | [1, 2147483647] | SKIP
        [1, 5] null | [1, 2147483647] | KEEP
        """,
    )
    check(
        fails & (col("n") > 10),
        """
        n      | m               | verdict
        [1, 5] | [1, 2147483647] | KEEP
        [1, 5] | [1, 2147483646] | SKIP
        """,
    )


def test_a_null_conjunct_is_never_true() -> None:
    check(
        (col("n") > 10) & (col("m") > 10),
        """
        n           | m        | verdict
        [1, 5] null | [20, 30] | SKIP
        only null   | [20, 30] | SKIP
        """,
    )


def test_try_and_legacy_modes_do_not_fail() -> None:
    for mode, verdict in (("try", "SKIP"), ("legacy", "KEEP")):
        total = call("add", col("n"), constant(10, "integer"), kind="integer", ansi=mode)
        check(
            total < 0,
            f"""
            n               | verdict
            [1, 5]          | SKIP
            [1, 2147483647] | {verdict}
            """,
        )


def test_branches_that_cannot_be_taken_do_not_count() -> None:
    chosen = call("if", col("n") > 10, col("m") + 1, constant(0, "integer"), kind="integer")
    check(
        chosen > 5,
        """
        n           | m               | verdict
        [1, 5]      | [1, 2147483647] | SKIP
        [1, 5] null | [1, 2147483647] | SKIP
        [1, 11]     | [1, 2147483647] | KEEP
        """,
    )


def test_an_unknown_function_may_do_anything() -> None:
    check(
        call("a_function_of_tomorrow", col("n")),
        """
        n      | verdict
        [1, 5] | KEEP
        """,
    )
    check(
        (col("n") > 10) & call("a_function_of_tomorrow", col("n")),
        """
        n       | verdict
        [1, 5]  | SKIP
        [1, 15] | KEEP
        """,
    )


def test_quarantine_opens_a_column_or_a_function() -> None:
    table = """
        n      | verdict
        [1, 5] | {}
        """
    check(col("n") + 1 > 10, table.format("SKIP"))
    check(col("n") + 1 > 10, table.format("KEEP"), quarantine=("1",))
    check(col("n") + 1 > 10, table.format("KEEP"), quarantine=("add",))
    check(col("n") + 1 > 10, table.format("SKIP"), quarantine=("2", "multiply"))


def test_a_value_and_nothing_give_nothing() -> None:
    check(
        col("n") + col("m") > 0,
        """
        n         | m      | verdict
        only null | [1, 5] | SKIP
        [1, 5]    | [1, 5] | KEEP
        """,
    )
