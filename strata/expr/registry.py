"""The table of functions: the only place that knows what a function does to ranges.

A front end maps its own tree to `Call(name, args, type, options)` with the names below, which
are Spark's Catalyst class names in lower snake case, but for a few kept short. A name that is
not in the table is no error: the interpreter opens it (any value, null or error).

Options, as sorted (name, value) pairs of a Call; leave out those that do not apply:

    ansi    "ansi" (errors), "try" (null instead), "legacy" (wraps or null); default "ansi"
    zone    time zone id of the node, as Spark writes it; default "UTC"
    unit    lower-case unit of timestamp_add and timestamp_diff ("day", "month", ...)
    escape  the escape character of like; default a backslash

Arguments, in order (Catalyst class where the name differs). `...` repeats.

    equal_to, equal_null_safe, less_than, less_than_or_equal, greater_than,
    greater_than_or_equal                    (left, right)
    and, or                                  (left, right, ...) in the order of evaluation
    not, is_null, is_not_null, is_nan        (x)
    in                                       (x, item, ...)            In, never InSet
    coalesce, greatest, least                (x, ...)
    if                                       (condition, then, otherwise)
    case_when                                (condition, value, ..., [otherwise])
    cast                                     (x); target is Call.type; ansi, zone
    add, subtract, multiply, divide,
    integral_divide, remainder, pmod         (left, right); ansi
    unary_minus, abs                         (x); ansi
    signum                                   (x)
    floor, ceil                              (x)                       Floor, Ceil, of one argument
    round                                    (x, scale); ansi
    date_trunc                               (unit, timestamp); zone   TruncTimestamp
    trunc                                    (date, unit)              TruncDate
    year, quarter, month, day_of_month, day_of_year, day_of_week, week_day, week_of_year
                                             (date)
    last_day                                 (date)
    hour, minute, second                     (timestamp); zone
    date_add, date_sub                       (date, days)
    date_diff                                (end, start)              DateDiff
    add_months                               (date, months)
    date_add_ym_interval                     (date, interval)          DateAddYMInterval
    timestamp_add_interval                   (timestamp, day-time interval); zone
    timestamp_add_ym_interval                (timestamp, interval); zone   TimestampAddYMInterval
    timestamp_add                            (quantity, timestamp); unit, zone
    timestamp_diff                           (start, end); unit, zone
    subtract_timestamps, subtract_dates      (left, right)
    unix_timestamp                           (timestamp or date, format); zone  and ToUnixTimestamp
    unix_seconds, unix_millis, unix_micros   (timestamp)
    unix_date                                (date)
    date_from_unix_date                      (days)
    seconds_to_timestamp, millis_to_timestamp, micros_to_timestamp   (number)
    make_date                                (year, month, day); ansi
    like                                     (text, pattern); escape
    starts_with, ends_with, contains         (text, part)
    substring                                (text, start, length)
    concat                                   (text, ...)
    upper, lower, string_trim, length        (text)
    get_json_object                          (json text, path)
    get_struct_field                         (struct, ordinal)
    current_timestamp, current_date, local_timestamp   (); zone

Wrappers that change no value (Alias, UnaryPositive, KnownNullable, KnownNotNull,
TaggingExpression, the `replacement` shells) are left out by the front end. `between`, `nullif`,
`nvl`, `nvl2`, `now` arrive rewritten (and, if, coalesce, current_timestamp).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from strata.expr.entry import Entry
from strata.expr.functions import (
    arithmetic,
    casts,
    comparison,
    conditional,
    dates,
    json,
    logic,
    rounding,
    structs,
    text,
    timestamps,
)

SUBJECTS: Final = (
    comparison,
    logic,
    conditional,
    arithmetic,
    rounding,
    casts,
    dates,
    timestamps,
    text,
    json,
    structs,
)

REGISTRY: Final[Mapping[str, Entry]] = MappingProxyType(
    {entry.name: entry for subject in SUBJECTS for entry in subject.ENTRIES}
)
