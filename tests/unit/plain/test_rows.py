"""Plain filters on rows: one answer a row, also where the filter reads none of them."""

import pyarrow as pa
import pytest

from strata.expr.nodes import Call, Column, Expr, Literal
from strata.plain.rows import accepted_rows, accepts

BATCH = pa.record_batch({"n": pa.array([1, None, 3], pa.int64()), "s": ["a", "b%c", None]})
N, S = Column(1, "n", "long", True), Column(2, "s", "string", True)


def like(pattern: str) -> Call:
    return Call("like", (S, Literal(pattern, "string")), "boolean")


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        (Literal(True, "boolean"), [True] * 3),
        (Literal(False, "boolean"), [False] * 3),
        (Literal(None, "boolean"), [False] * 3),
        (Call("greater_than", (N, Literal(1, "long")), "boolean"), [False, False, True]),
        (Call("is_null", (N,), "boolean"), [False, True, False]),
        (like("%"), [True, True, False]),
        (like("b%"), [False, True, False]),
        (like("%c"), [False, True, False]),
        (like("%b%"), [False, True, False]),
        (like("%%b%%"), [False, True, False]),
        (like("_"), [True, False, False]),
        (like("a"), [True, False, False]),
        (like("b_c"), [False, True, False]),
        (like("%b%c"), [False, True, False]),
    ],
    ids=str,
)
def test_each_row_has_an_answer(expr: Expr, found: list[bool]) -> None:
    assert accepts(BATCH, expr).to_pylist() == found
    rows = [row for batch in accepted_rows([BATCH], expr, ["n"]) for row in batch.to_pylist()]
    kept = [n for n, one in zip(BATCH["n"].to_pylist(), found, strict=True) if one]
    assert rows == [{"n": n} for n in kept]
