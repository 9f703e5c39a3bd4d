"""How far what two places of a row differ by narrows, to the unit, and where it says nothing."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata.decide.decision import decide
from strata.decide.differences import PairInterpreter
from strata.decide.reasons import explain
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.spec import Numbers
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.stats import collect, concat
from strata.stats.pairs import PairGathering, wanted_pairs
from tests.laws.test_pairs import (
    COMPARED,
    DAY_US,
    INTERVAL,
    RELATION,
    SIDES,
    Rows,
    needs,
    statistics,
)
from tests.support.sizes import slice_of

MODES = ("ansi", "try", "legacy")  # they share the amounts
FURTHEST = (2**63 - 1) // DAY_US  # days whose microseconds fit 64 bits


def keeps(expr: Expr, part: Rows, kind: str) -> bool:
    return bool(decide(Filter(expr, "", 0, 0), statistics([part], kind), RELATION).keep[0])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("apart", [1, FURTHEST, FURTHEST + 1, 2 * FURTHEST + 5, 2**32 - 10**6])
def test_a_difference_of_dates_fails_beyond_64_bits(apart: int, sign: int) -> None:
    a, b = SIDES["date"]
    near = apart // 2
    part: Rows = [{a.id: sign * near + by, b.id: sign * (near - apart) + by} for by in (-99, 0, 99)]
    asked = Call("subtract_dates", (a, b), "interval day")
    expr = Call("equal_to", (asked, Literal(0, "interval day")), "boolean")

    assert needs(expr, part) == (apart > FURTHEST)
    assert keeps(expr, part, "date") == needs(expr, part)


@pytest.mark.parametrize(
    ("kind", "target", "alike"),
    [
        ("integer", "integer", True),
        ("integer", "long", True),
        ("long", "long", True),
        ("long", "integer", False),
        ("integer", "short", False),
        ("integer", "double", False),
        ("float", "double", True),
        ("double", "float", False),
        ("date", "date", True),
        ("decimal(9,2)", "decimal(9,2)", True),
        ("decimal(9,2)", "decimal(12,2)", True),
        ("decimal(9,2)", "decimal(8,2)", False),
        ("decimal(9,2)", "decimal(12,3)", False),
    ],
)
def test_casts_that_keep_each_number_are_looked_through(
    kind: str, target: str, alike: bool
) -> None:
    one = Decimal if kind.startswith("decimal") else float if kind in ("float", "double") else int
    a, b = SIDES[kind]
    part: list[dict[int, Any]] = [{a.id: one(n), b.id: one(n + 1)} for n in (0, 500)]
    sides = tuple(Call("cast", (side,), target) for side in (a, b))
    expr = Call("greater_than", sides, "boolean")

    assert keeps(expr, part, kind) != alike


@pytest.mark.parametrize(
    ("kind", "seen"),
    [("date", "integer"), ("date", "timestamp"), ("decimal(9,2)", "decimal(9,3)")],
)
def test_a_filter_that_sees_other_types_learns_nothing(kind: str, seen: str) -> None:
    """Its numbers are in other units than those whose differences are recorded."""
    one = Decimal if kind.startswith("decimal") else int
    a, b = SIDES[kind]
    part: list[dict[int, Any]] = [{a.id: one(n), b.id: one(n + 1)} for n in (0, 500)]
    for left, right, kept in ((kind, kind, False), (seen, seen, True), (seen, kind, True)):
        sides = Column(a.id, a.name, left), Column(b.id, b.name, right)
        assert keeps(Call("greater_than", sides, "boolean"), part, kind) == kept


def test_a_reason_shows_what_is_recorded_the_other_way_round() -> None:
    a, b = SIDES["integer"]
    part: Rows = [{a.id: start, b.id: start + 1} for start in (0, 500)]
    expr = Call("less_than", (b, a), "boolean")

    (found,) = explain(Filter(expr, "", 0, 0), statistics([part], "integer"), RELATION, [0])

    assert found.endswith(
        f"with {a.name} - {b.name} in [-1, -1], {a.name} / {b.name} in [0, 0.998004]"
    )


UNITS = {
    "microsecond": 1,
    "MILLISECOND": 1000,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": DAY_US,
    "week": 7 * DAY_US,
}


@pytest.mark.parametrize("unit", UNITS)
def test_whole_units_between_two_times_are_exact(unit: str) -> None:
    start, end = SIDES["timestamp"]
    us = UNITS[unit]
    apart = [3 * us, 6 * us - 1] if us > 1 else [3, 5]
    part: Rows = [{start.id: 10**15 * n, end.id: 10**15 * n + by} for n, by in enumerate(apart)]
    asked = Call("timestamp_diff", (start, end), "long", (("unit", unit),))
    view = PartSpecs(statistics([part], "timestamp"), RELATION, ()).at(slice(0, 1))

    values = PairInterpreter(Context(0, 0)).evaluate(asked, view).values

    assert isinstance(values, Numbers)
    assert (values.low.tolist(), values.high.tolist()) == ([3], [5])


def moved(kind: str, function: str, by: int, mode: str) -> list[tuple[Expr, Expr]]:
    """Return two sides of a comparison, of which one is moved by a constant."""
    a, b = SIDES[kind]
    constant, options = Literal(by, "integer"), (("ansi", mode),)
    one, other = (Call(function, (side, constant), kind, options) for side in (a, b))
    found: list[tuple[Expr, Expr]] = [(one, b), (a, other), (one, other)]
    if function == "add":
        found.append((Call(function, (constant, a), kind, options), b))
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("kind", "function"),
    [("integer", "add"), ("integer", "subtract"), ("date", "date_add"), ("date", "date_sub")],
)
def test_what_is_moved_differs_by_as_much_more(kind: str, function: str, mode: str) -> None:
    """The ranges of both places overlap; each row differs by two."""
    a, b = SIDES[kind]
    part: Rows = [{a.id: start + 2, b.id: start} for start in (0, 100, 10**6)]
    for by in slice_of((-3, -2, -1, 0, 2, 3), MODES.index(mode), len(MODES)):
        for sides in moved(kind, function, by, mode):
            for compared in COMPARED:
                expr = Call(compared, sides, "boolean")
                assert keeps(expr, part, kind) == needs(expr, part), expr


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize(
    ("kind", "function"),
    [
        *(("integer", "add"), ("integer", "subtract"), ("long", "add"), ("long", "subtract")),
        *(("date", "date_add"), ("date", "date_sub")),
    ],
)
def test_what_wraps_differs_by_anything(kind: str, function: str, by: int) -> None:
    a, b = SIDES[kind]
    most = 2 ** (63 if kind == "long" else 31)
    end = most - 1 if (by > 0) == (function in ("add", "date_add")) else -most
    part: Rows = [{a.id: end, b.id: end}, {a.id: 0, b.id: 0}]
    for sides in moved(kind, function, by, "legacy")[:2]:
        for compared in COMPARED:
            expr = Call(compared, sides, "boolean")
            assert keeps(expr, part, kind) >= needs(expr, part), expr


@pytest.mark.parametrize("most", [2**31 - 2, 2**31 - 1])
def test_only_a_sum_that_may_wrap_is_less_than_what_it_was_added_to(most: int) -> None:
    a, b = SIDES["integer"]
    part: Rows = [{a.id: most, b.id: most}, {a.id: 0, b.id: 0}]
    more = Call("add", (a, Literal(1, "integer")), "integer", (("ansi", "legacy"),))
    expr = Call("less_than", (more, b), "boolean")

    assert keeps(expr, part, "integer") == needs(expr, part) == (most == 2**31 - 1)


@pytest.mark.parametrize("by", [0, 1])
def test_a_difference_of_what_failed_before_it_was_moved_fails(by: int) -> None:
    a, b = SIDES["timestamp"]
    part: Rows = [{a.id: 2**63 - 1, b.id: 2**63 - 1}, {a.id: 0, b.id: 0}]
    later = Call("timestamp_add_interval", (a, Literal(DAY_US, INTERVAL)), "timestamp")
    left, right = (Call("cast", (side,), "date") for side in (later, b))
    left = Call("date_add", (left, Literal(by, "integer")), "date")
    days = Call("subtract_dates", (left, right), "interval day")
    expr = Call("greater_than", (days, Literal(100 * DAY_US, "interval day")), "boolean")

    assert needs(expr, part)
    assert keeps(expr, part, "timestamp")


@pytest.mark.parametrize("kind", ["timestamp", "integer"])
def test_a_difference_of_what_fails_as_it_is_moved_fails(kind: str) -> None:
    a, b = SIDES[kind]
    most = 2**63 - 1 if kind == "timestamp" else 2**31 - 1
    part: Rows = [{a.id: most, b.id: most}, {a.id: 0, b.id: 0}]
    if kind == "timestamp":
        later = Call("timestamp_add_interval", (a, Literal(DAY_US, INTERVAL)), kind)
        apart: Expr = Call("subtract_timestamps", (later, b), INTERVAL)
    else:
        apart = Call("subtract", (Call("add", (a, Literal(1, kind)), kind), b), kind)
    expr = Call("equal_to", (apart, Literal(0, apart.type)), "boolean")

    assert needs(expr, part)
    assert keeps(expr, part, kind)


@pytest.mark.parametrize("function", ["date_add", "date_sub"])
def test_days_of_times_that_are_moved_differ_by_as_much_more(function: str) -> None:
    a, b = SIDES["timestamp"]
    part: Rows = [{a.id: (day + 2) * DAY_US, b.id: day * DAY_US} for day in (0, 100, 10**6)]
    left, right = (Call("cast", (side,), "date") for side in (a, b))
    for by in (-3, -2, -1, 0, 1, 2, 3):
        one, other = (Call(function, (x, Literal(by, "integer")), "date") for x in (left, right))
        for sides in ((one, right), (left, other), (one, other)):
            for compared in COMPARED:
                expr = Call(compared, sides, "boolean")
                assert keeps(expr, part, "timestamp") == needs(expr, part), expr


def test_a_constant_less_a_place_falls_as_the_place_grows() -> None:
    a, b = SIDES["integer"]
    part: Rows = [{a.id: start + 2, b.id: start} for start in (0, 100, 10**6)]
    for compared in COMPARED:
        left = Call("subtract", (Literal(7, "integer"), a), "integer")
        expr = Call(compared, (left, b), "boolean")
        assert keeps(expr, part, "integer") >= needs(expr, part), expr


AMOUNTS = (Column(1, "paid", "decimal(18,10)"), Column(2, "due", "decimal(18,10)"))


def difference_of_amounts(cast: str, result: str) -> Numbers:
    """Return what is known of paid - due, which is exactly one in each row."""
    kind = parse_type("numeric(18,10)")
    relation = Relation(0, tuple(Declared(c.id, c.name, kind) for c in AMOUNTS), (1,), (1,))
    raw = [(Decimal(start + 1), Decimal(start)) for start in (0, 5000)]
    columns = {str(n + 1): pa.array([r[n] for r in raw], pa.decimal128(18, 10)) for n in (0, 1)}
    pairs = PairGathering(wanted_pairs(relation, StatsSpec(pairs=(("paid", "due"),))))
    pairs.add(pa.table(columns))
    stats = concat([pairs.beside(collect(pa.table(columns), relation))], [2])
    view = PartSpecs(stats, relation, ()).at(slice(0, 1))
    sides = tuple(Call("cast", (side,), cast) if cast else side for side in AMOUNTS)
    found = PairInterpreter(Context(0, 0)).evaluate(Call("subtract", sides, result), view).values
    assert isinstance(found, Numbers)
    return found


def ends(values: Numbers) -> tuple[Any, Any]:
    return int(np.ravel(values.low)[0]), int(np.ravel(values.high)[0])


def test_a_difference_of_decimals_beyond_64_bits_is_narrowed() -> None:
    """Of decimal(18) it is a decimal(19), whose bounds are Python's integers."""
    assert ends(difference_of_amounts("", "decimal(19,10)")) == (10**10, 10**10)


def test_a_difference_of_decimals_that_is_rounded_is_in_other_units() -> None:
    """Spark has no room for ten digits of its fraction."""
    low, high = ends(difference_of_amounts("decimal(38,10)", "decimal(38,9)"))
    assert low <= 10**9 <= high
