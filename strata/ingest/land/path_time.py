"""The time that a path carries: which of its digits are a date, and which are an hour.

The first date counts: `2013-01-31.csv`, `20130131T05.jsonl`, `date=2013-01-31/hour=05/x.parquet`,
`year=2013/month=01/day=31/x.csv`, `2013/01/31/05/x.csv`; one with dashes before folders, and both
before eight digits. Two digits after it, in its name or as
the name of a folder, are an hour. If they cannot be an hour (`2013-01-31/30/`), their meaning is
unknown and the path is refused. The name of a file in a day's folder is not an hour. A declared
path with strftime directives (`landing/%Y-%m-%d/*/*.csv`) says where the time is; then nothing is
guessed.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from strata.errors import InvalidRequest

GLOB: Final = "*?["

_CLOCK: Final = (  # `2013-01-31-2013-02-01` and `2013-01-31/07.csv` have no hour
    r"(?:(?:[T_ -]|[/_-]?hour=)(?P<hour>\d{2})(?:[:-]?(?P<minute>\d{2}))?(?!\d|-\d\d-)"
    r"|/(?P<hours>\d{2})(?=/))?"
)
_DATES: Final = (
    r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})",
    r"year=(?P<year>\d{4})/month=(?P<month>\d{1,2})/day=(?P<day>\d{1,2})",
    r"(?P<year>\d{4})/(?P<month>\d{2})/(?P<day>\d{2})",
)
_COMPACT: Final = (
    r"(?<!\d)(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})"
    r"(?:(?P<apart>[T_-]?)(?P<hour>\d{2})(?P<minute>\d{2})?(?:\d{2})?|/hour=(?P<hours>\d{2}))?(?!\d)"
)
PATH_TIMES: Final = (
    *(re.compile(rf"(?<!\d){date}(?!\d){_CLOCK}") for date in _DATES),
    re.compile(_COMPACT),
)
DIRECTIVES: Final = {
    "%Y": r"(?P<year>\d{4})",
    "%m": r"(?P<month>\d{2})",
    "%d": r"(?P<day>\d{2})",
    "%H": r"(?P<hour>\d{2})",
    "%M": r"(?P<minute>\d{2})",
    "%%": "%",
}


def path_time(relative: str) -> int | None:
    """Return the first time that a path carries, in milliseconds; None if there is none.

    Raises: InvalidRequest if the digits after a date look like an hour but cannot be one.

    >>> path_time("date=2013-01-31/hour=05/x.csv") == path_time("20130131T05.csv")
    True
    >>> path_time("part-00000.csv") is None
    True
    """
    for pattern in PATH_TIMES:
        for match in pattern.finditer(relative):
            named = match.groupdict()
            apart = named.pop("apart", "-")
            if (time_ms := milliseconds(named)) is not None:
                return time_ms
            if apart and _is_date(named):
                raise InvalidRequest(
                    "what follows the date in a path stands like an hour, and is none",
                    path=relative,
                    value=match[0],
                    cure='say where the time stands: source.paths: ["FOLDER/%Y-%m-%d/*/*"]',
                )
    return None


def _is_date(named: Mapping[str, str | None]) -> bool:
    days = {name: named.get(name) for name in ("year", "month", "day")}
    return milliseconds(days) is not None


def split_pattern(declared: str) -> tuple[str, re.Pattern[str] | None]:
    """Return the plain folder in front of a pattern, and the pattern for what is below it."""
    parts = PurePosixPath(declared).parts
    special = [n for n, part in enumerate(parts) if "%" in part or any(c in part for c in GLOB)]
    if not special:
        return declared, None
    below = "/".join(parts[special[0] :])
    tokens = re.split(r"(%.|\*\*/|\*|\?)", below)
    text = "".join(_pattern_token(token, declared, n) for n, token in enumerate(tokens))
    return "/".join(parts[: special[0]]), re.compile(_once(text))


def _pattern_token(token: str, declared: str, number: int) -> str:
    if number % 2 == 0:
        return re.escape(token)
    wild = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    if token in wild:
        return wild[token]
    if token not in DIRECTIVES:
        raise InvalidRequest(
            "unknown directive in a source path",
            path=declared,
            directive=token,
            cure=f"one of {' '.join(DIRECTIVES)}",
        )
    return DIRECTIVES[token]


def _once(pattern: str) -> str:
    """Make a repeated directive (`%Y/%Y-%m`) match the same text as its first occurrence."""
    seen: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return match[0]

    return re.sub(r"\(\?P<(\w+)>\\d\{\d\}\)", replace, pattern)


def milliseconds(named: Mapping[str, str | None]) -> int | None:
    """Return the moment that named digits stand for; None: they are not a date, or not an hour."""
    fields = {name: int(text) for name, text in named.items() if text is not None}
    hour = fields.get("hour", fields.get("hours", 0))
    try:
        moment = datetime(
            fields["year"],
            fields.get("month", 1),
            fields.get("day", 1),
            hour,
            fields.get("minute", 0),
            tzinfo=UTC,
        )
    except ValueError:  # a number that only looks like a date
        return None
    return int(moment.timestamp()) * 1000
