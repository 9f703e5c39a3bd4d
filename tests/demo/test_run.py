"""The demo's plan, its summary and its reading of logs; the runs themselves are CI's demo."""

import doctest
import io
import json

import pytest

import demo.progress
import demo.summary
from demo.landing import Landing
from demo.places import write_config
from demo.run import stages
from demo.summary import Figures, print_summary
from demo.tasklog import last_lines, log_file
from strata.config.settings import load_settings


@pytest.mark.parametrize("days", [2, 3, 21, 60, 365])
def test_every_day_is_taken_in_once_and_some_without_statistics(days):
    plan = stages(days, 768)
    ingests = [stage.conf for stage in plan if stage.dag == "shard_ingest"]
    assert [conf["write_format"] for conf in ingests] == ["row", "both"]
    assert ingests[0]["from_time"] == "2013-01-01T00:00:00Z"
    assert ingests[0]["to_time"] == ingests[1]["from_time"]
    assert ingests[0]["from_time"] < ingests[0]["to_time"] < ingests[1]["to_time"]
    assert {stage.dag for stage in plan} == {
        "shard_ingest",
        "shard_compact",
        "stats_backfill",
        "soft_evaluation",
    }


def test_the_settings_file_is_understood(tmp_path):
    settings = load_settings(str(write_config(tmp_path)), {})
    assert settings.store.landing == str(tmp_path)
    assert settings.store.blob == f"file://{tmp_path}/blob"
    assert settings.validate.report_dir == str(tmp_path / "report")


def test_the_summary_shows_what_was_measured(capsys):
    shard = {"updates": 336776, "batches": 53, "runs": 53, "parts": 90, "bytes": 9 * 2**20}
    smaller = shard | {"batches": 4, "runs": 4, "parts": 7, "bytes": 8 * 2**20}
    found = {
        "check": "last_30_days",
        "parts_total": 7,
        "parts_skipped": 6,
        "bytes_total": 2**20,
        "bytes_skipped": 2**19,
        "audited_parts": 5,
        "rows": 1234,
        "mismatches": 1,
        "errors": 0,
        "missing": 0,
    }
    validation = {
        "report": "/where/it/is",
        "shards": [{"shard": "flights", "mismatches": 1, "filters": [found], "format": [found]}],
    }
    landing = Landing(None, 365, {"flights": 365}, {"flights": 336776}, 1)
    counts = {"shard": "flights", "parts_selected": 5, "parts_changed": 3}
    backfill = {"shards": [counts | {"stats_bytes_before": 10, "stats_bytes_after": 2222}]}
    trim = {"shards": [counts | {"stats_bytes_before": 2222, "stats_bytes_after": 1111}]}
    figures = Figures(landing, {"flights": shard}, {"flights": smaller}, backfill, trim, validation)
    assert figures.mismatches == 1

    print_summary(figures, {"compaction": 75.0}, 3 * 2**30, 300.0)
    said = capsys.readouterr().out
    shown = (
        "336,776",
        "53 → 4",
        "90 → 7",
        "9.0 MiB → 8.0 MiB",
        "1,234",
        "2,222",
        "1,111",
        "512.0 KiB",
        "1 min 15 s",
        "3.0 GiB",
        "/where/it/is",
    )
    assert [text for text in shown if text not in said] == []


def test_the_newest_try_of_a_log_is_read_from_its_end(tmp_path):
    folder = tmp_path / "logs" / "dag_id=d" / "run_id=r" / "task_id=t"
    folder.mkdir(parents=True)
    assert log_file(tmp_path, "d", "r", "t") is None
    log = folder / "attempt=1.log"
    lines = [json.dumps({"event": f"line {n}", "level": "info"}) for n in range(5000)]
    log.write_text("\n".join([*lines, "not json", json.dumps({"event": "a\nb"})]))
    assert log_file(tmp_path, "d", "r", "t") == log
    assert last_lines(log, 4) == ["line 4999", "not json", "a", "b"]


def test_the_error_of_a_task_is_in_what_is_shown_of_its_log(tmp_path):
    log = tmp_path / "attempt=1.log"
    detail = [
        {"exc_type": "AirflowFailException", "exc_value": "not enough evidence", "frames": []}
    ]
    log.write_text(json.dumps({"event": "Task failed", "error_detail": detail}))
    assert last_lines(log, 9) == ["Task failed", "AirflowFailException: not enough evidence"]


@pytest.mark.parametrize("module", [demo.progress, demo.summary])
def test_examples_hold(module):
    outcome = doctest.testmod(module)
    assert outcome.attempted
    assert not outcome.failed


def test_progress_without_a_terminal_prints_each_stage_once(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    with demo.progress.Progress() as progress:
        progress.stage("one")
        progress.detail("working")
        progress.stage("two")
    assert list(progress.times) == ["one", "two"]
    text = progress.console.file.getvalue()
    assert text.count("✓ one") == 1
    assert text.count("✓ two") == 1
