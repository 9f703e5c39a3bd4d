"""Which filters count as one, and which parts were judged with them before."""

import numpy as np

from strata.audit.seen import _digest, are_judged, filter_shape
from strata.expr.nodes import Call, Column, Expr, Literal

DOC = Column(1, "doc", "string")


def at(path: str, wanted: str) -> Expr:
    inner = Call("get_json_object", (DOC, Literal(path, "string")), "string")
    return Call("equal_to", (inner, Literal(wanted, "string")), "boolean")


def test_a_constant_that_names_a_place_is_part_of_the_shape_and_no_other_one() -> None:
    assert filter_shape(at("$.a", "x")) == filter_shape(at("$.a", "y"))
    assert filter_shape(at("$.a", "x")) != filter_shape(at("$.b", "x"))


def test_a_part_was_judged_if_it_is_among_those_that_were() -> None:
    some = np.sort(np.array([_digest("a"), _digest("c")], np.uint64))

    assert are_judged(["a", "b", "c"], some).tolist() == [True, False, True]
    assert are_judged(["a", "b"], some[:0]).tolist() == [False, False]
