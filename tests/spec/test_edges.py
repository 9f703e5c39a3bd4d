"""One line for each edge at which a rule turns: the least change of the rule moves a verdict.

Each was once survived by a mutant of the rule in every fast test. The first of two lines stands
on the edge, the second one step inside, so that the rule may not be blunt either.
"""

import numpy as np
import pyarrow as pa
import pytest

from strata.expr.elements import Elements
from strata.expr.entry import Context, bools
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.spec import NO, YES, Json, Numbers, Spec, Texts, Values, occupied

ZONE = (("ansi", "ansi"), ("zone", "America/New_York"))
ANSI = (("ansi", "ansi"),)
LAST_DAY = 106_751_991  # the last whose midnight fits in 64 bits of microseconds
LEAST, MOST = -(2**63), 2**63 - 1
DAY_US = 86_400_000_000
YEAR_1, YEAR_9999 = -719_162 * DAY_US, 2_932_896 * DAY_US  # their first and last midnight


class Held:
    """The environment of one part whose columns hold given values."""

    def __init__(self, *values: Values) -> None:
        self._values = values

    def column(self, column: Column) -> Spec:
        """Return what the column of this number holds."""
        return Spec(self._values[column.id])


def between(low: int, high: int) -> Numbers:
    return Numbers(np.array([low]), np.array([high]))


def yields(expr: Expr, *values: Values) -> Spec:
    """Return what an expression may yield on columns 0, 1, ... with these values."""
    with np.errstate(over="ignore"):
        return Interpreter(Context(0, 0), lenient=False).evaluate(expr, Held(*values))


def may_fail(expr: Expr, *values: Values) -> bool:
    return bool(yields(expr, *values).fail.any())


def call(function: str, *args: Expr, kind: str, options: tuple[tuple[str, str], ...] = ()) -> Call:
    return Call(function, args, kind, options)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_date_at_the_end_of_time_may_not_fit_in_a_zone(sign: int) -> None:
    expr = call("cast", Column(0, "d", "date"), kind="timestamp", options=ZONE)

    for edge in (LAST_DAY, LAST_DAY - 1):
        assert may_fail(expr, between(sign * edge, sign * edge))
    assert not may_fail(expr, between(sign * (LAST_DAY - 2), sign * (LAST_DAY - 2)))


@pytest.mark.parametrize(
    ("source", "target"), [("timestamp_ntz", "timestamp"), ("timestamp", "timestamp_ntz")]
)
def test_an_instant_at_the_end_of_time_may_not_fit_in_a_zone(source: str, target: str) -> None:
    expr = call("cast", Column(0, "t", source), kind=target, options=ZONE)

    for edge in (LEAST, MOST, LEAST + DAY_US // 2, MOST - DAY_US // 2):
        assert may_fail(expr, between(edge, edge))
    assert not may_fail(expr, between(LEAST + 4 * DAY_US, LEAST + 5 * DAY_US))
    assert not may_fail(expr, between(MOST - 5 * DAY_US, MOST - 4 * DAY_US))


def test_the_least_integer_has_no_quotient_by_minus_one_wherever_it_may_come_up() -> None:
    least = Literal(LEAST, "long")
    expr = call("integral_divide", least, Column(0, "x", "long"), kind="long", options=ANSI)

    assert may_fail(expr, between(-1, 5))
    assert may_fail(expr, between(-5, -1))
    assert may_fail(expr, between(-1, -1))
    assert not may_fail(expr, between(-5, -2))
    assert not may_fail(expr, between(1, 5))


@pytest.mark.parametrize(
    ("low", "high", "plain"),
    [
        (YEAR_9999 + DAY_US // 2, YEAR_9999 + DAY_US // 2, False),
        (YEAR_9999 - 3 * DAY_US, YEAR_9999 - 3 * DAY_US, False),
        (YEAR_9999 - 5 * DAY_US, YEAR_9999 - 5 * DAY_US, True),
        (YEAR_1 + DAY_US // 2, YEAR_1 + DAY_US // 2, False),
        (YEAR_1 + 3 * DAY_US, YEAR_1 + 3 * DAY_US, False),
        (YEAR_1 + 5 * DAY_US, YEAR_1 + 5 * DAY_US, True),
    ],
)
def test_the_texts_of_times_are_in_order_where_a_zone_leaves_four_digits(
    low: int, high: int, plain: bool
) -> None:
    expr = call("cast", Column(0, "t", "timestamp"), kind="string", options=ZONE)

    found = yields(expr, between(low, high)).values
    assert isinstance(found, Texts)
    assert (found.low is not None) == plain


def test_an_index_beyond_32_bits_is_cut_and_may_hit_any_element() -> None:
    elements = Elements(NO, lambda: Spec(between(7, 7)), np.array([3]), np.array([3]))
    expr = call(
        "get_array_item",
        Column(0, "l", "array<int>"),
        Column(1, "i", "long"),
        kind="integer",
        options=ANSI,
    )

    wild = yields(expr, elements, between(2**32 + 1, 2**32 + 1))
    assert occupied(wild.values).all()
    assert may_fail(expr, elements, between(2**32 + 1, 2**32 + 1))
    outside = yields(expr, elements, between(2**31 - 1, 2**31 - 1))
    assert not occupied(outside.values).any()


def test_a_week_begins_anywhere_within_eleven_days_of_the_least_date() -> None:
    """Spark counts weeks in 32 bits: `trunc(date '-5877641-07-02', 'week')` lies in the future."""
    expr = call("trunc", Column(0, "d", "date"), Literal("week", "string"), kind="date")
    wrapped, plain = (yields(expr, between(-(2**31) + n, -(2**31) + n)).values for n in (10, 11))

    assert isinstance(wrapped, Numbers)
    assert isinstance(plain, Numbers)
    assert wrapped.high[0] == 2**31 - 1
    assert plain.high[0] < 20 - 2**31


def test_years_that_are_too_many_months_fail_with_any_months() -> None:
    expr = call(
        "make_ym_interval",
        Column(0, "y", "integer"),
        Column(1, "m", "integer"),
        kind="interval year to month",
    )
    months = between(-(2**31), -(2**31))
    years = (2**31 - 1) // 12

    assert may_fail(expr, between(years + 1, years + 1), months)
    assert not may_fail(expr, between(years, years), months)
    assert may_fail(expr, between(-years - 1, -years - 1), between(100, 100))
    assert not may_fail(expr, between(-years, -years), between(100, 100))


def test_the_next_day_wraps_within_two_weeks_of_the_least_date() -> None:
    expr = call("next_day", Column(0, "d", "date"), Literal("MON", "string"), kind="date")
    least = -(2**31)

    for start in (0, 1, 6, 13):
        found = yields(expr, between(least + start, least + start)).values
        assert isinstance(found, Numbers)
        assert (found.low[0], found.high[0]) == (least + start + 1, least + start + 7)
    found = yields(expr, between(0, 0)).values
    assert isinstance(found, Numbers)
    assert found.low[0] == found.high[0] == 4  # 1970-01-05


@pytest.mark.parametrize(
    ("start", "end", "months"),
    [
        ("2023-01-30T23:59:59.999999", "2023-03-01T00:00:00.000001", 0),  # Spark's answers
        ("2023-01-31T23:59:59.999999", "2023-05-01T00:00:00.000000", 2),
        ("2023-01-31T00:00:00.000000", "2023-03-01T00:00:00.000000", 1),
        ("2023-03-01T00:00:00.000000", "2023-01-31T00:00:00.000001", -1),
    ],
)
def test_a_month_ends_early_where_a_day_is_not_whole(start: str, end: str, months: int) -> None:
    a, b = (int(np.datetime64(text, "us").astype(np.int64)) for text in (start, end))
    columns = Column(0, "a", "timestamp_ntz"), Column(1, "b", "timestamp_ntz")
    expr = call("timestamp_diff", *columns, kind="long", options=(("unit", "MONTH"),))

    found = yields(expr, between(a, a), between(b, b)).values
    assert isinstance(found, Numbers)
    assert found.low[0] <= months <= found.high[0]
    assert found.high[0] - found.low[0] <= 2


@pytest.mark.parametrize(
    ("pattern", "text", "may"),
    [
        ("^a.b", "axb", True),
        ("^a.b", "bxb", False),
        ("^a[x]b", "axb", True),
        ("^a\\.b", "a.b", True),
        ("^a+b", "aab", True),
        ("^ab", "axb", False),
    ],
)
def test_only_letters_that_mean_themselves_are_a_fixed_start(
    pattern: str, text: str, may: bool
) -> None:
    column, literal = Column(0, "s", "string"), Literal(pattern, "string")
    expr = call("rlike", column, literal, kind="boolean", options=(("checked", "java"),))
    low, high = (pa.array([(text + end).encode()], pa.binary()) for end in ("", "~"))

    assert bool(bools(yields(expr, Texts(low, high))).true[0]) == may


def column(number: int, kind: str) -> Column:
    return Column(number, f"c{number}", kind)


def floats(low: float, high: float) -> Numbers:
    return Numbers(np.array([low]), np.array([high]))


def json_of(numbers: Numbers, strings: Texts) -> Json:
    """Return the values of a path that holds whole numbers, texts, and nothing else."""
    nothing = Spec(Texts(None, None, YES), YES)
    return Json(NO, NO, numbers, YES, strings, NO, NO, quoted=False, child=lambda _: nothing)


def ends(expr: Expr, *values: Values) -> tuple[int, int]:
    """Return the range of numbers that an expression may yield."""
    found = yields(expr, *values).values
    assert isinstance(found, Numbers)
    assert not found.empty.any()
    return found.low[0], found.high[0]


def test_decimals_of_different_scales_are_not_divided_as_they_are_kept() -> None:
    args = column(0, "decimal(10,2)"), column(1, "decimal(10,1)")
    expr = call("integral_divide", *args, kind="long", options=ANSI)

    low, high = ends(expr, between(150, 150), between(5, 5))  # 1.50 div 0.5
    assert low <= 3 <= high


def test_a_shift_by_unknown_places_may_be_any_number_and_nothing_else() -> None:
    found = yields(
        call("shift_left", column(0, "long"), column(1, "integer"), kind="long"),
        between(1, 2),
        between(3, 3),
    )

    assert not found.null.any()
    assert not found.fail.any()


@pytest.mark.parametrize(
    ("value", "fails"),
    [
        (2.0**31 - 1, False),
        (2.0**31 - 0.5, False),
        (2.0**31, True),
        (-(2.0**31), False),
        (-(2.0**31) - 0.5, False),
        (-(2.0**31) - 1, True),
    ],
)
def test_a_double_fits_an_integer_to_its_last_whole_number(value: float, fails: bool) -> None:
    expr = call("cast", column(0, "double"), kind="integer", options=ANSI)

    assert may_fail(expr, floats(value, value)) == fails


@pytest.mark.parametrize(
    ("value", "fails"),
    [
        (2.0**31 - 1, False),
        (2.0**31, True),
        (-(2.0**31), False),
        (-(2.0**31) - 1, True),
    ],
)
def test_a_number_of_json_fits_an_integer_to_its_last(value: float, fails: bool) -> None:
    document = json_of(floats(value, value), Texts(None, None, YES))
    expr = call("cast", column(0, "string"), kind="integer", options=ANSI)

    assert may_fail(expr, document) == fails


def test_dates_too_far_apart_have_no_interval() -> None:
    expr = call("subtract_dates", column(0, "date"), column(1, "date"), kind="interval day")

    assert may_fail(expr, between(2**31 - 1, 2**31 - 1), between(-(2**31), -(2**31)))
    assert may_fail(expr, between(0, LAST_DAY + 1), between(0, 0))
    assert not may_fail(expr, between(0, 20_000), between(0, 20_000))


def test_a_range_that_begins_below_the_buckets_ends_in_one() -> None:
    edges = Literal(0.0, "double"), Literal(10.0, "double"), Literal(5, "long")
    expr = call("width_bucket", column(0, "double"), *edges, kind="long")

    assert ends(expr, floats(-1.0, 5.0)) == (0, 3)
    assert ends(expr, floats(-2.0, -1.0)) == (0, 0)
    assert ends(expr, floats(9.0, 10.0)) == (5, 6)


@pytest.mark.parametrize(
    ("pattern", "options", "fails"),
    [
        ("a+", (("checked", "java"),), False),
        ("a+", (), True),
        ("(a|b)*", (("checked", "java"),), True),
    ],
)
def test_matching_fails_where_its_expression_was_not_checked(
    pattern: str, options: tuple[tuple[str, str], ...], fails: bool
) -> None:
    args = column(0, "string"), Literal(pattern, "string"), Literal(0, "integer")
    expr = call("reg_exp_extract", *args, kind="string", options=options)

    assert may_fail(expr, Texts(None, None)) == fails


@pytest.mark.parametrize("scale", [-400, -300, 299, 400])
def test_a_double_is_rounded_to_any_scale(scale: int) -> None:
    args = column(0, "double"), Literal(scale, "integer")

    low, high = ends(call("round", *args, kind="double"), floats(5.5, 5.5))
    assert low <= (0.0 if scale < 0 else 5.5) <= high


@pytest.mark.parametrize(
    ("days", "low", "high", "fails"),
    [
        (1, 0, MOST, True),
        (1, 0, MOST - DAY_US, False),
        (-1, LEAST, 0, True),
        (-1, LEAST + DAY_US, 0, False),
        (2**62, 0, 0, True),
    ],
)
def test_a_time_that_is_moved_beyond_the_last_fails(
    days: int, low: int, high: int, fails: bool
) -> None:
    args = column(0, "long"), column(1, "timestamp_ntz")
    expr = call("timestamp_add", *args, kind="timestamp_ntz", options=(("unit", "DAY"),))

    assert may_fail(expr, between(days, days), between(low, high)) == fails


def test_seconds_with_a_fraction_are_not_read_as_whole_ones() -> None:
    expr = call("seconds_to_timestamp", column(0, "decimal(10,2)"), kind="timestamp")

    low, high = ends(expr, between(150, 150))
    assert low <= 1_500_000 <= high


@pytest.mark.parametrize(("bits", "some"), [(256, True), (0, True), (7, False)])
def test_a_length_that_sha_2_has_not_yields_null(bits: int, some: bool) -> None:
    expr = call("sha2", column(0, "binary"), Literal(bits, "integer"), kind="string")

    found = yields(expr, Texts(None, None))
    assert (bool(occupied(found.values).all()), bool(found.null.any())) == (some, not some)


def test_one_part_without_strings_does_not_speak_for_the_others() -> None:
    """A string of JSON may hold a document; a path leads into it in the parts that have some."""
    strings = Texts(None, None, np.array([True, False]))
    document = json_of(Numbers(np.array([0.0]), np.array([0.0]), YES), strings)
    path = Literal("$.b", "string")
    expr = call("get_json_object", column(0, "string"), path, kind="string")

    assert occupied(yields(expr, document).values)[-1]
