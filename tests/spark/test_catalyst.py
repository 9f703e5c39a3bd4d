"""A filter in Spark SQL arrives as the expression that it means, or openly as unknown."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from strata.errors import InvalidRequest
from strata.expr.exprjson import dump_filter, load_filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.spark.front.catalyst import analyse, referenced
from strata.spark.front.rowfilter import row_filter
from strata.spark.front.tree import analysed_filter, empty_frame, filtered, normalised

TYPES = {
    "id": "int64",
    "i": "int32",
    "js": "jsonb",
    "s": "string",
    "d": "date",
    "ts": "timestamptz",
    "tn": "timestamp",
    "dec": "numeric(10,2)",
    "dbl": "float64",
    "b": "bool",
    "bin": "bytes",
    "f": "float32",
}
RELATION = Relation(
    0, tuple(Declared(n, c, parse_type(t)) for n, (c, t) in enumerate(TYPES.items(), 1)), (1,), ()
)
NOW = 1_357_171_200_000_000  # 2013-01-03 00:00:00
UTC = "{zone=UTC}"


def also_failing(other: str, written: str) -> str:
    """Return a filter that fails where its form with the clock's constant fails, too."""
    return f"and(or(is_null({other}), is_not_null({other})), {written})"


def text(expr: Expr) -> str:
    """Return a short form: columns by name, constants as Python writes them, ? for unknown."""
    match expr:
        case Column():
            return expr.name
        case Literal():
            return repr(expr.value)
        case Call():
            options = ", ".join(f"{k}={v}" for k, v in expr.options)
            args = ", ".join(text(a) for a in expr.args)
            return f"{expr.function}{'{' + options + '}' if options else ''}({args})"
        case _:
            return "?"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("b", "b"),
        ("true", "True"),
        ("S = 'x' and ID = 3 and b", "and(equal_to(s, 'x'), equal_to(id, 3), b)"),
        ("i between 1 and 5", "and(greater_than_or_equal(i, 1), less_than_or_equal(i, 5))"),
        ("id in (1, 2, null)", "in(id, 1, 2, None)"),
        ("nvl2(s, i, 2) = 1", "equal_to(if(is_not_null(s), i, 2), 1)"),
        ("nullif(i, 0) = 1", "equal_to(if(equal_to(i, 0), None, i), 1)"),
        ("s like 'a/%' escape '/'", "like{escape=/}(s, 'a/%')"),
        ("s like 'a%'", "like{escape=\\}(s, 'a%')"),
        ("cast(s as int) = 5", "equal_to(cast{ansi=ansi, zone=UTC}(s), 5)"),
        ("try_cast(s as int) = 5", "equal_to(cast{ansi=try, zone=UTC}(s), 5)"),
        ("try_add(i, 1) = 2", "equal_to(add{ansi=try}(i, 1), 2)"),
        ("i + 1 = 2", "equal_to(add{ansi=ansi}(i, 1), 2)"),
        ("-i > 1", "greater_than(unary_minus{ansi=ansi}(i), 1)"),
        ("bin = X'0AFF'", "equal_to(bin, b'\\n\\xff')"),
        ("dec = 1.1", "equal_to(dec, Decimal('1.10'))"),
        ("f = float(0.1)", "equal_to(f, 0.10000000149011612)"),
        ("dbl > double('nan')", "greater_than(dbl, nan)"),
        ("ts < '2013-01-01'", "less_than(ts, 1356998400000000)"),
        ("d = '1970-01-11'", "equal_to(d, 10)"),
        ("tn > timestamp_ntz'1970-01-01 00:00:01'", "greater_than(tn, 1000000)"),
        ("d + interval 1 day > d", "greater_than(date_add(d, 1), d)"),
        ("ts >= to_timestamp('2013-01-01')", "greater_than_or_equal(ts, 1356998400000000)"),
        ("ts > now()", "greater_than(ts, current_timestamp())"),
        ("d >= current_date()", f"greater_than_or_equal(d, current_date{UTC}())"),
        ("tn > localtimestamp()", f"greater_than(tn, local_timestamp{UTC}())"),
        (
            "date_trunc('day', ts) >= current_timestamp() - interval 30 days",
            also_failing(
                f"greater_than_or_equal(date_trunc{UTC}('day', ts), {NOW - 2592000000000})",
                f"greater_than_or_equal(date_trunc{UTC}('day', ts), "
                f"timestamp_add_interval{UTC}(current_timestamp(), -2592000000000))",
            ),
        ),
        (
            "dateadd(month, -3, ts) > now()",
            also_failing(
                f"greater_than(timestamp_add{{unit=month, zone=UTC}}(-3, ts), {NOW})",
                "greater_than(timestamp_add{unit=month, zone=UTC}(-3, ts), current_timestamp())",
            ),
        ),
        ("year(ts) = 2013", "equal_to(year(cast{ansi=ansi, zone=UTC}(ts)), 2013)"),
        ("get_json_object(js, '$.a') = '1'", "equal_to(get_json_object(js, '$.a'), '1')"),
        (
            "case when i > 1 then 'a' else s end = 'x'",
            "equal_to(case_when(greater_than(i, 1), 'a', s), 'x')",
        ),
        # In a branch the shared operand is evaluated where it stands ...
        (
            "s = 'a' and cast(s as int) + 1 between 1 and 5",
            "and(equal_to(s, 'a'), greater_than_or_equal(X, 1), less_than_or_equal(X, 5))".replace(
                "X", "add{ansi=ansi}(cast{ansi=ansi, zone=UTC}(s), 1)"
            ),
        ),
        # ... and before the whole filter where it is always needed.
        (
            "cast(s as int) + 1 between 1 and 5 and s = 'a'",
            "and(or(is_null(X), is_not_null(X)), greater_than_or_equal(X, 1), "
            "less_than_or_equal(X, 5), equal_to(s, 'a'))".replace(
                "X", "add{ansi=ansi}(cast{ansi=ansi, zone=UTC}(s), 1)"
            ),
        ),
        ("s ilike 'A%'", "like{escape=\\}(lower(s), 'a%')"),
        ("s like any ('a%', 'b')", "or(like(s, 'a%'), like(s, 'b'))"),
        ("s not like all ('a%', 'b')", "and(not(like(s, 'a%')), not(like(s, 'b')))"),
        ("s rlike '^a'", "rlike{checked=java}(s, '^a')"),
        ("s rlike '['", "rlike(s, '[')"),
        (
            "ts + make_interval(0, 1, 0, 2, 3) > now()",
            also_failing(
                f"greater_than(timestamp_add_interval{UTC}(timestamp_add_ym_interval{UTC}(ts, 1), "
                f"183600000000), {NOW})",
                f"greater_than(timestamp_add_interval{UTC}(timestamp_add_ym_interval{UTC}(ts, 1), "
                "183600000000), current_timestamp())",
            ),
        ),
        ("d > d + make_interval(0, 1)", "greater_than(d, date_add(add_months(d, 1), 0))"),
        (
            "to_timestamp(s, 'yyyy') > ts and try_to_timestamp(s, 'yyyy') > ts",
            "and(greater_than(get_timestamp{ansi=ansi, zone=UTC}(s, 'yyyy'), ts), "
            "greater_than(get_timestamp{ansi=legacy, zone=UTC}(s, 'yyyy'), ts))",
        ),
        ("to_timestamp('2013', 'yyyy') < ts", "less_than(1356998400000000, ts)"),
        (
            "from_utc_timestamp(ts, 'Asia/Tokyo') > ts",
            "greater_than(from_utc_timestamp{zones=known}(ts, 'Asia/Tokyo'), ts)",
        ),
        (
            "from_utc_timestamp(ts, 'No/Where') > ts",
            "greater_than(from_utc_timestamp(ts, 'No/Where'), ts)",
        ),
        (
            "parse_json(js):a.b::int = 1",
            "equal_to(cast{ansi=ansi, zone=UTC}(variant_get{ansi=ansi, zone=UTC}("
            "parse_json{ansi=ansi}(js), '$.a.b')), 1)",
        ),
        (
            "try_variant_get(try_parse_json(js), '$.a', 'int') = 1",
            "equal_to(variant_get{ansi=legacy, zone=UTC}(parse_json{ansi=try}(js), '$.a'), 1)",
        ),
        (
            "try_add(ts, interval 1 day) > ts",
            f"greater_than(try_eval(timestamp_add_interval{UTC}(ts, 86400000000)), ts)",
        ),
        ("date_format(ts, 'yyyy') = '2013'", f"equal_to(date_format{UTC}(ts, 'yyyy'), '2013')"),
        (
            "exists(array(i, 2), x -> x > 1)",
            "exists(create_array(i, 2), greater_than(element(create_array(i, 2)), 1))",
        ),
        (
            "size(filter(array(i), (x, n) -> n < x)) = 1",
            "equal_to(size(filter(create_array(i), less_than(element_index(create_array(i)), "
            "element(create_array(i))))), 1)",
        ),
        ("get(array(i), 0) = 1", "equal_to(get_array_item{ansi=legacy}(create_array(i), 0), 1)"),
        ("split_part(s, '-', 2) = 'a'", "equal_to(split_part(s, '-', 2), 'a')"),
        (
            "regexp_extract(s, '(a)', 1) = regexp_extract(s, '(a)', 2)",
            "equal_to(reg_exp_extract{checked=java}(s, '(a)', 1), reg_exp_extract(s, '(a)', 2))",
        ),
        ("s > 'B' collate utf8_lcase", "greater_than(lower(s), lower('B'))"),
        (
            "s collate utf8_lcase_rtrim in ('B', null)",
            "in(lower(string_trim_right(s)), lower(string_trim_right('B')), "
            "lower(string_trim_right(None)))",
        ),
        (
            "s collate utf8_binary_rtrim between 'a' and 'b'",
            "and(or(is_null(try_eval(?)), is_not_null(try_eval(?))), "
            "greater_than_or_equal(string_trim_right(s), string_trim_right('a')), "
            "less_than_or_equal(string_trim_right(s), string_trim_right('b')))",
        ),
        (
            "aggregate(array(i), 0, (a, x) -> a + x, a -> -a) > 1",
            "greater_than(aggregate{variable=0}(create_array(i), 0, "
            "add{ansi=ansi}(accumulated{variable=0}(create_array(i)), element(create_array(i))), "
            "unary_minus{ansi=ansi}(accumulated{variable=0}(create_array(i)))), 1)",
        ),
        # A constant that fails must fail where the filter runs, not here.
        ("i = cast('abc' as int)", "equal_to(i, cast{ansi=ansi, zone=UTC}('abc'))"),
    ],
)
def test_a_filter_arrives_as_what_it_means(spark: SparkSession, sql: str, expected: str) -> None:
    assert text(analyse(spark, RELATION, sql, now=NOW).expr) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("rand() > 0.5", "greater_than(?, 0.5)"),
        ("id in (select 1)", "?"),
        ("s > 'a' collate unicode", "?"),
        ("startswith(s collate utf8_lcase, 'a')", "?"),
        ("upper(s collate utf8_lcase) = 'A'", "?"),
        ("uuid() = s and i = 1", "and(equal_to(?, s), equal_to(i, 1))"),
        ("aggregate(array(s), '', (a, x) -> a || x) > 'b'", "greater_than(?, 'b')"),
        ("ts > now() - make_interval(0, i)", "greater_than(ts, ?)"),
        (
            "from_json(js, 'a int', map('mode', 'FAILFAST')).a = 1",
            "equal_to(get_struct_field(?, 0), 1)",
        ),
        (
            "from_json(js, 'a int, _corrupt_record string').a = 1",
            "equal_to(get_struct_field(?, 0), 1)",
        ),
        ("mask(s) = 'a'", "equal_to(?, 'a')"),
        # Spark reads these by its own clock, at another moment than the planner's.
        ("ts < timestamp'now'", "?"),
        ("s = 'today' and d < date'today'", "?"),
        ("d < cast('today' as date)", "less_than(d, ?)"),
        ("ts > 'now'", "greater_than(ts, ?)"),
        ("ts > try_cast('yesterday' as timestamp)", "greater_than(ts, ?)"),
        ("d > cast(concat('to', 'day') as date)", "greater_than(d, ?)"),
    ],
)
def test_what_is_not_understood_is_opaque(spark: SparkSession, sql: str, expected: str) -> None:
    assert text(analyse(spark, RELATION, sql, now=NOW).expr) == expected


def test_a_word_of_the_clock_in_a_plain_text_is_a_text(spark: SparkSession) -> None:
    assert text(analyse(spark, RELATION, "s = 'today'").expr) == "equal_to(s, 'today')"


def test_a_python_function_is_opaque_and_named(spark: SparkSession) -> None:
    guess = fn.udf(lambda value: value, "int")

    found = analyse(spark, RELATION, guess("i") > 3)

    assert text(found.expr) == "greater_than(?, 3)"
    assert isinstance(found.expr, Call)
    assert "PythonUDF" in str(found.expr.args[0])


def test_a_very_deep_filter_costs_speed_only(spark: SparkSession) -> None:
    sql = " or ".join(f"(i = {n} and id < {n})" for n in range(120))

    found = analyse(spark, RELATION, sql)

    assert isinstance(found.expr, Call)
    assert len(found.expr.args) == 120


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nope = 3", r"UNRESOLVED_COLUMN.*fragment='nope' position=0"),
        ("s = 'a'\n and nope", r"fragment='nope' position=13"),
        ("i", "is not a boolean"),
        ("i = ", r"PARSE_SYNTAX_ERROR.*position=4"),
        ("ts > timestamp'abc'", r"fragment=\"timestamp'abc'\" position=5"),
        ("sum(i) > 3", "INVALID_WHERE_CONDITION"),
        ("ts > current_timestamp(3)", "INVALID_TIMESTAMP_PRECISION"),
        ("js:a::int > 3", "NOT_VARIANT_TYPE.*cure: jsonb is a text to Spark: get_json_object"),
        ("t > 3", "UNRESOLVED_COLUMN"),  # t and d are no columns of a row
        (3, "SQL text or a Column"),
    ],
)
def test_what_spark_refuses_is_an_invalid_request(
    spark: SparkSession, where: str, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said) as caught:
        analyse(spark, RELATION, where)
    assert "\n" not in caught.value.message


def test_a_column_object_is_a_filter(spark: SparkSession) -> None:
    found = analyse(spark, RELATION, (fn.col("i") > 3) & (fn.col("ts") < fn.now()), now=5)

    assert text(found.expr) == "and(greater_than(i, 3), less_than(ts, current_timestamp()))"
    assert (found.now_low, found.now_high) == (5, 5)
    assert "i > 3" in found.sql


def test_the_old_parser_of_dates_is_not_trusted(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    try:
        found = analyse(spark, RELATION, "to_timestamp(s, 'yyyy') > ts")
    finally:
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")

    assert text(found.expr) == "greater_than(?, ts)"


def test_a_literal_is_the_instant_it_means_in_every_zone(spark: SparkSession) -> None:
    """The autumn hour that comes twice has one text in Spark's JSON, and two instants."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = [
            text(analyse(spark, RELATION, f"ts = timestamp'2024-11-03 0{hour}:30:00Z'").expr)
            for hour in (5, 6)
        ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert found == ["equal_to(ts, 1730611800000000)", "equal_to(ts, 1730615400000000)"]


def test_every_opaque_reason_names_the_function(spark: SparkSession) -> None:
    named = {
        "mask(s) = 'a'": "mask",
        "aggregate(array(s), '', (a, x) -> a || x) > 'b'": "ArrayAggregate",
        "rand() > 0.5": "rand",
        "ts > now() - make_interval(0, i)": "make_interval",
    }
    for sql, name in named.items():
        assert name in repr(analyse(spark, RELATION, sql).expr), sql


def test_the_session_decides_what_overflow_means(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        found = analyse(spark, RELATION, "i + 1 = 2 and -i > 1 and ts > now()", now=(1, 9))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")

    assert "add{ansi=legacy}" in text(found.expr)
    assert "unary_minus{ansi=legacy}" in text(found.expr)
    assert (found.now_low, found.now_high) == (1, 9)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("S = 'x' or (id = 3 and rand() > 0.5)", ["id", "s"]),
        ("uuid() = js", ["js"]),
        ("s = 'a' and cast(js as int) + 1 between 1 and 5", ["js", "s"]),
        ("id in (select 1) and d < date'today'", ["id", "d"]),
    ],
)
def test_the_columns_of_a_filter_are_known(spark: SparkSession, sql: str, names: list[str]) -> None:
    found = [RELATION.by_id[i].name for i in referenced(spark, RELATION, sql)]

    assert found == names


@pytest.mark.parametrize(
    "sql",
    ["dec > 1.5 and bin = X'0aff' and dbl > double('nan')", "rand() > 0.5 or i in (1, null)"],
)
def test_an_analysed_filter_travels_as_text(spark: SparkSession, sql: str) -> None:
    found = analyse(spark, RELATION, sql, now=(1, 2))

    again = load_filter(dump_filter(found))

    assert repr(again) == repr(found)  # nan is not equal to itself


@pytest.mark.parametrize(
    "broken", ["", "[]", '{"expr":["call"],"sql":"","now":[1,2]}', '{"expr":1}']
)
def test_a_text_that_is_no_filter_is_refused(broken: str) -> None:
    with pytest.raises(InvalidRequest, match="not an analysed filter"):
        load_filter(broken)


@pytest.fixture(scope="module")
def ten_days(spark: SparkSession) -> DataFrame:
    """Return one row for each of the days from 2012-12-30 on, number 4 being the day of NOW."""
    return spark.sql(
        "select id i, date'2012-12-30' + cast(id as int) d, "
        "timestamp'2012-12-30 00:00:00' + make_dt_interval(id) ts, "
        "timestamp_ntz'2012-12-30 00:00:00' + make_dt_interval(id) tn from range(10)"
    )


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ts >= now()", [4, 5, 6, 7, 8, 9]),
        ("d > current_date()", [5, 6, 7, 8, 9]),
        ("d = curdate() or i = 0", [0, 4]),
        ("tn > localtimestamp() and i < 9", [5, 6, 7, 8]),
        ("ts between now() - interval 2 days and now()", [2, 3, 4]),
        ("unix_timestamp() = 1357171200 and i = 1", [1]),
        ("coalesce(ts > current_timestamp() - interval 1 day, false)", [4, 5, 6, 7, 8, 9]),
        ("i = 3", [3]),
        ("i in (select 3)", [3]),
    ],
)
def test_the_row_filter_stops_the_clock(
    spark: SparkSession, ten_days: DataFrame, sql: str, expected: list[int]
) -> None:
    assert [row.i for row in row_filter(spark, ten_days, sql, NOW).collect()] == expected


def test_the_clock_is_read_in_the_zone_of_the_session(
    spark: SparkSession, ten_days: DataFrame
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = row_filter(spark, ten_days, "d = current_date()", NOW).select("i").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert [row.i for row in rows] == [3]


def test_a_column_that_is_called_as_spark_calls_a_common_expression_is_itself(
    spark: SparkSession,
) -> None:
    """Spark numbers them for as long as a JVM lives: the names that come next are columns here."""
    plain = Relation(0, (Declared(1, "a", parse_type("float64")),), (1,), ())
    twice = "a * 1 between 0 and 1000"
    condition = normalised(spark, analysed_filter(filtered(empty_frame(spark, plain), twice)))
    assert condition is not None
    used = {n.fields["name"] for n in condition.node.walk() if n.name == "AttributeReference"}
    number = max(int(name.removeprefix("_common_expr_")) for name in used)
    names = [f"_common_expr_{number + n}" for n in range(1, 9)]
    others = [Declared(i, name, parse_type("float64")) for i, name in enumerate(names, 2)]
    relation = Relation(0, (*plain.columns, *others), (1,), ())

    where = " and ".join([twice, *(f"{name} = 500" for name in names)])
    found = analyse(spark, relation, where).expr

    assert isinstance(found, Call)
    compared = [
        arg.args[0] for arg in found.args if isinstance(arg, Call) and arg.function == "equal_to"
    ]
    assert [one.name for one in compared if isinstance(one, Column)] == names
