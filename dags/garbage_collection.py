"""Delete the blobs that can never be needed again, and give the reason for each.

**Reads** the stored states and manifests. **Deletes** parts, manifests and old records that no state
can name any more. The proof is the generation in their name, never their age alone. A blob that a
reader or writer may still need stays, with or without a lease. Deleted blobs can be restored for a
week (`strata gc restore`). Runs every night; today's garbage is deleted in two or three nights.

| Question | Answer |
|---|---|
| May I run it again, or clear it? | Yes, also twice at once: what is dead stays dead. |
| Somebody triggered it by hand and nothing went? | By hand it rehearses, unless *Dry run* is switched off; and a generation is closed once a day. |
| It failed with *Corrupt*: what now? | Nothing was deleted, or it was restored. The message names the manifest: run `strata validate` and `strata gc leaks`. |
| A writer failed with *Fenced*? | It took longer than two sweeps. Run it again; what was committed stays committed. |
"""

import pendulum
from airflow.sdk import dag

from strata_airflow.forms import dry_run, shards
from strata_airflow.intervals import MACROS
from strata_airflow.schedules import daily, due_within
from strata_airflow.spark import DEFAULT_ARGS, spark_job


@dag(
    dag_display_name="Shards: collect garbage",
    schedule=daily("05:00"),
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    deadline=due_within(12, "garbage collection"),
    default_args=DEFAULT_ARGS,
    tags=["strata", "maintenance"],
    doc_md=__doc__,
    user_defined_macros=MACROS,
    params={
        "shards": shards(),
        "dry_run": dry_run("shows which blobs a real run would delete, and why"),
    },
)
def garbage_collection() -> None:
    """Wire the one task."""
    spark_job(
        "compact",
        arguments={
            "--sweep": "True",
            "--shard": "{{ (params.shards or []) | join(' ') }}",
            "--plan": "{{ rehearsed(params, dag_run) }}",
        },
    )


garbage_collection()
