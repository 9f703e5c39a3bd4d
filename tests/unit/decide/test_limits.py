"""Ranges at the limits of a type are judged without a warning: they only become infinite."""

from tests.spec.language import call, check, col, constant


def test_rounding_next_to_the_greatest_double() -> None:
    rounded = call("round", col("x"), constant(1, "integer"), kind="double")

    check(
        rounded > 5.0,
        """
        x                                          | verdict
        [1e308, 1.7976931348623157e308]            | KEEP
        [-1.7976931348623157e308, -1e308]          | SKIP
    """,
    )
