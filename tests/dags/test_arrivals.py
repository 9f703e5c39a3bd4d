"""Markers in a folder start an ingest of their days, and are taken away."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag

from strata_airflow.arrivals import ArrivalTrigger, markers
from strata_airflow.assets import BATCHES
from strata_airflow.spark import flags

pytestmark = pytest.mark.dags


def told(*days: str) -> dict[str, list[SimpleNamespace]]:
    return {"arrivals": [SimpleNamespace(extra={"payload": {"day": day}}) for day in days]}


def test_each_marker_is_told_once_the_earliest_first(tmp_path: Path) -> None:
    strange = ("2026-13-01", "9999-12-31", "flights.csv", "2026-11-20x")  # no day is after 9999
    for name in ("2026-11-21.done", "2026-11-20", *strange):
        (tmp_path / name).touch()
    (tmp_path / "2026-11-22").mkdir()

    trigger = ArrivalTrigger(str(tmp_path), 0.01)

    async def look() -> list[str]:
        days: list[str] = []
        async for event in trigger.run():
            days.append(event.payload["day"])
            if len(days) == 2:
                (tmp_path / "2026-11-23").touch()  # comes while it waits
            if len(days) == 3:
                break
        return days

    assert asyncio.run(look()) == ["2026-11-20", "2026-11-21", "2026-11-23"]
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == sorted([*strange, "2026-11-22", "2026-11-23"])


def test_a_marker_that_stays_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow begins a trigger that fails anew at once: each time would start an ingest."""
    (tmp_path / "2026-11-20").touch()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refused)
    trigger = ArrivalTrigger(str(tmp_path), 0.01)

    async def look() -> list[str]:
        days: list[str] = []
        async for event in trigger.run():
            days.append(event.payload["day"])
            if len(days) == 1:
                (tmp_path / "2026-11-21").touch()  # comes while it waits
            if len(days) == 2:
                os.utime(tmp_path / "2026-11-20", ns=(1, 1))  # the supplier says it again
            if len(days) == 3:
                break
        return days

    assert asyncio.run(asyncio.wait_for(look(), 20)) == ["2026-11-20", "2026-11-21", "2026-11-20"]
    (first, *_) = [record.getMessage() for record in caplog.records]
    assert str(tmp_path / "2026-11-20") in first
    assert "cure: " in first


def test_a_trigger_is_made_again_from_what_it_tells(tmp_path: Path) -> None:
    path, mine = ArrivalTrigger(str(tmp_path), 3.0).serialize()
    assert path == "strata_airflow.arrivals.ArrivalTrigger"
    again = ArrivalTrigger(**mine)
    assert (again.folder, again.pause_s) == (str(tmp_path), 3.0)
    assert markers(tmp_path / "not there") == []


def test_the_days_of_the_markers_are_taken_in(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(project / "dags" / "shard_arrival.py")
    assert DagBag(file).dags == {}  # no folder: no DAG
    monkeypatch.setenv("STRATA_ARRIVALS", str(tmp_path))
    bag = DagBag(file)
    assert bag.import_errors == {}
    dag = bag.dags["shard_arrival"]
    assert dag.max_active_runs == 1
    assert "May I run it again, or clear it?" in dag.doc_md
    (job,) = dag.tasks
    assert job.outlets == [BATCHES]

    context = {
        **dag.user_defined_macros,
        "triggering_asset_events": told("2026-11-30", "2026-11-28"),
    }
    environment = dag.get_template_env()
    assert flags(job.render_template(job.arguments, context, environment)) == [
        "--from-time",
        "2026-11-28",
        "--to-time",
        "2026-12-01",
        "--every",
        "P1D",
    ]
    assert job.render_template(job.partitions, context, environment).split() == [
        "2026-11-28T00:00:00",
        "2026-11-29T00:00:00",
        "2026-11-30T00:00:00",
    ]
    by_hand = {**dag.user_defined_macros, "triggering_asset_events": {}}
    assert flags(job.render_template(job.arguments, by_hand, environment)) == ["--every", "P1D"]
    assert job.render_template(job.partitions, by_hand, environment) == ""
