"""The arrival of files as what starts an ingest: a marker in a folder, seen by Airflow's triggerer.

`STRATA_ARRIVALS` names the folder. Whoever brings files puts an empty file there when a day is
complete, named by the day: `2026-11-21`, or `2026-11-21.done`. It says that every file of that
day, and of the days before it, is in its place. The trigger takes the marker away and tells the
asset `strata_arrivals`, which starts the DAG `shard_arrival`. A marker that is lost with the
triggerer's machine loses no file: the schedule's run takes the day as ever.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

VARIABLE: Final = "STRATA_ARRIVALS"
PAUSE_S: Final = 10.0
_MARKER: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(\.done)?")


class ArrivalTrigger(BaseEventTrigger):
    """One event for each marker that appears in a folder, for as long as the triggerer runs."""

    def __init__(self, folder: str, pause_s: float = PAUSE_S) -> None:
        """Take the folder, and how long to wait between two looks at it."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.folder, self.pause_s = folder, pause_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer makes the same trigger from."""
        mine = {"folder": self.folder, "pause_s": self.pause_s}
        return f"{__name__}.{type(self).__name__}", mine

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the day of each marker, the earliest first, and take the marker away."""
        while True:
            for marker, day in await asyncio.to_thread(markers, Path(self.folder)):
                yield TriggerEvent({"day": day})  # type: ignore[no-untyped-call]
                await asyncio.to_thread(marker.unlink, missing_ok=True)
            await asyncio.sleep(self.pause_s)


def markers(folder: Path) -> list[tuple[Path, str]]:
    """Return the markers in a folder with their days, the earliest first.

    A folder that cannot be read now has none; a name that is no day is left alone.
    """
    try:
        files = [file for file in folder.iterdir() if file.is_file()]
    except OSError:
        return []
    named = ((file, _MARKER.fullmatch(file.name)) for file in files)
    return sorted(((f, m[1]) for f, m in named if m and _is_day(m[1])), key=lambda one: one[1])


def arrivals() -> Asset | None:
    """Return the asset that the markers change; None where no folder is named, or all is off."""
    folder = os.environ.get(VARIABLE, "")
    if not folder or os.environ.get("STRATA_SCHEDULES", "on") == "off":
        return None
    watcher = AssetWatcher(name="strata_arrivals", trigger=ArrivalTrigger(folder))
    return Asset(
        name="strata_arrivals", uri="strata://arrivals", group="strata", watchers=[watcher]
    )


def first_day(events: Mapping[Any, Iterable[Any]]) -> str:
    """Return the earliest day in a run's events; empty where there are none."""
    return min(_days(events), default="")


def day_after_last(events: Mapping[Any, Iterable[Any]]) -> str:
    """Return the day after the latest one; empty where there are none."""
    last = max(_days(events), default="")
    return str(date.fromisoformat(last) + timedelta(days=1)) if last else ""


def partitions(events: Mapping[Any, Iterable[Any]]) -> str:
    """Return the partition keys of all days from the first to the last, as words."""
    first, after = first_day(events), day_after_last(events)
    if not first:
        return ""
    begin = date.fromisoformat(first)
    days = range((date.fromisoformat(after) - begin).days)
    return " ".join(f"{begin + timedelta(days=n)}T00:00:00" for n in days)


MACROS: Final = {
    "first_day": first_day, "day_after_last": day_after_last, "partitions": partitions,
}  # fmt: skip


def _days(events: Mapping[Any, Iterable[Any]]) -> list[str]:
    extras = (event.extra for told in events.values() for event in told)
    days = ((extra.get("payload") or {}).get("day") for extra in extras if extra)
    return [day for day in days if day]


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
