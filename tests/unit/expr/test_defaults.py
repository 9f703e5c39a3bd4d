"""What is not said of a column, a function, a bound or a value is what skips nothing."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from strata.expr.entry import Context, Entry, opened
from strata.expr.members import whole_members
from strata.expr.nodes import Call, Column
from strata.expr.spec import YES, spark_type, text_least


def test_a_column_may_be_null_and_a_function_passes_no_members_unless_it_is_said() -> None:
    function = Entry("f", "a", (1, 1), lambda call, args, _: opened(call, args), "")
    call = Call("f", (Column(1, "n", "long"),), "long")

    assert Column(1, "n", "long").nullable
    assert call.option("unit") == ""
    assert not function.passes
    assert function.transfer(call, (), Context(0, 0)).null is YES


def test_the_lesser_of_an_unknown_bound_is_unknown_unless_it_is_said() -> None:
    known = pa.array([b"a", None, b"c"])
    other = pa.array([b"b", b"b", b"b"])

    assert text_least(None, known) is text_least(known, None) is None
    least = text_least(known, other)
    assert least is not None
    assert least.to_pylist() == [b"a", None, b"b"]
    least = text_least(known, other, open_wins=False)
    assert least is not None
    assert least.to_pylist() == [b"a", b"b", b"b"]


def test_members_of_json_say_something_of_types_that_hold_them_exactly() -> None:
    some: Any = SimpleNamespace(strings=SimpleNamespace(members=object()))
    none: Any = SimpleNamespace(strings=SimpleNamespace(members=None))

    for kind in ("long", "integer", "double"):
        assert whole_members(some, spark_type(kind)) is not None
        assert whole_members(none, spark_type(kind)) is None
    for kind in ("float", "decimal(10,2)", "string"):
        assert whole_members(some, spark_type(kind)) is None
