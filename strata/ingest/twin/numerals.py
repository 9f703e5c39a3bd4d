"""Numbers of CSV that are written with other marks than a point, one text at a time."""

from typing import Final

from strata.ingest.twin.exact import INTEGERS
from strata.ingest.twin.unreadable import Unreadable
from strata.model.types import Kind

NUMBERS: Final = (frozenset(INTEGERS) - {Kind.YEAR_MONTH}) | {
    Kind.FLOAT32,
    Kind.FLOAT64,
    Kind.NUMERIC,
}
DIGITS: Final = frozenset("0123456789")
GROUP: Final = 3


def plain_number(text: str | bytes, decimal: str, thousands: str) -> str:
    """Return the number as it is written with a point and without groups. Raises: Unreadable."""
    try:
        body = (text.decode() if isinstance(text, bytes) else text).strip()
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8") from error
    if not any(mark and mark in body for mark in (".", decimal, thousands)):
        return body
    sign = body[:1] if body[:1] in ("+", "-") else ""
    at = next((n for n, letter in enumerate(body) if letter in "eE"), len(body))
    whole, mark, fraction = body[len(sign) : at].partition(decimal)
    groups = whole.split(thousands) if thousands else [whole]
    if not DIGITS.issuperset("".join(groups) + fraction):
        raise Unreadable("not a number with these marks")
    if len(groups) > 1 and not _are_threes(groups):
        raise Unreadable("not in groups of three digits")
    return sign + "".join(groups) + ("." if mark else "") + fraction + body[at:]


def _are_threes(groups: list[str]) -> bool:
    first, *others = map(len, groups)
    return 1 <= first <= GROUP and all(length == GROUP for length in others)
