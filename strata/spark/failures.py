"""Recover the engine error that ended a Spark job, and separate failures of rows from all others.

A DataFrame is lazy: the caller runs the action, and Spark reports a failed Python task as the text
of a traceback. The kind of error decides what a caller does next, so it is parsed from the text. No
other text is believed: an error of an expression quotes the value that it failed on.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest, StrataError, Unavailable

_LAST_LINE: Final = re.compile(
    r"^strata\.errors\.(InvalidRequest|Conflict|Unavailable|Corrupt|Fenced): (.*)$", re.MULTILINE
)
_DEEPEST: Final = 30  # depth of causes; Java does not forbid cycles
# Spark's own words in front of what a task said, and the class that the task failed with.
_OF_TASK: Final = re.compile(
    r"Job aborted due to stage failure: .*?most recent failure: "
    r"(?:Lost task \S+ in stage \S+ \(TID \d+\) \(.*?\): )?(?:[\w$]+\.)*(\w+)"
)
_EXITED: Final = "Python worker exited"
# Rows are read in Python and judged in the JVM: a failure of Python is not the filter's.
_PYTHON: Final = frozenset({"PYTHON_EXCEPTION", "PythonException", _EXITED})
# The machine was too small: that is said of no row, and no rule claims that it cannot happen.
_EXHAUSTED: Final = frozenset(
    {
        "OutOfMemoryError",
        "SparkOutOfMemoryError",
        "StackOverflowError",
        "UNABLE_TO_ACQUIRE_MEMORY",
        "ExecutorLostFailure",
    }
)
_KINDS: Final[dict[str, type[StrataError]]] = {
    kind.__name__: kind for kind in (InvalidRequest, Conflict, Corrupt, Fenced)
}


def cause(error: Exception) -> str:
    """Return the message of an error on one line; for a Java error, of its innermost cause."""
    if not isinstance(error, Py4JJavaError):
        return _line(str(error))
    *_, found = _causes(error)
    return _line(str(found.toString()))


def is_of_no_row(error: Exception) -> bool:
    """Return whether Python or the machine failed, and no expression on a row.

    Errs: an error that is not known by its class counts as one of a row. Its text says nothing.
    """
    if isinstance(error, MemoryError | Py4JNetworkError):  # of this process, or of a JVM that ended
        return True
    return not _kinds(error).isdisjoint(_PYTHON | _EXHAUSTED)


def task_error(error: Exception) -> StrataError | None:
    """Return the engine's error that ended a task in Python; None for any other error."""
    found = _kinds(error)
    return None if found and found.isdisjoint(_PYTHON) else engine_error(str(error))


@contextmanager
def failing_in_words(where: str) -> Iterator[None]:
    """Say of a filter with which a job of Spark ends what there is to say.

    Spark's own words may quote a value of a row, so its condition alone is passed on.

    Raises: InvalidRequest where the filter fails on a row; the engine's error that ended a task;
    Spark's own where the machine failed, and no row.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = task_error(error)
        if found is None and is_of_no_row(error):
            raise
        condition = getattr(error, "getCondition", lambda: None)()
        raise found or InvalidRequest(
            "the filter fails on a row",
            filter=where,
            reason=condition or type(error).__name__,
            cure="compare values of one type, or write it so that it fails on none: try_cast, "
            "try_divide",
        ) from None


def _kinds(error: Exception) -> frozenset[str]:
    """Return the classes and conditions of a Java error and its causes; empty for other errors."""
    found: set[str] = set()
    for one in _causes(error):
        name = one.getClass().getSimpleName()
        found.add(name)
        with suppress(Py4JError):  # only Spark's own errors have a condition
            found.add(str(one.getCondition()))
        if name == "SparkException":  # Spark's own words; other errors may begin with a value
            said = str(one.getMessage())
            task = _OF_TASK.match(said)
            found |= {task[1]} if task is not None else set()
            found |= {_EXITED} if said.startswith(_EXITED) else set()
    return frozenset(found)


def _causes(error: Exception) -> Iterator[Any]:
    """Yield a Java error and its causes, outermost first; nothing for other errors."""
    found = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_DEEPEST):
        if found is None:
            return
        yield found
        found = found.getCause()


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
