"""Check that Spark's executors can run Strata, once before the first real task.

On a cluster the executors have their own interpreter and packages. A fault there would otherwise
appear as a page of Java about a pickle that cannot be loaded.
"""

import re
import sys
from typing import Any, Final

from pyspark import SparkContext

from strata.errors import InvalidRequest

NEEDED: Final = ("strata.spark", "pyarrow", "numba", "orjson", "sqlalchemy")
CURE: Final = (
    "send the environment of `make pack` along: --archives "
    "dist/strata-environment.tar.gz#environment "
    "--conf spark.pyspark.python=./environment/bin/python (docs/how-to/deploy.md)"
)
_REASONS: Final = (
    re.compile(r'Cannot run program "[^"]*"[^\n]*'),
    re.compile(r"\[PYTHON_VERSION_MISMATCH\][^\n]*"),
    re.compile(r"No module named [^\s]+"),
)


def require_executors(context: SparkContext) -> None:
    """Run one tiny task a core that imports the engine's requirements.

    Raises: InvalidRequest, naming the executor, its interpreter, the missing module and the cure.
    Cost: starts the workers' interpreters, which the job's first tasks then reuse.
    """
    tasks = max(1, context.defaultParallelism)
    try:
        found = context.parallelize(range(tasks), tasks).map(_probe(NEEDED)).collect()
    except Exception as error:
        raise _cannot(reason=_reason(error)) from error
    for answer in found:
        if answer["missing"]:
            raise _cannot(
                executor=answer["host"], python=answer["python"], missing=answer["missing"]
            )


def _probe(names: tuple[str, ...]) -> Any:
    """Return the task. It is a local function, so it is pickled by value."""

    def look(_: int) -> dict[str, str]:
        import importlib
        import platform
        import sys

        missing = ""
        for name in names:
            try:
                importlib.import_module(name)
            except Exception as error:
                missing = missing or f"{type(error).__name__}: {error}"
        return {"host": platform.node(), "python": sys.executable, "missing": missing}

    return look


def _reason(error: Exception) -> str:
    """Return the line of Spark's report with the reason why no task could run."""
    text = str(error)
    for pattern in _REASONS:
        if match := pattern.search(text):
            return match[0].strip()
    return text.strip().partition("\n")[0][:500]


def _cannot(**details: str) -> InvalidRequest:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return InvalidRequest("Spark's executors cannot run Strata", **details, driver=here, cure=CURE)
