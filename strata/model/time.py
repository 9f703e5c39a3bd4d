"""Times and frontiers: milliseconds since 1970, UTC, totally ordered.

A time is an int64 between `MIN_TIME` (0001-01-01) and `MAX_TIME` (9999-12-31): every time
prints as ISO 8601 and fits a JSON number. A frontier is a time; `since` and `upper` of a new
shard are `MIN_TIME`. On the command line a time is an integer or an ISO 8601 text; a text
without an offset means UTC.
"""

from datetime import UTC, datetime, timedelta
from operator import index
from typing import Final, SupportsIndex

from strata.errors import InvalidRequest

Time = int  # milliseconds since 1970

MIN_TIME: Final = -62_135_596_800_000
MAX_TIME: Final = 253_402_300_799_999

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def parse_time(text: str | int) -> int:
    """Return the time that `text` names.

    Raises: InvalidRequest for text that is neither an integer nor ISO 8601, or out of range.

    >>> parse_time("2013-01-01T00:00Z"), parse_time("1356998400000")
    (1356998400000, 1356998400000)
    """
    if isinstance(text, int):
        value = text
    else:
        try:
            value = int(text)
        except ValueError:
            value = _parse_iso(text)
    if not MIN_TIME <= value <= MAX_TIME:
        raise InvalidRequest("time out of range", value=text, cure="use years 0001 to 9999")
    return value


def time_given(value: object) -> int:
    """Return a time that a program gives as a whole number, those of numpy included.

    Raises: InvalidRequest for anything else: a datetime, a text, a fraction, a truth.

    >>> time_given(1356998400000)
    1356998400000
    """
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        return index(value)
    raise InvalidRequest(
        "a program gives a time as an int",
        value=str(value),
        type=type(value).__name__,
        cure="milliseconds since 1970: of a datetime with a zone round(at.timestamp() * 1000)",
    )


def _parse_iso(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidRequest(
            "not a time",
            value=text,
            cure="give milliseconds since 1970 or ISO 8601, as in 2013-01-31T00:00:00Z",
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MS


def format_time(value: int) -> str:
    """Return `value` as ISO 8601 in UTC, with milliseconds only if they are not zero.

    >>> format_time(1356998400000)
    '2013-01-01T00:00:00Z'
    """
    moment = _EPOCH + timedelta(milliseconds=value)
    spec = "milliseconds" if value % 1000 else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")
