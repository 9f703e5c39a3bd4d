"""A schedule of daily runs that ends with a day; `STRATA_SCHEDULES_END`, see `schedules`.

Airflow's `end_date` of a DAG would end it as well, but no run that a person triggers today would
start any more: its logical date is after the end. A timetable that ends holds scheduled runs only.
"""

from typing import Any, Self

from airflow.timetables.base import DagRunInfo
from airflow.timetables.trigger import CronPartitionTimetable


class EndingTimetable(CronPartitionTimetable):
    """Runs like `CronPartitionTimetable`; none is scheduled whose key is after `last_key`."""

    def __init__(self, cron: str, *, last_key: str, **kwargs: Any) -> None:
        """Take `last_key` in the format of the keys, which must sort like their days."""
        super().__init__(cron, **kwargs)
        self._last_key = last_key
        self.description = f"{self.description}, until {last_key[:10]}"

    @property
    def summary(self) -> str:
        """Return what Airflow's list of DAGs shows as the schedule."""
        return f"{super().summary} until {self._last_key[:10]}"

    def serialize(self) -> dict[str, Any]:
        """Return what `deserialize` takes."""
        return {**super().serialize(), "last_key": self._last_key}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Self:
        """Return the timetable that `serialize` described."""
        base: Any = CronPartitionTimetable.deserialize(data)
        return cls(
            data["expression"],
            timezone=base._timezone,
            run_offset=base._run_offset,
            run_immediately=base._run_immediately,
            key_format=data["key_format"],
            last_key=data["last_key"],
        )

    def next_dagrun_info_v2(self, **asked: Any) -> DagRunInfo | None:
        """Return the next scheduled run, or None after the last day.

        A backfill does not ask here, so a person may still choose any day.
        """
        found = super().next_dagrun_info_v2(**asked)
        if found is None or (found.partition_key or "") > self._last_key:
            return None
        return found
