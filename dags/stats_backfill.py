"""Give parts the statistics that they lack, or trim statistics to a budget.

*Backfill* decodes parts without statistics, or with those of an older version, and rewrites only
the manifests: the data stays as it is. *Trim* loosens or drops statistics, cheapest and least
used last, until each part fits the budget; columns on the shard's keep list survive. This is the
entry for backfills in Airflow's own form: choose days, see the list, run.

| Question | Answer |
|---|---|
| May I run it again, or clear it? | Yes. Parts that are done are passed over; interrupted work goes on. |
| Can it make a read wrong? | No. A missing statistic keeps a part; a trimmed bound is looser, never tighter. |
| What would it cost? | Dry run says parts and bytes. |

The asset `strata_statistics` carries the counts of each run.
"""

import pendulum
from airflow.sdk import Param, dag

from strata_airflow.assets import STATISTICS
from strata_airflow.forms import HOW, dry_run, moment, shards
from strata_airflow.intervals import MACROS
from strata_airflow.schedules import daily
from strata_airflow.spark import DEFAULT_ARGS, spark_job


@dag(
    dag_display_name="Statistics: backfill and trim",
    schedule=daily("00:00"),
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=["strata", "statistics"],
    doc_md=__doc__,
    user_defined_macros=MACROS,
    params={
        "action": Param(
            "backfill",
            type="string",
            enum=["backfill", "trim"],
            values_display={
                "backfill": "Backfill what is missing or old",
                "trim": "Trim to the budget",
            },
            title="What to do",
            section=HOW,
        ),
        "shards": shards(),
        "from_time": moment("From", "Inclusive, by batch. Empty: the run's day, or everything."),
        "to_time": moment("To", "Exclusive, by batch. Empty: the end of that day, or everything."),
        "budget_bytes": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Budget of a part, in bytes",
            description="For trimming. Empty: as the shard declares.",
            section=HOW,
        ),
        "dry_run": dry_run("says how many parts and bytes it would touch"),
    },
)
def stats_backfill() -> None:
    """Wire the one task."""
    spark_job(
        "stats",
        command=["{{ params.action }}"],
        arguments={
            "--shard": "{{ params.shards | join(' ') }}",
            "--from-time": "{{ from_time(params, dag_run) }}",
            "--to-time": "{{ to_time(params, dag_run) }}",
            "--budget": "{{ params.budget_bytes }}",
            "--dry-run": "{{ params.dry_run }}",
        },
        outlets=[STATISTICS],
    )


stats_backfill()
