"""Recover the engine error that ended a Spark job.

A DataFrame is lazy: the caller runs the action, and Spark reports a failed Python task as the text
of a traceback. The kind of error decides what a caller does next, so it is parsed from the text.
"""

import re
from typing import Final

from py4j.protocol import Py4JJavaError

from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest, StrataError, Unavailable

_LAST_LINE: Final = re.compile(
    r"^strata\.errors\.(InvalidRequest|Conflict|Unavailable|Corrupt|Fenced): (.*)$", re.MULTILINE
)
_DEEPEST: Final = 30  # depth of causes; Java does not forbid cycles
_KINDS: Final[dict[str, type[StrataError]]] = {
    kind.__name__: kind for kind in (InvalidRequest, Conflict, Corrupt, Fenced)
}


def cause(error: Exception) -> str:
    """Return the message of an error on one line; for a Java error, of its innermost cause."""
    if not isinstance(error, Py4JJavaError):
        return _line(str(error))
    found = error.java_exception
    for _ in range(_DEEPEST):
        below = found.getCause()
        if below is None:
            break
        found = below
    return _line(str(found.toString()))


def _line(text: str) -> str:
    return text.strip().split("\n")[0]


def engine_error(text: str) -> StrataError | None:
    """Return the engine's error that ends a traceback; None for any other error."""
    match = _LAST_LINE.search(text)
    if match is None:
        return None
    name, message = match.groups()
    if name == "Unavailable":
        return Unavailable(message, certain=False)
    return _KINDS[name](message)
