"""A hold around a run: its shards' blobs stay stored until the run and its retries end.

A setup task takes the hold on the run's shards, and a teardown task releases it, even if the job
failed or was killed. Neither task affects the outcome of the run. If Airflow itself disappears, the
hold expires.
"""

from typing import Any, Final

from airflow.sdk import setup, task, teardown

from strata_airflow.commands import run_strata
from strata_airflow.groups import Submitted
from strata_airflow.intervals import rehearsed

HOURS: Final = 24  # three tries of six hours, and their waiting times


def take_hold(params: dict[str, Any], dag_run: Any) -> None:
    """Keep everything stored in the run's shards; a retry takes the same hold again."""
    if not rehearsed(params, dag_run):
        name, owner = _name(dag_run)
        shards = params.get("shards") or ()
        run_strata("holds", "--take", name, "--owner", owner, "--hours", str(HOURS), *shards)


def give_back_hold(dag_run: Any) -> None:
    """Release the hold on every shard that has it; the run's choice of shards may have changed."""
    name, owner = _name(dag_run)
    run_strata("holds", "--release", name, "--owner", owner)


def held(job: Submitted) -> None:
    """Wire the hold around the tasks of a job."""
    # New tasks for each DAG: Airflow modifies the functions that it receives.
    taken = setup(task(task_display_name="take a hold")(take_hold))()
    given_back = teardown(task(task_display_name="give the hold back")(give_back_hold))()
    taken >> job.first
    job.last >> given_back.as_teardown(setups=taken)


def _name(dag_run: Any) -> tuple[str, str]:
    """Return the name of a run's hold and its owner's token, both unique to the run."""
    name = f"{dag_run.dag_id} {dag_run.run_id}"
    return name, name
