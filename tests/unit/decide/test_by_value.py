"""A conjunct of one place is judged once for each value, however many parts hold the value.

That this decides as the cases one by one do: tests/laws/test_cases.py.
"""

import numpy as np
import pyarrow as pa
import pytest

from strata.decide import decision
from strata.decide.by_value import reads_only
from strata.decide.cases import CASES_MAX
from strata.decide.decision import decide
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal, Opaque
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.stats.wire import SET, scalar_type

TEXT = parse_type("string")
RELATION = Relation(0, (Declared(1, "x", TEXT), Declared(2, "n", parse_type("int64"))), (1,), ())
X, N, DOC = Column(1, "x", "string"), Column(2, "n", "long"), Column(3, "doc", "string")


def text(value: str) -> Literal:
    return Literal(value, "string")


def call(function: str, *args: Expr, kind: str = "boolean") -> Call:
    return Call(function, args, kind)


def at(path: str) -> Call:
    return call("get_json_object", DOC, text(path), kind="string")


LOWER_A = call("equal_to", call("lower", X, kind="string"), text("a"))
LIKE = call("like", X, text("%a1%"))


@pytest.mark.parametrize(
    ("expr", "place", "only"),
    [
        (LOWER_A, "s.1", True),
        (LOWER_A, "s.2", False),
        (call("or", LIKE, call("is_null", X)), "s.1", True),
        (call("and", LIKE, call("is_null", N)), "s.1", False),
        (call("equal_to", X, Opaque("udf", "string")), "s.1", False),
        (call("like", at("$.k"), text("a%")), "s.3$.k", True),
        (call("like", at("$.k"), text("a%")), "s.3$.l", False),
        (call("equal_to", at("$.k"), at("$.k.l")), "s.3$.k", False),
        (
            call("like", call("get_json_object", at("$.k"), text("$.l"), kind="string"), text("a")),
            "s.3$.k",
            False,
        ),
        (call("json_array_length", at("$.k"), kind="integer"), "s.3$.k", False),
    ],
)
def test_a_conjunct_reads_one_place_only(expr: Expr, place: str, only: bool) -> None:
    assert reads_only(expr, place) is only


def statistics(sets: list[list[bytes]], nulls: int = 0) -> pa.Table:
    """Return parts whose texts lie between the same ends, and have these sets."""
    ends = {"nulls": nulls, "low": "C", "high": "z", "low_exact": False, "high_exact": False}
    of_n = {"nulls": 0, "low": 0, "high": 9, "low_exact": True, "high_exact": True}
    nothing = pa.array(np.zeros(len(sets), np.int64))
    form, values = pa.array(["text"] * len(sets)), pa.array(sets, pa.list_(pa.binary()))
    return pa.table(
        {
            "rows": pa.array([1000] * len(sets), pa.int64()),
            "s.1": pa.array([ends], scalar_type(TEXT)).take(nothing),
            "s.2": pa.array([of_n], scalar_type(parse_type("int64"))).take(nothing),
            "s.set.1": pa.StructArray.from_arrays([form, values], fields=list(SET)),
        }
    )


def test_parts_beyond_the_cases_of_a_decision_are_judged_by_their_values() -> None:
    values = [b"Value-%03d" % n for n in range(64)]
    sets = [values] * (CASES_MAX // 64 + 1000)
    sets[-1] = [*values, b"a"]

    keep = decide(Filter(LOWER_A, "", 0, 0), statistics(sets), RELATION).keep

    assert np.flatnonzero(keep).tolist() == [len(sets) - 1]


@pytest.mark.parametrize(("nulls", "keep"), [(0, False), (1, True)])
def test_rows_that_have_no_value_are_judged_beside_the_values(nulls: int, keep: bool) -> None:
    expr = call("or", LIKE, call("is_null", call("lower", X, kind="string")))

    found = decide(Filter(expr, "", 0, 0), statistics([[b"B"]], nulls), RELATION)

    assert found.keep.tolist() == [keep]


def test_the_conjunct_that_no_value_satisfies_is_the_proof() -> None:
    above = call("greater_than", N, Literal(3, "long"))
    both = call("and", above, LIKE)

    found = decide(Filter(both, "", 0, 0), statistics([[b"Value"], [b"Valua1"]]), RELATION)

    assert (found.keep.tolist(), found.proof.tolist()) == ([False, True], [1, -1])


def test_a_part_on_which_a_conjunct_in_front_may_fail_is_kept() -> None:
    quotient = Call("integral_divide", (Literal(1, "long"), N), "long", (("ansi", "ansi"),))
    both = call("and", call("greater_than", quotient, Literal(-9, "long")), LIKE)
    stats = statistics([[b"Value"]])

    assert decide(Filter(both, "", 0, 0), stats, RELATION).keep.tolist() == [True]
    behind = call("and", LIKE, call("greater_than", quotient, Literal(-9, "long")))
    assert decide(Filter(behind, "", 0, 0), stats, RELATION).keep.tolist() == [False]


def test_different_values_beyond_the_cases_of_a_decision_are_left_to_the_cases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strata.decide.by_value.CASES_MAX", 3)
    monkeypatch.setattr(decision, "case_groups", lambda *_: iter(()))
    few, many = [[b"B", b"C"], [b"C", b"D"]], [[b"B", b"C"], [b"D", b"E"]]

    kept = [
        decide(Filter(LIKE, "", 0, 0), statistics(some), RELATION).keep.tolist()
        for some in (few, many)
    ]

    assert kept == [[False, False], [True, True]]


def test_values_listed_beyond_the_limit_are_left_to_the_cases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strata.decide.by_value.LISTED_MAX", 4)
    monkeypatch.setattr(decision, "case_groups", lambda *_: iter(()))
    sets = [[b"B", b"C"], [b"B", b"C"], [b"B", b"C"]]

    assert decide(Filter(LIKE, "", 0, 0), statistics(sets), RELATION).keep.tolist() == [
        False,
        False,
        True,
    ]
