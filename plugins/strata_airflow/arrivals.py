"""Start an ingest when files arrive: Airflow's triggerer watches a folder for markers.

`STRATA_ARRIVALS` names the folder. When a day is complete, the supplier of the files puts an empty
file there, named by the day: `2026-11-21`, or `2026-11-21.done`. The marker says that every file of
that day, and of the days before it, is in its place. The trigger removes the marker and changes the
asset `strata_arrivals`, which starts the DAG `shard_arrival`. If a marker is lost with the
triggerer's machine, no file is lost: the scheduled run takes the day as usual.
"""

import asyncio
import logging
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
CURE: Final = "cure: give Airflow's triggerer the right to write this folder, then remove the file"
_LOG: Final = logging.getLogger(__name__)
_MARKER: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(\.done)?")


class ArrivalTrigger(BaseEventTrigger):
    """A trigger with one event for each marker in a folder, while the triggerer runs."""

    def __init__(self, folder: str, pause_s: float = PAUSE_S) -> None:
        """Take the folder, and the pause between two looks at it, in seconds."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.folder, self.pause_s = folder, pause_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments from which the triggerer recreates this trigger."""
        mine = {"folder": self.folder, "pause_s": self.pause_s}
        return f"{__name__}.{type(self).__name__}", mine

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the day of each marker, the earliest first, and remove the marker.

        One that cannot be removed counts again when it is written again. A trigger that fails is
        begun anew at once, so that an error here would start an ingest each time.
        """
        stay: dict[Path, int] = {}  # markers, and when they were written
        while True:
            for marker, day in await asyncio.to_thread(markers, Path(self.folder)):
                written = await asyncio.to_thread(_written_ns, marker)
                if written is None or stay.get(marker) == written:
                    continue
                yield TriggerEvent({"day": day})  # type: ignore[no-untyped-call]
                try:
                    await asyncio.to_thread(marker.unlink, missing_ok=True)
                except OSError as error:
                    stay[marker] = written
                    _LOG.warning("%s cannot be removed: %s (%s)", marker, error.strerror, CURE)
            await asyncio.sleep(self.pause_s)


def _written_ns(marker: Path) -> int | None:
    try:
        return marker.stat().st_mtime_ns
    except OSError:  # somebody has taken it away
        return None


def markers(folder: Path) -> list[tuple[Path, str]]:
    """Return the markers in a folder with their days, the earliest first.

    A folder that cannot be read now has none; a file whose name is not a day is left alone.
    """
    try:
        files = [file for file in folder.iterdir() if file.is_file()]
    except OSError:
        return []
    named = ((file, _MARKER.fullmatch(file.name)) for file in files)
    return sorted(((f, m[1]) for f, m in named if m and _is_day(m[1])), key=lambda one: one[1])


def arrivals() -> Asset | None:
    """Return the asset that markers change; None without a folder, or if schedules are off."""
    folder = os.environ.get(VARIABLE, "")
    if not folder or os.environ.get("STRATA_SCHEDULES", "on") == "off":
        return None
    watcher = AssetWatcher(name="strata_arrivals", trigger=ArrivalTrigger(folder))
    return Asset(
        name="strata_arrivals", uri="strata://arrivals", group="strata", watchers=[watcher]
    )


def first_day(events: Mapping[Any, Iterable[Any]]) -> str:
    """Return the earliest day in a run's events; empty if there are none."""
    return min(_days(events), default="")


def day_after_last(events: Mapping[Any, Iterable[Any]]) -> str:
    """Return the day after the latest day in a run's events; empty if there are none."""
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
    "first_day": first_day,
    "day_after_last": day_after_last,
    "partitions": partitions,
}


def _days(events: Mapping[Any, Iterable[Any]]) -> list[str]:
    extras = (event.extra for some in events.values() for event in some)
    days = ((extra.get("payload") or {}).get("day") for extra in extras if extra)
    return [day for day in days if day]


def _is_day(text: str) -> bool:
    """Return whether a text is a day that another one follows: its interval ends there."""
    try:
        return date.fromisoformat(text) < date.max
    except ValueError:
        return False
