"""Intervals of months, days and a rest, as Arrow, Parquet and Avro have them."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from strata.format.values.view import to_view
from strata.ingest import twin
from strata.ingest.twin import Unreadable
from strata.ingest.twin.spans import span_from_text
from strata.ingest.values.cast import from_arrow
from strata.ingest.values.texts import parse_interval
from strata.model.types import parse_type
from tests.unit.ingest.readers.test_avro_values import ingested

FULL, CLOCK, MONTHS = "interval", "interval day to second", "interval year to month"
BAD = "bad"


def twelve(*parts: int) -> pa.Array:
    return pa.array([None, b"".join(n.to_bytes(4, "little") for n in parts)], pa.binary(12))


def arrow(months: int, days: int, nanos: int) -> pa.Array:
    return pa.array([None, (months, days, nanos)], pa.month_day_nano_interval())


def duration(value: int, unit: str) -> pa.Array:
    return pa.array([None, value], pa.duration(unit))


def span(months: int, days: int, micros: int) -> dict[str, int]:
    return {"months": months, "days": days, "micros": micros}


@pytest.mark.parametrize(
    ("values", "full", "clock", "months"),
    [
        (twelve(0, 0, 0), span(0, 0, 0), timedelta(0), 0),
        (twelve(14, 3, 5), span(14, 3, 5000), BAD, BAD),
        (twelve(14, 0, 0), span(14, 0, 0), BAD, 14),
        (twelve(0, 3, 5), span(0, 3, 5000), timedelta(days=3, milliseconds=5), BAD),
        (
            twelve(2**31 - 1, 2**31 - 1, 2**32 - 1),
            span(2**31 - 1, 2**31 - 1, 4294967295000),
            BAD,
            BAD,
        ),
        (twelve(2**31, 0, 0), BAD, BAD, BAD),
        (twelve(0, 2**31, 0), BAD, BAD, BAD),
        (arrow(14, -3, 5000), span(14, -3, 5), BAD, BAD),
        (arrow(0, -3, -5000), span(0, -3, -5), timedelta(days=-3, microseconds=-5), BAD),
        (arrow(-5, 0, 0), span(-5, 0, 0), BAD, -5),
        (
            arrow(-(2**31), -(2**31), -(2**63) + 808),
            span(-(2**31), -(2**31), -(2**63) // 1000 + 1),
            BAD,
            BAD,
        ),
        (arrow(0, 2**31 - 1, 0), span(0, 2**31 - 1, 0), BAD, BAD),
        (arrow(0, 0, 1), BAD, BAD, BAD),
        (duration(5, "ms"), span(0, 0, 5000), timedelta(milliseconds=5), BAD),
        (duration(-1, "s"), span(0, 0, -1_000_000), timedelta(seconds=-1), BAD),
        (duration(1, "ns"), BAD, BAD, BAD),
        (duration(2**62, "s"), BAD, BAD, BAD),
    ],
)
def test_an_interval_is_what_it_says_or_rejected(
    values: pa.Array, full: Any, clock: Any, months: Any
) -> None:
    for text, expected in ((FULL, full), (CLOCK, clock), (MONTHS, months)):
        kind = parse_type(text)
        cast = from_arrow(values.slice(0), kind)
        wrong = expected is BAD
        assert cast.bad.tolist() == ([1] if wrong else [])
        assert to_view(cast.values, kind).to_pylist() == [None, None if wrong else expected]
        assert from_arrow(values.slice(1), kind).bad.tolist() == ([0] if wrong else [])


@pytest.mark.parametrize("text", [FULL, CLOCK, MONTHS])
@pytest.mark.parametrize("parts", [(14, 0, 0), (0, 3, 5), (14, 3, 5), (2**31, 0, 0)])
def test_the_twin_reads_twelve_bytes_alike(text: str, parts: tuple[int, int, int]) -> None:
    kind, values = parse_type(text), twelve(*parts).slice(1)
    cast = from_arrow(values, kind)
    try:
        meant = twin.from_python(values[0].as_py(), values.type, kind)
    except Unreadable:
        assert len(cast.bad) == 1
    else:
        assert twin.stored(cast.values, kind) == [meant]


def test_intervals_stand_in_lists_and_structs() -> None:
    inner = twelve(1, 2, 3)
    lists = pa.ListArray.from_arrays([0, 2], inner)
    cast = from_arrow(lists, parse_type("list<interval>"))
    assert to_view(cast.values, parse_type("list<interval>")).to_pylist() == [
        [None, span(1, 2, 3000)]
    ]
    assert not len(cast.bad)


def test_twelve_bytes_stay_bytes_in_a_column_of_bytes() -> None:
    assert from_arrow(twelve(1, 2, 3), parse_type("bytes")).values.to_pylist() == [
        None,
        bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]),
    ]


def test_a_duration_of_avro_is_an_interval(tmp_path: Path) -> None:
    kind = {"type": "fixed", "name": "f", "size": 12, "logicalType": "duration"}
    values = [twelve(1, 2, 3)[1].as_py(), twelve(2**32 - 1, 0, 0)[1].as_py()]

    found, rejects = ingested(tmp_path, kind, values, FULL)

    assert (found, rejects) == ({0: span(1, 2, 3000)}, 1)


@pytest.mark.parametrize(
    "text",
    [
        "10:00:00+02:00",
        "10:00 10:00",
        "1 day 2 days",
        "1 d 3 04:05",
        "1 hour 10:00",
        "1-2 3 mon",
        "1.5 s 3 ms",
        "00:00:01.5 3 us",
        "1 yr 1 year",
    ],
)
def test_a_unit_that_comes_twice_makes_no_interval(text: str) -> None:
    """PostgreSQL refuses it; what looks like a time zone is no further hours."""
    with pytest.raises(ValueError, match=r".*"):
        parse_interval(text)
    with pytest.raises(Unreadable, match="twice"):
        span_from_text(text)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("1 week 2 days", (0, 9, 0)),
        ("1 s 3 ms", (0, 0, 1_003_000)),
        ("1-2 3 4:05", (14, 3, 14_700_000_000)),
    ],
)
def test_different_units_add_up(text: str, span: tuple[int, int, int]) -> None:
    assert tuple(parse_interval(text).values()) == span == span_from_text(text)
