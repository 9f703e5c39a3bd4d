"""Hostile texts for each simple type, and which spellings the documents promise to take."""

import re
from collections.abc import Callable
from random import Random
from typing import Final

from strata.model.types import ColumnType, Kind

INTEGERS: Final = frozenset(
    {
        Kind.INT16,
        Kind.INT32,
        Kind.INT64,
        Kind.UINT8,
        Kind.UINT16,
        Kind.UINT32,
        Kind.UINT64,
        Kind.OID,
        Kind.MZ_TIMESTAMP,
    }
)
BITS: Final = (7, 8, 15, 16, 24, 31, 32, 53, 63, 64, 96, 127, 128, 192, 256)
POWERS: Final = (1, 2, 8, 9, 10, 17, 18, 19, 20, 27, 28, 29, 30, 36, 37, 38, 39, 40, 76, 77, 78)
LENGTHS: Final = (1, 2, 3, 8, 9, 10, 16, 17, 18, 19, 28, 29, 37, 38, 39, 40, 76, 77, 78, 400)
EXPONENTS: Final = (
    "0", "1", "2", "-1", "-2", "-3", "+5", "10", "-10", "27", "28", "-28", "37", "38", "39", "-38",
    "-39", "45", "-45", "-46", "307", "308", "309", "-323", "-324", "-325", "400", "-400", "9999",
    "-9999", "99999999999999999999", "-99999999999999999999", "00", "-0",
)  # fmt: skip
NOT_NUMBERS: Final = (
    "", " ", "-", "+", ".", "e5", "1e", "1e+", "--1", "+-1", "1 2", "5.", ".5", "-.5", "00012",
    "-0", "-0.0", "+5", "0e0", "0x10", "0X1F", "-0x1", "0b101", "0o17", "1_000", "1_0.5", "_1",
    "1,000", "1.000,5", "１２", "١٢", "٣.٥", "1٢", "½", "²", "−5", "∞", "1e٣", "TRUE", "null",
    "None", "NULL", "1\x00", "\x001", "1\x00.5", "1\n", "\t5 ", "\u00a05", "5\u2003", "\u200b5",
    "1d", "1f", "1L", "10%", "$5", "1e5.5", "0x1p3", "0x1.8p1", "1.5.5", "1e5e5", "nan", "NaN",
    "-nan", "+NaN", "NAN", "nan(1)", "qnan", "inf", "-inf", "+inf", "Infinity", "-Infinity", "INF",
    "infinit", "1.#INF", "1/2", "0.1e-1", "1E5", "1e+05", "9" * 5000, "0." + "0" * 5000 + "1",
    "1" + "0" * 5000, "5e-1", "50e-1", "5.0", "5.00", "5e0", "1e2", "1.0e2",
)  # fmt: skip
DAYS: Final = (
    "1970-01-01", "2000-02-29", "1900-02-29", "2013-02-30", "2013-13-01", "2013-00-10",
    "0001-01-01",
    "0000-12-31", "9999-12-31", "10000-01-01", "-0001-01-01", "+2013-01-01", "1582-10-10",
    "1500-02-29", "2013-1-1", "2013-01-1", "20130101", "01/02/2013", "2013/01/02", "13-01-01",
    "2013-001", "2013-W01-1", "2013-01", "2013", "infinity", "-infinity", "epoch", "today", "now",
    "٢٠١٣-٠١-٠١", "2013-01-01 BC", "0044-03-15 BC", "294276-12-31", "5874897-12-31", "12013-01-01",
    "1969-12-31", "2038-01-19", "2262-04-11", "2262-04-12", "1677-09-21", "1677-09-20",
)  # fmt: skip
CLOCKS: Final = (
    "00:00:00", "23:59:59", "23:59:59.999999", "23:59:59.9999999", "23:59:60", "23:59:60.5",
    "23:59:61", "24:00:00", "24:00", "24:00:01", "25:00:00", "12:60:00", "12:30:60", "00:00:60",
    "9:05", "9:5", "09:05", "12", "1205", "12:00:00.", "12:00:00.1234567", "12:00:00.123456789",
    "12:00:00.1234567890", "12:00:00.1234567891", "12:00:00.0000001", "12:00:00,5", "-1:00:00",
    "-00:00:01", "12:00 PM", "١٢:٠٠", "allballs", "00:00:00.000001", "12:00:00.1000000", "7:08:09",
)  # fmt: skip
ZONES: Final = (
    "", "", "", "Z", "z", "+00", "+00:00", "-00:00", "+01:00", "+0100", "-0130", "+14:00", "-12:00",
    "+23:59", "-23:59", "+24:00", "+15:60", " UTC", " Europe/Berlin", "[UTC]", " +01", "+1", "+1:0",
    "+00:00:01", "-04:56:02", "+99:99", "EST", "−01:00",
)  # fmt: skip
INTERVALS: Final = (
    "1 mon 2 days 03:04:05", "-1-2 3 04:05", "P1M2DT3H", "@ 1 day ago", "INTERVAL '1' DAY",
    "1 year 2 mons 3 days 04:05:06.789", "-1 days +02:03:00", "1 day -00:00:01", "P1Y2M3DT4H5M6.7S",
    "P-1Y", "-P1Y", "P1W", "PT", "P", "PT0S", "PT0.0000001S", "PT0.000001S", "P0.5D", "P1.5M",
    "1.5 mons", "1.5 days", "0.5 hours", "1 week", "1 century", "5", "1 day 1 day", "1 s", "1 ms",
    "1 us", "1 ns", "0.1 us", "999999999 days", "P999999999D", "999999999 23:59:59.999999",
    "2147483647 days", "2147483648 days", "-2147483648 days", "-2147483649 days", "2147483647 mons",
    "2147483648 mons", "178956970 years 7 mons", "178956971 years", "106751991 days",
    "106751991 04:00:54.775807", "106751991 04:00:54.775808", "-106751991 04:00:54.775808",
    "2562047788:00:54.775807", "2562047788:00:54.775808", "-2562047788:00:54.775808",
    "9223372036854775807 us", "9223372036854775808 us", "1-11", "1-12", "-1-2", "0-0", "00:00:00",
    "25:00:00", "1:60:00", "00:00:60", "1 02:00:00", "INTERVAL '-1 02:00:00' DAY TO SECOND",
    "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '106751991 04:00:54.775807' DAY TO SECOND",
    "INTERVAL '1' MONTH", "INTERVAL '1.5' SECOND", "INTERVAL '1", "infinity", "1 mon ago",
    "٣ days", "1_000 days", "1e3 days", "0x10 days", "", " 1 day ", "1 day\x00", "1 fortnight",
    "99999999999999999999999 days", "1" * 5000 + " days", "-0 days", "+1 day", "1day", "1d2h",
)  # fmt: skip
STRINGS: Final = (
    "", " ", "NA", "null", "a", "ab ", "  x  ", "\x00", "a\x00b", "\t", "\n", "\r", "\r\n",
    '"', '""',
    "'", ",", ";", "\\", "\\N", "\\u0000", "é", "e\u0301", "ß", "İ", "\u00a0", "\u200b", "\ufeff",
    "\ufeffx", "\u2028", "\uffff", "\ufffd", "😀", "👨\u200d👩\u200d👧", "\U0010ffff", "\U00010000",
    "abc", "abcd", "ééé", "éééé", "😀😀😀", "😀😀😀😀", "x" * 70_000, "__debezium", "\x7f", "\x80",
    "\x1b[0m", "{}", "[1]", "{1,2}", "%s", "=1+1", "a   ", "abc ", "abc  ", "\u3000", "ab\u00a0",
)  # fmt: skip
BROKEN: Final = (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"a\xc3", b"\xf4\x90\x80\x80", b"\x80")
JSON: Final = (
    "null", "true", "0", "-0", "-0.0", "0.0", "1.10", "1e2", "1E2", "1e+2", "1e400", "-1e400",
    "1e-400", "0.1", "0.10000000000000000001", "12345678901234567890123", "1" * 5000, "9" * 39,
    "1e16", "1e15", "1e-7", "123456789.123456789", "9007199254740993", "9007199254740993.0",
    "1.7976931348623157e308", "4.9e-324", "2.5e-324", "0.30000000000000004", "1e22", "1e23",
    '"a"', '""', '"\\u0000"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00\\ud83d"', '"\\uD800"',
    '"\\u00e9"', '"\\/"', '"\\x"', '"\x01"', '"\x7f\u2028"', '"\\"', "[]", "{}", "[1, 2]", "[1,]",
    '{"b": 1, "a": 2}', '{"a":1,"a":2}', '{"a":{"b":1,"b":2},"a":{"c":3}}',
    '{"":1}', '{"\\ud800":1}',
    '{"é":1,"z":2,"\U00010000":3,"\uffff":4}', '{"a":1}{', "{a:1}", "{'a':1}", "[1 2]", "NaN",
    "[NaN]", "Infinity", "-Infinity", "01", "+1", ".5", "1.", "1e", "0x10", "1_0", "TRUE", "nul",
    "", " ", " 1 ", "\t[ ]\n", "/**/1", "[1]//", '{"a":null,"b":[{"c":[]}]}', "\ufeff1", "1\x00",
    "[" * 199 + "]" * 199, "[" * 200 + "]" * 200, "[" * 201 + "]" * 201, "[" * 254 + "]" * 254,
    "[" * 255 + "]" * 255, "[" * 300 + "]" * 300, '{"a":' * 250 + "1" + "}" * 250,
    '{"a":' * 300 + "1" + "}" * 300, "[" * 900 + "]" * 900, "[" * 1025 + "]" * 1025,
    "[" * 5000 + "]" * 5000, "[" * 5000, "[" * 199 + "1e400" + "]" * 199,
)  # fmt: skip
UUID: Final = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
UUIDS: Final = (
    UUID, UUID.upper(), UUID.replace("-", ""), "{" + UUID + "}", "urn:uuid:" + UUID,
    "URN:UUID:" + UUID, "{" + UUID, UUID + "}", UUID[:-1], UUID + "0", UUID.replace("a", "g"), "",
    "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", UUID.replace("-", "", 1), "0" * 32, "f" * 32,
    UUID[:-2] + "-11", "--" + UUID.replace("-", ""), UUID.replace("-", " "), "{" + UUID + "}}",
    "{urn:uuid:" + UUID + "}", "０" + UUID[1:], "0x" + "0" * 30, UUID + "\x00", " " + UUID + " ",
    "0_" + "0" * 30, "+" + "0" * 31, "uuid:" + UUID, UUID.replace("-", "–"),
)  # fmt: skip
ACLS: Final = (
    "1=ar/2", "=r/2", "=/2", "1=/2", "4294967295=r/1", "4294967296=r/1", "-1=r/1", "1=r/", "=r/",
    "u1=r/2", "1=q/2", "1=r*/2", "1=rr/2", "1=arwdDxtXUCTcsAm/2", "01=r/2", "1 =r/2", "1=r", "",
    "u1=r/s2", "=U/p", "p=r/p", "u18446744073709551615=r/s0", "u18446744073709551616=r/s0",
    "g1=r/u2",
    "u=r/u1", "u-1=r/u1", "u01=r/u1", "u1=arwdUC/u2", "s1=R/s1", "u1=RBNP/u2",
    "１=r/2", "1=r/2\x00",
    '{"grantee": 1, "grantor": 2, "mode": 3}', '{"grantee": "u1", "grantor": "p", "mode": 3}',
    '{"grantee": 1, "grantor": 2, "mode": 18446744073709551616}', '{"grantee": 1, "mode": 3}',
    '{"grantee": 1, "grantor": 2, "mode": -1}', '{"grantee": "q1", "grantor": "p", "mode": 3}',
    '{"grantee": 1, "grantor": 2, "mode": 1.5}', '{"grantee": 1, "grantor": 2, "mode": 1e1}',
    '{"grantee": 4294967296, "grantor": 2, "mode": 3}', '{"grantee": 1.5, "grantor": 2, "mode": 3}',
)  # fmt: skip
BOOLS: Final = (
    "true", "false", "TRUE", "False", "1", "0", "t", "f", "yes", "no", "y", "on", "off", "T", "2",
    "01", "1.0", "", " true ", "tru", "truee", "true\x00", "ｔrue", "-1", "+1", "null", "None",
)  # fmt: skip


def number(draw: Random) -> str:
    """Return a number, or what looks like one."""
    sign = draw.choice(("", "", "", "-", "-", "+"))
    match draw.randrange(7):
        case 0:
            return draw.choice(NOT_NUMBERS)
        case 1:
            return sign + str(abs(2 ** draw.choice(BITS) + draw.randint(-2, 2)))
        case 2:
            return sign + str(abs(10 ** draw.choice(POWERS) + draw.randint(-1, 1)))
        case 3:
            return sign + _digits(draw) + "e" + draw.choice(EXPONENTS)
        case 4:
            return sign + _between(draw)
        case 5:
            return sign + str(draw.randrange(10 ** draw.randint(1, 12)))
        case _:
            return sign + _digits(draw)


def _digits(draw: Random) -> str:
    length = draw.choice(LENGTHS)
    first = draw.choice("123456789")
    digits = first + "".join(draw.choice("0123456789") for _ in range(length - 1))
    match draw.randrange(4):
        case 0:
            return digits
        case 1:
            return "0." + "0" * draw.choice((0, 1, 2, 8, 17, 27, 37)) + digits
        case 2:
            return digits + "0" * draw.choice((1, 2, 8, 20))
        case _:
            at = draw.randint(1, length)
            return digits[:at] + "." + (digits[at:] or "0")


def _between(draw: Random) -> str:
    """Return a number at or beside the middle of two floats of 24 or 53 bits."""
    bits = draw.choice((24, 53))
    middle = 2 * draw.randrange(2 ** (bits - 1), 2**bits) + 1
    tail = draw.choice(("", ".0", ".000000000000000000000000000001"))
    return str(middle - (tail == "" and draw.random() < 0.3)) + tail


def moment(draw: Random) -> str:
    """Return a timestamp, or what looks like one."""
    day = draw.choice(DAYS) if draw.random() < 0.4 else _day(draw)
    clock = draw.choice(CLOCKS) if draw.random() < 0.4 else _clock(draw)
    return (
        day
        + draw.choice(("T", " ", " ", "t", "", "  ", "_")[: draw.choice((2, 2, 7))])
        + (clock + draw.choice(ZONES))
    )


def _day(draw: Random) -> str:
    return f"{draw.randint(1, 9999):04}-{draw.randint(1, 12):02}-{draw.randint(1, 31):02}"


def _clock(draw: Random) -> str:
    places = draw.choice((0, 0, 1, 3, 6, 6, 7, 9))
    behind = "." + "".join(draw.choice("0123456789") for _ in range(places)) if places else ""
    hour, minute, second = draw.randrange(24), draw.randrange(60), draw.randrange(60)
    return f"{hour:02}:{minute:02}:{second:02}{behind}"


def interval(draw: Random) -> str:
    """Return an interval, or what looks like one."""
    if draw.random() < 0.5:
        return draw.choice(INTERVALS)
    parts = [
        f"{_edge(draw)} {draw.choice(('year', 'mon', 'days', 'hours', 'mins', 'secs', 'us'))}"
        for _ in range(draw.randint(1, 3))
    ]
    return " ".join(parts)


def _edge(draw: Random) -> str:
    whole = draw.choice((0, 1, 7, 59, 60, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63))
    return (
        draw.choice(("", "-")) + str(whole) + draw.choice(("", "", "", ".5", ".000001", ".0000001"))
    )


def text(draw: Random, column_type: ColumnType) -> str | bytes:
    """Return a hostile text for a simple type."""
    kind = column_type.kind
    chosen: str | bytes = _OF.get(kind, _string)(draw)
    if draw.random() < 0.08 and isinstance(chosen, str):
        chosen = _spoilt(draw, chosen)
    if draw.random() < 0.01:
        return draw.choice(BROKEN)
    return chosen


def _string(draw: Random) -> str:
    if draw.random() < 0.7:
        return draw.choice(STRINGS)
    return "".join(draw.choice(STRINGS[:45]) for _ in range(draw.randint(0, 4)))


def _spoilt(draw: Random, chosen: str) -> str:
    """Return a text with a letter too many, too few, doubled or replaced."""
    at = draw.randint(0, len(chosen))
    odd = draw.choice((" ", "_", "\x00", "-", "+", ".", "0", "e", "x", "٣", "\u00a0", "\n", "\t"))
    return draw.choice(
        (
            chosen[:at] + odd + chosen[at:],
            chosen[:at] + chosen[at + 1 :],
            chosen[:at],
            odd + chosen,
            chosen + odd,
        )
    )


_OF: Final[dict[Kind, Callable[[Random], str]]] = {
    **dict.fromkeys((*INTEGERS, Kind.FLOAT32, Kind.FLOAT64, Kind.NUMERIC), number),
    **dict.fromkeys((Kind.INTERVAL, Kind.DAY_TIME, Kind.YEAR_MONTH), interval),
    **dict.fromkeys((Kind.ACLITEM, Kind.MZ_ACLITEM), lambda draw: draw.choice(ACLS)),
    **dict.fromkeys((Kind.TIMESTAMP, Kind.TIMESTAMPTZ), moment),
    Kind.BOOL: lambda draw: draw.choice(BOOLS),
    Kind.DATE: lambda draw: draw.choice(DAYS) if draw.random() < 0.5 else _day(draw),
    Kind.TIME: lambda draw: draw.choice(CLOCKS) if draw.random() < 0.6 else _clock(draw),
    Kind.UUID: lambda draw: draw.choice(UUIDS),
    Kind.JSONB: lambda draw: draw.choice(JSON),
}

WHOLE: Final = r"-?(0|[1-9][0-9]*)"
CLOCK: Final = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,%d})?)?"
DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
PROMISED: Final = {
    **dict.fromkeys(INTEGERS, WHOLE),
    **dict.fromkeys((Kind.FLOAT32, Kind.FLOAT64), WHOLE + r"(\.[0-9]+)?([eE][+-]?[0-9]{1,9})?"),
    Kind.BOOL: "true|false|TRUE",
    Kind.DATE: DAY,
    Kind.TIME: CLOCK % 9,
    Kind.TIMESTAMP: DAY + "[T ]" + CLOCK.replace("{1,2}", "{2}", 1) % 6,
    Kind.TIMESTAMPTZ: DAY
    + "[T ]"
    + CLOCK.replace("{1,2}", "{2}", 1) % 6
    + "(Z|[+-][0-9]{2}:[0-9]{2})?",
    Kind.UUID: r"(urn:uuid:)?[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{32}",
    Kind.INTERVAL: r"-?[0-9]+ days|P1M2DT3H|@ 1 day ago|INTERVAL '1' DAY|1 mon 2 days 03:04:05",
    Kind.DAY_TIME: r"-?[0-9]+ days|@ 1 day ago|INTERVAL '1' DAY",
    Kind.YEAR_MONTH: r"-?[0-9]+ mon|-1-2|1-11",
    Kind.ACLITEM: r"([1-9][0-9]*)?=a?r?/[1-9][0-9]*",
    Kind.MZ_ACLITEM: r"([us][1-9][0-9]*|p)?=[r]?/([us][1-9][0-9]*|p)",
}


def promised(column_type: ColumnType, value: str | bytes) -> bool:
    """Tell whether the documents say that this spelling is taken, if it is a value at all."""
    kind = column_type.kind
    if isinstance(value, bytes):
        return False
    if kind in (Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.BYTES, Kind.JSONB):
        return True
    if value.startswith("-0") and kind in INTEGERS:
        return False
    if kind is Kind.NUMERIC:
        scale = 39 if column_type.scale is None else column_type.scale
        form = WHOLE + (rf"(\.[0-9]{{1,{scale}}})?" if scale else "")
        return re.fullmatch(form, value) is not None
    return kind in PROMISED and re.fullmatch(PROMISED[kind], value) is not None
