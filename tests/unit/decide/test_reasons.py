"""Reasons name the sub-expression and the ranges behind a verdict."""

import pyarrow as pa

from strata.decide.decision import decide
from strata.decide.reasons import explain, reasons
from strata.expr.filter import Filter
from tests.spec.language import RELATION, E, call, col, path


def _stats() -> pa.Table:
    kind = pa.struct([("nulls", pa.int64()), ("low", pa.int32()), ("high", pa.int32())])
    rows = [{"nulls": 0, "low": 1, "high": 5}, {"nulls": 1, "low": 1, "high": 2**31 - 1}, None]
    return pa.table({"rows": [10] * 3, "s.1": pa.array(rows, kind)})


def _reasons(expr: E, **options: tuple[str, ...]) -> list[str]:
    return explain(Filter(expr.expr, "", 0, 0), _stats(), RELATION, range(3), **options)


def test_a_skipped_part_names_the_conjunct_and_the_range() -> None:
    reasons = _reasons((col("n") > 0) & (col("n") * 2 > 100))

    assert reasons[0] == "skipped: (n * 2) > 100 is never true (n in [1, 5])"


def test_a_kept_part_names_the_call_that_may_fail() -> None:
    reasons = _reasons((col("n") > 0) & (col("n") * 2 > 100))

    assert reasons[1] == "kept: n * 2 may fail (n in [1, …] or null)"
    assert reasons[2] == "kept: n * 2 may fail (n in any value or null)"


def test_a_kept_part_names_what_is_not_known() -> None:
    unknown = call("tomorrow", col("n"))

    assert _reasons(unknown)[0].startswith("kept: tomorrow(n) may fail: the function tomorrow")
    assert "quarantine" in _reasons(col("n") + 1 > 0, quarantine=("add",))[0]


def test_a_kept_part_shows_the_range_that_reaches_the_constant() -> None:
    assert _reasons(col("n") > 3)[0] == "kept: n > 3 may be true (n in [1, 5])"


def test_reasons_and_verdicts_agree_on_what_is_kept() -> None:
    conditions = [
        col("n") > 3,
        col("n") > 9,
        col("n") * 2 > 100,
        call("tomorrow", col("n")),
        (col("n") > 3) & (col("n") < 2),
        (col("n") > 3) & call("tomorrow", col("n")),
    ]
    for condition in conditions:
        filter = Filter(condition.expr, "", 0, 0)
        found = reasons(filter, _stats(), RELATION, range(3))

        kept = decide(filter, _stats(), RELATION).keep.tolist()
        assert [reason.keep for reason in found] == kept, condition.expr
        assert [reason.text.startswith("kept: ") for reason in found] == kept


def test_a_path_is_shown_instead_of_its_document() -> None:
    reasons = _reasons(path("$.a") == "x")

    assert "js in" not in reasons[0]
    assert "get_json_object(js, '$.a') in" in reasons[0]
