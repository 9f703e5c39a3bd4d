"""A filter that statically could never skip a part never does; explain and decide agree."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata.decide.decision import split_conjuncts
from strata.decide.reasons import judge_part
from strata.decide.static import outlook
from strata.expr.entry import Context, bools
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Expr, Opaque
from tests.support.expressions import Enclosed, expressions, parts

OPAQUE = Opaque("Rand: rand()", "boolean")


@st.composite
def conjunctions(draw: st.DrawFn) -> Expr:
    """Return several conditions, some with something in them that nothing is known of."""
    tests = draw(st.lists(expressions("boolean", 2), min_size=1, max_size=3))
    place = draw(st.sampled_from(("none", "none", "or", "and", "not")))
    if place == "or":
        tests[0] = Call("or", (tests[0], OPAQUE), "boolean")
    if place == "and":
        tests.insert(draw(st.integers(0, len(tests))), OPAQUE)
    if place == "not":
        tests[-1] = Call("not", (OPAQUE,), "boolean")
    return Call("and", tuple(tests), "boolean") if len(tests) > 1 else tests[0]


def _keeps(expr: Expr, environment: Enclosed) -> bool:
    """Return the verdict by the whole expression at once, a twin of the loop over conjuncts."""
    spec = Interpreter(Context(0, 0)).evaluate(expr, environment)
    return bool((bools(spec).true | spec.fail)[0])


@given(expr=conjunctions(), data=st.data())
def test_a_static_no_is_never(expr: Expr, data: st.DataObject) -> None:
    environment = Enclosed(data.draw(parts(expr)))

    if not outlook(Filter(expr, "", 0, 0)).could_skip:
        assert _keeps(expr, environment)


@given(expr=conjunctions(), data=st.data())
def test_what_is_told_is_what_the_whole_expression_says(expr: Expr, data: st.DataObject) -> None:
    environment = Enclosed(data.draw(parts(expr)))
    judged = judge_part(split_conjuncts(expr), Interpreter(Context(0, 0)), environment)

    assert judged.keep == _keeps(expr, environment)
    if judged.never is not None:
        spec = judged.trace[id(judged.never)]
        assert not np.any(bools(spec).true)


def test_a_function_without_a_rule_is_in_the_way_only_where_it_stands() -> None:
    condition = Call("less_than", _two(), "boolean")
    first = Filter(Call("and", (OPAQUE, condition), "boolean"), "", 0, 0)
    last = Filter(Call("and", (condition, OPAQUE), "boolean"), "", 0, 0)

    found = outlook(first)
    assert not found.could_skip
    assert found.help.startswith("write `")
    assert "rand()" in found.conjuncts[0].because
    assert outlook(last).could_skip
    assert not outlook(Filter(OPAQUE, "", 0, 0)).could_skip


def _two() -> tuple[Expr, Expr]:
    from tests.support.expressions import COLUMNS

    column = next(c for c in COLUMNS if c.type == "integer")
    return column, column
