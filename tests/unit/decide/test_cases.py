"""Where the values of a part are known, it is kept for those that satisfy a filter, and no others.

Columns of any type against rows: tests/laws/test_cases.py. Here are paths of JSON, wide decimals,
and how many cases are judged together.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata.decide.cases import CASES, TOGETHER, CasePlace, case_groups, printed_only
from strata.decide.decision import decide
from strata.decide.members import PlaceMembers
from strata.decide.pairs import PairBounds
from strata.decide.reasons import reasons
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.format.encodings import arrow_type
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.stats import collect, concat
from strata.stats.members import FLOAT_FORM, INTEGER_FORM, TEXT_FORM, place_named, values_at
from strata.stats.pairs import INTEGERS
from strata.stats.wire import PAIR, SET, set_name

TYPES = {"doc": "jsonb", "wide": "numeric(38,0)"}
RELATION = Relation(
    0, tuple(Declared(i, n, parse_type(t)) for i, (n, t) in enumerate(TYPES.items(), 1)), (1,), ()
)
DOC, WIDE = Column(1, "doc", "string"), Column(2, "wide", "decimal(38,0)")


def text(value: str) -> Literal:
    return Literal(value, "string")


def call(function: str, *args: Expr, kind: str = "boolean") -> Expr:
    return Call(function, args, kind)


AT_K = call("get_json_object", DOC, text("$.k"), kind="string")


def stats_of(column: Column, values: Sequence[Any]) -> pa.Table:
    """Return the statistics of a part of these values in a column, with sets of all places."""
    declared = RELATION.by_id[column.id]
    rows = pa.table({str(column.id): pa.array(values, arrow_type(declared.type))})
    stats = collect(rows, RELATION)
    places = [p for n in stats.schema.names if (p := place_named(RELATION, n)) is not None]
    for place, at in zip(places, values_at(rows, places), strict=True):
        assert at is not None
        one = pa.array([{"form": place.form, "values": at.to_pylist()}], SET)
        stats = stats.append_column(set_name(place.name), one)
    return concat([stats], [1])


def kept(expr: Expr, column: Column, values: Sequence[Any]) -> bool:
    """Return whether such a part is kept."""
    return bool(decide(Filter(expr, "", 0, 0), stats_of(column, values), RELATION).keep[0])


@pytest.mark.parametrize(
    ("pattern", "documents", "keep"),
    [
        ("%b%", ['{"k":"abc"}', '{"k":"xyz"}'], True),
        ("%b%", ['{"k":"acc"}', '{"k":"xyz"}'], False),
        ("%b%", ['{"k":"acc"}', '{"k":"xyz"}', "{}", '{"k":null}', None], False),
        ("%b%", ['{"k":"acc"}', '{"k":["b"]}'], True),
        ("%b%", ['{"k":"acc"}', '{"k":{"b":1}}'], True),
        ("%ru%", ['{"k":"acc"}', '{"k":true}'], True),
        ("%als%", ['{"k":"acc"}', '{"k":false}'], True),
        ("%2%", ['{"k":"acc"}', '{"k":123}'], True),
        ("%4%", ['{"k":"acc"}', '{"k":123}'], False),
        ("%5%", ['{"k":"acc"}', '{"k":0.25}'], True),
        ("%-%", ['{"k":"acc"}', '{"k":-0}'], True),  # no set has it as it is printed
        ("%-%", ['{"k":"acc"}', '{"k":-7}', '{"k":0}'], True),
        ("%7%", ['{"k":"acc"}', '{"k":100000000000000000070}'], True),
    ],
)
def test_a_pattern_at_a_path_of_json(
    pattern: str, documents: list[str | None], *, keep: bool
) -> None:
    assert kept(call("like", AT_K, text(pattern)), DOC, documents) is keep


@pytest.mark.parametrize(
    ("expr", "printed"),
    [
        (call("like", AT_K, text("%b%")), True),
        (call("is_null", DOC), True),
        (call("like", DOC, text("%b%")), False),
        (call("is_null", call("from_json", DOC, text("{}"), kind="struct<k:int>")), False),
        (call("from_json", DOC, text("{}"), kind="struct<k:int>"), False),
        (call("get_json_object", DOC, text("$[*]"), kind="string"), False),
    ],
)
def test_a_document_that_is_read_whole_is_more_than_the_texts_of_its_paths(
    expr: Expr, *, printed: bool
) -> None:
    assert printed_only(expr, DOC.id) is printed


@pytest.mark.parametrize("huge", [2**64 + 3, 5 * 2**64 - 1, 10**30])
def test_a_wide_decimal_is_judged_by_its_whole_value(huge: int) -> None:
    def between(low: int, high: int) -> Expr:
        return call(
            "and",
            call("greater_than", WIDE, Literal(low, "decimal(38,0)")),
            call("less_than", WIDE, Literal(high, "decimal(38,0)")),
        )

    for sign in (1, -1):
        values = [0, sign * huge]
        assert kept(between(sign * huge - 1, sign * huge + 1), WIDE, values)
        assert not kept(between(min(0, sign * huge), max(0, sign * huge)), WIDE, values)


def place(*counts: int) -> CasePlace:
    """Return a place with so many values in each part."""
    many = np.array(counts)
    values = pa.array([b""] * sum(counts), pa.binary())
    return CasePlace("s.1", many > 0, np.cumsum(many) - many, many, values, "text")


def test_cases_of_two_places_are_those_of_the_one_times_those_of_the_other() -> None:
    """Each has one case more than values: none of them."""
    two = [place(15, 15, 255), place(15, 16, 0)]

    assert [group.tolist() for group in case_groups(two, np.arange(3))] == [[0, 2]]
    assert TOGETHER == 16 * 16


def test_parts_are_judged_together_up_to_so_many_cases() -> None:
    one = [place(*[63] * 2048)]
    parts = np.arange(2048)

    groups = list(case_groups(one, parts))

    assert np.concatenate(groups).tolist() == parts.tolist()
    assert [64 * len(group) <= CASES for group in groups] == [True] * len(groups)
    assert len(groups) == 3


def test_a_part_that_its_values_skip_names_the_conjunct_that_none_of_them_satisfies() -> None:
    pattern = call("like", AT_K, text("%b%"))
    documents = ['{"k":"acc"}', '{"k":"xyz"}']
    for expr in (pattern, call("and", call("is_not_null", DOC), pattern)):
        [reason] = reasons(Filter(expr, "", 0, 0), stats_of(DOC, documents), RELATION, [0])

        assert not reason.keep
        assert "LIKE" in reason.expression.upper()
        assert reason.text.endswith("is never true for the values that occur (sets of doc.k)")


def test_a_place_without_sets_lists_no_values() -> None:
    assert PlaceMembers(None, None, None, "text", 3, hopeful=False).listed() is None


def test_what_is_recorded_in_no_form_says_nothing_of_two_places() -> None:
    row = dict.fromkeys(("low", "high", "ratio_low", "ratio_high"), 0.0) | {"both": 0, "zeros": 0}
    forms = [INTEGERS, None, "another"]
    column = pa.array([None, *({**row, "form": form} for form in forms)], PAIR)
    found = PairBounds.decoded(column, INTEGERS)
    for flags in (found.known, found.none, found.divides, found.nonzero):
        assert flags.tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("value", "form"),
    [(1.0, INTEGER_FORM), (1.0, TEXT_FORM), (1, TEXT_FORM), (b"1", FLOAT_FORM)],
)
def test_a_value_of_another_kind_is_not_sought(value: float | bytes, form: str) -> None:
    """What is recorded in one form says nothing of a value in another."""
    recorded = pa.array([{"form": form, "values": []}], SET)
    members = PlaceMembers(recorded, None, None, form, 1, hopeful=False)
    assert members.may_hold(value).tolist() == [True]


def test_a_float_is_sought_among_floats() -> None:
    values = [np.float64(1.5).tobytes()]
    recorded = pa.array([{"form": FLOAT_FORM, "values": values}], SET)
    members = PlaceMembers(recorded, None, None, FLOAT_FORM, 1, hopeful=False)
    assert [members.may_hold(one).tolist() for one in (1.5, 2.5)] == [[True], [False]]
