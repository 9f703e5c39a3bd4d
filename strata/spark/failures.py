"""An engine error that ended a Spark job, as the engine error that it was.

A DataFrame is lazy: the action that runs it is the caller's, and Spark reports a failed Python
task as a traceback in text. The kind decides what a caller does next, so it is read back.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest, StrataError, Unavailable

_LAST_LINE: Final = re.compile(
    r"^strata\.errors\.(InvalidRequest|Conflict|Unavailable|Corrupt|Fenced): (.*)$", re.MULTILINE
)
_DEEPEST: Final = 30  # causes of causes; Java forbids no circle
_KINDS: Final[dict[str, type[StrataError]]] = {
    kind.__name__: kind for kind in (InvalidRequest, Conflict, Corrupt, Fenced)
}


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raise the engine's error, by its kind, where a Spark task failed with one.

    Everything else passes unchanged. Details and cure are part of the message.
    """
    try:
        yield
    except PySparkException as error:
        found = engine_error(str(error))
        if found is None:
            raise
        raise found from None


def cause(error: Exception) -> str:
    """Return what went wrong, on one line: of an error of Java's, its innermost cause."""
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
    """Return the engine's error that a traceback ends with; None if it is another one."""
    match = _LAST_LINE.search(text)
    if match is None:
        return None
    name, message = match.groups()
    if name == "Unavailable":
        return Unavailable(message, certain=False)
    return _KINDS[name](message)
