"""Nights of validation: a calendar of their outcomes, and what each filter would have skipped."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import orjson
from markupsafe import Markup

from strata.history.operations import Operation
from strata.history.usage import UsedFilter
from strata.ui.needs import GOOD
from strata.ui.shown import counted
from strata.ui.svg import element, side_by_side

WEEKS: Final = 13
SHOWN: Final = 30  # nights of a filter
_STATES: Final = ("mismatch", "failed", "clean", "none")  # of a day, the worst first
_NAMES: Final = {
    "mismatch": "a mismatch",
    "failed": "failed",
    "clean": "clean",
    "none": "no validation",
}
_CELL, _STEP, _LEFT, _TOP = 15, 18, 36, 18  # pixels
_WEEKDAYS: Final = ("Mon", "", "Wed", "", "Fri", "", "Sun")


@dataclass(frozen=True, slots=True)
class Night:
    """The validations of one UTC day."""

    day: date
    state: str  # mismatch | failed | clean | none
    runs: int = 0
    checked: int = 0  # parts

    @property
    def said(self) -> str:
        """Return the night in words."""
        if not self.runs:
            return f"{self.day}: {_NAMES[self.state]}"
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        return f"{self.day}: {_NAMES[self.state]}, {runs}, {counted(self.checked)} parts checked"


def nights_of(validations: Sequence[Operation], first_ms: int, now_ms: int) -> list[Night]:
    """Return the days since the first one, of the last `WEEKS` weeks, oldest first.

    `first_ms`: when the shard was made, or when its history begins.
    """
    today = _day(now_ms)
    monday = today - timedelta(days=today.weekday() + 7 * (WEEKS - 1))
    begin = max(monday, _day(first_ms))
    some: dict[date, list[Operation]] = {}
    for one in validations:
        some.setdefault(_day(one.at_ms), []).append(one)
    days = [begin + timedelta(days=n) for n in range((today - begin).days + 1)]
    return [_night(day, some.get(day, [])) for day in days]


def _night(day: date, some: Sequence[Operation]) -> Night:
    states = {_state(one) for one in some}
    worst = next((state for state in _STATES if state in states), "none")
    return Night(day, worst, len(some), sum(_counts(one).get("checked_parts", 0) for one in some))


def _state(one: Operation) -> str:
    if one.outcome in GOOD:
        return "clean"
    return "mismatch" if one.outcome == "mismatch" else "failed"


def _counts(one: Operation) -> Mapping[str, Any]:
    counts: Mapping[str, Any] = orjson.loads(one.details)
    return counts


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(max(at_ms, 0) / 1000, UTC).date()


def calendar_svg(nights: Sequence[Night]) -> Markup:
    """Return the nights as a calendar: a column a week, Monday on top. Needs at least one."""
    found = {name: sum(n.state == name for n in nights) for name in _STATES}
    said = ", ".join(f"{number} {_NAMES[name]}" for name, number in found.items() if number)
    wide = _LEFT + _STEP * WEEKS
    return element(
        "svg",
        side_by_side(_cells(nights)),
        style_of="calendar",
        role="img",
        width=wide,
        height=_TOP + 7 * _STEP,
        viewBox=f"0 0 {wide} {_TOP + 7 * _STEP}",
        aria_label=f"Nights from {nights[0].day} to {nights[-1].day}: {said}",
    )


def _cells(nights: Sequence[Night]) -> Iterator[Markup]:
    for row, name in enumerate(_WEEKDAYS):
        yield element("text", name, x=_LEFT - 6, y=_TOP + row * _STEP + 12, style_of="side")
    first = nights[0].day - timedelta(days=nights[0].day.weekday())
    month = 0
    for night in nights:
        week = (night.day - first).days // 7
        x, y = _LEFT + week * _STEP, _TOP + night.day.weekday() * _STEP
        if night.day.month != month:
            month = night.day.month
            yield element("text", night.day.strftime("%b"), x=x, y=11)
        title = element("title", night.said)
        yield element(
            "rect", title, style_of=night.state, x=x, y=y, width=_CELL, height=_CELL, rx=3
        )
        if night.state in ("mismatch", "failed"):  # not by its colour alone
            yield element(
                "text",
                "×" if night.state == "mismatch" else "!",
                style_of="sign",
                x=x + _CELL / 2,
                y=y + 12,
            )


@dataclass(frozen=True, slots=True)
class FilterNights:
    """The share of bytes that one filter skips, night by night; None: not recorded."""

    name: str
    shares: tuple[tuple[str, float | None], ...]  # the night, and the share

    @property
    def last(self) -> float | None:
        """Return the newest share that is known."""
        return next((share for _, share in reversed(self.shares) if share is not None), None)


def checked_filters(validations: Sequence[Operation], now_ms: int) -> list[FilterNights]:
    """Return the filters of validations, by name; the last run of each day counts."""
    days: dict[str, Mapping[str, Any]] = {}
    for one in sorted(validations, key=lambda one: one.at_ms):
        checks = _counts(one).get("checks")
        if isinstance(checks, Mapping):
            days[_day(one.at_ms).isoformat()] = checks
    wanted = _last_days(now_ms)
    names = sorted({name for day in wanted for name in days.get(day, ())})
    return [
        FilterNights(name, tuple((day, _share(days.get(day, {}).get(name))) for day in wanted))
        for name in names
    ]


def filters_by_night(used: Mapping[str, Sequence[UsedFilter]], most: int) -> list[FilterNights]:
    """Return the filters of readers, the most used first, from the log of each day."""
    reads: dict[str, int] = {}
    shares: dict[tuple[str, str], float] = {}
    texts: dict[str, str] = {}
    for day, some in used.items():
        for one in some:
            reads[one.identity] = reads.get(one.identity, 0) + one.reads
            texts[one.identity] = one.filter.sql
            if one.bytes_total:
                shares[one.identity, day] = 1 - one.bytes_kept / one.bytes_total
    first = sorted(reads, key=lambda one: (-reads[one], texts[one]))[:most]
    return [
        FilterNights(texts[one], tuple((day, shares.get((one, day))) for day in used))
        for one in first
    ]


def _last_days(now_ms: int) -> list[str]:
    today = _day(now_ms)
    return [(today - timedelta(days=back)).isoformat() for back in reversed(range(SHOWN))]


def _share(check: Any) -> float | None:
    """Return the share of bytes in one night; None also for what is not a record of ours."""
    if not isinstance(check, Mapping):
        return None
    total, skipped = check.get("bytes_total"), check.get("bytes_skipped")
    good = isinstance(total, int) and isinstance(skipped, int) and 0 <= skipped <= total
    return skipped / total if good and total else None
