"""The lines of `benchmarks.slopes` fit their costs, and a planted bend is found and named."""

import doctest
import signal
import time
from collections.abc import Sequence
from math import isclose
from pathlib import Path

import numpy as np
import pytest

from benchmarks import slopes, slopes_fit, slopes_page, slopes_work, stages
from benchmarks.slopes_cores import Way, on_cores
from benchmarks.slopes_fit import bends_of, line_of, slope_of, steps_of, word_of
from benchmarks.slopes_page import Gain, Machines

SIZES = (10, 100, 1_000, 10_000)
SMALL = (
    "--rows 50 500 --columns 4 16 --files 2 8 --parts 2 4 --of-files 100 --rounds 1 "
    "--only rows columns files parts"
)


@pytest.mark.parametrize("module", [slopes_fit, slopes_page, stages])
def test_the_examples_hold(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]

    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0, 1.7])
def test_a_power_has_its_exponent_as_slope_everywhere(slope: float) -> None:
    costs = [0.3 * size**slope for size in SIZES]

    assert isclose(slope_of(SIZES, costs), slope, abs_tol=1e-9)
    assert steps_of(SIZES, costs) == pytest.approx([slope] * 3, abs=1e-9)


@pytest.mark.parametrize(("fixed", "unit"), [(5.0, 0.2), (0.001, 3.0), (7.0, 0.0), (0.0, 2.0)])
def test_a_known_line_is_found_again(fixed: float, unit: float) -> None:
    fit = line_of(SIZES, [fixed + unit * size for size in SIZES])

    assert isclose(fit.fixed, fixed, rel_tol=1e-6, abs_tol=1e-9)
    assert isclose(fit.unit, unit, rel_tol=1e-6, abs_tol=1e-9)


def test_no_line_is_better_than_the_fit_and_none_of_its_parts_is_below_zero() -> None:
    """A slow twin tries a grid of lines."""
    draw = np.random.default_rng(4)
    for _ in range(30):
        costs = list(draw.uniform(0.5, 2) * np.array(SIZES) ** draw.uniform(0, 1.6))
        costs = [cost * draw.uniform(0.7, 1.4) for cost in costs]
        fit = line_of(SIZES, costs)
        assert fit.fixed >= 0
        assert fit.unit >= 0
        grid = [0.0, *np.geomspace(1e-3, 1e7, 60)]
        tried = min(_error(a, b, costs) for a in grid for b in grid)
        assert _error(fit.fixed, fit.unit, costs) <= tried + 1e-9


def _error(fixed: float, unit: float, costs: Sequence[float]) -> float:
    return sum((fixed / c + unit * s / c - 1) ** 2 for s, c in zip(SIZES, costs, strict=True))


def test_a_planted_bend_is_found_at_its_step_and_names_its_stage() -> None:
    even = [0.01 * size for size in SIZES]
    commit = [2.0, 2.0, 2.0, 2.0]
    pairs = [0.0, 0.001, 0.1, 900.0]  # grows far beyond the others at the last step
    stages = {"reading": even, "the state": commit, "pairs": pairs}
    costs = [sum(some) for some in zip(*stages.values(), strict=True)]

    low, middle, high = bends_of(SIZES, costs, stages)

    assert (low.stage, middle.stage, high.stage) == ("the state", "the state", "pairs")
    assert (high.low, high.high) == (1_000, 10_000)
    assert high.slope > 1 > middle.slope > low.slope
    assert word_of(SIZES, costs, stages) == (
        "the state, 95 % at 10, grows 1.0 times to 1,000; "
        "pairs grows 9000.0 times from 1,000 and is 90 % at 10,000"
    )


def test_a_straight_line_and_a_flat_one_have_no_bend() -> None:
    even, flat = [0.01 * size for size in SIZES], [2.0, 2.1, 2.0, 2.1]

    assert word_of(SIZES, even, {"reading": even}) == "in proportion"
    assert word_of(SIZES, flat, {"the state": flat}) == "does not grow"


def test_long_calls_are_charged_to_the_module_that_makes_them() -> None:
    names = {"__name__": "strata.stats.collect", "numpy": np}
    exec(compile("def work(a):\n    return numpy.sort(a)", "stage", "exec"), names)
    numbers = np.random.default_rng(1).random(1_000_000)
    watch, before = stages.Stages(), signal.getsignal(signal.SIGPROF)

    began = time.process_time()
    with watch.watched():
        while time.process_time() < began + 0.3:
            names["work"](numbers)  # type: ignore[operator]
    used = time.process_time() - began

    assert sum(watch.seconds.values()) == pytest.approx(used, rel=0.05)
    assert watch.seconds["statistics"] > 0.8 * used
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_each_stage_is_a_place_of_the_engine() -> None:
    root = Path(stages.__file__).parents[1] / "strata"
    places = [root / name.replace(".", "/") for name in stages.STAGES]

    assert [p for p in places if not p.is_dir() and not p.with_suffix(".py").exists()] == []


def test_what_a_second_core_loses_to_is_named() -> None:
    def gain(two: float, idle: float, in_tasks: float) -> Gain:
        return Gain("ingest", "executors", 10.0, two, (1.0, idle), (9.0, in_tasks))

    assert gain(5.0, 1.0, 9.0).word == "nothing"
    assert gain(5.0, 1.0, 9.0).slope == pytest.approx(1.0)
    assert gain(8.0, 7.0, 9.0).word.startswith("cores that wait, 44 %")
    assert gain(8.0, 1.0, 15.0).word.startswith("more CPU time, 1.67 times")


def test_more_cores_than_tasks_give_nothing_and_the_driver_is_never_shared() -> None:
    one = Machines("ingest", start=8.0, fixed=1.0, row=1e-5, task=0.02, rows_a_task=1e6)

    assert one.wall(1e6, 1) == one.wall(1e6, 64) == pytest.approx(8 + 1 + 0.02 + 10)
    assert one.wall(1e9, 1e9) == pytest.approx(8 + 1 + 20 + 10)
    assert one.most_cores == pytest.approx(500)


def job(wall: float, in_tasks: float, driver: float, tasks: int = 8) -> dict[str, float]:
    return {
        "wall": wall,
        "cpu": in_tasks + driver,
        "driver": driver,
        "in_tasks": in_tasks,
        "tasks": tasks,
        "stored_bytes": 64 << 20,
    }


def test_the_model_of_several_machines_is_made_of_what_two_executors_took() -> None:
    """Planted: 2 s without a task, 10 µs a row in tasks, 50 ms of the driver for each task."""
    two = {
        "few": {"ingest": job(2 + 0.5, 1.0, 0.4)},
        "all": {"ingest": job(2 + 5.0, 10.0, 0.4)},
        "cut": {"ingest": job(9.0, 1.0, 0.4 + 56 * 0.05, 64)},
    }
    one = {"all": {"ingest": job(2 + 10.0, 10.0, 0.4)}}
    jobs = {"1 executor": one, "2 executors": two, "local[1]": one, "local[2]": two}
    document = {
        "series": [],
        "cores": {
            "rows": {"few": 100_000, "all": 1_000_000, "cut": 100_000},
            "bytes_a_row": (64 << 20) / 1e6,
            "starts": {"2 executors": 7.0},
            "jobs": jobs,
        },
    }

    [made] = slopes_page.machines(document)

    assert (made.start, made.fixed, made.rows_a_task) == pytest.approx((7.0, 2.0, 1e6))
    assert (made.row, made.task) == pytest.approx((1e-5, 0.05))
    assert made.wall(1e9, 100) == pytest.approx(7 + 2 + 50 + 100)
    assert made.most_cores == pytest.approx(200)
    assert [gain.times for gain in slopes_page.gains(document)] == pytest.approx([12 / 7] * 2)
    assert {gain.word for gain in slopes_page.gains(document)} == {
        "cores that wait, 26 % of the time"
    }
    assert "| ingest | 7.0 s | 2.0 s | 50 ms | 10.0 s | 200 |" in slopes_page.machines_table(
        document
    )


def test_a_process_is_bound_to_some_cores_for_a_while() -> None:
    import os

    before = os.sched_getaffinity(0)
    with on_cores(Way("local[1]", 1).cores):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


@pytest.mark.slow
def test_a_small_run_has_every_line_and_fills_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slopes_work, "LONG_S", 0.05)
    document = slopes.measured(slopes.options_of(SMALL.split()))
    lines = slopes_page.series_of(document)

    every = {"ingest", "merge", "full read", "filtered plan", "commit"}
    assert {one.operation for one in lines if one.over == "rows"} == every
    assert {one.operation for one in lines if one.over == "columns"} == every
    assert {one.operation for one in lines if one.over == "files"} == {"ingest"}
    assert {one.operation for one in lines if one.over == "parts"} == every - {"ingest", "merge"}
    assert all(min(one.cpu) > 0 for one in lines)
    page = "".join(f"<!-- {name} -->\n<!-- end -->\n" for name in slopes.tables(document))
    assert slopes.filled(page, document).count("| ingest |") == 3
    assert slopes_page.chart(document).startswith("<svg")


def test_a_table_of_any_rows_and_files_is_whole(tmp_path: Path) -> None:
    paths = slopes_work.sources(tmp_path / "t", slopes_work.SHAPES["events"], 103, 8)

    text = "".join("".join(path.read_text().splitlines(True)[1:]) for path in paths)
    ids = sorted(int(line.partition(",")[0]) for line in text.splitlines())
    assert ids == list(range(103))
    assert len(paths) == 8
