"""Bring the sums that shards keep of others up to what was ingested.

A shard that `strata sums` has made holds sums, counts, least and greatest values of another one by
groups. **Reads** the changes of the source since the last run, and **writes** the groups that they
touch. Runs after each ingested day, one task for each shard of sums. A run that a person triggers
is a dry run unless the form says otherwise: it lists the sums, and how far behind they are.
*Filters: soft evaluation* compares the sums with their whole source.

| Question | Answer |
|---|---|
| May I run it again, or clear it? | Yes. The position moves in the commit that brings the rows, so nothing counts twice. |
| It was killed. Are the sums wrong? | No. The next run reads the same changes again. |
| It failed with *the target went on*? | Another run was faster, for example by hand. A retry finds nothing left to do. |
| Soft evaluation found a difference: what now? | Find out why. Then *rebuild* corrects the newest time, together with the next changes. |
| A source was dropped? | Its sums stay as they are, and the log of *which sums* says so. The others go on. |
| How do I add sums? | `strata sums SHARD --into TARGET --by a,b --sum c`, once. |

The asset `strata_sums` carries the counts of each shard of sums.
"""

import logging
from typing import Any

import pendulum
from airflow.sdk import Param, dag, task

from strata_airflow.assets import BATCHES, SUMS
from strata_airflow.commands import run_strata
from strata_airflow.forms import MAIN, NAME, dry_run, switch
from strata_airflow.intervals import rehearsed
from strata_airflow.schedules import after, due_within
from strata_airflow.spark import DEFAULT_ARGS
from strata_airflow.sums import StrataSumsOperator

_LOG = logging.getLogger(__name__)


@dag(
    dag_display_name="Shards: kept sums",
    schedule=after(BATCHES),
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    deadline=due_within(6, "kept sums"),
    default_args=DEFAULT_ARGS,
    tags=["strata", "sums"],
    doc_md=__doc__,
    params={
        "sources": Param(
            [],
            type=["array", "null"],  # else the form marks it as required
            items={"type": "string", "pattern": NAME},
            title="Sources",
            description="Shards whose sums follow. Leave empty for every shard.",
            section=MAIN,
        ),
        "rebuild": switch(
            "Rebuild", "Add the whole source up, and correct what differs at the newest time."
        ),
        "dry_run": dry_run("lists the sums, and how many batches they are behind"),
    },
)
def kept_sums() -> None:
    """Wire the two tasks: choose; bring up, one for each shard of sums."""

    @task(task_display_name="which sums")
    def which(params: dict[str, Any], dag_run: Any) -> list[dict[str, Any]]:
        """Return the sums that are to follow; none in a dry run, which lists them in the log."""
        wanted = set(params["sources"] or ())
        listed = run_strata("sums")["sums"]
        if unknown := wanted - {one["source"] for one in listed}:
            _LOG.warning("no shard keeps sums of %s", ", ".join(sorted(unknown)))
        chosen = [one for one in listed if not wanted or one["source"] in wanted]
        for one in [one for one in chosen if one["unreadable_source"]]:
            _LOG.warning("%(shard)s stays as it is: %(source)s: %(unreadable_source)s", one)
            chosen.remove(one)
        for one in chosen:
            _LOG.info("%(shard)s of %(source)s by %(by)s: %(batches_behind)s batches behind", one)
        if rehearsed(params, dag_run):
            return []
        rebuild = bool(params["rebuild"])
        return [
            {"source": one["source"], "into": one["shard"], "rebuild": rebuild} for one in chosen
        ]

    StrataSumsOperator.partial(
        task_id="sums",
        strata_conn_id="",
        map_index_template="{{ task.into }}",
        outlets=[SUMS],
    ).expand_kwargs(which())


kept_sums()
