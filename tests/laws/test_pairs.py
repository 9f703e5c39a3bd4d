"""Law: where it is known how two places of a row differ, no needed part is skipped.

And each result lies in what the pair leaves of its range, for every kind of numbers, with the
edges of their types, NaN, -0.0, infinities, nulls, and times before 1970.
"""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.decide.decision import decide
from strata.decide.differences import PairInterpreter
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.sparktype import spark_type
from strata.format.encodings import arrow_type
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.stats import collect, concat
from strata.stats.pairs import PairGathering, pair_contradictions, pair_facts, wanted_pairs
from strata.stats.wire import PAIR
from tests.support.expressions import contains, values
from tests.support.sizes import tries
from tests.twins.concrete import Failed, Value, evaluate, rounded

DECIMAL, WIDE = "decimal(9,2)", "decimal(18,10)"
DIFFERENCE = {DECIMAL: "decimal(10,2)", WIDE: "decimal(19,10)"}
TYPES = {
    "integer": "int32",
    "long": "int64",
    "double": "float64",
    "float": "float32",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    DECIMAL: "numeric(9,2)",
    WIDE: "numeric(18,10)",
}
SIDES = {
    kind: (Column(2 * n + 1, f"a{n}", kind), Column(2 * n + 2, f"b{n}", kind))
    for n, kind in enumerate(TYPES)
}
RELATION = Relation(
    0,
    tuple(
        Declared(c.id, c.name, parse_type(TYPES[kind]))
        for kind, both in SIDES.items()
        for c in both
    ),
    (1,),
    (1,),
)
MANY = settings(max_examples=tries(25, settings().max_examples * 5))
COMPARED = ("equal_to", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")
DAY_US = 86_400_000_000
INTERVAL = "interval day to second"
Rows = list[dict[int, Value]]


@st.composite
def rows(draw: st.DrawFn, kind: str) -> Rows:
    """Return one to four rows of two places that differ little, or by anything."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        a = draw(one_value(kind))
        b = _near(kind, a, draw(st.integers(-3, 3))) if draw(st.booleans()) else None
        found.append((a, draw(one_value(kind)) if b is None else b))
    left, right = SIDES[kind]
    none = st.sampled_from((False,) * 7 + (True,))
    return [
        {left.id: None if draw(none) else a, right.id: None if draw(none) else b} for a, b in found
    ]


def one_value(kind: str) -> st.SearchStrategy[Any]:
    if kind == WIDE:
        most = 10**18 - 1
        raw = st.integers(-most, most) | st.sampled_from((-most, -1, 0, 1, 10**10, most))
        return raw.map(lambda value: Decimal(value).scaleb(-10))
    if kind == DECIMAL:
        return st.decimals(-9_999_999, 9_999_999, places=2) | st.decimals(-3, 3, places=2)
    if kind == "float":
        few = st.sampled_from((float("nan"), -0.0, float("inf"), float("-inf"), 3.4e38, 1e-45))
        few = few.map(rounded)
        return few | st.integers(-5, 5).map(float) | st.floats(width=32)
    if kind == "double":
        odd = (float("nan"), -0.0, float("inf"), float("-inf"), 5e-324, 1.7e308, 2.0**53 + 2)
        # Quotients of the last are infinite, and those of their differences, too
        far = st.sampled_from((1e308, -1e308, 1e-10, -1e-10))
        return values(kind) | values(kind) | st.sampled_from(odd) | far
    if kind == "date":
        return values(kind) | st.sampled_from((-(2**31), 2**31 - 1, -1, 0, 1))
    if kind.startswith("timestamp"):
        odd = (-(2**63), 2**63 - 1, -1, 0, 1, -999_999, 10**6 - 1, -DAY_US)
        return values("timestamp") | st.integers(-3 * 10**6, 3 * 10**6) | st.sampled_from(odd)
    return values(kind)


LIMITS = {"integer": 31, "date": 31, "long": 63, "timestamp": 63, "timestamp_ntz": 63}


def _near(kind: str, value: Any, by: int) -> Any:
    if kind in DIFFERENCE:
        near = value + Decimal(by)
        return near if abs(near) < 10**7 else value
    if kind in LIMITS:
        unit = 1 if kind != "timestamp" else 700_000
        most = 2 ** LIMITS[kind]
        return min(max(value + by * unit, -most), most - 1)
    return rounded(value + by) if kind == "float" else value + by


def constants(kind: str) -> st.SearchStrategy[Expr]:
    """Return constants that a difference is compared with."""
    few = st.integers(-4, 4)
    if kind.startswith("interval"):
        few = st.sampled_from((-DAY_US, -(10**6), -1, 0, 1, 700_000, 10**6, DAY_US, 3 * DAY_US))
    if kind in ("double", "float"):
        ends = (-1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 1e300, float("inf"), float("-inf"))
        return st.sampled_from(ends).map(lambda value: Literal(value, kind))
    if kind.startswith("decimal"):
        return few.map(lambda value: Literal(Decimal(value), kind))
    return few.map(lambda value: Literal(value, kind))


@st.composite
def terms(draw: st.DrawFn, kind: str, place: Column, mode: str) -> Expr:
    """Return a value that is made of a place."""
    ansi = (("ansi", mode),)
    by = Literal(draw(st.sampled_from((-3, -1, 1, 2, 2**31 - 1, -(2**31)))), "integer")
    if kind in ("integer", "long"):
        wide = Literal(by.value, kind)
        function = draw(st.sampled_from(("", "add", "subtract", "turned")))
        if function == "turned":
            return Call("add", (wide, place), kind, ansi)
        return Call(function, (place, wide), kind, ansi) if function else place
    if kind == "date":
        function = draw(st.sampled_from(("", "date_add", "date_sub")))
        return Call(function, (place, by), "date") if function else place
    if kind.startswith("timestamp") and draw(st.booleans()):
        apart = draw(constants(INTERVAL))
        return Call("timestamp_add_interval", (place, apart), kind)
    return place


@st.composite
def comparable(draw: st.DrawFn, kind: str, mode: str) -> tuple[Expr, Expr]:
    """Return two values of one type, each made of one of the places, in the same units."""
    left, right = SIDES[kind]
    if draw(st.booleans()):
        left, right = right, left
    a, b = (draw(terms(kind, place, mode)) for place in (left, right))
    if not kind.startswith("timestamp"):
        return a, b
    functions = ["", "date", "unix_seconds", "unix_millis", "unix_micros", "unix_timestamp", "long"]
    if kind == "timestamp_ntz":
        functions = ["", "date"]
    function = draw(st.sampled_from(functions))
    if function in ("date", "long"):
        return Call("cast", (a,), function), Call("cast", (b,), function)
    return (_counted(function, a), _counted(function, b)) if function else (a, b)


def _counted(function: str, time: Expr) -> Expr:
    """Return a time in units; one of these functions has a format for texts."""
    more = (Literal("yyyy-MM-dd", "string"),) if function == "unix_timestamp" else ()
    return Call(function, (time, *more), "long")


@st.composite
def differences(draw: st.DrawFn, kind: str, mode: str) -> Expr:
    """Return a difference or a quotient of two places."""
    a, b = draw(comparable(kind, mode))
    ansi, of = (("ansi", mode),), a.type
    if of == "date":
        function, result = draw(
            st.sampled_from((("date_diff", "integer"), ("subtract_dates", "interval day")))
        )
        return Call(function, (a, b), result)
    if of.startswith("timestamp"):
        if draw(st.booleans()):
            return Call("subtract_timestamps", (a, b), INTERVAL)
        unit = draw(st.sampled_from(("second", "minute", "hour", "day")))
        return Call("timestamp_diff", (a, b), "long", (("unit", unit),))
    if of.startswith("decimal"):
        return Call("subtract", (a, b), DIFFERENCE[of], ansi)
    difference = Call("subtract", (a, b), of, ansi)
    if draw(st.booleans()):
        return difference
    left, right = draw(st.permutations(SIDES[kind])) if kind in TYPES else (a, b)
    above = draw(
        st.sampled_from(
            (
                left,
                Call("subtract", (left, right), kind, ansi),
                Call("subtract", (right, left), kind, ansi),
            )
        )
    )
    if kind in ("integer", "long", "float", "double"):
        return Call("divide", (_double(above), _double(right)), "double", ansi)
    return difference


def _double(expr: Expr) -> Expr:
    return expr if expr.type == "double" else Call("cast", (expr,), "double")


@st.composite
def results(draw: st.DrawFn, kind: str) -> Expr:
    """Return a comparison, or a difference that is compared with a constant."""
    mode = draw(st.sampled_from(("ansi", "try", "legacy")))
    compared = draw(st.sampled_from(COMPARED))
    if draw(st.booleans()):
        return Call(compared, draw(comparable(kind, mode)), "boolean")
    difference = draw(differences(kind, mode))
    return Call(compared, (difference, draw(constants(difference.type))), "boolean")


@st.composite
def filters(draw: st.DrawFn, kind: str) -> Expr:
    """Return a result, or several joined."""
    one = draw(results(kind))
    join = draw(st.sampled_from(("", "", "not", "and", "or")))
    if not join:
        return one
    return Call(join, (one,) if join == "not" else (one, draw(results(kind))), "boolean")


def updates(part: Rows) -> pa.Table:
    """Return the rows of a part, as they are stored."""
    columns = {}
    for declared in RELATION.columns:
        raw, kind = [row.get(declared.id) for row in part], arrow_type(declared.type)
        if pa.types.is_date32(kind):
            columns[str(declared.id)] = pa.array(raw, pa.int32()).cast(kind)
        elif pa.types.is_timestamp(kind):
            columns[str(declared.id)] = pa.array(raw, pa.int64()).cast(kind)
        else:
            columns[str(declared.id)] = pa.array(raw, kind)
    return pa.table(columns)


def statistics(parts: list[Rows], kind: str, *, turned: bool = False) -> pa.Table:
    """Return the statistics of parts, with how the places of a kind differ."""
    names = [column.name for column in SIDES[kind]]
    pairs = (tuple(names[::-1] if turned else names),)
    found = []
    for part in parts:
        table, gathered = (
            updates(part),
            PairGathering(wanted_pairs(RELATION, StatsSpec(pairs=pairs))),
        )
        gathered.add(table.slice(0, 1))
        gathered.add(table.slice(1))
        found.append(gathered.beside(collect(table, RELATION)))
    return concat(found, [len(part) for part in parts])


def needs(expr: Expr, part: Rows) -> bool:
    """Return whether a row satisfies the filter, or fails."""
    for row in part:
        try:
            if evaluate(expr, row, 0) is True:
                return True
        except Failed:
            return True
    return False


@pytest.mark.parametrize("kind", TYPES)
@MANY
@given(data=st.data())
def test_what_a_row_needs_is_kept(kind: str, data: st.DataObject) -> None:
    expr = data.draw(filters(kind))
    parts = data.draw(st.lists(rows(kind), min_size=1, max_size=3))
    stats = statistics(parts, kind, turned=data.draw(st.booleans()))

    keep = decide(Filter(expr, "", 0, 0), stats, RELATION).keep

    assert [p for p, k in zip(parts, keep, strict=True) if not k and needs(expr, p)] == []


@pytest.mark.parametrize("kind", TYPES)
@MANY
@given(data=st.data())
def test_every_result_lies_in_its_range(kind: str, data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(("ansi", "try", "legacy")))
    expr = data.draw(differences(kind, mode) | results(kind))
    part = data.draw(rows(kind))
    stats = statistics([part], kind, turned=data.draw(st.booleans()))
    view = PartSpecs(stats, RELATION, ()).at(slice(0, 1))
    with np.errstate(all="ignore"):
        spec = PairInterpreter(Context(0, 0), lenient=False).evaluate(expr, view)

    for row in part:
        try:
            value = evaluate(expr, row, 0)
        except Failed:
            assert spec.fail[0]
            continue
        if isinstance(value, Decimal):
            value = int(value.scaleb(spark_type(expr.type).scale))
        assert contains(spec, expr.type, value)


@pytest.mark.parametrize("kind", TYPES)
@given(data=st.data())
def test_what_is_recorded_is_true_and_a_lie_is_found(kind: str, data: st.DataObject) -> None:
    part = data.draw(rows(kind))
    names = tuple(column.name for column in SIDES[kind])
    (pair,) = wanted_pairs(RELATION, StatsSpec(pairs=(names,)))
    gathered = PairGathering([pair])
    gathered.add(updates(part))
    stored = gathered.beside(collect(updates(part), RELATION)).column(pair.name)
    claim, facts = stored[0].as_py(), pair_facts(updates(part), pair)

    assert stored.type == PAIR
    assert (facts is None) == (claim["form"] == "")
    if facts is None:
        return
    assert [*pair_contradictions(claim, facts)] == []
    assert [name for name, *_ in pair_contradictions({**claim, "both": 99}, facts)] == ["both"]
    if claim["low"] is not None:
        shifted = {"low": np.nextafter(facts.low, np.inf)}
        found = [name for name, *_ in pair_contradictions({**claim, **shifted}, facts)]
        assert found == (["low"] if facts.low < np.inf else [])


def test_a_quotient_of_a_difference_that_wraps_is_any_number() -> None:
    """Of differences beyond 64 bits nothing is known, and so nothing of what they wrap to."""
    left, right = SIDES["long"]
    part: Rows = [{left.id: 9 * 10**12, right.id: -(2**63) + 5}, {left.id: 5, right.id: -(2**62)}]
    stats = statistics([part], "long")
    for mode in ("legacy", "ansi"):
        wrapped = Call("subtract", (left, right), "long", (("ansi", mode),))
        ratio = Call("divide", (_double(wrapped), _double(right)), "double", (("ansi", mode),))
        asked = Call("greater_than", (ratio, Literal(0.5, "double")), "boolean")

        assert needs(asked, part)
        assert decide(Filter(asked, "", 0, 0), stats, RELATION).keep.tolist() == [True]


A, B = SIDES["integer"]


def test_a_quotient_of_whole_numbers_lies_in_what_their_rows_have() -> None:
    """Whatever the ends of the two columns would allow."""
    part: Rows = [{A.id: 1, B.id: 10}, {A.id: 50, B.id: 500}, {A.id: -3, B.id: -20}]
    stats = statistics([part], "integer")
    for end, kept in ((0.16, False), (0.14, True)):
        ratio = Call("divide", (_double(A), _double(B)), "double", (("ansi", "ansi"),))
        asked = Call("greater_than", (ratio, Literal(end, "double")), "boolean")

        assert needs(asked, part) == kept
        assert decide(Filter(asked, "", 0, 0), stats, RELATION).keep.tolist() == [kept]


@pytest.mark.parametrize("function", COMPARED)
@example(a=1, b=2)
@given(a=st.integers(-3, 3), b=st.integers(-3, 3))
def test_an_order_that_holds_everywhere_decides(function: str, a: int, b: int) -> None:
    """The ranges of both overlap; the difference is the same in each row."""
    part: Rows = [{A.id: a + step, B.id: b + step} for step in (0, 100, 10**6)]
    expr = Call(function, (A, B), "boolean")

    kept = decide(Filter(expr, "", 0, 0), statistics([part], "integer"), RELATION).keep[0]

    assert kept == needs(expr, part)


def test_a_difference_that_cannot_overflow_does_not_fail() -> None:
    part: Rows = [{A.id: 2**31 - 1, B.id: 2**31 - 2}, {A.id: -(2**31), B.id: -(2**31)}]
    expr = Call(
        "greater_than", (Call("subtract", (A, B), "integer"), Literal(1, "integer")), "boolean"
    )
    bare = collect(updates(part), RELATION)

    assert decide(Filter(expr, "", 0, 0), concat([bare], [2]), RELATION).may_fail[0]
    assert not decide(Filter(expr, "", 0, 0), statistics([part], "integer"), RELATION).keep[0]


LONG, STAMPS = SIDES["long"], SIDES["timestamp"]


def test_a_difference_beyond_64_bits_is_no_small_one() -> None:
    part: Rows = [{LONG[0].id: 2**63 - 1, LONG[1].id: -(2**63)}]
    for columns in (LONG, LONG[::-1]):
        expr = Call("greater_than", columns, "boolean")
        keep = decide(Filter(expr, "", 0, 0), statistics([part], "long"), RELATION).keep[0]
        assert keep == (columns == LONG)


@given(a=st.integers(-2_500_000, 2_500_000), by=st.integers(-2_500_000, 2_500_000))
@example(a=900_000, by=-1_800_000)
@example(a=-900_000, by=1_800_000)
@example(a=999_999, by=1)
def test_seconds_that_are_rounded_toward_zero(a: int, by: int) -> None:
    part: Rows = [
        {STAMPS[0].id: a, STAMPS[1].id: a + by},
        {STAMPS[0].id: 10**9, STAMPS[1].id: None},
    ]
    for function in ("unix_timestamp", "unix_seconds"):
        sides = tuple(_counted(function, column) for column in STAMPS)
        for compared in COMPARED:
            expr = Call(compared, sides, "boolean")
            kept = decide(Filter(expr, "", 0, 0), statistics([part], "timestamp"), RELATION).keep
            assert kept[0] or not needs(expr, part)


def test_a_rule_in_quarantine_says_nothing() -> None:
    part: Rows = [{A.id: 1, B.id: 2}, {A.id: 101, B.id: 102}]
    stats = statistics([part], "integer")
    expr = Call("greater_than", (A, B), "boolean")

    def keeps(*quarantine: str) -> bool:
        found = decide(Filter(expr, "", 0, 0), stats, RELATION, quarantine=quarantine)
        return bool(found.keep[0])

    assert not keeps()
    assert keeps("greater_than")
    assert keeps(str(B.id))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("compared", ["equal_to", "greater_than_or_equal", "less_than_or_equal"])
def test_a_quotient_may_be_beyond_every_double(compared: str, turned: bool, sign: int) -> None:
    a, b = SIDES["double"]
    part: Rows = [{a.id: sign * 1e308, b.id: 1e-10}, {a.id: sign * 1.5e308, b.id: 1e-9}]
    both = (b, a) if turned else (a, b)
    ratio = Call("divide", (Call("subtract", both, "double"), b), "double")
    for constant in (float("inf"), float("-inf"), 5.0):
        expr = Call(compared, (ratio, Literal(constant, "double")), "boolean")

        keep = decide(Filter(expr, "", 0, 0), statistics([part], "double"), RELATION).keep

        assert keep[0] or not needs(expr, part)


def test_a_difference_of_floats_is_rounded_as_a_float() -> None:
    a, b = SIDES["float"]
    part: Rows = [{a.id: 2.0**24, b.id: 0.5}]
    difference = Call("subtract", (a, b), "float")
    expr = Call("equal_to", (difference, Literal(2.0**24, "float")), "boolean")
    assert needs(expr, part)

    assert decide(Filter(expr, "", 0, 0), statistics([part], "float"), RELATION).keep[0]


def test_a_difference_beyond_every_double_is_no_quotient_less_one() -> None:
    a, b = SIDES["double"]
    part: Rows = [{a.id: 1.7e308, b.id: -1.7e308}]
    ratio = Call("divide", (Call("subtract", (a, b), "double"), b), "double")
    expr = Call("less_than", (ratio, Literal(-5.0, "double")), "boolean")
    assert needs(expr, part)

    assert decide(Filter(expr, "", 0, 0), statistics([part], "double"), RELATION).keep[0]


def test_functions_that_are_drawn_are_known() -> None:
    """Else nothing is narrowed, and the laws above hold of them in any case."""
    left, right = SIDES["timestamp"]
    for function in ("unix_timestamp", "unix_seconds", "unix_millis", "unix_micros"):
        part: Rows = [{left.id: 5 * 10**6, right.id: 10**6}, {left.id: 10**12, right.id: 10**11}]
        sides = (_counted(function, left), _counted(function, right))
        expr = Call("less_than", sides, "boolean")
        assert not decide(Filter(expr, "", 0, 0), statistics([part], "timestamp"), RELATION).keep[0]


@pytest.mark.parametrize(
    ("kind", "function", "result"),
    [
        ("timestamp", "subtract_timestamps", INTERVAL),
        ("timestamp_ntz", "subtract_timestamps", INTERVAL),
        ("date", "subtract_dates", "interval day"),
        ("date", "date_diff", "integer"),
        ("long", "subtract", "long"),
    ],
)
def test_a_difference_lies_exactly_in_its_bounds(kind: str, function: str, result: str) -> None:
    left, right = SIDES[kind]
    part: Rows = [{left.id: 5000 + apart, right.id: 5000} for apart in (-3, 0, 7)]
    part += [{left.id: 90_000, right.id: None}, {left.id: None, right.id: -90_000}]
    call = Call(function, (left, right), result)
    view = PartSpecs(statistics([part], kind), RELATION, ()).at(slice(0, 1))

    spec = PairInterpreter(Context(0, 0)).evaluate(call, view)

    of_rows: list[Any] = [evaluate(call, row, 0) for row in part[:3]]
    least, most = min(of_rows), max(of_rows)
    assert all(contains(spec, result, value) for value in of_rows)
    assert not contains(spec, result, least - 1)
    assert not contains(spec, result, most + 1)
