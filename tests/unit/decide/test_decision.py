"""Verdicts do not depend on chunks, narrowing or what is loaded beside the needed columns."""

from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.decide.credit import credit
from strata.decide.decision import NO_PROOF, decide, needed_columns, split_conjuncts
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.spec import Bools
from tests.spec.language import RELATION, check, col, constant, path


def _filter(expr: Expr) -> Filter:
    return Filter(expr, "", 0, 0)


def _stats(ranges: list[tuple[int | None, int | None, int]], column: int = 1) -> pa.Array:
    rows = [{"nulls": nulls, "low": low, "high": high} for low, high, nulls in ranges]
    fields = [("nulls", pa.int64()), ("low", pa.int32()), ("high", pa.int32())]
    return pa.array(rows, pa.struct(fields))


RANGES = st.tuples(
    st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5), st.integers(0, 10)
)
N, M = col("n"), col("m")
CONJUNCTS = st.sampled_from(
    [
        N > 0,
        M > 0,
        N + 1 > 3,
        N + 2147483645 > 0,
        M + 2147483645 > 0,
        ~(N == 2),
        (N > 3) | (M > 3),
        N % M == 1,
        N < M,
        constant(None, "integer") == N,
    ]
)


@given(
    st.lists(st.tuples(RANGES, RANGES), min_size=1, max_size=12),
    st.lists(CONJUNCTS, min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_chunks_and_narrowing_change_no_verdict(
    parts: list[tuple[tuple[int, int, int], tuple[int, int, int]]],
    conjuncts: list[object],
    chunk: int,
) -> None:
    exprs = tuple(conjunct.expr for conjunct in conjuncts)  # type: ignore[attr-defined]
    whole = exprs[0] if len(exprs) == 1 else Call("and", exprs, "boolean")
    stats = pa.table(
        {
            "rows": [10] * len(parts),
            "s.1": _stats([n for n, _ in parts]),
            "s.2": _stats([m for _, m in parts]),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("strata.decide.decision"), "CHUNK_PARTS", chunk)
        found = decide(_filter(whole), stats, RELATION).keep.tolist()

    expected = []
    for row in range(len(parts)):
        view = PartSpecs(stats, RELATION, ()).at(slice(row, row + 1))
        spec = Interpreter(Context(0, 0), lenient=False).evaluate(whole, view)
        assert isinstance(spec.values, Bools)
        expected.append(bool(spec.values.true[0] | spec.fail[0]))
    assert found == expected


def test_conjuncts_are_in_the_order_of_evaluation() -> None:
    a, b, c = (Column(i, str(i), "boolean") for i in (1, 2, 3))
    expr = Call("and", (Call("and", (a, b), "boolean"), c), "boolean")

    assert split_conjuncts(expr) == [a, b, c]
    assert split_conjuncts(expr, quarantine=("and",)) == [expr]


def test_the_needed_columns_are_enough() -> None:
    expr = (N > 5) & (path("$.a.b").cast("double") > 1.0)
    names = needed_columns(_filter(expr.expr))

    assert names == {
        "rows",
        "s.1",
        "s.8",
        "s.8$",
        "s.8$.a",
        "s.8$.a.b",
        "s.set.1",
        "s.set.8$.a.b",
        "s.shape.8$.a.b",
    }


def test_nested_paths_need_every_step() -> None:
    inner = Call("get_json_object", (col("js").expr, Literal("$.a", "string")), "string")
    outer = Call("get_json_object", (inner, Literal("$['b c']", "string")), "string")
    names = needed_columns(_filter(Call("is_null", (outer,), "boolean")))

    assert names == {"rows", "s.8", "s.8$", "s.8$.a", "s.8$.a['b c']"}


def test_no_parts_and_no_statistics_are_fine() -> None:
    empty = pa.table({"rows": pa.array([], pa.int64())})
    bare = pa.table({"rows": pa.array([5, 5], pa.int64())})

    assert decide(_filter((N > 5).expr), empty, RELATION).keep.tolist() == []
    assert decide(_filter((N > 5).expr), bare, RELATION).keep.tolist() == [True, True]
    assert decide(_filter((N > 5).expr), bare.to_batches()[0], RELATION).keep.tolist() == [True] * 2


@pytest.mark.parametrize(("value", "keep"), [(True, True), (False, False), (None, False)])
def test_a_constant_filter_decides_every_part(value: bool | None, keep: bool) -> None:
    stats = pa.table({"rows": [1, 2, 3]})
    decision = decide(_filter(Literal(value, "boolean")), stats, RELATION)

    assert decision.keep.tolist() == [keep] * 3
    assert decision.may_fail.tolist() == [False] * 3


def test_the_verdict_says_why_a_part_is_kept() -> None:
    stats = pa.table({"rows": [10, 10], "s.1": _stats([(1, 5, 0), (1, 2147483647, 0)])})
    decision = decide(_filter((N + 1 > 100).expr), stats, RELATION)

    assert decision.may_fail.tolist() == [False, True]
    assert decision.keep.tolist() == [False, True]
    assert np.array_equal(decision.keep, decision.may_be_true | decision.may_fail)


@pytest.mark.parametrize("last", [True, False, None])
def test_the_proof_names_the_conjunct_that_fell_first(last: bool | None) -> None:
    ranges: list[tuple[int | None, int | None, int]] = [(low, low + 5, 0) for low in range(10)]
    stats = pa.table({"rows": [10] * 10, "s.1": _stats(ranges), "s.2": _stats(ranges[::-1])})
    whole = Call("and", ((N > 11).expr, (M < 2).expr, Literal(last, "boolean")), "boolean")

    decision = decide(_filter(whole), stats, RELATION)

    proof = NO_PROOF if last else 2
    assert decision.proof.tolist() == [0] * 7 + [1 if 9 - n > 1 else proof for n in (7, 8, 9)]
    assert decision.keep.tolist() == [False] * 8 + [bool(last)] * 2


def test_columns_are_credited_with_the_parts_of_their_conjunct() -> None:
    filter = _filter(Call("and", ((N > 11).expr, (N < M).expr, (M > 0).expr), "boolean"))

    assert credit(filter, [7, 2, 0]) == {"s.1": 9, "s.2": 2}
    assert credit(filter, [0, 0, 0]) == {"s.1": 0, "s.2": 0}


def test_null_is_never_true() -> None:
    check(constant(None, "integer") == N, "n | verdict\n[1, 5] | SKIP")
