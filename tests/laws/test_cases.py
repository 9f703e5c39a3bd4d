"""Law: a part whose sets of values are known is kept if a row of it satisfies the filter or fails.

And the fast way, all cases of all parts at once, decides as the slow one does.
"""

import math
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.decide.cases import case_places
from strata.decide.decision import decide
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.format.encodings import arrow_type
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.stats import collect, concat
from strata.stats.members import place_named, values_at
from strata.stats.wire import SET, set_name
from tests.support.expressions import COLUMNS, SMALL, expressions, read_by, values
from tests.twins.cases import kept
from tests.twins.concrete import Failed, Value, evaluate

TYPES = {
    "boolean": "bool",
    "integer": "int32",
    "long": "int64",
    "double": "float64",
    "date": "date",
    "timestamp": "timestamptz",
    "string": "string",
}
RELATION = Relation(
    0, tuple(Declared(c.id, c.name, parse_type(TYPES[c.type])) for c in COLUMNS), (1,), (1,)
)
MANY = settings(max_examples=settings().max_examples * 5)
Rows = list[dict[int, Value]]
TEXT = Column(7, "string_7", "string")


@st.composite
def rows(draw: st.DrawFn, expr: Expr) -> list[Rows]:
    """Return the rows of one to three parts, which take few different values."""
    read = sorted(read_by(expr), key=lambda c: c.id)
    few = {c.id: draw(st.lists(_value(c.type), min_size=1, max_size=4)) for c in read}
    row = st.fixed_dictionaries({c.id: st.sampled_from(few[c.id]) for c in read})
    return draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=3))


def _value(kind: str) -> st.SearchStrategy[Value]:
    odd = st.sampled_from((float("nan"), -0.0)) if kind == "double" else st.nothing()
    return values(kind) | values(kind) | odd | st.none()


def statistics(parts: list[Rows], known: list[bool]) -> pa.Table:
    """Return the statistics of parts; of those that are `known`, with sets."""
    found = []
    for part, with_sets in zip(parts, known, strict=True):
        columns = {}
        for declared in RELATION.columns:
            raw = [row.get(declared.id) for row in part]
            columns[str(declared.id)] = _array(raw, arrow_type(declared.type))
        updates = pa.table(columns)
        stats = collect(updates, RELATION)
        places = [p for n in stats.schema.names if (p := place_named(RELATION, n)) is not None]
        for place, at in zip(places, values_at(updates, places), strict=True):
            assert at is not None
            one = {"form": place.form, "values": at.to_pylist()} if with_sets else None
            stats = stats.append_column(set_name(place.name), pa.array([one], SET))
        found.append(stats)
    return concat(found, [len(part) for part in parts])


def _array(raw: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array(raw, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(raw, pa.int64()).cast(kind)
    return pa.array(raw, kind)


def needs(expr: Expr, part: Rows, now: int) -> bool:
    """Return whether a row satisfies the filter, or fails."""
    for row in part:
        try:
            if evaluate(expr, row, now) is True:
                return True
        except Failed:
            return True
    return False


COMPARED = st.sampled_from(("equal_to", "like", "starts_with", "less_than"))
CONSTANTS = values("string").map(lambda value: Literal(value, "string"))


def texts() -> st.SearchStrategy[Expr]:
    """Return functions of a text column."""
    part = st.builds(
        lambda start, length: Call(
            "substring", (TEXT, Literal(start, "integer"), Literal(length, "integer")), "string"
        ),
        st.just(1),
        SMALL,
    )
    joined = CONSTANTS.map(lambda one: Call("concat", (TEXT, one, TEXT), "string"))
    return st.just(TEXT) | part | joined


def filters_of_texts() -> st.SearchStrategy[Expr]:
    """Return filters by functions of a text column, with constants."""
    return st.builds(lambda name, a, b: Call(name, (a, b), "boolean"), COMPARED, texts(), CONSTANTS)


@given(expr=expressions("boolean") | filters_of_texts(), now=st.integers(0, 10**15), data=st.data())
def test_what_a_row_needs_is_kept(expr: Expr, now: int, data: st.DataObject) -> None:
    parts = data.draw(rows(expr))
    known = data.draw(st.lists(st.booleans(), min_size=len(parts), max_size=len(parts)))

    keep = decide(Filter(expr, "", now, now), statistics(parts, known), RELATION).keep

    assert [
        part for part, k in zip(parts, keep, strict=True) if not k and needs(expr, part, now)
    ] == []


@given(expr=expressions("boolean") | filters_of_texts(), now=st.integers(0, 10**15), data=st.data())
def test_all_cases_at_once_are_judged_as_one_by_one(
    expr: Expr, now: int, data: st.DataObject
) -> None:
    parts = data.draw(rows(expr))
    known = data.draw(st.lists(st.booleans(), min_size=len(parts), max_size=len(parts)))
    filter, stats = Filter(expr, "", now, now), statistics(parts, known)
    sets = [_sets(part) if there else {} for part, there in zip(parts, known, strict=True)]

    assert decide(filter, stats, RELATION).keep.tolist() == kept(filter, stats, RELATION, sets)


def _missing(value: Value) -> bool:
    """Return whether a value is in no set."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _sets(part: Rows) -> dict[int, list[Value]]:
    found: dict[int, list[Value]] = {}
    for column in COLUMNS:
        if column.type != "boolean":
            there = [row.get(column.id) for row in part]
            found[column.id] = list({v: None for v in there if not _missing(v)})
    return found


@MANY
@given(text=texts(), name=COMPARED, data=st.data())
def test_a_function_of_one_text_is_decided_exactly(
    text: Expr, name: str, data: st.DataObject
) -> None:
    parts = data.draw(rows(TEXT))
    results = [evaluate(text, row, 0) for part in parts for row in part]
    chosen = st.sampled_from([one for one in results if one is not None] or ["a"])
    constant = data.draw(chosen.map(lambda value: Literal(value, "string")) | CONSTANTS)
    expr = Call(name, (text, constant), "boolean")
    if case_places(expr):
        stats = statistics(parts, [True] * len(parts))
        keep = decide(Filter(expr, "", 0, 0), stats, RELATION).keep

        assert keep.tolist() == [needs(expr, part, 0) for part in parts]


NUMBER = next(column for column in COLUMNS if column.type == "long")


@MANY
@given(text=texts(), name=COMPARED, limit=SMALL, data=st.data())
def test_a_value_that_parts_share_is_judged_in_each_where_it_is_not_alone(
    text: Expr, name: str, limit: int, data: st.DataObject
) -> None:
    """A conjunct of two columns is no function of a value that several parts hold."""
    below = Call("less_than", (NUMBER, Literal(limit, "long")), "boolean")
    either = Call("or", (below, Call(name, (text, data.draw(CONSTANTS)), "boolean")), "boolean")
    # Texts far apart, so that bounds keep the parts
    shared = ["", "\U0010ffff", *data.draw(st.lists(values("string"), max_size=2))]
    parts = [
        [{TEXT.id: one, NUMBER.id: data.draw(SMALL)} for one in shared]
        for _ in range(data.draw(st.integers(2, 3)))
    ]
    keep = decide(Filter(either, "", 0, 0), statistics(parts, [True] * len(parts)), RELATION).keep

    assert [
        part for part, k in zip(parts, keep, strict=True) if not k and needs(either, part, 0)
    ] == []
