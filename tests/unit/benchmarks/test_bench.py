"""What `make bench` says of a figure: met, missed within its spread, missed, or missed before."""

import re
from dataclasses import replace

import pytest

from benchmarks import bench
from benchmarks.bench import BEFORE, BUSY, MET, MISSED, NO_FIGURE, WITHIN
from benchmarks.today import PROJECT, Figure, figures

COST = Figure("a cost", "20 ms", "30 ms", 0.67, "prune", bench="prune", found=r"took ([\d.]+)")
RATE = Figure("a rate", "1,585", "1,000", 0.63, "commits", "commits", r"([\d,]+) a second", True)


def verdict(figure: Figure, number: float | None) -> tuple[str, bool]:
    judged = bench.judge(figure, number)
    return judged.verdict, judged.fails


@pytest.mark.parametrize(
    ("figure", "number", "expected"),
    [
        (COST, 30.0, (MET, False)),
        (COST, 30.1, (WITHIN, False)),
        (COST, 37.5, (WITHIN, False)),
        (COST, 37.6, (MISSED, True)),
        (RATE, 1000.0, (MET, False)),
        (RATE, 999.0, (WITHIN, False)),
        (RATE, 800.0, (WITHIN, False)),
        (RATE, 799.0, (MISSED, True)),
        (RATE, 0.0, (MISSED, True)),
        (COST, None, (NO_FIGURE, True)),
    ],
)
def test_a_target_that_was_met_may_be_missed_by_its_spread(
    figure: Figure, number: float | None, expected: tuple[str, bool]
) -> None:
    assert verdict(figure, number) == expected


def test_a_declared_spread_counts_instead_of_a_quarter() -> None:
    assert verdict(replace(COST, spread=0.5), 44.0) == (WITHIN, False)
    assert verdict(replace(COST, spread=0.05), 33.0) == (MISSED, True)


def test_a_busy_machine_excuses_the_clock_and_nothing_else() -> None:
    by_clock = replace(COST, clock=True)
    assert bench.judge(by_clock, 99.0, busy=True).verdict == BUSY
    assert not bench.judge(by_clock, 99.0, busy=True).fails
    assert bench.judge(by_clock, 99.0, busy=False).verdict == MISSED
    assert bench.judge(COST, 99.0, busy=True).verdict == MISSED
    assert bench.judge(by_clock, None, busy=True).verdict == NO_FIGURE


def test_a_target_that_was_missed_before_fails_no_run() -> None:
    missed = replace(COST, use=1.01)
    assert verdict(missed, 300.0) == (BEFORE, False)
    assert verdict(missed, 29.0) == (MET, False)
    assert verdict(missed, None) == (NO_FIGURE, True)  # a benchmark that broke is another matter


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", 1.5), ("1,000", 1000), ("35 (theory)", 35), ("2 %", 2)]
)
def test_the_first_number_of_a_target_counts(text: str, number: float) -> None:
    assert bench.number_in(text) == number


def test_the_worst_of_several_numbers_counts() -> None:
    assert bench.found_in("took 12.5 ms\ntook 14 ms\n", COST) == 14
    assert bench.found_in("1,585 a second, 900 a second", RATE) == 900
    assert bench.found_in("took long", COST) is None


def test_a_run_prints_all_and_fails_where_one_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "figures", lambda: [COST, RATE, replace(COST, bench="")])
    outputs = {"prune": "took 99", "commits": "2,000 a second"}
    monkeypatch.setattr(bench, "output_of", lambda command, _: outputs.get(command, "peers"))
    monkeypatch.setattr("sys.argv", ["bench"])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    printed = capsys.readouterr()
    assert ended.value.code == 1
    assert "| a cost | 30 ms | 20 ms | 99 | 3.30 | 25% | MISSED |" in printed.out
    assert "| a rate | 1,000 | 1,585 | 2000 | 0.50 | 25% | met |" in printed.out
    assert "MISSED: a cost (`prune`)" in printed.err

    outputs["prune"] = "took 31"
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 0


def test_a_benchmark_that_fails_or_hangs_gives_no_figure() -> None:
    assert bench.output_of("cpu --none", 0.001) == ""
    assert bench.output_of("today.nothing", 60) == ""


def test_each_figure_of_the_bench_has_a_benchmark_and_one_number() -> None:
    chosen = [figure for figure in figures() if figure.bench]
    assert chosen
    for figure in chosen:
        assert (PROJECT / "benchmarks" / f"{figure.bench.split()[0]}.py").exists(), figure
        assert re.compile(figure.found).groups == 1, figure
        assert bench.number_in(figure.target) > 0
        assert figure.spread > 0
