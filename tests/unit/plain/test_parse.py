"""What is plain, what is not, and what the refusal says."""

import pytest

from strata.errors import InvalidRequest
from strata.expr import nodes
from strata.expr.nodes import Call, Literal
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.plain.clock import settled
from strata.plain.parse import LONGEST, UnknownColumn, plain_filter, plain_or_none
from tests.support.plain_filters import RELATION

A = nodes.Column(2, "a", "integer")


def test_a_comparison_becomes_the_call_that_spark_makes_of_it() -> None:
    found = plain_filter(RELATION, "a > 5", 7)

    assert found.expr == Call("greater_than", (A, Literal(5, "integer")), "boolean")
    assert (found.sql, found.now_low, found.now_high) == ("a > 5", 7, 7)


@pytest.mark.parametrize(
    "where",
    [
        "a = 1", "-1 < A", "`a b` = 'x'", "s like 'a%' and not bo", "dd >= '2013-12-01'",
        "ts between '2013-12-01' and timestamp'2013-12-01 23:59:59.5Z'", "de in (1.5, -1.50)",
        "x > -1.5e3", "u64 = 18446744", "s is not null or (a <=> 1)", "bo is not true",
        "dd < date'2000-02-29'", "n = timestamp_ntz'2013-12-01 00:00:00'", "s = `a b`",
        "year(ts) = 2013 and date(n) in ('2013-12-01')", "a % 10 = 3",
        "n >= timestamp'2013-12-01' and n < ts", "coalesce(s, '') = '' or length(s) > 3",
        "startswith(s, 'a') and not isnan(x)", "ts > now() - interval 7 days",
        "a > 1.5", "id = 14.0", "a between 1 and 2.5", "a < 1e3", "id = '3'", "a in (1, null)",
        "a in (1, 2.5)", "lower(s) = 'a'", "upper(s) like 'A%'", "s not ilike '%a%'", "Sh > a",
        "de = 1.234", "de in (1)", "x > '1.5'", "bo = 'true'", "ts > current_date() - 7",
        "x = 13.200000000000044", "ts > '2013-12-01 10:30:00+01:00'", "s = null",
        "dd not in ('2013-12-01', null)",
        "x > 0D", "x <= -1.5d", "a > 0.5D", "x = cast(0.5 as double)", "x in (1e3D, 0e0)",
        "coalesce(x, 0D) > 1D", "dd >= current_date() - 7", "ts::date = '2013-12-01'",
        "ts >= '2013-12-01 10:30'",
    ],
)  # fmt: skip
def test_comparisons_with_constants_are_plain(where: str) -> None:
    assert plain_or_none(RELATION, where) is not None


@pytest.mark.parametrize(
    ("where", "construct"),
    [
        ("a + 1 > 2", "outside"), ("lower(s) = 'é'", "é"), ("coalesce(a, null) = 1", "null"),
        ("s > 5", "5"), ("a > '5.5'", "5.5"), ("a > 1e400", "1e400"), ("dd > '2013'", "2013"),
        ("a > ' 5'", " 5"), ("x = '-0'", "-0"), ("bo = 'TRUE'", "TRUE"), ("de > 1e3", "1e3"),
        ("a < 9223372036854775807.5", "9223372036854775807.5"), ("coalesce(a, 1.5) = 1", "1.5"),
        ("lower(s) like 'a_'", "LOWER"), ("s ilike 'é'", "é"), ("s rlike 'a'", "RLIKE"),
        ("dh > 1.12345678901", "1.12345678901"), ("n > '2013-12-01 00:00:00+01:00'", "+01:00"),
        ("dd = '1900-02-29'", "1900-02-29"), ("n > '2013-12-01 00:00:00Z'", "Z"),
        ("x = -0e0", "0e0"), ("x = 1e400", "1e400"), ("x > -0D", "-0e0"), ("x > 1e-400D", "1e-400"),
        ("x > 1.5F", "FLOAT"), ("x > cast('0.5' as double)", "CAST"), ("de = 1D", "1e0"),
        ("r.i = 1", "r.i"),
        ("r is null", "column r"), ("x = f", "x with f"), ("a = 1 -- x", "comment"),
        (r"s = 'a\\b'", "outside"), ('s = "a"', "outside"), ("a = ${x}", "outside"),
        ("a = 1 as b", "AS b"), ("exists(select 1)", "EXISTS"), ("a in (select 1)", "IN"),
        ("s like 'a' escape '!'", "ESCAPE"), ("bo is unknown", "outside"), ("a", "a as"),
        ("id = 9223372036854775808", "9223372036854775808"), ("cast(a as string) = '1'", "CAST"),
        ("not 5F(x) or a = 1", "cast"),
        ("a = 1 or sleep(1)", "SLEEP"), ("a\u00a0= 1", "outside"), ("a > all (1)", "ALL"),
        ("a * 2 = 1", "'*'"), ("isnull(a, b)", "ISNULL"), ("isnull(a + 1)", "'+'"),
    ],
)  # fmt: skip
def test_what_needs_spark_is_named(where: str, construct: str) -> None:
    with pytest.raises(InvalidRequest, match="needs Spark") as refused:
        plain_filter(RELATION, where)

    assert construct.lower() in str(refused.value).lower()
    assert "with Spark" in refused.value.cure


@pytest.mark.parametrize(
    "where",
    ["ts > now()", "dd = current_date", "n > current_timestamp() - interval 1 hour"],
)
def test_only_a_read_may_depend_on_the_clock(where: str) -> None:
    with pytest.raises(InvalidRequest, match="needs Spark"):
        plain_filter(RELATION, where)
    found = plain_filter(RELATION, where, 86_400_000_000, clock=True)
    (call,) = [settled(found)]
    assert isinstance(call, Call)
    assert call.args[1].value in (86_400_000_000, 1, 82_800_000_000)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("dd > current_date() - 7", 3), ("dd > current_date() + 7", None),
        ("dd > date_add(current_date(), 7)", 17), ("dd > date_add(current_date(), -3)", 7),
        ("dd > date_sub(current_date(), 3)", 7),
        ("dd > current_date() - interval 2 weeks", None), ("ts > now() - 7", None),
        ("dd > current_date() - interval 2 days", 8), ("dd > now() + 1", None),
        ("ts > now() - interval 2 weeks", -4 * 86_400_000_000),
        ("ts > now() - interval 1 second", 863_999_000_000),
        ("ts > now() - interval 1 month", None), ("ts > now() - '7'", None),
        ("dd > current_date() - '7'", None),
    ],
)  # fmt: skip
def test_days_and_intervals_move_the_clock(where: str, value: int | None) -> None:
    """The read is at the beginning of the tenth day."""
    found = plain_or_none(RELATION, where, 10 * 86_400_000_000)
    assert (found is None) == (value is None)
    if found is not None:
        call = settled(found)
        assert isinstance(call, Call)
        assert call.args[1].value == value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "name", ["current_date", "Current_Date", "CURRENT_TIMESTAMP", "current_t\u0131mestamp"]
)
def test_a_column_hides_the_clock_of_its_name(name: str) -> None:
    columns = (Column(1, name, parse_type("date"), False), Column(2, "b", parse_type("date"), True))
    relation = Relation(0, columns, (1,), (1,))

    assert plain_or_none(relation, "b = current_date") is None
    assert plain_or_none(relation, "b > current_date - 7") is None
    assert plain_or_none(relation, "b = '2013-12-01'") is not None


def test_a_column_that_is_not_there_has_near_names() -> None:
    with pytest.raises(InvalidRequest, match="no column of this name") as refused:
        plain_filter(RELATION, "idd = 1")

    assert "'id'" in refused.value.cure


@pytest.mark.parametrize(
    "where",
    [
        "lower(cityy) = 'a' and sleep(1)", "sleep(1) or not (nothing is null)", "t > 5",
        "a in (1, nothing)", "coalesce(a, b, nothing) = 1", "s like nothing", "`nothing` = 1",
        "a between 1 and -nothing", "a = b - nothing", "timestamp_ltz = 5",
        "cast(nothing as int) = 1", "year(nothing) = 3",
    ],
)  # fmt: skip
def test_a_misspelt_column_is_found_beside_what_needs_spark(where: str) -> None:
    with pytest.raises(UnknownColumn):
        plain_or_none(RELATION, where)


@pytest.mark.parametrize(
    "where",
    [
        "exists(l, e -> e = 1)", "transform(l, nothing -> nothing + 1) is null", "sum(nothing) = 1",
        "datediff(day, dd, dd) = 1", "extract(week from dd) = 1", "current_user = s", "user = s",
        "current_time > ts", "localtimestamp > n", "CURRENT_PATH = s", "session.v = a", "r.x = 1",
        "`current_user` = s",
        "a in (select nothing)", "interval 1 day is null", "é = 1",
        "case when nothing then bo end", "l[0] = nothing", "(select nothing) = 1",
    ],
)  # fmt: skip
def test_what_may_be_no_column_is_left_to_spark(where: str) -> None:
    assert plain_or_none(RELATION, where) is None


def test_a_name_that_java_takes_for_a_column_is_left_to_spark() -> None:
    columns = (Column(1, "k\u0131nd", parse_type("int32"), False),)
    relation = Relation(0, columns, (1,), (1,))

    assert plain_or_none(relation, "kind = 1") is None


@pytest.mark.parametrize("where", ["a =", "a = 1 and", "(a = 1", "a = 1)", "", " ", "'"])
def test_what_cannot_be_parsed_is_refused(where: str) -> None:
    with pytest.raises(InvalidRequest):
        plain_filter(RELATION, where)


@pytest.mark.parametrize(
    "where",
    [
        "(" * 2_000 + "a = 1" + ")" * 2_000,
        "not " * 2_400 + "bo",
        "a = 1" + " and a = 1" * 900,
        "a = 1" + " " * LONGEST,
        "a in (" + "1," * 4_000 + "1)",
    ],
)
def test_long_and_deep_texts_end(where: str) -> None:
    """Each is understood or refused; none ends the process."""
    plain_or_none(RELATION, where)
