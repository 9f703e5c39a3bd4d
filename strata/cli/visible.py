"""Times and errors as people read them on a terminal."""

from collections.abc import Mapping
from typing import Any, Final

from strata.errors import StrataError, bounded, masked
from strata.model.shown import visible
from strata.model.time import MAX_TIME, MIN_TIME, format_time

TIMES: Final = frozenset(  # names of times in documents and errors
    {"since", "upper", "lower", "as_of", "at", "shard_upper", "first_lower", "first_upper"}
    | {"consumer_position", "sink_position"}
)
MOMENTS: Final = frozenset(
    {"at_ms", "expires_ms", "changed_ms", "deleted_from_ms", "walltime_ms", "began_ms"}
)


def is_time(name: str, value: object) -> bool:
    """Return whether an entry of a document is a time in milliseconds since 1970."""
    return (
        (name in TIMES or name in MOMENTS)
        and isinstance(value, int)
        and not isinstance(value, bool)
        and MIN_TIME <= value <= MAX_TIME
    )


def shown_time(value: int) -> str:
    """Return a time as ISO 8601; the least one has no useful digits."""
    return "beginning" if value == MIN_TIME else format_time(value)


def shown_count(number: int, noun: str) -> str:
    """Return a number and what it counts.

    >>> shown_count(1, "part"), shown_count(1234, "part")
    ('1 part', '1,234 parts')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown_error(error: StrataError) -> str:
    """Return an error on one line: its kind, what is wrong, where, and the cure."""
    said = f"{type(error).__name__}: {error.message}{_details(error.details)}{_cure(error)}"
    return visible(masked(said))


def _details(details: Mapping[str, Any]) -> str:
    shown = {k: shown_time(v) if is_time(k, v) else bounded(repr(v)) for k, v in details.items()}
    return "".join(f" {name}={value}" for name, value in shown.items())


def _cure(error: StrataError) -> str:
    return f" (cure: {error.cure})" if error.cure else ""
