"""Numbers, sizes and times as the pages show them."""

import math
import re
from typing import Final

import orjson
from markupsafe import Markup, escape

from strata.model.time import MIN_TIME, format_time

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")
_FUNCTION: Final = 40  # characters of a name that stays on one line
_LONG: Final = re.compile(r"(?<![\w.:-])\d{4,}(?![\w.:-])")
_CODE: Final = re.compile(r"`([^`]*)`")
_AGES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def counted(number: int) -> str:
    """Return a number with its thousands apart.

    >>> counted(1234567)
    '1,234,567'
    """
    return f"{number:,}"


def several(number: int, noun: str) -> str:
    """Return a number and what it counts.

    >>> several(1, "day"), several(1234, "day")
    ('1 day', '1,234 days')
    """
    return f"{counted(number)} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Return bytes in the largest unit that leaves at least 1.

    >>> size(24_600_000), size(12)
    ('23.5 MiB', '12 B')
    """
    if number < 1024:
        return f"{number} B"
    power = min((number.bit_length() - 1) // 10, len(_UNITS))
    return f"{number / 1024**power:,.1f} {_UNITS[power - 1]}"


def money(amount: float, currency: str) -> str:
    """Return a sum in cents, or in two digits that say something if it is smaller.

    >>> money(1234.5, "$"), money(0.00023461, "$"), money(0, "$")
    ('1,234.50 $', '0.00023 $', '0 $')
    """
    if amount >= 1:
        text = f"{amount:,.2f}"
    else:
        text = f"{amount:.{1 - math.floor(math.log10(amount))}f}" if amount else "0"
    return f"{text} {currency}"


def sizes(part: int, whole: int) -> str:
    """Return two sizes in the unit of the larger one.

    >>> sizes(2**20, 3 * 2**20)
    '1.0 of 3.0 MiB'
    """
    power = 0 if whole < 1024 else min((whole.bit_length() - 1) // 10, len(_UNITS))
    unit = _UNITS[power - 1] if power else "B"
    digits = 1 if power else 0
    return f"{part / 1024**power:,.{digits}f} of {whole / 1024**power:,.{digits}f} {unit}"


def when(time: int) -> str:
    """Return a time as people read it: to the minute, and only the day at midnight.

    >>> when(0), when(60_000)
    ('1970-01-01', '1970-01-01 00:01')
    """
    if time == MIN_TIME:
        return "the beginning"
    text = format_time(time - time % 60_000)[:16].replace("T", " ")
    return text.removesuffix(" 00:00")


def age(now_ms: int, then_ms: int) -> str:
    """Return how long ago a time was, in its largest unit.

    >>> age(90_000_000, 0), age(5_000, 0), age(0, 0)
    ('1 d ago', '5 s ago', 'now')
    """
    gone = max(now_ms - then_ms, 0)
    return next((f"{gone // unit:,} {name} ago" for unit, name in _AGES if gone >= unit), "now")


def doer(who: str) -> tuple[str, str]:
    """Return who did something, and the id of the run of Airflow in which, if it was one.

    >>> doer("airflow soft_evaluation manual__2026"), doer("ann")
    (('airflow soft_evaluation', 'manual__2026'), ('ann', ''))
    """
    words = who.split(" ")
    return (" ".join(words[:2]), words[2]) if words[0] == "airflow" and words[2:] else (who, "")


def trouble(details: str) -> str:
    """Return the error in the details of an operation; empty: it had none.

    >>> trouble('{"error": "Unavailable: no answer"}'), trouble('{"rows": 1}'), trouble("")
    ('Unavailable: no answer', '', '')
    """
    found = orjson.loads(details).get("error") if details else ""
    return found if isinstance(found, str) else ""


def with_commas(text: str) -> str:
    """Return a text whose numbers have their thousands apart; ids and times stay as they are.

    >>> with_commas("7040, at least 3000"), with_commas("code 9e78290.1024 of 2026-11-03")
    ('7,040, at least 3,000', 'code 9e78290.1024 of 2026-11-03')
    """
    return _LONG.sub(lambda number: counted(int(number[0])), text)


def whole_names(text: str) -> Markup:
    """Return names that `+` joins, as markup that goes to a new line between names only.

    >>> str(whole_names("string × and+like"))
    '<span class="whole">string × and+</span><wbr><span class="whole">like</span>'

    A name that is too long for that may break anywhere.
    """
    names = [f"{name}+" for name in text.split("+")]
    names[-1] = names[-1][:-1]
    kept = Markup('<span class="whole">{}</span>')
    return Markup("<wbr>").join(
        kept.format(name) if len(name) <= _FUNCTION else escape(name) for name in names
    )


def with_code(text: str) -> Markup:
    """Return a text as markup, what stands in backticks as code.

    >>> str(with_code("call `strata x < y`"))
    'call <code>strata x &lt; y</code>'
    """
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))
