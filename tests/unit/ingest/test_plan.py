"""Intervals are cut into steps that meet, files into groups that keep their order."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.commit import preview_of
from strata.ingest.land.files import SourceFile
from strata.ingest.plan import TASK_FILES, grouped_files, steps_of
from strata.ingest.task import Step, Work
from strata.model.time import format_time, parse_time
from tests.unit.ingest.test_engine import World


def bounds(lower: str, upper: str, every: str | None) -> list[str]:
    steps = steps_of(parse_time(lower), parse_time(upper), every)
    assert [s.upper for s in steps[:-1]] == [s.lower for s in steps[1:]]
    return [format_time(step.lower or 0) for step in steps]


def test_an_interval_is_cut_into_steps() -> None:
    assert bounds("2013-01-01", "2013-01-03", None) == ["2013-01-01T00:00:00Z"]
    assert bounds("2013-01-01", "2013-01-03", "P1D") == [
        "2013-01-01T00:00:00Z",
        "2013-01-02T00:00:00Z",
    ]
    assert len(bounds("2013-01-01", "2013-01-03", "PT6H")) == 8
    assert len(bounds("2013-01-01", "2014-01-01", "P7D")) == 53


def test_months_follow_the_calendar() -> None:
    assert bounds("2013-01-31", "2013-05-01", "P1M") == [
        "2013-01-31T00:00:00Z",
        "2013-02-28T00:00:00Z",
        "2013-03-31T00:00:00Z",
        "2013-04-30T00:00:00Z",
    ]
    assert len(bounds("2013-01-01", "2015-01-01", "P1Y")) == 2


@pytest.mark.parametrize(
    "every", ["", "P", "P0D", "1D", "PD", "P1X", "PT", "P\u0663D", f"P{'9' * 5000}D"]
)
def test_a_malformed_period_is_refused(every: str) -> None:
    with pytest.raises(InvalidRequest, match="not a period"):
        steps_of(0, 10, every)


@pytest.mark.parametrize("every", ["P9999D", "P999999999999999D", "P99999Y", "PT9999999999999H"])
@pytest.mark.parametrize(
    ("lower", "upper"), [("2013-01-01", "2013-01-02"), ("9999-12-01", "9999-12-31")]
)
def test_a_period_that_leaves_the_calendar_ends_with_the_interval(
    lower: str, upper: str, every: str
) -> None:
    first, last = parse_time(lower), parse_time(upper)
    assert [(step.lower, step.upper) for step in steps_of(first, last, every)] == [(first, last)]


def test_the_last_step_of_the_calendar_is_a_short_one() -> None:
    lower, upper = parse_time("9999-12-01"), parse_time("9999-12-31T23:59:59Z")
    steps = steps_of(lower, upper, "P20D")
    assert [step.upper for step in steps] == [parse_time("9999-12-21"), upper]


def test_an_empty_interval_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="interval is empty"):
        steps_of(5, 5)


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_groups_keep_order_and_stay_within_the_limit(sizes: list[int], limit: int) -> None:
    files = [SourceFile(str(n), str(n), size) for n, size in enumerate(sizes)]

    groups = grouped_files(files, limit)

    assert [file for group in groups for file in group] == files
    assert all(len(g) == 1 or sum(f.size_bytes for f in g) <= limit for g in groups)
    # As few as can be while the order is kept: no group fits into the one before.
    for before, after in pairwise(groups):
        assert sum(f.size_bytes for f in before) + after[0].size_bytes > limit


def test_a_task_reads_no_more_than_so_many_files_however_small() -> None:
    files = [SourceFile("x", "x", 1)] * (3 * TASK_FILES)

    groups = grouped_files(files, 64 << 20)

    assert [len(group) for group in groups] == [TASK_FILES] * 3


def test_a_report_counts_the_files_of_its_step_and_none_where_none_are_named(
    tmp_path: Path,
) -> None:
    state = World(tmp_path).state
    file = SourceFile("/x", "x", 1)

    found = [
        preview_of(state, Work(step, step), []).counts.files
        for step in (Step(0, 1, "t"), Step(0, 1, "t", ()), Step(0, 1, "t", (file, file)))
    ]

    assert found == [0, 0, 2]


def test_an_interval_without_a_file_is_an_empty_batch_unless_files_are_expected(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    (tmp_path / "in").mkdir()

    report = world.ingest(lower=0, upper=10)

    assert (report["updates"], report["files"], world.state.upper) == (0, 0, 10)
    with pytest.raises(InvalidRequest, match="no file"):
        world.ingest(lower=10, upper=20, empty=False)
    assert world.state.upper == 10
