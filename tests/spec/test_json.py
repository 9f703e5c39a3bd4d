"""JSON paths: per kind; a missing key is null; what a cast cannot read fails."""

from tests.spec.language import check, path


def test_numbers_of_a_path_are_read_as_numbers() -> None:
    check(
        path("$.a.b").cast("double") > 10.0,
        """
        js$.a.b                  | verdict
        numbers [1, 10]          | SKIP
        numbers [1, 10] missing  | SKIP
        numbers [1, 10.5]        | KEEP
        absent                   | SKIP
        json_nulls               | SKIP
        ?                        | SKIP
        """,
    )


def test_other_kinds_fail_the_cast_or_make_it_null() -> None:
    table = """
        js$.a                | verdict
        numbers [1, 5] bools | {0}
        numbers [1, 5] lists | {0}
        numbers [1, 5] maps  | {0}
        strings [a, b]       | KEEP
        """
    check(path("$.a").cast("double") > 10.0, table.format("KEEP"))
    check(path("$.a").cast("double", "try") > 10.0, table.format("SKIP"))


def test_a_fraction_is_no_integer_to_ansi_mode() -> None:
    check(
        path("$.a").cast("integer") == 50,
        """
        js$.a          | verdict
        numbers [1, 5] | KEEP
        """,
    )
    check(
        path("$.a").cast("integer", "try") == 50,
        """
        js$.a            | verdict
        numbers [1, 5]   | SKIP
        numbers [1, 5e9] | KEEP
        """,
    )


def test_texts_of_a_path_are_compared_as_texts() -> None:
    check(
        path("$.a") == "kiwi",
        """
        js$.a                 | verdict
        strings [apple, kiwi] | KEEP
        strings [lemon, pear] | SKIP
        numbers [1, 5]        | SKIP
        bools                 | SKIP
        maps                  | SKIP
        """,
    )
    check(
        path("$.a") == "10",
        """
        js$.a                  | verdict
        numbers [1, 5]         | SKIP
        numbers [1, 50]        | KEEP
        numbers [10, 10]       | KEEP
        numbers [5, 1]         | KEEP
        numbers [nan, 1]       | KEEP
        numbers [1, nan]       | KEEP
        numbers [1, 5] missing | SKIP
        strings [1, 5]         | KEEP
        """,
    )


def test_a_number_prints_as_no_text_of_another() -> None:
    """A text may write a number in several ways; what writes none is the text of no number."""
    for text in ("7", "7.0", "7e0", "70E-1"):
        check(
            path("$.a") == text,
            """
            js$.a            | verdict
            numbers [1, 5]   | SKIP
            numbers [6.5, 8] | KEEP
            """,
        )
    for text in ("07", "1e999", "-"):
        check(
            path("$.a") == text,
            """
            js$.a          | verdict
            numbers [1, 5] | KEEP
            """,
        )


def test_an_index_or_a_wildcard_is_not_tracked() -> None:
    check(
        path("$.a[0]") == "kiwi",
        """
        js$.a | verdict
        lists | KEEP
        """,
    )
