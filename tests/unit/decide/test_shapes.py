"""Casts of texts whose shape is known skip by the numbers and moments in them, and only so."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from strata.decide.decision import decide, needed_columns
from strata.expr.filter import Filter
from strata.stats import collect, concat
from strata.stats.shapes import Shapes
from strata.stats.wire import SHAPE
from tests.spec.language import RELATION, E, call, col, constant

NAME, OTHER = col("name"), "s.shape.6"


def stats_of(texts: Sequence[str | None]) -> pa.RecordBatch:
    rows = pa.table({"6": pa.array(texts, pa.string())})
    shapes = Shapes(RELATION)
    shapes.add(rows)
    return shapes.beside(collect(rows, RELATION))


def kept(expr: E, stats: pa.RecordBatch, quarantine: Sequence[str] = ()) -> bool:
    asked = Filter(expr.expr, "", 0, 0)
    table = concat([stats], [stats.column("rows")[0].as_py()])
    names = [name for name in table.column_names if name in needed_columns(asked)]
    return bool(decide(asked, table.select(names), RELATION, quarantine=quarantine).keep[0])


def number(kind: str, ansi: str = "ansi", zone: str = "UTC") -> E:
    return call("cast", NAME, kind=kind, ansi=ansi, zone=zone)


def above(cast: E, value: Any, kind: str) -> E:
    return call("greater_than", cast, constant(value, kind))


@pytest.mark.parametrize(
    ("texts", "kind", "value", "keep"),
    [
        (["9", "10"], "integer", 10, False),
        (["9", "10"], "integer", 9, True),
        (["9", None, "010"], "long", 10, False),
        (["9", "1e1"], "integer", 10, True),
        (["9", "10.5"], "integer", 100, True),  # may fail
        (["9", "10.5"], "double", 10.5, False),
        (["9", "10.5"], "double", 10.25, True),
        (["-3", "-7"], "double", -3.0, False),
        (["-0", "-7"], "double", 5.0, True),  # -0 is no number here
        (["3000000000"], "integer", 2**31 - 1, True),  # does not fit: an error
        (["300"], "byte", 127, True),
        (["99.5", "1"], "decimal(10,2)", "99.51", False),
        (["12345"], "decimal(4,0)", "1", True),  # does not fit
        (["9" * 30], "decimal(38,0)", "1", True),
    ],
)
def test_numbers_in_texts(texts: list[str], kind: str, value: Any, keep: bool) -> None:
    exact = Decimal(value) if kind.startswith("decimal") else value
    assert kept(above(number(kind), exact, kind), stats_of(texts)) == keep


@pytest.mark.parametrize("ansi", ["try", "legacy"])
def test_what_does_not_fit_is_null_in_other_modes(ansi: str) -> None:
    wide = stats_of(["3000000000", "5"])

    assert not kept(above(number("integer", ansi), 2**31 - 2, "integer"), stats_of(["7", "8"]))
    assert kept(call("is_null", number("integer", ansi)), wide)
    assert not kept(call("is_null", number("long", ansi)), wide)


DAY, NOON = 19_783, 19_783 * 86_400_000_000 + 43_200_000_000  # 2024-03-01


@pytest.mark.parametrize(
    ("texts", "kind", "value", "keep"),
    [
        (["2024-02-29", "2024-03-01"], "date", DAY, False),
        (["2024-02-29", "2024-03-01"], "date", DAY - 1, True),
        (["2023-02-29", "2023-03-01"], "date", DAY, True),  # no such day: an error
        (["2024-3-1", "2024-02-29"], "date", DAY, True),
        (["2024-03-01 11:00:00", "2024-03-01 12:00:00"], "timestamp", NOON, False),
        (["2024-03-01T11:00:00Z", "2024-03-01T12:00:00Z"], "timestamp", NOON, False),
        (["2024-03-01T11:00:00Z", "2024-03-01T12:00:01Z"], "timestamp", NOON, True),
        (["2024-03-01T12:00:00Z"], "timestamp_ntz", NOON, True),  # a zone where none may be
        (["2024-03-01 12:00", "2024-03-01 10:30"], "timestamp_ntz", NOON, False),
        (["01/03/2024"], "date", DAY, True),  # no text that a cast reads
    ],
)
def test_moments_in_texts(texts: list[str], kind: str, value: int, keep: bool) -> None:
    assert kept(above(number(kind), value, kind), stats_of(texts)) == keep


def test_local_times_are_somewhere_around_in_another_zone() -> None:
    near = stats_of(["2024-03-01 11:00:00"])
    abroad = number("timestamp", zone="America/New_York")

    assert not kept(above(number("timestamp"), NOON, "timestamp"), near)
    assert kept(above(abroad, NOON, "timestamp"), near)
    assert not kept(above(abroad, NOON + 2 * 86_400_000_000, "timestamp"), near)
    zoned = stats_of(["2024-03-01T11:00:00Z"])
    assert not kept(above(abroad, NOON, "timestamp"), zoned)


@pytest.mark.parametrize(
    ("texts", "pattern", "keep"),
    [
        (["01/03/2024", "29/02/2024"], "dd/MM/yyyy", True),  # cannot fail; the range says nothing
        (["2024/03/01 11:59", "2024/03/01 12:00"], "yyyy/MM/dd HH:mm", False),
        (["2024/03/01 11:59", "2024/03/01 12:01"], "yyyy/MM/dd HH:mm", True),
        (["2024/03/01 11:59", "2024/03/01 12:00"], "yyyy/MM/dd HH:mm:ss", True),
        (["2024/13/01 11:59"], "yyyy/MM/dd HH:mm", True),
        (["2024-03-01T11:59:00Z"], "yyyy-MM-dd'T'HH:mm:ss'Z'", False),
        (["20240229"], "yyyyMMdd", False),
    ],
)
def test_moments_by_a_pattern(texts: list[str], pattern: str, keep: bool) -> None:
    read = call(
        "get_timestamp",
        NAME,
        constant(pattern, "string"),
        kind="timestamp",
        ansi="ansi",
        zone="UTC",
    )
    assert kept(above(read, NOON, "timestamp"), stats_of(texts)) == keep


def test_a_pattern_whose_order_says_nothing_cannot_fail_either() -> None:
    read = call(
        "get_timestamp",
        NAME,
        constant("dd/MM/yyyy", "string"),
        kind="timestamp",
        ansi="ansi",
        zone="UTC",
    )

    assert not kept(call("is_null", read), stats_of(["01/03/2024", "31/12/2023"]))
    assert kept(call("is_null", read), stats_of(["01/03/2024", "32/12/2023"]))


def test_a_text_that_a_function_has_made_has_no_shape() -> None:
    made = call("cast", call("reverse", NAME, kind="string"), kind="integer", ansi="ansi")
    assert kept(above(made, 99, "integer"), stats_of(["12", "13"]))


def test_a_column_in_quarantine_has_no_shape() -> None:
    few = stats_of(["9", "10"])
    beyond = above(number("integer"), 10, "integer")

    assert not kept(beyond, few)
    assert kept(beyond, few, ["6"])


def _claim(**fields: Any) -> pa.RecordBatch:
    stats = stats_of(["b", "c"])
    return stats.append_column(OTHER, pa.array([fields], SHAPE))


@pytest.mark.parametrize(
    "fields",
    [
        {"low": 2.0, "high": 1.0},
        {"low": 2.0, "high": 1.0, "whole": True},
        {"low": 1.0, "whole": True},
        {"low": float("nan"), "high": 1.0},
        {"low": 1.0, "high": float("nan"), "whole": True},
        {"patterns": "yyyy-MM-dd"},
        {"patterns": "yyyy-MM-dd EEE\nyyyy-MM-dd?\n"},
    ],
)
def test_a_claim_that_makes_no_sense_says_nothing(fields: dict[str, Any]) -> None:
    assert kept(above(number("double"), 5.0, "double"), _claim(**fields))
    assert not kept(above(number("double"), 5.0, "double"), _claim(low=1.0, high=2.0))


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd EEE", "yyyy-MM-dd'at'HH", "yyyy-MM-dd?", "%"])
def test_a_pattern_of_a_later_version_says_nothing(pattern: str) -> None:
    claim = stats_of(["2024-02-29", "2024-03-01"]).drop_columns([OTHER])
    stats = claim.append_column(OTHER, pa.array([{"patterns": pattern}], SHAPE))

    assert kept(above(number("date"), DAY, "date"), stats)
    known = claim.append_column(OTHER, pa.array([{"patterns": f"{pattern}\nyyyy-MM-dd"}], SHAPE))
    assert not kept(above(number("date"), DAY, "date"), known)


def test_a_number_beyond_whole_ones_is_none() -> None:
    claim = _claim(low=1.0, high=1e30, whole=True)

    assert kept(above(number("long"), 5, "long"), claim)
    assert kept(above(number("double"), 5.0, "double"), claim)
    assert not kept(above(number("double"), 1e30, "double"), claim)


@pytest.mark.parametrize("near", [2**53 + 1, 10**17 + 1, -(2**53) - 1, 10**18 - 1])
def test_whole_numbers_that_no_float64_holds_are_enclosed(near: int) -> None:
    stats = stats_of([str(near)])

    assert kept(call("equal_to", number("long"), constant(near, "long")), stats)
    assert kept(above(number("decimal(38,0)"), Decimal(near - 1), "decimal(38,0)"), stats)
    assert not kept(above(number("long"), near + 1000, "long"), stats)


def test_a_range_that_contradicts_the_shape_excludes_nothing() -> None:
    stats = _claim(patterns="yyyy-MM-dd")  # texts of "b" to "c" are no days
    assert kept(call("is_not_null", number("date")), stats)
