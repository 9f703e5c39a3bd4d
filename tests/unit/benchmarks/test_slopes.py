"""Slopes are those of lines through logarithms, and what is there anyway is found."""

import tomllib

import pytest

from benchmarks import slopes
from benchmarks.slopes import Point


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_slope_of_a_power_is_its_exponent(power: float) -> None:
    points = [(x, 3.0 * x**power) for x in (10, 100, 1000)]
    assert slopes.slope(points) == pytest.approx(power)


def test_what_is_there_anyway_is_a_share_of_the_smallest() -> None:
    assert slopes.fixed([(10, 2.0 + 10 * 0.1), (100, 2.0 + 100 * 0.1)]) == pytest.approx(2 / 3)
    assert slopes.fixed([(10, 1.0), (100, 10.0)]) == pytest.approx(0)
    assert slopes.fixed([(10, 1.0), (100, 1.0)]) == 1
    assert slopes.fixed([(10, 1.0), (100, 99.0)]) == 0  # it grows faster than its cause


def test_columns_are_counted_by_the_row_and_cores_by_the_clock() -> None:
    found = slopes.lines(
        [
            Point("columns", 10, "ingest", 1000, 2.0, 9.0),
            Point("cores", 2, "merge", 1000, 2.0, 0.5),
            Point("rows", 1000, "merge", 1000, 2.0, 0.5),
        ]
    )
    assert found["columns", "ingest"] == [(10, 2000.0)]
    assert found["cores", "merge"] == [(2, 2000.0)]
    assert found["rows", "merge"] == [(1000, 2.0)]


def test_page_and_drawing_of_the_slopes_are_up_to_date() -> None:
    run = tomllib.loads(slopes.KEPT.read_text("utf-8"))
    page = slopes.PAGE.read_text("utf-8")
    assert page == slopes.filled(page, run), "run: python -m benchmarks.slopes --write"
    assert slopes.CHART.read_text("utf-8") == slopes.chart(run)


def test_table_and_drawing_have_each_line() -> None:
    made = [
        {"cause": "rows", "amount": n, "work": work, "rows": n, "cpu": n / 1e5, "wall": 1.0}
        for n in (1000, 10_000)
        for work in ("ingest", "merge")
    ]
    run = {"run": {"load": [1.0, 2.0]}, "point": made}
    assert "| rows | merge | 1,000: 0.01; 10,000: 0.1 CPU s | 1.00 | 0% |" in slopes.table(run)
    drawn = slopes.chart(run)
    assert drawn.startswith("<svg")
    assert "ingest, slope 1.00" in drawn
