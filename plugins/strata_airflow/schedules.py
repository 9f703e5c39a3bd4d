"""The schedules of the DAGs, when their runs are late, and the switch that turns them all off.

`STRATA_SCHEDULES=off` in the environment of Airflow leaves every DAG to be triggered by hand:
the demo replays 2013, and a run for yesterday must not slip in between. Read when a DAG file is
parsed, so it must be the same for all of Airflow's processes.
"""

import os
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import CronPartitionTimetable
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

FIRST_DAY: Final = "STRATA_INGEST_SINCE"


def daily(at: str) -> Any:
    """Return a run a day at `at` ("HH:MM", UTC) about the day before; None when switched off.

    The partition key names the day that the run is about, so the form of a backfill lists days.
    """
    if os.environ.get("STRATA_SCHEDULES", "on") == "off":
        return None
    hour, minute = at.split(":")
    # The key is that of the tick before, in whole days: with the tick at 02:30 the day's key is
    # 02:30 of the day before. Cut to the day, it is the day.
    return CronPartitionTimetable(
        f"{int(minute)} {int(hour)} * * *",
        timezone="UTC",
        run_offset=-1,
        key_format="%Y-%m-%dT00:00:00",
    )


def since() -> dict[str, Any]:
    """Return where the ingest's schedule begins, as arguments of a DAG.

    `STRATA_INGEST_SINCE` (a day, YYYY-MM-DD) has every day from then on taken in, one after the
    other, also those that an Airflow which was down has missed. Without it only the newest day is
    run by itself; what files of other days were missed come in with it, and count as late.
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
        # By its name: the scheduler and the executor import it, and this file does not.
        callback=SyncCallback(
            "strata_airflow.notify.tell_late", kwargs={"what": what, "hours": hours}
        ),
        name=f"{what}: {hours:g} h",
    )


def after(asset: Any) -> Any:
    """Return one run for each partition of `asset` that is made; None when switched off."""
    from airflow.sdk import IdentityMapper, PartitionedAssetTimetable

    if os.environ.get("STRATA_SCHEDULES", "on") == "off":
        return None
    return PartitionedAssetTimetable(assets=asset, default_partition_mapper=IdentityMapper())
