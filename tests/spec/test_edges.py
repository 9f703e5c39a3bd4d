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
from strata.expr.spec import NO, Numbers, Spec, Texts, Values, occupied

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


@pytest.mark.parametrize(("source", "target"), [("timestamp_ntz", "timestamp"),
                                                ("timestamp", "timestamp_ntz")])  # fmt: skip
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
    expr = call("get_array_item", Column(0, "l", "array<int>"), Column(1, "i", "long"),
                kind="integer", options=ANSI)  # fmt: skip

    wild = yields(expr, elements, between(2**32 + 1, 2**32 + 1))
    assert occupied(wild.values).all()
    assert may_fail(expr, elements, between(2**32 + 1, 2**32 + 1))
    outside = yields(expr, elements, between(2**31 - 1, 2**31 - 1))
    assert not occupied(outside.values).any()


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
    [("^a.b", "axb", True), ("^a.b", "bxb", False), ("^a[x]b", "axb", True),
     ("^a\\.b", "a.b", True), ("^a+b", "aab", True), ("^ab", "axb", False)],
)  # fmt: skip
def test_only_letters_that_mean_themselves_are_a_fixed_start(
    pattern: str, text: str, may: bool
) -> None:
    column, literal = Column(0, "s", "string"), Literal(pattern, "string")
    expr = call("rlike", column, literal, kind="boolean", options=(("checked", "java"),))
    bound = pa.array([text.encode()], pa.binary())

    assert bool(bools(yields(expr, Texts(bound, bound))).true[0]) == may
