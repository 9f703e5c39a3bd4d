"""The schedules of the DAGs, when their runs are late, and the switch that turns them all off.

`STRATA_SCHEDULES=off` in the environment of Airflow leaves every DAG to be triggered by hand.
`STRATA_SCHEDULES_END` (a day) is for data that ends: no scheduled run is about a later day, so
that nothing is taken in for days that can have no files. Past days stay open to a backfill. The
variables are read when a DAG file is parsed, so they must be the same for all of Airflow's
processes.
"""

import os
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import CronPartitionTimetable
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

FIRST_DAY: Final = "STRATA_INGEST_SINCE"
LAST_DAY: Final = "STRATA_SCHEDULES_END"
DAY_KEY: Final = "%Y-%m-%dT00:00:00"


def daily(at: str) -> Any:
    """Return a schedule of daily runs at `at` ("HH:MM", UTC) for the day before; None when off.

    The partition key names the day that the run is about, so the form of a backfill lists days.
    """
    if os.environ.get("STRATA_SCHEDULES", "on") == "off":
        return None
    hour, minute = at.split(":")
    cron = f"{int(minute)} {int(hour)} * * *"
    if last := os.environ.get(LAST_DAY, ""):
        from strata_airflow.ending import EndingTimetable

        return EndingTimetable(
            cron, timezone="UTC", run_offset=-1, key_format=DAY_KEY, last_key=day_key(last)
        )
    # The key is the tick before: with the tick at 02:30, it is 02:30 of the day before. Cut to
    # whole days, it is the day that the run is about.
    return CronPartitionTimetable(cron, timezone="UTC", run_offset=-1, key_format=DAY_KEY)


def day_key(day: str) -> str:
    """Return the partition key of a day (YYYY-MM-DD). Raises: ValueError if it is none.

    >>> day_key("2013-12-31")
    '2013-12-31T00:00:00'
    """
    return datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).strftime(DAY_KEY)


def since() -> dict[str, Any]:
    """Return the start of the ingest's schedule, as arguments of a DAG.

    With `STRATA_INGEST_SINCE` (a day, YYYY-MM-DD), every day from then on is ingested in order,
    including the days that Airflow missed while it was down. Without it, only the newest day has a
    run; missed files of other days are ingested with it and count as late.
    """
    day = os.environ.get(FIRST_DAY, "")
    if not day:
        return {"start_date": datetime(2013, 1, 1, tzinfo=UTC), "catchup": False}
    # The run about a day has its tick at the end of it.
    first = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=1)
    return {"start_date": first, "catchup": True}


def due_within(hours: float, what: str) -> DeadlineAlert:
    """Return the alert for a run that has not ended this many hours after it was queued.

    The clock starts with the queue: a run about a partition has no logical date.
    """
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=hours),
        # Given by name: the scheduler and the executor import it, but this file does not.
        callback=SyncCallback(
            "strata_airflow.notify.tell_late", kwargs={"what": what, "hours": hours}
        ),
        name=f"{what}: {hours:g} h",
    )


def after(asset: Any) -> Any:
    """Return a schedule with one run for each new partition of `asset`; None when off."""
    from airflow.sdk import IdentityMapper, PartitionedAssetTimetable

    if os.environ.get("STRATA_SCHEDULES", "on") == "off":
        return None
    return PartitionedAssetTimetable(assets=asset, default_partition_mapper=IdentityMapper())
