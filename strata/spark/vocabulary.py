"""The table of Spark's classes and the registry's names for them.

The arguments keep Spark's order; `strata.expr.registry` says what they are. A class that is not
here is opaque to the planner.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Predicates: their type needs no call into the JVM.
BOOLEAN: Final[Mapping[str, str]] = MappingProxyType({
    "EqualTo": "equal_to",
    "EqualNullSafe": "equal_null_safe",
    "LessThan": "less_than",
    "LessThanOrEqual": "less_than_or_equal",
    "GreaterThan": "greater_than",
    "GreaterThanOrEqual": "greater_than_or_equal",
    "Not": "not",
    "IsNull": "is_null",
    "IsNotNull": "is_not_null",
    "IsNaN": "is_nan",
    "In": "in",
    "Like": "like",
    "StartsWith": "starts_with",
    "EndsWith": "ends_with",
    "Contains": "contains",
})  # fmt: skip

FUNCTIONS: Final[Mapping[str, str]] = MappingProxyType({
    "Coalesce": "coalesce",
    "Greatest": "greatest",
    "Least": "least",
    "If": "if",
    "CaseWhen": "case_when",
    "Add": "add",
    "Subtract": "subtract",
    "Multiply": "multiply",
    "Divide": "divide",
    "IntegralDivide": "integral_divide",
    "Remainder": "remainder",
    "Pmod": "pmod",
    "UnaryMinus": "unary_minus",
    "UnaryPositive": "unary_positive",
    "Abs": "abs",
    "Signum": "signum",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "TruncTimestamp": "date_trunc",
    "TruncDate": "trunc",
    "Year": "year",
    "Quarter": "quarter",
    "Month": "month",
    "DayOfMonth": "day_of_month",
    "DayOfYear": "day_of_year",
    "DayOfWeek": "day_of_week",
    "WeekDay": "week_day",
    "WeekOfYear": "week_of_year",
    "LastDay": "last_day",
    "Hour": "hour",
    "Minute": "minute",
    "Second": "second",
    "DateAdd": "date_add",
    "DateSub": "date_sub",
    "DateDiff": "date_diff",
    "AddMonths": "add_months",
    "DateAddInterval": "date_add_interval",
    "DateAddYMInterval": "date_add_ym_interval",
    "TimestampAddInterval": "timestamp_add_interval",
    "TimestampAddYMInterval": "timestamp_add_ym_interval",
    "TimestampAdd": "timestamp_add",
    "TimestampDiff": "timestamp_diff",
    "SubtractTimestamps": "subtract_timestamps",
    "SubtractDates": "subtract_dates",
    "UnixTimestamp": "unix_timestamp",
    "ToUnixTimestamp": "unix_timestamp",
    "UnixSeconds": "unix_seconds",
    "UnixMillis": "unix_millis",
    "UnixMicros": "unix_micros",
    "UnixDate": "unix_date",
    "DateFromUnixDate": "date_from_unix_date",
    "SecondsToTimestamp": "seconds_to_timestamp",
    "MillisToTimestamp": "millis_to_timestamp",
    "MicrosToTimestamp": "micros_to_timestamp",
    "MakeDate": "make_date",
    "Substring": "substring",
    "Concat": "concat",
    "Upper": "upper",
    "Lower": "lower",
    "StringTrim": "string_trim",
    "Length": "length",
    "GetJsonObject": "get_json_object",
    "CurrentTimestamp": "current_timestamp",
    "Now": "current_timestamp",
    "CurrentDate": "current_date",
    "LocalTimestamp": "local_timestamp",
})  # fmt: skip

# Their evaluation mode is not in the JSON.
ARITHMETIC: Final = frozenset(
    {"Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "Pmod"}
)
# Nodes that change no value.
SHELLS: Final = frozenset(
    {"Alias", "KnownNullable", "KnownNotNull", "KnownFloatingPointNormalized"}
)
# The registry's entry takes one argument, Spark's class also a second one.
UNARY: Final = frozenset({"Floor", "Ceil", "StringTrim"})
