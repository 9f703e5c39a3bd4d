"""The planes of 2013 as a change stream, derived from the flights they really made.

A plane is inserted on the day of its first flight; on the first day of each month it is updated
with the flights it made so far and the airport it left from most in the month before, if that
changed anything; it is deleted on the day after its last flight, unless that was so near the
end of the year that it may just be waiting. A change is a full row with `diff` +1 or -1, an
update is the old row with -1 and the new row with +1: on any day the sum of all changes so far
is exactly the planes in service, once each.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, NamedTuple

NULL: Final = "NA"
STILL_IN_SERVICE: Final = date(2013, 12, 1)  # who flew after it is not deleted
NUMBERS: Final = ("year", "engines", "seats", "speed")

Change = dict[str, object]


class Flight(NamedTuple):
    """What the change stream needs of a flight."""

    day: date
    tailnum: str
    origin: str


@dataclass(frozen=True, slots=True)
class _Log:
    """The flights of one plane."""

    days: list[date]
    origins: list[str]


def plane_changes(
    flights: Iterable[Flight], master: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[date, Change]]:
    """Yield (day, change) for every plane of `master` that flew; in order for each plane."""
    logs: dict[str, _Log] = {}
    for day, tailnum, origin in sorted(flights):
        if tailnum in master:
            log = logs.setdefault(tailnum, _Log([], []))
            log.days.append(day)
            log.origins.append(origin)
    for tailnum in sorted(logs):
        yield from _life(_fixed(master[tailnum]), logs[tailnum])


def _fixed(row: Mapping[str, str]) -> Change:
    """Return what never changes of a plane, typed."""
    return {
        name: None if text == NULL else int(text) if name in NUMBERS else text
        for name, text in row.items()
    }


def _life(fixed: Change, log: _Log) -> Iterator[tuple[date, Change]]:
    """Yield the changes of one plane from its first flight to its last."""
    first, last = log.days[0], log.days[-1]
    row = _row(fixed, home=log.origins[0], flights=0, last_seen=first)
    yield first, {**row, "diff": 1}
    for month in _months(first, last):
        seen = bisect_left(log.days, month)
        recent = Counter(log.origins[bisect_left(log.days, _month_before(month)) : seen])
        home = _most_common(recent) if recent else str(row["home"])
        new = _row(fixed, home=home, flights=seen, last_seen=log.days[seen - 1])
        if new != row:
            yield month, {**row, "diff": -1}
            yield month, {**new, "diff": 1}
            row = new
    if last < STILL_IN_SERVICE:
        yield last + timedelta(days=1), {**row, "diff": -1}


def _row(fixed: Change, *, home: str, flights: int, last_seen: date) -> Change:
    return {**fixed, "home": home, "flights": flights, "last_seen": str(last_seen)}


def _most_common(origins: Counter[str]) -> str:
    """Return the most common airport, of several the first by name."""
    return min(origins, key=lambda origin: (-origins[origin], origin))


def _months(first: date, last: date) -> Iterator[date]:
    """Yield the first day of every month after `first`, up to `last`."""
    month = first
    while (month := _next_month(month)) <= last:
        yield month


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def _month_before(month: date) -> date:
    return (month - timedelta(days=1)).replace(day=1)
