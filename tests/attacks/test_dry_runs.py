"""A dry run is dry, from whichever form it comes: a backfill with the switch on was a real one."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags.test_templates import bag, command_line

__all__ = ["bag"]
pytestmark = pytest.mark.dags
DAY = "2013-02-28T00:00:00"
DRY = {
    "shard_ingest": "--dry-run",
    "stats_backfill": "--dry-run",
    "shard_compact": "--plan",
    "garbage_collection": "--plan",
}


@pytest.mark.parametrize(("dag", "flag"), DRY.items())
def test_a_backfill_with_the_switch_on_changes_nothing(bag: Any, dag: str, flag: str) -> None:
    """The form sends what it shows as the backfill's configuration."""
    for on in (True, False):
        answers = {"dry_run": on}
        words = command_line(bag, dag, answers, DAY, "backfill", conf=answers)
        assert (flag in words) is on


@pytest.mark.parametrize(("dag", "flag"), DRY.items())
@pytest.mark.parametrize(
    ("run_type", "conf", "dry"),
    [
        ("backfill", None, False),
        ("backfill", {}, False),
        ("scheduled", {}, False),
        ("scheduled", {"dry_run": True}, False),
        ("asset_triggered", None, False),
        ("manual", {}, True),
    ],
)
def test_what_nobody_was_shown_a_switch_for_is_real(
    bag: Any, dag: str, flag: str, run_type: str, conf: dict[str, Any] | None, dry: bool
) -> None:
    assert (flag in command_line(bag, dag, {}, DAY, run_type, conf=conf)) is dry


def test_only_what_can_be_dry_shows_the_switch(bag: Any) -> None:
    """And each of these hands the switch to its job, in a word that the job knows.

    The DAG of kept sums has no job and decides itself: tests/dags/test_kept_sums.py.
    """
    shown = {name for name, dag in bag.dags.items() if "dry_run" in dag.params}
    assert shown == {*DRY, "kept_sums"}


def test_the_jobs_know_these_words() -> None:
    from pathlib import Path

    jobs = Path(__file__).parents[2] / "strata" / "jobs"
    for job, word in (
        ("ingest", "--dry-run"),
        ("stats", "--dry-run"),
        ("compact", "--plan"),
    ):
        assert f'"{word}"' in (jobs / job / "main.py").read_text("utf-8")


@pytest.mark.parametrize("word", ["--dry-run", "--plan"])
def test_a_dry_run_sends_no_event(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wake other DAGs, which are real, and count as work done."""
    from strata_airflow import spark
    from strata_airflow.assets import BATCHES, STATISTICS

    monkeypatch.setattr(spark, "connection_extra", lambda name: {})
    monkeypatch.setattr(spark.SparkSubmitOperator, "execute", lambda self, context: None)
    for dry in (True, False):
        job = spark.spark_job("x", arguments={word: str(dry)}, outlets=[BATCHES, STATISTICS])
        ti = SimpleNamespace(
            dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1, task=job
        )
        events: dict[Any, Any] = {one: SimpleNamespace(extra=None) for one in job.outlets}
        # Airflow runs a copy.
        done = job.prepare_for_execution().execute({"ti": ti, "outlet_events": events})
        assert done["dry_run"] is dry
        assert job.outlets == ([] if dry else [BATCHES, STATISTICS])
        assert [event.extra for event in events.values()] == [None if dry else {"shards": 0}] * 2


@pytest.mark.parametrize("dry", [True, False])
def test_nor_do_groups_of_one(dry: bool) -> None:
    from airflow.sdk import DAG

    from strata_airflow.assets import BATCHES
    from strata_airflow.groups import Caps, spark_jobs

    with DAG("d", schedule=None):
        last = spark_jobs("ingest", ["a"], limits=Caps(shards=1), outlets=[BATCHES]).last
    ti = SimpleNamespace(task=last.operator)
    parts = [{"job": "ingest", "counts": {"shards": 1}, "result": "x", "dry_run": dry}]
    events: dict[Any, Any] = {BATCHES: SimpleNamespace(extra=None)}
    last.operator.python_callable(parts, "", events, ti)
    assert last.operator.outlets == ([] if dry else [BATCHES])
    assert events[BATCHES].extra == (None if dry else {"shards": 1})
