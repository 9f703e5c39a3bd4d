"""The schedules of the DAGs, and the one switch that turns them all off.

`STRATA_SCHEDULES=off` in the environment of Airflow leaves every DAG to be triggered by hand:
the demo replays 2013, and a run for yesterday must not slip in between. Read when a DAG file is
parsed, so it must be the same for all of Airflow's processes.
"""

import os
from typing import Any

from airflow.sdk import CronPartitionTimetable


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


def after(asset: Any) -> Any:
    """Return one run for each partition of `asset` that is made; None when switched off."""
    from airflow.sdk import IdentityMapper, PartitionedAssetTimetable

    if os.environ.get("STRATA_SCHEDULES", "on") == "off":
        return None
    return PartitionedAssetTimetable(assets=asset, default_partition_mapper=IdentityMapper())
