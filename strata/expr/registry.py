"""The table of functions: the only place that knows what a function does to ranges.

A front end maps its own tree to `Call(name, args, type, options)` with the names below. They are
Spark's Catalyst class names in lower snake case, except for a few short ones. A name outside the
table is no error: the interpreter opens the call (any value, null or error).

Options, as sorted (name, value) pairs of a Call; leave out those that do not apply:

    ansi    "ansi" (errors), "try" (null instead), "legacy" (wraps or null); default "ansi"
    zone    time zone id of the node, as Spark writes it; default "UTC"
    unit    lower-case unit of timestamp_add and timestamp_diff ("day", "month", ...)
    escape  the escape character of like; default a backslash
    zones   set where Spark knows the zones that are constant arguments
    checked set where Java accepts a regular expression

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
    upper, lower, length                     (text)
    get_json_object                          (json text, path)
    parse_json                               (json text); ansi ("try": null for what is no JSON)
    variant_get                              (variant, path); ansi ("legacy": null), zone
    is_variant_null                          (variant)
    from_json                                (json text, schema as Spark's JSON); no options
    json_array_length                        (json text)
    get_struct_field                         (struct, ordinal)
    current_timestamp, current_date, local_timestamp   (); zone
    date_format                              (timestamp, pattern); zone    DateFormatClass
    from_unixtime                            (seconds, pattern); zone
    get_timestamp                            (text, pattern); ansi, zone; the policy of the
                                             session for parsing must be CORRECTED
    year_of_week, month_name, day_name       (date)
    next_day                                 (date, name of a day); ansi
    interval_days                            (day-time interval)      ExtractANSIIntervalDays
    months_between                           (end, start, round); zone
    from_utc_timestamp, to_utc_timestamp     (timestamp, zone); zones
    convert_timezone                         (from, to, timestamp_ntz); zones
    make_timestamp                           (year, month, day, hour, minute, second); ansi, zone
    second_with_fraction                     (timestamp); zone
    sqrt, cbrt, exp, expm1, rint, to_degrees, to_radians, atan, tanh, log, log10, log2, log1p,
    sin, cos                                 (x)
    logarithm                                (base, x)
    pow, hypot, nanvl                        (x, other)
    bround                                   (x, scale)
    bitwise_and, bitwise_or, bitwise_xor     (left, right)
    bitwise_not, bit_count                   (x)
    shift_left, shift_right, shift_right_unsigned   (x, places)
    try_eval                                 (x); null where x fails
    rlike                                    (text, pattern); checked: Java can compile it
    string_trim, string_trim_left, string_trim_right   (text, [characters])
    init_cap, reverse, hex, sound_ex, md5, sha1, crc32, ascii, octet_length   (x)
    string_replace, string_translate, substring_index   (text, what, other)
    string_lpad, string_rpad                 (text, length, pad)
    sha2                                     (bytes, bits)
    string_instr, find_in_set, levenshtein   (left, right)
    murmur3_hash, xx_hash64                  (x, ...)
    make_dt_interval                         (days, hours, minutes, seconds)  MakeDTInterval
    make_ym_interval                         (years, months)           MakeYMInterval
    multiply_dt_interval, multiply_ym_interval   (interval, number)
    interval_hours, interval_minutes, interval_seconds, interval_years, interval_months
                                             (interval)        ExtractANSIIntervalHours and so on
    width_bucket                             (x, low, high, count)
    tan, cot, sec, csc, asin, acos, sinh, cosh, asinh, acosh, atanh   (x)
    atan2                                    (y, x)
    split_part                               (text, delimiter, number)
    string_split                             (text, expression, limit); checked
    reg_exp_extract, reg_exp_extract_all, reg_exp_in_str   (text, expression, group); checked
    reg_exp_replace                          (text, expression, replacement, start); checked
    string_locate                            (part, text, start)
    string_repeat                            (text, count)
    string_space                             (count)
    chr, bit_length                          (x)
    overlay                                  (text, part, start, length)
    concat_ws                                (separator, x, ...)
    json_object_keys                         (json text)
    get_array_item                           (list, index from 0); ansi
    element_at                               (list, index from 1; or map, key); ansi; no default
    get_map_value                            (map, key)
    array_contains, array_position           (list, value)
    arrays_overlap                           (left, right)
    size                                     (list or map); of_null: -1 of null
    array_min, array_max, array_distinct     (list)
    sort_array                               (list, ascending)
    array_sort, reverse_list                 (list); array_sort without a comparator
    array_remove                             (list, value)
    array_except, array_intersect, array_union   (left, right)
    concat_lists                             (list, ...)               Concat, of lists
    flatten                                  (list of lists)
    slice                                    (list, start from 1, length)
    create_array                             (x, ...)                  CreateArray
    map_keys, map_values, map_entries        (map)
    get_array_struct_fields                  (list of structs, ordinal)
    exists, forall, filter, transform        (list, body)    ArrayExists and so on; exists: logic
    aggregate                                (list, start, merge, finish)  ArrayAggregate; variable
    accumulated                              (list): the first variable of merge and finish
    element, element_index                   (list): the variables of a lambda, in its body

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
    arrays,
    bits,
    casts,
    comparison,
    conditional,
    dates,
    folds,
    formats,
    intervals,
    json,
    lists,
    logic,
    maths,
    pieces,
    rounding,
    splits,
    structs,
    text,
    timestamps,
    total,
    variants,
)

SUBJECTS: Final = (
    comparison,
    logic,
    conditional,
    arithmetic,
    rounding,
    maths,
    bits,
    casts,
    dates,
    timestamps,
    intervals,
    formats,
    text,
    pieces,
    splits,
    total,
    json,
    variants,
    structs,
    lists,
    folds,
    arrays,
)

REGISTRY: Final[Mapping[str, Entry]] = MappingProxyType(
    {entry.name: entry for subject in SUBJECTS for entry in subject.ENTRIES}
)
