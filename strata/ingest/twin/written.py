"""Texts of dates and timestamps in a declared form, one text at a time.

The form is read here for itself: as a regular expression, with what the documents say of Spark's
letters. Nothing is shared with the fast reader, and nothing with what checks a declaration.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from strata.ingest.twin.jsons import check_text
from strata.ingest.twin.unreadable import Unreadable
from strata.model.types import ColumnType, Kind

TOKEN: Final = re.compile(
    r"'(?P<quoted>[^']*)'|(?P<letter>[A-Za-z])(?P=letter)*|(?P<other>[^A-Za-z'])", re.DOTALL
)
NAMES: Final = [date(2000, month, 1).strftime("%B").lower() for month in range(1, 13)]


def from_form(text: str | bytes, form: str, column_type: ColumnType) -> Any:
    """Return the canonical form of a text that is written in `form`. Raises: Unreadable."""
    try:
        body = text.decode("utf-8") if isinstance(text, bytes) else check_text(text)
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8") from error
    pattern, century = form, ""
    if re.fullmatch(" from [0-9]{4}", form[-10:]):
        pattern, century = form[:-10], form[-4:]
    found = re.fullmatch(_expression(pattern), body.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        raise Unreadable(f"not written {form}")
    parts = found.groupdict()
    try:
        return _value(parts, century, column_type.kind)
    except (ValueError, OverflowError) as error:
        raise Unreadable(f"written {form}, but {error}") from error


def _expression(pattern: str) -> str:
    found = []
    for token in TOKEN.finditer(pattern):
        letter, many = token["letter"], len(token[0])
        if token["quoted"] is not None:
            found.append(f"(?-i:{re.escape(token['quoted'] or chr(39))})")
        elif letter is None:
            found.append(f"(?-i:{re.escape(token['other'])})")
        elif letter == "M" and many == 3:
            found.append(f"(?P<N>{'|'.join(name[:3] for name in NAMES)})")
        elif letter == "M" and many == 4:
            found.append(f"(?P<N>{'|'.join(NAMES)})")
        elif letter == "a":
            found.append("(?P<a>[ap]m)")
        elif letter == "X":
            colon = ":" if many == 3 else ""
            found.append(f"(?-i:(?P<X>Z|[+-][0-9]{{2}}{colon}[0-9]{{2}}))")
        elif letter == "S":
            found.append(f"(?P<S>[0-9]{{1,{many}}})")
        else:
            digits = "{1,2}" if many == 1 else f"{{{many}}}"
            found.append(f"(?P<{letter}>[0-9]{digits})")
    return "".join(found)


def _value(parts: dict[str, str], century: str, kind: Kind) -> Any:
    year = int(parts["y"])
    if century:
        year = next(y for y in range(int(century), int(century) + 100) if y % 100 == year)
    if "N" in parts:
        name = parts["N"].lower()
        month = 1 + next(at for at, whole in enumerate(NAMES) if whole.startswith(name))
    else:
        month = int(parts["M"])
    day = date(year, month, int(parts["d"]))
    if kind is Kind.DATE:
        return day
    hour = int(parts.get("H", "0"))
    if "h" in parts:
        if not 1 <= int(parts["h"]) <= 12:
            raise ValueError("there is no such hour")
        hour = int(parts["h"]) % 12 + (12 if parts["a"].lower() == "pm" else 0)
    nanos = parts.get("S", "0").ljust(9, "0")
    if nanos[6:].strip("0"):
        raise ValueError("parts of a microsecond")
    found = datetime(  # noqa: DTZ001  a naive time
        *(year, month, day.day),
        hour,
        int(parts.get("m", "0")),
        int(parts.get("s", "0")),
        int(nanos[:6]),
    )
    if kind is Kind.TIMESTAMP:
        return found
    zone = parts.get("X", "Z")
    if zone != "Z":
        digits = zone[1:].replace(":", "")
        hours, minutes = int(digits[:2]), int(digits[2:])
        if hours > 23 or minutes > 59:
            raise ValueError("there is no such offset")
        offset = timedelta(hours=hours, minutes=minutes)
        found += offset if zone[0] == "-" else -offset
    return found.replace(tzinfo=UTC)
