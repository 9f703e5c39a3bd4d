"""Convert JSON values to the Python views of scalar types.

Every function here raises ValueError, TypeError or ArithmeticError for an invalid value.
"""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from strata.format.values.json_text import canonical_text


def instance_of(kind: type) -> Callable[[Any], Any]:
    """Return a function that accepts values of exactly one Python type."""

    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"not a {kind.__name__}")
        return value

    return check


boolean: Final = instance_of(bool)
text: Final = instance_of(str)
integer: Final = instance_of(int)
day: Final = date.fromisoformat
moment: Final = datetime.fromisoformat


def moment_utc(value: Any) -> datetime:
    """Return a moment; a text without an offset is in UTC."""
    found = moment(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def unsigned64(value: Any) -> Decimal:
    """Return an integer as a decimal, the view of unsigned 64-bit integers."""
    return Decimal(integer(value))


def floating(value: Any) -> float:
    """Return a number, or the text of one."""
    return float(_no_boolean(value))


def decimal(value: Any) -> Decimal:
    """Return a number, or the text of one, exactly."""
    return Decimal(str(_no_boolean(value)))


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise TypeError("a boolean is no number")
    return value


def raw_bytes(value: Any) -> bytes:
    """Return the bytes of a base64 text."""
    return base64.b64decode(value, validate=True)


def as_canonical_text(value: Any) -> str:
    """Return the canonical text of any value."""
    found = canonical_text(json.dumps(value).encode())
    if found is None:
        raise ValueError("not JSON")
    return found.decode()


def parts(value: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's entries, with missing ones from `defaults`."""
    if not isinstance(value, dict):
        raise TypeError("not an object")
    if unknown := value.keys() - defaults.keys():
        raise ValueError(f"there is no {', '.join(sorted(unknown))}")
    return {**defaults, **value}
