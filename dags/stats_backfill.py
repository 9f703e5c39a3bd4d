"""Collect missing statistics of parts, or trim statistics to a budget.

*Backfill* decodes parts without statistics, or with statistics of an older version, and rewrites
only the manifests: the data does not change. *Trim* loosens or drops statistics, the least used and
most expensive first, until each part fits the budget; columns on the shard's keep list survive.
The registered filters and the log of readers' filters say which statistics are used.
This is the entry for backfills in Airflow's own form: choose days, see the list, run.

A run or a backfill from a form is a dry run unless the form says otherwise. Scheduled runs are
real, and so are backfills from the command line that do not set the option.

| Question | Answer |
|---|---|
| May I run it again, or clear it? | Yes. Parts that are done are passed over; interrupted work goes on. |
| And a backfill that *reprocesses* days that were done? | It collects their statistics again, from the data. |
| Can it make a read wrong? | No. A missing statistic keeps a part; a trimmed bound is looser, never tighter. |
| What would it cost? | Dry run says parts, bytes, requests, and the time if a run was measured before. |
| What did trimming cost readers? | The task's log shows, for each filter, the parts that it skips before and after. |
| Compaction or ingest runs meanwhile? | Results for parts that were merged away are dropped and counted; run again. |

The asset `strata_statistics` carries the counts of each run.
"""

import pendulum
from airflow.sdk import Param, dag

from strata_airflow.assets import STATISTICS
from strata_airflow.forms import MAIN, columns, dry_run, moment, number, shards, switch
from strata_airflow.groups import STORED, spark_jobs
from strata_airflow.holding import held
from strata_airflow.intervals import MACROS
from strata_airflow.schedules import daily, due_within
from strata_airflow.spark import DEFAULT_ARGS


@dag(
    dag_display_name="Statistics: backfill and trim",
    schedule=daily("00:00"),
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    deadline=due_within(12, "statistics"),
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
            section=MAIN,
        ),
        "shards": shards(),
        "from_time": moment(
            "From", "Inclusive: parts that reach it. Empty: the run's day, or all."
        ),
        "to_time": moment("To", "Exclusive: parts before it. Empty: the end of that day, or all."),
        "columns": columns(),
        "version": number(
            "Statistics older than version",
            "Empty: for a backfill the newest; for trimming every version.",
            minimum=1,
        ),
        "max_parts": number("Parts of a shard at most", "Empty: no limit. A later run goes on."),
        "budget_bytes": number(
            "Budget of a part, in bytes", "For trimming. Empty: as the shard declares."
        ),
        "again": switch(
            "Collect again",
            "Backfill parts whose statistics are there, too. Airflow's own backfill does so by"
            " itself for the days that it reprocesses.",
        ),
        "dry_run": dry_run("says how many parts and bytes it would touch"),
    },
)
def stats_backfill() -> None:
    """Wire the one job, and the hold around it."""
    job = spark_jobs(
        "stats",
        STORED,
        command=["{{ params.action }}"],
        arguments={
            "--shard": "{{ (params.shards or []) | join(' ') }}",
            "--from-time": "{{ from_time(params, dag_run) }}",
            "--to-time": "{{ to_time(params, dag_run) }}",
            "--column": "{{ (params.columns or []) | join(' ') }}",
            "--version": "{{ params.version }}",
            "--max-parts": "{{ params.max_parts }}",
            "--budget": "{{ params.budget_bytes }}",
            "--again": "{{ again(params, dag_run, inlet_events[0]) }}",
            "--dry-run": "{{ rehearsed(params, dag_run) }}",
        },
        inlets=[STATISTICS],  # its events name the days that earlier runs covered
        outlets=[STATISTICS],
    )
    held(job)


stats_backfill()
