"""Check that skipping parts would have been right: fetch them anyway, and look.

For each registered filter and shard, the parts that pruning would skip are fetched, Spark
evaluates the filter on their rows, and an accepted row *or an error* is a mismatch. Row codec and
columns are compared as well, and sums that a shard keeps with those of their whole source. Verdicts
form a table, from which the report (Great Expectations Data Docs) is built.

| Question | Answer |
|---|---|
| It failed: what now? | A mismatch is never tried again. The log names shard, part, column, filter and bound; the shard's mode is already set back. Open the report, replay the line that it gives. |
| May I run it again, or clear it? | Yes. The same now gives the same sample. |
| Backfill of several days? | Yes; end the range after 04:00 of the last day that you want. |

The asset `strata_verdicts` carries the counts of each run.
"""

import pendulum
from airflow.sdk import dag

from strata_airflow.assets import VERDICTS
from strata_airflow.console import address
from strata_airflow.forms import filters, moment, number, shards
from strata_airflow.groups import STORED, spark_jobs
from strata_airflow.holding import held
from strata_airflow.intervals import MACROS
from strata_airflow.schedules import daily, due_within
from strata_airflow.spark import DEFAULT_ARGS


@dag(
    dag_display_name="Filters: soft evaluation",
    schedule=daily("04:00"),
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    deadline=due_within(8, "soft evaluation"),
    default_args=DEFAULT_ARGS,
    tags=["strata", "validation"],
    doc_md=__doc__,
    user_defined_macros=MACROS,
    params={
        "shards": shards(),
        "filters": filters(),
        "budget_bytes": number(
            "Bytes of a shard at most", "Empty: as the settings say. What does not fit is left out."
        ),
        "now": moment(
            "The time of now()", "What now() means in the filters. Empty: the end of the run's day."
        ),
    },
)
def soft_evaluation() -> None:
    """Wire the one job, and the hold around it."""
    job = spark_jobs(
        "validate",
        STORED,
        arguments={
            "--shard": "{{ (params.shards or []) | join(' ') }}",
            "--filter": "{{ (params.filters or []) | join(' ') }}",
            "--now": "{{ now(params, dag_run) }}",
            "--budget-bytes": "{{ params.budget_bytes }}",
            # A retry goes on where the try before it was killed.
            "--run": "{{ run_id | replace(' ', '_') }}",
            "--console": address(),
        },
        outlets=[VERDICTS],
    )
    held(job)


soft_evaluation()
