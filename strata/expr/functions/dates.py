"""Functions of dates: whole days, free of time zones."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from strata.expr import bounds as exact
from strata.expr import calendar
from strata.expr.entry import (
    Context,
    Entry,
    Outcome,
    literal,
    numbers,
    opened,
    settle,
    strict,
)
from strata.expr.functions.arithmetic import filled, sides
from strata.expr.nodes import Call
from strata.expr.sparktype import spark_type
from strata.expr.spec import YES, Bounds, Flags, Numbers, Spec, Texts, text_where

_DATE: Final = spark_type("date")
_FURTHEST_DAY: Final = 2**63 // calendar.DAY_US  # its microseconds fit 64 bits


def checked(args: Sequence[Spec], low: Bounds, high: Bounds, empty: Flags) -> Spec:
    """Return days, which wrap or fail in every mode where they leave 32 bits."""
    fitting, outside = exact.fit(Numbers(low, high, empty), _DATE)
    if outside.any():
        fitting = filled(fitting, _DATE, outside)
    return strict(args, Outcome(fitting, fail=outside))


def _wrapping(call: Call, args: Sequence[Spec], low: Bounds, high: Bounds, empty: Flags) -> Spec:
    """Return 32-bit numbers that silently wrap in every mode."""
    kind = spark_type(call.type)
    fitting, outside = exact.fit(Numbers(low, high, empty), kind)
    if outside.any():
        fitting = filled(fitting, kind, outside)
    return strict(args, Outcome(fitting))


def _date_add(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a, b = sides(call, args)
    return _wrapping(call, args, a.low + b.low, a.high + b.high, a.empty | b.empty)


def _date_sub(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a, b = sides(call, args)
    return _wrapping(call, args, a.low - b.high, a.high - b.low, a.empty | b.empty)


def _add_months(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a, b = sides(call, args)
    low = calendar.add_months(a.low, b.low)
    return checked(args, low, calendar.add_months(a.high, b.high), a.empty | b.empty)


def _trunc(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    unit = literal(call, 1)
    if unit is None or not isinstance(unit.value, str | None):
        return opened(call, args)
    a = numbers(args[0], call.args[0].type)
    low = None if unit.value is None else calendar.truncate_days(a.low, unit.value)
    if low is None or unit.value is None:  # an unknown unit gives null
        return strict(args, Outcome(Numbers(a.low, a.high, YES), null=YES))
    high = calendar.truncate_days(a.high, unit.value)
    assert high is not None
    # Spark looks for a Monday a week before in 32 bits, which wraps next to the first day
    low = np.where(a.low < _DATE.low + 11, _DATE.low - 1, low)
    return checked(args, low, high, a.empty)


def _last_day(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a = numbers(args[0], call.args[0].type)
    low, high = (calendar.month_start(calendar.months(x) + 1) - 1 for x in (a.low, a.high))
    return checked(args, low, high, a.empty)


def _year(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a = numbers(args[0], call.args[0].type)
    values = Numbers(calendar.years(a.low), calendar.years(a.high), a.empty)
    return strict(args, Outcome(values))


Field = Callable[[Bounds], Bounds]


def _year_of_week(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a = numbers(args[0], call.args[0].type)
    return strict(args, Outcome(Numbers(_iso_year(a.low), _iso_year(a.high), a.empty)))


def _within(field: Field, frame: Field, least: int, most: int) -> Callable[..., Spec]:
    """Return the transfer of a field that rises within a frame and restarts in the next."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        a = numbers(args[0], call.args[0].type)
        same = frame(a.low) == frame(a.high)
        low, high = np.where(same, field(a.low), least), np.where(same, field(a.high), most)
        return strict(args, Outcome(Numbers(low, high, a.empty)))

    return transfer


def _month(days: Bounds) -> Bounds:
    return calendar.months(days) % 12 + 1


def _month_index(days: Bounds) -> Bounds:
    return calendar.months(days) % 12


def _quarter(days: Bounds) -> Bounds:
    return calendar.months(days) % 12 // 3 + 1


def _day_of_month(days: Bounds) -> Bounds:
    return days - calendar.month_start(calendar.months(days)) + 1


def _day_of_year(days: Bounds) -> Bounds:
    return days - calendar.month_start(calendar.months(days) // 12 * 12) + 1


def _week_from_sunday(days: Bounds) -> Bounds:
    return (days + 4) // 7


def _day_of_week(days: Bounds) -> Bounds:
    return (days + 4) % 7 + 1


def _week_from_monday(days: Bounds) -> Bounds:
    return (days + 3) // 7


def _week_day(days: Bounds) -> Bounds:
    return (days + 3) % 7


def _iso_year(days: Bounds) -> Bounds:
    # The year of the week's Thursday.
    return calendar.years(days - _week_day(days) + 3)


def _week_of_year(days: Bounds) -> Bounds:
    return (_day_of_year(days - _week_day(days) + 3) - 1) // 7 + 1


def _date_diff(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a, b = sides(call, args)
    return _wrapping(call, args, a.low - b.high, a.high - b.low, a.empty | b.empty)


def _subtract_dates(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a, b = sides(call, args)
    days = Numbers(a.low - b.high, a.high - b.low, a.empty | b.empty)
    far = (np.abs(days.low) > _FURTHEST_DAY) | (np.abs(days.high) > _FURTHEST_DAY)
    low, high = (
        np.clip(x, -_FURTHEST_DAY, _FURTHEST_DAY) * calendar.DAY_US for x in (days.low, days.high)
    )
    return strict(args, Outcome(Numbers(low, high, days.empty), fail=far & ~days.empty))


def _make_date(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return all days between the first of the fields and the last of them."""
    year, month, day = (numbers(spec, arg.type) for spec, arg in zip(args, call.args, strict=True))
    early, late = (np.clip(x, 1, 12) for x in (month.low, month.high))
    first = calendar.month_start((year.low - 1970) * 12 + early - 1) + np.clip(day.low, 1, 28) - 1
    last = calendar.month_start((year.high - 1970) * 12 + late) - 1
    start = calendar.month_start((year.high - 1970) * 12 + late - 1)
    last = np.where(day.high <= 28, start + np.clip(day.high, 1, 28) - 1, last)
    values, beyond = exact.fit(Numbers(first, last, year.empty | month.empty | day.empty), _DATE)
    if beyond.any():
        values = filled(values, _DATE, beyond)
    fine = (month.low >= 1) & (month.high <= 12) & (day.low >= 1) & (day.high <= 28)
    null, fail = settle(call, ~fine | beyond)
    # Beyond 32 bits an error is possible in every mode.
    return strict(args, Outcome(values, null, fail | beyond))


def _unix_date(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a = numbers(args[0], call.args[0].type)
    return _wrapping(call, args, a.low, a.high, a.empty)


_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip


def _named(field: Field, frame: Field, names: Sequence[str]) -> Callable[..., Spec]:
    """Return the transfer of a field's name: known where all days lie in one frame."""
    array = pa.array([name.encode() for name in names], pa.binary())
    least, most = (pa.scalar(pick(names).encode(), pa.binary()) for pick in (min, max))

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        a = numbers(args[0], call.args[0].type)
        first, last = field(a.low), field(a.high)
        one = (first == last) & (frame(a.low) == frame(a.high))
        found = array.take(pa.array(np.where(one, first, 0)))
        low, high = text_where(one, found, least), text_where(one, found, most)
        return strict(args, Outcome(Texts(low, high, a.empty)))

    return transfer


_WEEKDAYS: Final = {
    name: day
    for day, names in enumerate(
        (
            ("MO", "MON", "MONDAY"),
            ("TU", "TUE", "TUESDAY"),
            ("WE", "WED", "WEDNESDAY"),
            ("TH", "THU", "THURSDAY"),
            ("FR", "FRI", "FRIDAY"),
            ("SA", "SAT", "SATURDAY"),
            ("SU", "SUN", "SUNDAY"),
        )
    )
    for name in names
}


def _next_day(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the first day with a constant name after each date."""
    name = literal(call, 1)
    day = _WEEKDAYS.get(str(name.value).upper()) if name is not None else None
    if day is None:
        return opened(call, args)
    a = numbers(args[0], call.args[0].type)
    low, high = (x + 1 + (day - 4 - x) % 7 for x in (a.low, a.high))
    wraps = a.low < _DATE.low + 14  # Spark counts weeks in 32 bits
    low, high = np.where(wraps, a.low + 1, low), np.where(wraps, a.high + 7, high)
    return checked(args, low, high, a.empty)


def _interval_days(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a = numbers(args[0], call.args[0].type)
    low, high = (exact.truncating(x, calendar.DAY_US) for x in (a.low, a.high))
    return strict(args, Outcome(Numbers(low, high, a.empty)))


def _part(name: str, transfer: Callable[..., Spec], note: str) -> Entry:
    return Entry(name, "date", (1, 1), transfer, note)


_SAME_YEAR: Final = "monotone within one year, otherwise the whole span"
_SAME_WEEK: Final = "monotone within one week, otherwise the whole span"
ENTRIES: Final = (
    Entry("date_add", "date, days", (2, 2), _date_add, "monotone; wraps at 32 bits"),
    Entry("date_sub", "date, days", (2, 2), _date_sub, "monotone; wraps at 32 bits"),
    Entry("date_diff", "end, start", (2, 2), _date_diff, "monotone; wraps at 32 bits"),
    Entry("add_months", "date, months", (2, 2), _add_months, "monotone; months end early"),
    Entry("date_add_ym_interval", "date, interval", (2, 2), _add_months, "as add_months"),
    Entry("subtract_dates", "left, right", (2, 2), _subtract_dates, "monotone"),
    Entry("trunc", "date, unit", (2, 2), _trunc, "monotone for a constant unit"),
    Entry(
        "make_date",
        "year, month, day",
        (3, 3),
        _make_date,
        "from the first of the fields to the last",
    ),
    Entry("unix_date", "date", (1, 1), _unix_date, "the same number"),
    Entry("date_from_unix_date", "days", (1, 1), _unix_date, "the same number"),
    Entry("next_day", "date, name", (2, 2), _next_day, "monotone for a constant name"),
    Entry("interval_days", "interval", (1, 1), _interval_days, "monotone, toward zero"),
    _part("last_day", _last_day, "monotone"),
    _part("year", _year, "monotone"),
    _part("quarter", _within(_quarter, calendar.years, 1, 4), _SAME_YEAR),
    _part("month", _within(_month, calendar.years, 1, 12), _SAME_YEAR),
    _part("day_of_month", _within(_day_of_month, calendar.months, 1, 31), "within one month"),
    _part("day_of_year", _within(_day_of_year, calendar.years, 1, 366), _SAME_YEAR),
    _part("week_of_year", _within(_week_of_year, _iso_year, 1, 53), _SAME_YEAR),
    _part("day_of_week", _within(_day_of_week, _week_from_sunday, 1, 7), _SAME_WEEK),
    _part("week_day", _within(_week_day, _week_from_monday, 0, 6), _SAME_WEEK),
    _part("year_of_week", _year_of_week, "monotone"),
    _part(
        "month_name",
        _named(_month_index, calendar.months, _MONTHS),
        "known within one month",
    ),
    _part("day_name", _named(_week_day, lambda days: days, _DAYS), "known for one day"),
)
