"""Ingest days as soon as their files have arrived, as announced by markers.

**Starts** when a file named by a day (`2026-11-21`) appears in the folder that `STRATA_ARRIVALS` in
Airflow's environment names; it needs Airflow's triggerer. A marker says that the files of that day
and of the days before it are complete. **Does** what *Shards: ingest* does, for the days of the
markers that came since the last run; one batch per day and shard. The daily run continues as
usual: it leaves ingested files alone, and a missing marker only costs time.

| Question | Answer |
|---|---|
| May I run it again, or clear it? | Yes. Ingested files are left alone. |
| I triggered it by hand and it failed with a bad request? | It has no marker that names a day. Use *Shards: ingest*. |
| A marker came too early? | Files that come after it are late: the next run takes them and says so. A change stream refuses them. |
| Several markers came at once? | One run takes all days from the first to the last. |

The asset `strata_batches` carries the counts of each run, for each of its days.
"""

import pendulum
from airflow.sdk import dag

from strata_airflow.arrivals import MACROS, arrivals
from strata_airflow.assets import BATCHES
from strata_airflow.groups import DECLARED, spark_jobs
from strata_airflow.schedules import due_within
from strata_airflow.spark import DEFAULT_ARGS

ARRIVALS = arrivals()


@dag(
    dag_display_name="Shards: ingest on arrival",
    schedule=[ARRIVALS] if ARRIVALS else None,
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    deadline=due_within(6, "ingest on arrival"),
    default_args=DEFAULT_ARGS,
    tags=["strata", "ingest"],
    doc_md=__doc__,
    user_defined_macros=MACROS,
)
def shard_arrival() -> None:
    """Wire the one task."""
    spark_jobs(
        "ingest",
        DECLARED,
        arguments={
            "--from-time": "{{ first_day(triggering_asset_events) }}",
            "--to-time": "{{ day_after_last(triggering_asset_events) }}",
            "--every": "P1D",
        },
        partitions="{{ partitions(triggering_asset_events) }}",
        outlets=[BATCHES],
    )


if ARRIVALS:  # without a folder to watch there is nothing to show
    shard_arrival()
