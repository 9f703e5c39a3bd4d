"""Draw filters that are plain, nearly plain, or not plain at all, as people write them."""

import random
from collections.abc import Callable, Mapping
from typing import Final

from strata.model.schema import Column, Relation
from strata.model.types import parse_type

TYPES: Final[Mapping[str, str]] = {
    "id": "int64", "a": "int32", "b": "int32", "Sh": "int16", "u8": "uint8", "u64": "uint64",
    "s": "string", "a b": "string", "dd": "date", "ts": "timestamptz", "n": "timestamp",
    "x": "float64", "f": "float32", "de": "numeric(10,2)", "dn": "numeric(3,3)",
    "dh": "numeric(38,10)", "nn": "numeric", "bin": "bytes", "bo": "bool", "date": "date",
    "r": "record<i: int32, s: string>", "j": "jsonb", "l": "list<int32>", "u": "uuid", "t1": "time",
}  # fmt: skip
RELATION: Final = Relation(
    0,
    tuple(
        Column(i, name, parse_type(kind), nullable=(i != 1))
        for i, (name, kind) in enumerate(TYPES.items(), 1)
    ),
    (1,),
    (1,),
)
_NAMES: Final = tuple(TYPES)
_TEXTS: Final = (
    "'a'", "''", "'k1'", "'a%'", "'%a%'", "'%a'", "'a_b%'", "'%'", "'_'", "'%%'", "'a%b'", "'é'",
    "'a''b'",
    "'a' 'b'", r"'a\'b'", '"a"', "'-- x'", "'/*'", "' a'", "'A'", "'not'", "r'a'",
)  # fmt: skip
_NUMBERS: Final = (
    "0", "1", "-1", "5", "007", "127", "128", "-129", "32767", "32768", "2147483647", "2147483648",
    "-2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808",
    "9223372036854775808", "18446744073709551615", "1.5", "-1.5", ".5", "5.", "1.50", "0.0", "-0.0",
    "0.001", "1.2345678901", "12345678.12", "123456789.12", "12345678901234567890123456789",
    "1e3", "1E-3", "1e+3", "-1e0", "-0e0", "1e400", "1e-400", "0.1", "100000000000000.1", "5L",
    "1.5D", "0D", "-0D", "-2.5d", "1e3D", "cast(0.1 as double)", "double(7)", "1.5F", "1.5BD",
    "- 5", "+5", "--5", "-(5)", "(5)", "((-5))", "1_000", "9007199254740993",
)  # fmt: skip
_CASED: Final = (
    "'A'", "'a'", "'K1'", "'ab%'", "'%A'", "'%B%'", "'A_'", "'É'", "'xAy'", "'ss'", "'K'", "'s'",
)  # fmt: skip
_DAYS: Final = (
    "2013-12-01", "1970-01-01", "0001-01-01", "9999-12-31", "2000-02-29", "1900-02-29", "2013-2-1",
    "2013-12", "2013", "1582-10-10", "0000-01-01", "10000-01-01", " 2013-12-01", "2013-12-01T",
    "now", "٢٠١٣-١٢-٠١",
)  # fmt: skip
_CLOCKS: Final = (
    "", " 00:00:00", "T23:59:59", " 12:30:00.5", " 12:30:00.123456", " 12:30:00.1234567",
    " 24:00:00",
    " 12:30:00-05:30", "T12:30:00.5+17:59", " 12:30:00+18:00", " 12:30+01:00", " 12:30:00+1:00",
    " 12:30:00+01:60", " 12:30:00Z+01:00", " 12:30", " 1:2:3", " 12:30:00Z", "T12:30:00.25Z",
    " 12:30:00+01:00", " 12:30:60",
    " 12:30:00 UTC",
)  # fmt: skip
_COMPARED: Final = ("=", "<>", "!=", "<", "<=", ">", ">=", "<=>", "==", "= =", "! =", "< >")
_OTHERS: Final = (
    "a + 1 > 2", "lower(s) = 'a'", "r.i = 1", "l[0] = 1", "a in (select 1)", "a = b", "a = id",
    "s = `a b`", "x = f", "dd = date", "bo = (a = 1)", "a > all (1)", "s ilike 'A'", "s rlike 'a'",
    "s like 'a' escape '!'", "a is unknown", "bo is unknown", "a = null", "true", "a", "not s",
    "a = 1 b", "a = 1 as b", "a = 1 and", "a =", "exists(l, e -> e = 1)", "a::string = '1'",
    "cast(a as string) = '1'", "case when bo then bo end", "a = 1 -- x", "a /* x */ = 1",
    "a = ${x}", "a = :x", "a = ?", "nothing = 1", "SH = 1", "`Sh` = 1", "`sh` = 1", "`a b` = 'a'",
    "A B = 1", "a.b = 1", "a = 1;", "a = b = bo", "1 < a < 3", "a = 1 or not bo and s = 'a'",
    "bo", "not bo", "not not bo", "!bo", "bo is true", "bo is not false", "a is true",
    "a is distinct from 1",
    "a is not distinct from 1", "nullif(a, 1) is null", "coalesce(bo, true)", "r is null",
    "bin is not null", "j is null", "bin = X'41'", "u = 'x'", "nn = '1'", "nn = 1",
    "t1 > '10:00:00'", "Sh > a", "u64 = id", "id <=> Sh", "u8 < a", "a >= f", "null = a",
    "s ilike s", "s ilike any ('a', 'b')", "s > null", "null", "r in (null)", "not (a > null)",
    "lower(u) = 'a'",
    "lower(lower(s)) = 'a'", "length(lower(s)) = 1", "startswith(lower(s), 'a')", "lower(a) = '1'",
    "upper(s) like 'A%'", "contains(upper(s), 'É')", "lower(s) = upper(s)", "lower(s) is null",
    "endswith(upper(s), '')", "lcase(s) ilike 'a'", "s ilike 'a' escape '!'", "lower('A') = s",
    "s like s", "s not like 'a%'", "not s like 'a%'", "a not between 1 and 2", "not a in (1)",
    "a between 1 and 2 and b = 1", "a between 2 and 1 or bo", "not (a = 1 and b = 2)", "\ta\n=\r1 ",
    "a\u00a0= 1", "a = １", "(bo) = (true)", "bo = 'true'", "bo = 1", "s = 1", "a = '1'", "x = '1'",
    "current_date = dd", "s = current_user()", "a = +1", "date = '2013-01-01'",
    "`date` = date'2013-01-01'",
    "dd = cast('2013-01-01' as date)", "ts = cast('2013-01-01' as timestamp)",
    "s = cast('a' as string)", "isnull(a)", "not isnotnull(s)", "IsNotNull((a)) and a = 1",
    "isnull(a, b)", "isnull(a + 1)", "isnull(r)", "`isnull`(a)",
)  # fmt: skip


def drawn(random: random.Random) -> str:
    """Return a filter of some conditions."""
    return _condition(random, random.choice((0, 0, 0, 0, 1, 1, 2, 3)))


def _condition(random: random.Random, depth: int) -> str:
    if depth == 0:
        return _leaf(random)
    way = random.random()
    if way < 0.2:
        return f"{random.choice(('not ', 'NOT ', 'not'))}({_condition(random, depth - 1)})"
    if way < 0.3:
        return f"not {_condition(random, depth - 1)}"
    if way < 0.4:
        return f"( {_condition(random, depth - 1)})"
    joint = random.choice((" and ", " or ", " AND ", "\nOr\n", " and not "))
    return _condition(random, depth - 1) + joint + _condition(random, depth - 1)


def _leaf(random: random.Random) -> str:
    if random.random() < 0.08:
        return random.choice(_OTHERS)
    if random.random() < 0.3:
        return _of_value(random)
    name = random.choice(_NAMES)
    shown = f"`{name}`" if " " in name or random.random() < 0.1 else name
    if random.random() < 0.1:
        shown = shown.upper()
    if random.random() < 0.1:
        return f"{shown} {random.choice(('is null', 'is not null', 'IS NULL'))}"
    constant = _CONSTANTS.get(TYPES[name].split("(")[0].split("<")[0], _any)
    if random.random() < 0.04:
        constant = _any
    return _compared(random, shown, constant)


def _of_value(random: random.Random) -> str:
    """Return a condition on what a function makes of a column, or on the clock."""
    if random.random() < 0.15:
        return random.choice(_FUNCTIONS)
    way = random.random()
    if way < 0.2:
        return _compared(random, random.choice(_TIMES), lambda random: random.choice(_CLOCK))
    if way < 0.5:
        part = random.choice(_DATE_PARTS)
        value = part.format(random.choice((*_TIMES, *_TIMES, "s", "a")))
        kind = _day if "date" in part.lower() else _small
        return _compared(random, value, kind)
    value, constant = random.choice(_VALUES)
    return _compared(random, value.format(random.choice(_NAMES[:7])), constant)


def _compared(random: random.Random, shown: str, constant: Callable[..., str]) -> str:
    way = random.random()
    if way < 0.6:
        sides = [shown, constant(random)]
        if random.random() < 0.2:
            sides.reverse()
        blank = random.choice(("", " ", " "))
        return f"{sides[0]}{blank}{random.choice(_COMPARED)}{blank}{sides[1]}"
    negated = random.choice(("", "", "not "))
    if way < 0.75:
        return f"{shown} {negated}between {constant(random)} and {constant(random)}"
    if way < 0.9:
        listed = [constant(random) for _ in range(random.choice((1, 2, 3, 12)))]
        if random.random() < 0.15:
            listed[random.randrange(len(listed))] = random.choice(("null", "NULL", "(null)"))
        return f"{shown} {negated}in ({', '.join(listed)})"
    like = random.choice(("like", "like", "ilike", "ILIKE"))
    return f"{shown} {negated}{like} {random.choice((*_TEXTS, *_CASED))}"


def _small(random: random.Random) -> str:
    return str(random.choice((random.randint(-1, 60), 2013, 1970, 1, 0)))


def _number(random: random.Random) -> str:
    if random.random() < 0.25:
        return random.choice(_NUMBERS)
    if random.random() < 0.25:
        return _otherwise(random)
    return str(random.choice((random.randint(-9, 99), random.randint(-(10**10), 10**10))))


def _otherwise(random: random.Random) -> str:
    """Return a number as people write it for a column of whole numbers, or in quotes."""
    number = random.randint(-99, 3 * 10 ** random.choice((1, 5, 10, 18)))
    ways = (
        f"{number}.5", f"{number}.0", f"{number}.", f"{number}.25", f"{number % 100}e2",
        f"'{number}'", f"'{number}'", f"'{number}.5'", f"' {number}'", "null", "'x'", "''",
        f"{number % 10}.5e1", f"{number}{number % 977}.5", "-0.0", "'-0'", "0.05", "'+1'", "'1e1'",
    )  # fmt: skip
    return random.choice(ways)


def _fraction(random: random.Random) -> str:
    if random.random() < 0.4:
        return _number(random)
    if random.random() < 0.2:
        shown = f"{random.uniform(-1, 1) * 10 ** random.randint(-5, 15):.{random.randint(1, 20)}f}"
        return random.choice((shown, shown, f"'{shown}'"))
    return f"{random.randint(-999, 999)}.{random.randint(0, 999)}"


def _text(random: random.Random) -> str:
    return random.choice(_TEXTS[:12] if random.random() < 0.9 else _TEXTS)


def _letters(random: random.Random) -> str:
    return random.choice((*_CASED, "null", "'a''b'", "''", "5"))


def _day(random: random.Random) -> str:
    day = random.choice(_DAYS if random.random() < 0.2 else _DAYS[:5])
    return f"{random.choice(('', 'date', 'DATE ', 'timestamp'))}'{day}'"


def _moment(random: random.Random) -> str:
    day = random.choice(_DAYS if random.random() < 0.2 else _DAYS[:5])
    clock = random.choice(_CLOCKS if random.random() < 0.4 else _CLOCKS[:5])
    kind = random.choice(
        ("", "", "timestamp", "TIMESTAMP ", "timestamp_ntz", "timestamp_ltz", "date")
    )
    return f"{kind}'{day}{clock}'"


def _flag(random: random.Random) -> str:
    return random.choice(("true", "false", "TRUE", "null", "'true'", "1"))


def _any(random: random.Random) -> str:
    kinds = (_number, _fraction, _text, _day, _moment, _flag, lambda _: "null")
    return random.choice(kinds)(random)


_TIMES: Final = ("dd", "ts", "n", "`date`")
_CLOCK: Final = (
    "now()", "current_timestamp()", "current_timestamp", "current_date()", "current_date",
    "curdate()", "now() - interval 7 days", "current_timestamp() - interval '36' hours",
    "now() - interval 1 week", "now() - interval '90 minutes'", "now() - interval 10 seconds",
    "current_date() - 7", "current_date - interval 30 days", "date_sub(current_date(), 3)",
    "date_add(current_date(), 3)", "date_add(current_date(), -3)", "date_sub(current_date, -2)",
    "now() - interval 1 month", "current_date() - interval 1 week", "'2023-11-14'", "now",
    "now() - interval 1 day 2 hours", "dateadd(day, -7, current_date())", "localtimestamp()",
    "date_add(day, 7, current_date())", "current_date() - interval 5 hours", "now(1)",
    "current_timestamp(3)", "now() - interval -3 days", "now() - interval '1.5' days",
    "current_date() - 7L", "current_date() - interval '2' day", "getdate()", "now() - 7",
)  # fmt: skip
_DATE_PARTS: Final = (
    "year({})", "quarter({})", "month({})", "day({})", "dayofmonth({})", "dayofyear({})",
    "dayofweek({})", "weekofyear({})", "hour({})", "minute({})", "second({})", "date({})",
    "to_date({})", "cast({} as date)", "{}::date", "extract(year from {})", "YEAR({})",
    "extract(MONTH from {})", "extract(day from {})", "extract(hour from {})", "Hour ( {} )",
    "extract(minute from {})", "extract(second from {})", "extract(week from {})", "`year`({})",
    "extract(dow from {})", "weekday({})", "year(date({}))", "try_cast({} as date)",
    "date_part('year', {})", "cast({} as timestamp)", "day_of_week({})", "(year({}))",
    "year(({}))", "last_day({})", "year(to_date({}))", "to_date({}, 'yyyy')", "quarter(date({}))",
)  # fmt: skip
_FUNCTIONS: Final = (
    "startswith(s, 'a')", "endswith(`a b`, 'a')", "contains(s, 'a')", "not contains(s, 'k')",
    "startswith(s, '')", "starts_with(s, 'a')", "contains('a', s)", "startswith(a, '1')",
    "isnan(x)", "isnan(f)", "not isnan(x)", "isnan(a)", "isnan(s)", "is_nan(x)", "isnan(x) is true",
    "coalesce(bo, false)", "not coalesce(bo, true)", "nvl(bo, true)", "coalesce(bo, 1)",
    "coalesce(bo, null)", "ts = n", "n < ts", "ts <=> n", "dd = ts", "n <> dd", "contains(bin, s)",
    "length(s) is null", "coalesce(a, b) = 1", "coalesce(a, 1, 2) = 1", "a % 2", "a % b = 1",
    "length(s) = length(`a b`)", "year(dd) = year(ts)", "year(dd) is null", "mod(a, 2)",
    "year(ts) = month(ts)", "u % 2 = 1", "length(bin) = 1", "length(u) = 36", "a % 2 % 3 = 1",
)  # fmt: skip
_CONSTANTS: Final[Mapping[str, Callable[[random.Random], str]]] = {
    **dict.fromkeys(("int64", "int32", "int16", "uint8", "uint64"), _number),
    **dict.fromkeys(("float64", "float32", "numeric"), _fraction),
    **dict.fromkeys(("string", "jsonb", "uuid"), _text),
    "date": _day,
    "timestamptz": _moment,
    "timestamp": _moment,
    "bool": _flag,
}
_VALUES: Final[tuple[tuple[str, Callable[[random.Random], str]], ...]] = (
    ("lower({})", _letters),
    ("upper(s)", _letters),
    ("LOWER( `a b` )", _letters),
    ("ucase(s)", _letters),
    ("length({})", _small),
    ("char_length(s)", _small),
    ("len(`a b`)", _small),
    ("{} % 2", _small),
    ("mod({}, 10)", _small),
    ("{} % 40000", _number),
    ("{} % 3000000000", _number),
    ("{} % -2", _small),
    ("{} % 0", _small),
    ("{} % 2.5", _small),
    ("coalesce({}, 0)", _number),
    ("nvl({}, 3000000000)", _number),
    ("ifnull({}, 'k1')", _text),
    ("coalesce(s, 'a')", _text),
    ("coalesce(x, 0)", _fraction),
    ("coalesce(x, 1.5)", _fraction),
    ("coalesce(f, 1)", _fraction),
    ("coalesce(de, 1)", _fraction),
    ("coalesce(dd, '2013-12-01')", _day),
    ("coalesce(bo, false)", _flag),
    ("nvl2({}, 1, 2)", _small),
)
