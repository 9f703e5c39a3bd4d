"""Ingest the files of the declared shards for an interval of time.

**Reads** the files in the landing folder that belong to the interval. **Writes** one batch per
shard and step, committed by compare-and-append: all of the interval becomes readable at once, or
nothing does. Runs once a day for the day before; trigger it by hand, or backfill days, for any
other interval. A run that a person triggers is a dry run unless the form says otherwise.

| Question | Answer |
|---|---|
| May I run it again, or clear it? | Yes. Ingested files are left alone, and the log says so. |
| A file came late? | The next run takes it and says so; running its old interval takes it at once. |
| A past interval by hand? | It takes the files that are not ingested yet. |
| A file was renamed, or changed after it was taken in? | It is not taken; the log and the result name it. |
| Airflow was down for days? | With `STRATA_INGEST_SINCE` (a day) every missed day is run, oldest first. Without it the newest day is, and the missed files come in with it as late. |
| No file came for a day, or rows were rejected? | The run ends well and notifies the receivers in `STRATA_NOTIFY`. |
| An unreadable row? | It goes to the shard `NAME.rejected` with its reason, file and line, and is counted. |
| A file of the wrong shape? | The run fails at once, names file, column and value; nothing is committed. |
| It failed otherwise? | It is tried twice more. A try that was killed leaves nothing that is visible. |

The asset `strata_batches` carries the counts of each run.
"""

from airflow.sdk import Param, dag

from strata_airflow.assets import BATCHES
from strata_airflow.forms import END, MORE, dry_run, moment, shards
from strata_airflow.groups import DECLARED, spark_jobs
from strata_airflow.intervals import MACROS
from strata_airflow.schedules import daily, due_within, since
from strata_airflow.spark import DEFAULT_ARGS


@dag(
    dag_display_name="Shards: ingest",
    schedule=daily("00:00"),
    **since(),
    max_active_runs=1,
    deadline=due_within(6, "ingest of a day"),
    default_args=DEFAULT_ARGS,
    tags=["strata", "ingest"],
    doc_md=__doc__,
    user_defined_macros=MACROS,
    params={
        "shards": shards(every="Leave empty for every shard that is declared."),
        "from_time": moment("From", "Inclusive. Empty: the day that a scheduled run is about."),
        "to_time": moment("To", "Exclusive. Empty: the end of that day."),
        "every": Param(
            None,
            type=["null", "string"],
            pattern=r"^P([0-9]+D|T[0-9]+H)" + END,
            examples=["P1D", "P7D", "PT1H"],
            title="Cut into batches of",
            description="An ISO 8601 length such as P1D or PT6H. Empty: one batch.",
            section=MORE,
        ),
        "write_format": Param(
            "declared",
            type="string",
            enum=["declared", "row", "both", "structured"],
            values_display={
                "declared": "as the shard declares",
                "row": "row: the old encoding, no statistics",
                "both": "both: old and columns in one file",
                "structured": "structured: columns only",
            },
            title="Layout of the parts",
            description="Old parts stay as they are; every layout can be read beside the others.",
            section=MORE,
        ),
        "dry_run": dry_run("says which files and rows would be taken in"),
    },
)
def shard_ingest() -> None:
    """Wire the one task."""
    spark_jobs(
        "ingest",
        DECLARED,
        arguments={
            "--shard": "{{ (params.shards or []) | join(' ') }}",
            "--from-time": "{{ from_time(params, dag_run) }}",
            "--to-time": "{{ to_time(params, dag_run) }}",
            "--every": "{{ params.every }}",
            "--write-format": "{{ params.write_format | replace('declared', '') }}",
            "--dry-run": "{{ rehearsed(params, dag_run) }}",
        },
        outlets=[BATCHES],
    )


shard_ingest()
