"""Texts: a prefix is a range; what follows it is not."""

from tests.spec.language import call, check, col, constant


def test_a_prefix_is_a_range_of_texts() -> None:
    table = """
        name          | verdict
        [a, azz]      | SKIP
        [a, b]        | SKIP
        [a, ba]       | KEEP
        [bay, bb]     | KEEP
        [bb, c]       | SKIP
        [a, …]        | KEEP
        [bb, …]       | SKIP
        """
    check(call("starts_with", col("name"), constant("ba", "string")), table)
    check(call("like", col("name"), constant("ba%", "string"), escape="\\"), table)
    check(call("like", col("name"), constant("ba_%z", "string"), escape="\\"), table)
    first = call(
        "substring", col("name"), constant(1, "integer"), constant(2, "integer"), kind="string"
    )
    check(first == "ba", table)


def test_a_negated_prefix_needs_a_text_outside() -> None:
    check(
        ~call("starts_with", col("name"), constant("ba", "string")),
        """
        name       | verdict
        [ba, bazz] | SKIP
        [ba, bb]   | KEEP
        """,
    )
    check(
        ~call("like", col("name"), constant("ba_%z", "string"), escape="\\"),
        """
        name       | verdict
        [ba, bazz] | KEEP
        """,
    )


def test_a_pattern_that_ends_in_its_escape_fails() -> None:
    check(
        call("like", col("name"), constant("z!", "string"), escape="!"),
        """
        name   | verdict
        [a, b] | KEEP
        """,
    )


def test_a_constant_start_stays_in_front() -> None:
    joined = call("concat", constant("id-", "string"), col("name"), kind="string")
    check(
        joined == "id-k",
        """
        name   | verdict
        [a, j] | SKIP
        [a, l] | KEEP
        """,
    )


def test_the_code_of_the_first_character_rises_with_the_text() -> None:
    upper = call("ascii", col("name"), kind="integer")
    table = """
        name     | verdict
        [a, b]   | SKIP
        [Y, b]   | KEEP
        [é, ü]   | SKIP
        […, 9z]  | SKIP
        […, Bär] | KEEP
        [Z, …]   | KEEP
        [[, …]   | SKIP
        [Z, é]   | KEEP
    """
    check((upper >= 65) & (upper <= 90), table)
    check(upper > 127, "name | verdict\n[a, zz] | SKIP\n[a, é] | KEEP\n[a, …] | KEEP")
    check(upper < 1, "name | verdict\n[a, zz] | SKIP\n[…, zz] | KEEP")


def test_joined_texts_ask_what_is_joined_and_nothing_unknown_is_skipped() -> None:
    number = col("n").cast("string")
    table = """
        name      | n      | verdict
        [a, c]    | [1, 9] | KEEP
        [a, c]    | [8, 9] | SKIP
        [d, e]    | [1, 9] | SKIP
        [c, a]    | [1, 9] | KEEP
        [a, c]    | [9, 8] | KEEP
        ?         | ?      | KEEP
        [a, c]    | ?      | KEEP
        […, …]    | […, …] | KEEP
        only null | [1, 9] | SKIP
    """
    joined = call("concat", col("name"), constant("-", "string"), number, kind="string")
    check(joined == "b-7", table)
    apart = call("concat_ws", constant("-", "string"), col("name"), number, kind="string")
    check(apart == "b-7", table.replace("only null | [1, 9] | SKIP", "only null | [1, 9] | KEEP"))
