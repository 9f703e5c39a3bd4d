"""Expressions of dates and times: part of `tests/spark/signatures.py`."""

from collections.abc import Iterator


def dates() -> Iterator[tuple[str, str]]:
    for unit in ("YEAR", "yy", "quarter", "MONTH", "mm", "week", "day", "nonsense"):
        yield "trunc", f"trunc(day, '{unit}')"
    yield "trunc", "trunc(day, s)"
    for unit in (
        "YEAR", "quarter", "mon", "week", "DAY", "dd", "hour", "minute", "second", "millisecond",
        "microsecond", "nonsense",
    ):  # fmt: skip
        yield "date_trunc", f"date_trunc('{unit}', ts)"
    yield "date_trunc", "date_trunc(s, ts)"
    fields = {
        "year": "year",
        "quarter": "quarter",
        "month": "month",
        "day_of_month": "dayofmonth",
        "day_of_year": "dayofyear",
        "day_of_week": "dayofweek",
        "week_day": "weekday",
        "week_of_year": "weekofyear",
        "last_day": "last_day",
    }
    for name, function in fields.items():
        yield name, f"{function}(day)"
        yield name, f"{function}(ts)"
    for name in ("hour", "minute", "second"):
        yield name, f"{name}(ts)"
        yield name, f"{name}(tn)"
    yield "date_add", "date_add(day, i)"
    yield "date_add", "date_add(day, 30)"
    yield "date_sub", "date_sub(day, i)"
    yield "date_diff", "datediff(day, day2)"
    yield "date_diff", "datediff(day, date'2024-01-01')"
    yield "add_months", "add_months(day, 1)"
    yield "add_months", "add_months(day, i)"
    yield "add_months", "add_months(day, -13)"
    yield "date_add_ym_interval", "day + interval '1-1' year to month"
    yield "date_add_ym_interval", "day - interval '2' month"
    yield "date_add", "day + interval '3' day"
    yield "date_add", "day - interval '3' day"
    yield "subtract_dates", "day - day2"
    yield "make_date", "make_date(sh, 2, sh2)"
    yield "make_date", "make_date(2024, sh, 28)"
    yield "make_date", "make_date(i, 1, 1)"
    yield "unix_date", "unix_date(day)"
    yield "date_from_unix_date", "date_from_unix_date(i)"


def timestamps() -> Iterator[tuple[str, str]]:
    for a in ("ts", "tn"):
        yield "timestamp_add_interval", f"{a} + interval '30' day"
        yield "timestamp_add_interval", f"{a} - interval '1 02:03:04.5' day to second"
        yield "timestamp_add_interval", f"{a} + (ts2 - ts)"
        yield "timestamp_add_ym_interval", f"{a} + interval '1' month"
        yield "timestamp_add_ym_interval", f"{a} - interval '1-1' year to month"
        for unit in ("microsecond", "second", "hour", "day", "week", "month", "quarter", "year"):
            yield "timestamp_add", f"timestampadd({unit}, sh, {a})"
            yield "timestamp_diff", f"timestampdiff({unit}, {a}, {a}2)"
        yield "timestamp_add", f"timestampadd(hour, i, {a})"
        yield "subtract_timestamps", f"{a} - {a}2"
        yield "unix_timestamp", f"unix_timestamp({a})"
        yield "unix_timestamp", f"to_unix_timestamp({a})"
    yield "unix_timestamp", "unix_timestamp(day)"
    yield "unix_timestamp", "unix_timestamp(s)"
    yield "unix_seconds", "unix_seconds(ts)"
    yield "unix_millis", "unix_millis(ts)"
    yield "unix_micros", "unix_micros(ts)"
    yield "seconds_to_timestamp", "timestamp_seconds(l)"
    yield "seconds_to_timestamp", "timestamp_seconds(i)"
    yield "seconds_to_timestamp", "timestamp_seconds(d)"
    yield "seconds_to_timestamp", "timestamp_seconds(dec)"
    yield "millis_to_timestamp", "timestamp_millis(l)"
    yield "micros_to_timestamp", "timestamp_micros(l)"
    yield "current_timestamp", "ts > current_timestamp()"
    yield "current_date", "day > current_date()"
    yield "local_timestamp", "tn > localtimestamp()"


PATTERNS = (
    "yyyy", "yyyy-MM", "yyyy-MM-dd", "yyyyMMdd", "yyyy/MM/dd HH:mm:ss", "HH:mm", "MM-dd", "dd",
    "yyyy-MM-dd HH:mm:ss.SSS", "mm:ss", "dd.MM.yyyy", "EEE", "yyyy-MM-dd''T''HH:mm:ss.SSSSSS",
    "yyyy-MM-dd''T''HH:mm:ss''Z''", "yyyy-MM-dd HH:mm", "MM.dd.yyyy",
)  # fmt: skip


def formats() -> Iterator[tuple[str, str]]:
    for pattern in PATTERNS:
        quoted = pattern.replace("''", "\\'")
        yield "date_format", f"date_format(ts, '{quoted}')"
        yield "date_format", f"date_format(tn, '{quoted}')"
        yield "from_unixtime", f"from_unixtime(l, '{quoted}')"
        yield "from_unixtime", f"from_unixtime(unix_seconds(ts), '{quoted}')"
        for text in ("stamp", "when", "cast(day as string)", "get_json_object(js, '$.when')"):
            yield "get_timestamp", f"to_timestamp({text}, '{quoted}')"
            yield "get_timestamp", f"try_to_timestamp({text}, '{quoted}')"
        yield "get_timestamp", f"try_to_timestamp(date_format(ts, '{quoted}'), '{quoted}')"
    yield "date_format", "date_format(ts, s)"
    yield "get_timestamp", "to_timestamp_ntz(stamp, 'yyyy-MM-dd HH:mm:ss')"
    yield "get_timestamp", "to_timestamp_ntz(when, 'yyyy-MM-dd HH:mm:ss')"
    yield "get_timestamp", "try_to_date(get_json_object(js, '$.s'), 'yyyy-MM-dd')"
    yield "from_unixtime", "from_unixtime(l)"
    for unit in ("MONDAY", "tu", "wed", "sun", "nonsense"):
        yield "next_day", f"next_day(day, '{unit}')"
    yield "next_day", "next_day(day, s)"
    yield "year_of_week", "extract(yearofweek from day)"
    yield "year_of_week", "extract(yearofweek from ts)"
    for name in ("month_name", "day_name"):
        yield name, f"{name.replace('_', '')}(day)"
        yield name, f"{name.replace('_', '')}(ts)"
    yield "interval_days", "extract(day from (ts - ts2))"
    for flag in ("true", "false"):
        yield "months_between", f"months_between(ts, ts2, {flag})"
        yield "months_between", f"months_between(day, day2, {flag})"
    for zone in ("America/New_York", "Pacific/Kiritimati", "+05:30", "Nowhere/Else"):
        yield "from_utc_timestamp", f"from_utc_timestamp(ts, '{zone}')"
        yield "to_utc_timestamp", f"to_utc_timestamp(ts, '{zone}')"
        yield "convert_timezone", f"convert_timezone('UTC', '{zone}', tn)"
    yield "from_utc_timestamp", "from_utc_timestamp(ts, s)"
    yield "to_utc_timestamp", "to_utc_timestamp(ts, s)"
    yield "convert_timezone", "convert_timezone(s, 'UTC', tn)"
    for name in ("make_timestamp", "try_make_timestamp", "make_timestamp_ntz"):
        yield "make_timestamp", f"{name}(sh, 2, 3, 4, 5, 6.7)"
        yield "make_timestamp", f"{name}(2024, 12, 31, 23, 59, sh2)"
        yield "make_timestamp", f"{name}(year(day), month(day), day(day), 23, 59, 60)"
        yield "make_timestamp", f"{name}(i, sh, 1, 0, 0, 0)"
    yield "second_with_fraction", "extract(second from ts)"
    yield "second_with_fraction", "extract(second from tn)"
    yield "timestamp_add_interval", "ts + make_interval(0, 1, 0, 2, 3)"
    yield "timestamp_add_interval", "tn - make_interval(1, 0, 1)"
    yield "add_months", "day + make_interval(0, 1, 0, 2)"
    yield "try_eval", "try_add(ts, interval '30' day)"
    yield "try_eval", "try_add(day, interval '3' month)"
    yield "try_eval", "try_subtract(ts, interval '1' month)"
