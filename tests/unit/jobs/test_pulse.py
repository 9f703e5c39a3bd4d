"""A job that works in silence shows a sign of life, and one that talks shows none."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.jobs import pulse, session
from strata.jobs.compact import main as compact
from strata.jobs.compact import sweep
from strata.jobs.entry import each_shard, run_job, say
from strata.jobs.ingest import main as ingest
from strata.jobs.pulse import EVERY_SECONDS, PULSE, Pulse
from strata.jobs.stats import main as stats
from strata.jobs.validate import main as validate

EVERY = 0.1
SILENT = 8 * EVERY
SPAN = ("--from-time", "2013-01-01", "--to-time", "2013-01-02")
JOBS: dict[str, tuple[Any, Callable[..., int], tuple[str, ...]]] = {
    "ingest": (session, ingest.main, SPAN),
    "compact": (session, compact.main, ()),
    "sweep": (sweep, compact.main, ("--sweep",)),
    "backfill": (session, stats.main, ("backfill",)),
    "trim": (session, stats.main, ("trim",)),
    "validate": (session, validate.main, ()),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "EVERY_SECONDS", EVERY)


def test_ten_seconds_are_never_silent() -> None:
    assert EVERY_SECONDS + EVERY_SECONDS / 10 < 10  # a line is late by a tenth at most


@pytest.mark.parametrize("job", JOBS)
def test_each_job_shows_that_it_lives_while_a_step_takes_long(
    job: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, main, words = JOBS[job]

    def slow(*_: object) -> None:
        time.sleep(SILENT)
        raise InvalidRequest("this was the slow step")

    monkeypatch.setattr(module, "load_settings", slow)
    assert main([*words, "--config", "none.toml"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 4
    assert all(re.fullmatch(r"still at the job, \d+ s", line) for line in lines)


def test_a_line_names_the_shard_and_what_spark_has_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(name: str) -> Mapping[str, Any]:
        with PULSE.watching(lambda: "3 of 9 tasks of Spark are done, 2 run"):
            time.sleep(0 if name == "quick" else SILENT)
        return {"shard": name}

    assert run_job(None, lambda: ({"shards": each_shard(["quick", "slow"], work)}, 0)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 4
    assert set(lines) == {"still at slow, 2 of 2, 0 s: 3 of 9 tasks of Spark are done, 2 run"} | {
        line for line in lines if ", 1 s: " in line
    }


def test_a_line_names_each_shard_that_is_worked_on(capsys: pytest.CaptureFixture[str]) -> None:
    def work(name: str) -> Mapping[str, Any]:
        time.sleep(SILENT if name != "c" else 0)
        return {"shard": name}

    run_job(None, lambda: ({"shards": each_shard(["a", "b", "c"], work, 2)}, 0))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 4
    assert re.fullmatch(r"still at a, 1 of 3, \d s and at b, 2 of 3, \d s", lines[0])


def test_a_job_that_talks_shows_nothing_more(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> tuple[Mapping[str, Any], int]:
        for n in range(16):
            say(f"batch {n}")
            time.sleep(EVERY / 4)
        return {}, 0

    run_job(None, work)
    assert [f"batch {n}" for n in range(16)] == capsys.readouterr().out.splitlines()


def test_a_job_that_has_ended_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    run_job(None, lambda: ({}, 0))
    time.sleep(3 * EVERY)
    assert capsys.readouterr().out == ""


def test_a_look_that_fails_costs_no_line_and_no_job() -> None:
    one, told = Pulse(), list[str]()

    def look() -> str:
        raise RuntimeError("Spark has stopped")

    with one.beating(told.append), one.watching(look):  # as often as every job beats
        time.sleep(SILENT)
    assert len(told) >= 4
    assert all(line.startswith("still at the job, ") for line in told)


def test_more_is_asked_for_inside_of_its_block_alone() -> None:
    one = Pulse()
    with one.watching(lambda: "3 tasks"):
        assert one.line().endswith(": 3 tasks")
    assert "tasks" not in one.line()
