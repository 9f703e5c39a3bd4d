"""For each kept part: what stopped the proof, and what would help, as the statistics show it."""

import importlib
import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from strata.decide.causes import _SAFE, Cause
from strata.decide.reasons import Reason, reasons
from strata.expr.filter import Filter
from strata.expr.functions.json import parse_path
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.nodes import Column as Leaf
from strata.expr.registry import REGISTRY
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import STATS_VERSION
from strata.stats.counted import kept_paths
from strata.stats.json import collect_json
from strata.stats.protected import kept_names
from strata.stats.wire import JSON_PATH, column_name, path_name
from tests.spec.language import RELATION, E, call, col, constant, path

TEXT = pa.struct(
    [
        ("nulls", pa.int64()),
        ("low", pa.string()),
        ("high", pa.string()),
        ("low_exact", pa.bool_()),
        ("high_exact", pa.bool_()),
    ]
)
NUMBER = pa.struct([("nulls", pa.int64()), ("low", pa.int32()), ("high", pa.int32())])
COUNTS = dict.fromkeys(
    ("json_nulls", "bools", "trues", "numbers", "integers", "strings", "lists", "maps"), 0
)


def _stats(name: str, kind: pa.DataType, value: Any, **more: Any) -> pa.Table:
    return pa.table({"rows": [10], name: pa.array([value], kind), **more})


def _reason(
    expr: E, stats: pa.Table, version: int | None = STATS_VERSION, quarantine: Sequence[str] = ()
) -> Reason:
    (found,) = reasons(
        Filter(expr.expr, "", 0, 0),
        stats,
        RELATION,
        [0],
        versions=[version],
        quarantine=quarantine,
        shard="flights",
    )
    return found


FIVE = _stats("s.1", NUMBER, {"nulls": 0, "low": 1, "high": 5})
NOTHING = pa.table({"rows": [10]})


def test_a_skipped_part_needs_no_help() -> None:
    found = _reason((col("n") > 0) & (col("n") > 9), FIVE)

    assert (found.keep, found.cause, found.help) == (False, Cause.PROVEN, "")
    assert found.expression == "n > 9"


@pytest.mark.parametrize(
    ("version", "cause", "help"),
    [
        (None, Cause.NOT_COLLECTED, "strata stats backfill flights --columns n"),
        (0, Cause.OUTDATED, "strata stats backfill flights --columns n"),
        (STATS_VERSION, Cause.TRIMMED, "stats.keep"),
    ],
)
def test_a_missing_statistic_names_the_command(
    version: int | None, cause: Cause, help: str
) -> None:
    found = _reason(col("n") > 9, NOTHING, version)

    assert found.cause is cause
    assert help in found.help


@pytest.mark.parametrize("text", ["$.a", "$.a.b", "$['a b']"])
def test_what_is_to_be_kept_is_named_so_that_it_is_kept(text: str) -> None:
    """The name of a JSON column alone keeps none of its paths."""
    root = _stats(path_name(8, ()), JSON_PATH, COUNTS | {"present": 10, "maps": 10})
    number = call("cast", path(text), kind="double", ansi="ansi")
    found = _reason(call("greater_than", number, constant(1.5, "double")), root)

    assert found.cause is Cause.TRIMMED
    pattern = found.help.removeprefix("add ").partition(" to stats.keep")[0]
    steps = parse_path(text)
    assert steps is not None
    assert path_name(8, steps) in kept_names([path_name(8, steps)], RELATION, [pattern])


def test_overlap_promises_no_cure_that_nobody_has_measured() -> None:
    found = _reason(col("n") > 3, FIVE)

    assert found.cause is Cause.OVERLAP
    assert found.help == ""


def test_a_shortened_bound_is_told() -> None:
    value = {"nulls": 0, "low": "a", "high": "b", "low_exact": True, "high_exact": False}
    exact = {**value, "high_exact": True}

    found = _reason(col("name") > "aa", _stats("s.6", TEXT, value))
    assert found.cause is Cause.LOOSE
    assert "stats.budget_bytes" in found.help
    assert _reason(col("name") > "aa", _stats("s.6", TEXT, exact)).cause is Cause.OVERLAP


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"numbers": 10, "integers": 10, "num_low": 1.0, "num_high": 2.0}, Cause.OVERLAP),
        ({"numbers": 10, "num_low": 1.0, "num_high": 9.0, "num_exact": False}, Cause.LOOSE),
        ({"strings": 10, "str_low": "1", "str_high": "2"}, Cause.FAILS),
        ({"strings": 10, "str_low": "1", "str_high": "2", "str_low_exact": False}, Cause.FAILS),
    ],
)
def test_a_kind_of_json_that_does_not_occur_has_no_bound_to_shorten(
    changes: dict[str, Any], cause: Cause
) -> None:
    kinds = COUNTS | {"present": 10, "complete": True, "num_exact": bool(changes.get("numbers"))}
    exact = dict.fromkeys(("str_low_exact", "str_high_exact"), "strings" in changes)
    stats = _stats(path_name(8, ("a",)), JSON_PATH, kinds | exact | changes)
    number = call("cast", path("$.a"), kind="double", ansi="ansi")

    assert _reason(call("greater_than", number, constant(1.5, "double")), stats).cause is cause


def test_a_column_without_values_has_no_bound_to_shorten() -> None:
    value = {"nulls": 10, "low": None, "high": None, "low_exact": False, "high_exact": False}
    found = _reason(call("is_null", col("name")), _stats("s.6", TEXT, value))
    assert found.cause is Cause.OVERLAP


def test_a_function_without_a_rule_is_named() -> None:
    found = _reason(call("tomorrow", col("n")), FIVE)

    assert found.cause is Cause.NO_RULE
    assert "tomorrow" in found.help


def test_a_failing_call_names_its_safe_form_or_the_conjunct_that_hides_it() -> None:
    wide = _stats("s.1", NUMBER, {"nulls": 0, "low": 1, "high": 2**31 - 1})
    failing = col("n") + 1 > 5

    assert "try_add" in _reason(failing, wide).help
    behind = _reason(failing & (col("n") < 0), wide)
    assert behind.cause is Cause.FAILS
    assert behind.help.startswith("write `n < 0` first")
    assert not _reason((col("n") < 0) & failing, wide).keep


def test_json_of_several_kinds_is_told() -> None:
    kinds = COUNTS | {
        "present": 10,
        "numbers": 5,
        "integers": 5,
        "strings": 5,
        "complete": True,
        "num_low": 1.0,
        "num_high": 2.0,
        "str_low": "a",
        "str_high": "b",
    }
    stats = _stats(path_name(8, ("a",)), JSON_PATH, kinds)
    number = call("cast", path("$.a"), kind="integer", ansi="ansi")
    found = _reason(call("greater_than", number, constant(5, "integer")), stats)

    assert found.cause is Cause.MIXED
    assert "numbers and texts" in found.help
    assert "try_cast" in found.help


def test_a_variant_path_of_several_kinds_is_told() -> None:
    kinds = COUNTS | {
        "present": 10,
        "numbers": 5,
        "integers": 5,
        "strings": 5,
        "complete": True,
        "num_low": 1.0,
        "num_high": 2.0,
        "str_low": "a",
        "str_high": "b",
    }
    stats = _stats(path_name(8, ("a",)), JSON_PATH, kinds)
    variant = call("parse_json", col("js"), kind="variant", ansi="try")
    number = call("variant_get", variant, constant("$.a", "string"), kind="integer", ansi="ansi")
    found = _reason(call("greater_than", number, constant(5, "integer")), stats)

    assert found.cause is Cause.MIXED
    assert "numbers and texts" in found.help
    assert "try_variant_get" in found.help


def test_safe_forms_that_are_advised_are_functions_of_spark() -> None:
    functions = importlib.import_module("pyspark.sql.functions")
    for name, help in _SAFE.items():
        (advised,) = re.findall(r"write (\w+)", help)
        assert hasattr(functions, advised) or advised == "try_cast", name
        assert name in REGISTRY


def test_quarantine_is_told() -> None:
    assert _reason(col("n") > 9, FIVE, quarantine=("1",)).cause is Cause.QUARANTINE
    assert _reason(col("n") + 1 > 9, FIVE, quarantine=("add",)).cause is Cause.QUARANTINE


def test_of_several_conjuncts_the_most_mendable_is_told() -> None:
    found = _reason((col("n") > 3) & (col("m") > 3), FIVE)

    assert (found.cause, found.expression) == (Cause.TRIMMED, "m > 3")


TWO_DOCUMENTS = Relation(
    0, tuple(Column(n, f"doc{n}", parse_type("jsonb")) for n in (1, 2)), (1,), (1,)
)


def _document_path(column: int, key: str) -> Expr:
    read = (Leaf(column, f"doc{column}", "string"), Literal(f"$.{key}", "string"))
    return Call("get_json_object", read, "string")


@pytest.mark.parametrize("counted", [(1, 2), (2,), (1,), ()])
def test_columns_whose_paths_lack_statistics_are_counted(counted: tuple[int, ...]) -> None:
    """One that does not say how many paths it has keeps no other from being told of."""
    texts = pa.chunked_array([[json.dumps({f"k{n}": n for n in range(300)})]], pa.string())
    stats = pa.table({"rows": [1]})
    for column in (1, 2):
        found = pa.table(collect_json(texts, column))
        for name in found.column_names:
            if name != column_name(column) or column in counted:
                stats = stats.append_column(name, found[name])
    missing = next(
        f"k{n}" for n in range(300) if path_name(1, (f"k{n}",)) not in stats.column_names
    )
    expr = Call("equal_to", tuple(_document_path(n, missing) for n in (1, 2)), "boolean")

    (found_reason,) = reasons(
        Filter(expr, "", 0, 0),
        stats,
        TWO_DOCUMENTS,
        [0],
        versions=[STATS_VERSION],
        paths_kept=lambda row, column: kept_paths(stats, column)[row],
    )

    assert found_reason.cause is Cause.TRIMMED
    assert [
        n for n in (1, 2) if f"of 300 paths of doc{n}, 255 have statistics" in found_reason.text
    ] == [*counted]
