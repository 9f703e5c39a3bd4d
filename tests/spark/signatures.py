"""Expressions over one wide table, at least one for every function of the registry.

The columns are those of `tests/spark/ranges.py`. A signature is checked with each session
setting; the front end translates it, so its mapping is checked as well.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

INTEGERS = ("sh", "i", "i2", "l", "l2")
NUMBERS = (*INTEGERS, "f", "d", "dec", "wide")
_PAIRS = (("i", "i2"), ("l", "l2"), ("d", "d2"), ("f", "f2"), ("dec", "dec2"), ("wide", "wide2"))
_COMPARED = (*_PAIRS, ("day", "day2"), ("ts", "ts2"), ("tn", "tn2"), ("s", "s2"), ("b", "b2"))

_CONSTANTS = {
    "i": "5",
    "l": "-3L",
    "d": "0.5D",
    "f": "float(2)",
    "dec": "1.25BD",
    "day": "date'2024-02-29'",
    "ts": "timestamp'2024-03-10 07:00:00'",
    "tn": "timestamp_ntz'2024-03-10 02:30:00'",
    "s": "'ab'",
    "b": "true",
}


def _comparisons() -> Iterator[tuple[str, str]]:
    names = {
        "equal_to": "=",
        "equal_null_safe": "<=>",
        "less_than": "<",
        "less_than_or_equal": "<=",
        "greater_than": ">",
        "greater_than_or_equal": ">=",
    }
    for name, sign in names.items():
        for a, b in _COMPARED:
            yield name, f"{a} {sign} {b}"
        for a, constant in _CONSTANTS.items():
            yield name, f"{a} {sign} {constant}"
        yield name, f"d {sign} double('NaN')"
        yield name, f"get_json_object(js, '$.s') {sign} 'k'"
        yield name, f"get_json_object(js, '$.n') {sign} '10'"
        yield name, f"js {sign} '[1]'"
    yield "in", "i in (1, 5, -7)"
    yield "in", "i in (1, 5, null)"
    yield "in", "i in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100, -2147483648)"
    yield "in", "l in (i, l2, 7)"
    yield "in", "d in (0D, -0D, double('NaN'))"
    yield "in", "s in ('ab', 'b', s2)"
    yield "in", "dec in (1.25, 3)"
    yield "in", "day in (date'2024-02-29', day2)"


def _logic() -> Iterator[tuple[str, str]]:
    yield "and", "b and b2"
    yield "and", "i > 0 and l / i > 2 and b"
    yield "and", "i = 0 and 1 / i > 2"
    yield "or", "b or b2"
    yield "or", "i = 0 or 1 / i > 2"
    yield "not", "not b"
    yield "not", "not (i < i2)"
    for column in (*NUMBERS, "day", "ts", "s", "b", "js"):
        yield "is_null", f"{column} is null"
        yield "is_not_null", f"{column} is not null"
    yield "is_null", "get_json_object(js, '$.n') is null"
    yield "is_not_null", "i + i2 is not null"
    yield "is_nan", "isnan(d)"
    yield "is_nan", "isnan(f)"
    for a, b in _COMPARED:
        yield "if", f"if({a} < {b}, {a}, {b})"
        yield "case_when", f"case when {a} is null then {b} when {a} > {b} then {a} end"
        yield "coalesce", f"coalesce({a}, {b})"
    for a, b in (*_PAIRS, ("s", "s2"), ("day", "day2"), ("ts", "ts2"), ("b", "b2")):
        yield "greatest", f"greatest({a}, {b})"
        yield "least", f"least({a}, {b})"
    yield "greatest", "greatest(i, i2, 3)"
    yield "least", "least(d, d2, 0D)"
    yield "if", "if(b, i, i2)"
    yield "if", "if(b and b2, get_json_object(js, '$.s'), s)"
    yield "case_when", "case when b then i when i > 0 then i2 else 7 end"
    yield "case_when", "case when i = 0 then 0 else 10 div i end"
    yield "coalesce", "coalesce(b, b2, false)"
    yield "coalesce", "coalesce(get_json_object(js, '$.n'), s)"


def _arithmetic() -> Iterator[tuple[str, str]]:
    signs = {
        "add": "+",
        "subtract": "-",
        "multiply": "*",
        "divide": "/",
        "remainder": "%",
    }
    for name, sign in signs.items():
        for a, b in (*_PAIRS, ("sh", "sh2"), ("sh", "i"), ("i", "l"), ("i", "d"), ("dec", "i")):
            yield name, f"{a} {sign} {b}"
        for a in NUMBERS:
            yield name, f"{a} {sign} 3"
            yield name, f"-7 {sign} {a}"
    for a, b in (("i", "i2"), ("l", "l2"), ("dec", "dec2"), ("d", "d2")):
        yield "pmod", f"pmod({a}, {b})"
        yield "pmod", f"pmod({a}, 7)"
        yield "pmod", f"pmod({a}, -7)"
    yield "pmod", "pmod(sh, sh2)"
    for a, b in (("i", "i2"), ("l", "l2"), ("l", "3"), ("dec", "dec2")):
        yield "integral_divide", f"{a} div {b}"
        yield "integral_divide", f"try_divide({a}, {b})"
    for a, b in (("i", "i2"), ("l", "l2"), ("d", "d2"), ("dec", "dec2")):
        yield "add", f"try_add({a}, {b})"
        yield "subtract", f"try_subtract({a}, {b})"
        yield "multiply", f"try_multiply({a}, {b})"
        yield "divide", f"try_divide({a}, {b})"
    for a in NUMBERS:
        yield "unary_minus", f"-{a}"
        yield "abs", f"abs({a})"
        yield "floor", f"floor({a})"
        yield "ceil", f"ceil({a})"
        for scale in (0, 1, 2, -1, -2):
            yield "round", f"round({a}, {scale})"
    yield "signum", "signum(d)"
    yield "signum", "signum(i)"


def _casts() -> Iterator[tuple[str, str]]:
    targets = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)")
    for a in (*NUMBERS, "b"):
        for target in (*targets, "decimal(38,10)", "decimal(3,1)", "string", "boolean"):
            yield "cast", f"cast({a} as {target})"
    yield from _casts_of_times()
    yield from _casts_of_text()


def _casts_of_times() -> Iterator[tuple[str, str]]:
    for a in ("i", "l", "d", "dec"):
        yield "cast", f"try_cast({a} as tinyint)"
        yield "cast", f"try_cast({a} as decimal(4,1))"
    for a in ("day", "ts", "tn"):
        for target in ("date", "timestamp", "timestamp_ntz", "string"):
            yield "cast", f"cast({a} as {target})"
    for target in ("bigint", "int", "double"):
        yield "cast", f"cast(ts as {target})"
    for a in ("i", "l", "sh", "d"):
        yield "cast", f"cast({a} as timestamp)"


def _casts_of_text() -> Iterator[tuple[str, str]]:
    for path in ("n", "s", "m", "b", "a", "o", "o.x", "big", "none"):
        for target in ("int", "bigint", "double", "float", "decimal(12,3)", "boolean", "date"):
            yield "cast", f"cast(get_json_object(js, '$.{path}') as {target})"
            yield "cast", f"try_cast(get_json_object(js, '$.{path}') as {target})"
    for target in ("int", "double", "date", "timestamp", "boolean", "binary"):
        yield "cast", f"cast(s as {target})"


def _dates() -> Iterator[tuple[str, str]]:
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
        "year": "year", "quarter": "quarter", "month": "month", "day_of_month": "dayofmonth",
        "day_of_year": "dayofyear", "day_of_week": "dayofweek", "week_day": "weekday",
        "week_of_year": "weekofyear", "last_day": "last_day",
    }  # fmt: skip
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


def _timestamps() -> Iterator[tuple[str, str]]:
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


def _texts() -> Iterator[tuple[str, str]]:
    for prefix in ("a", "ab", "", "\uffff", "é"):
        yield "starts_with", f"startswith(s, '{prefix}')"
        yield "like", f"s like '{prefix}%'"
        yield "like", f"s like '{prefix}'"
        yield "like", f"s like '{prefix}_%b'"
        yield "concat", f"concat('{prefix}', s)"
    yield "starts_with", "startswith(s, s2)"
    yield "like", "s like s2"
    yield "like", "s like 'a!%%' escape '!'"
    yield "like", "s like 'a!' escape '!'"
    yield "like", "s like '%!' escape '!'"
    yield "like", "s like 'a!b%' escape '!'"
    yield "like", "get_json_object(js, '$.s') like 'k%'"
    yield "ends_with", "endswith(s, 'b')"
    yield "contains", "contains(s, 'b')"
    for count in (0, 1, 2, -1, 100):
        yield "substring", f"substring(s, 1, {count})"
        yield "substring", f"substring(s, 0, {count})"
    yield "substring", "left(s, 2)"
    yield "substring", "substring(s, 2, 1)"
    yield "substring", "substring(s, 1, i)"
    yield "concat", "concat(s, 'x')"
    yield "concat", "concat('a', s, s2)"
    yield "concat", "concat(s, s2)"
    yield "upper", "upper(s)"
    yield "lower", "lower(s)"
    yield "string_trim", "trim(s)"
    yield "length", "length(s)"
    for path in (
        "$.n", "$.s", "$.m", "$.b", "$.a", "$.o", "$.o.x", "$['o']['x']", "$.o.x.y", "$.none",
        "$.big", "$.a[0]", "$.a.x", "$", "$.*", "n", "$.doc", "$.['n']", "$. n",
    ):  # fmt: skip
        quoted = path.replace("'", "\\'")
        yield "get_json_object", f"get_json_object(js, '{quoted}')"
    yield "get_json_object", "get_json_object(get_json_object(js, '$.o'), '$.x')"
    yield "get_json_object", "get_json_object(get_json_object(js, '$.doc'), '$.n')"
    yield "get_json_object", "get_json_object(s, '$.n')"
    yield "get_struct_field", "named_struct('x', i).x"
    for field in ("i", "inner.d", "inner.s", "day"):
        yield "get_struct_field", f"st.{field}"
    yield "get_struct_field", "st.i + 1"
    yield "get_struct_field", "st.inner.s = 'a'"
    yield "get_struct_field", "coalesce(st.inner.d, 0.5D)"
    yield "get_struct_field", "st.inner is null"
    yield "get_struct_field", "if(b, st, named_struct('i', 1, 'inner', st.inner, 'day', day)).i"


def signatures() -> Mapping[str, tuple[str, ...]]:
    """Return the expressions of each registry function."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for subject in (_comparisons, _logic, _arithmetic, _casts, _dates, _timestamps, _texts):
        for name, sql in subject():
            found[name][sql] = None
    return {name: tuple(texts) for name, texts in found.items()}
