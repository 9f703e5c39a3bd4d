"""Ingest a shard every day, compact it, validate it; and a report that waits for it.

Needs the connections `strata_default` (of type `strata`) and `strata_spark` (of type `spark`), and
a declaration of the shard `orders`. Copy it to your folder of DAGs, or take what you need.
"""

import pendulum
from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from strata_airflow.assets import shard_asset
from strata_airflow.notify import StrataNotifier
from strata_airflow.operators import (
    StrataCompactOperator,
    StrataIngestOperator,
    StrataValidateOperator,
)
from strata_airflow.sensors import StrataShardSensor

BEGIN = pendulum.datetime(2026, 1, 1, tz="UTC")


@dag(
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),  # a run has the day before it
    start_date=BEGIN,
    catchup=False,
    default_args={"retries": 2, "on_failure_callback": [StrataNotifier()]},
    tags=["strata", "example"],
)
def example_strata() -> None:
    """Wire three jobs on one shard."""
    ingest = StrataIngestOperator(task_id="ingest", shard="orders")
    compact = StrataCompactOperator(task_id="compact", shard="orders")
    validate = StrataValidateOperator(task_id="validate", shard="orders")
    ingest >> compact >> validate


@dag(
    schedule=[shard_asset("orders")],
    start_date=BEGIN,
    catchup=False,
    tags=["strata", "example"],
)
def example_strata_report() -> None:
    """Start when the shard has new rows, and wait until it is complete up to today."""

    @task
    def report() -> str:
        return "everything before today is in"

    complete = StrataShardSensor(
        task_id="complete",
        shard="orders",
        reached="{{ dag_run.run_after.strftime('%Y-%m-%d') }}",
        deferrable=True,
        poke_interval=60,
        timeout=6 * 60 * 60,
    )
    complete >> report()


example_strata()
example_strata_report()
