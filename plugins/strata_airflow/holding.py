"""A hold around a run: what its job works on stays stored until the run ends, tries included.

A setup task takes it on the run's shards and a teardown task gives it back, also where the job
failed or was killed; the run's own end decides neither. If Airflow itself is gone for good the
hold expires by itself.
"""

from typing import Any, Final

from airflow.sdk import setup, task, teardown

from strata_airflow.commands import run_strata
from strata_airflow.groups import Submitted
from strata_airflow.intervals import rehearsed

HOURS: Final = 24  # three tries of six hours, and what they wait for


def take_hold(params: dict[str, Any], dag_run: Any) -> None:
    """Keep everything that is stored in the run's shards; again from a retry: the same hold."""
    if not rehearsed(params, dag_run):
        name, owner = _name(dag_run)
        shards = params.get("shards") or ()
        run_strata("holds", "--take", name, "--owner", owner, "--hours", str(HOURS), *shards)


def give_back_hold(dag_run: Any) -> None:
    """Give it up wherever it was taken; what a person chose may have changed meanwhile."""
    name, owner = _name(dag_run)
    run_strata("holds", "--release", name, "--owner", owner)


def held(job: Submitted) -> None:
    """Wire the hold around the tasks of a job."""
    # Anew for each DAG: Airflow marks what it is given.
    taken = setup(task(task_display_name="take a hold")(take_hold))()
    given_back = teardown(task(task_display_name="give the hold back")(give_back_hold))()
    taken >> job.first
    job.last >> given_back.as_teardown(setups=taken)


def _name(dag_run: Any) -> tuple[str, str]:
    """Return the name of a run's hold, and the token of its owner: no other run has either."""
    name = f"{dag_run.dag_id} {dag_run.run_id}"
    return name, name
