"""Merge the short runs of shards into long, consolidated ones.

**Reads and writes** the shards' parts. Readers see the same rows before and after, at any readable
time; sums of diffs and digests are compared before anything is committed. Runs after each ingested
day. A run that a person triggers is a dry run unless the form says otherwise.

| Question | Answer |
|---|---|
| May I run it again, or clear it? | Yes. A merge that lost its race is dropped, one that is done is not repeated. |
| It was killed. Is the work lost? | No: a long merge keeps what it has written every `compact.chunk_bytes`, and the next run goes on there. |
| What did it do, and at what cost? | `strata merges SHARD` lists the last merges, and those under way. |
| Why did it do nothing? | Each request in the log has a reason, also for doing nothing. |
| What does *full* cost? | It rewrites every part once, into one run. |
| And *migrate*? | It rewrites, slot by slot, what is in an older sort order, relation or layout. |

The asset `strata_runs` carries the counts of each run.
"""

import pendulum
from airflow.sdk import dag

from strata_airflow.assets import BATCHES, RUNS
from strata_airflow.forms import dry_run, shards, switch
from strata_airflow.groups import STORED_AND_JOURNALS, spark_jobs
from strata_airflow.intervals import MACROS
from strata_airflow.schedules import after, due_within
from strata_airflow.spark import DEFAULT_ARGS


@dag(
    dag_display_name="Shards: compact",
    schedule=after(BATCHES),
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    deadline=due_within(12, "compaction"),
    default_args=DEFAULT_ARGS,
    tags=["strata", "compact"],
    doc_md=__doc__,
    user_defined_macros=MACROS,
    params={
        "shards": shards(),
        "full": switch("Full", "Rewrite everything into one run, not only what is due."),
        "migrate": switch(
            "Migrate", "Also rewrite what is in an older sort order, relation or layout."
        ),
        "dry_run": dry_run("prints the plan that a real run would execute"),
    },
)
def shard_compact() -> None:
    """Wire the one task."""
    spark_jobs(
        "compact",
        STORED_AND_JOURNALS,
        arguments={
            "--shard": "{{ (params.shards or []) | join(' ') }}",
            "--full": "{{ params.full }}",
            "--migrate": "{{ params.migrate }}",
            "--plan": "{{ rehearsed(params, dag_run) }}",
        },
        outlets=[RUNS],
    )


shard_compact()
