"""Whether Spark's executors can run Strata at all, asked once before the first real task.

On a cluster the interpreter and the packages of the executors are not those of the driver. What
is wrong there would otherwise come up as a page of Java about a pickle that cannot be loaded.
"""

import re
import sys
from typing import Any, Final

from pyspark.sql import SparkSession

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


def require_executors(spark: SparkSession) -> None:
    """Run one tiny task a core, which imports what the engine needs.

    Raises: InvalidRequest that names the executor, its interpreter, what is missing and the cure.
    Cost: starts the workers' interpreters, which the job's first tasks find running.
    """
    context = spark.sparkContext
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
    """Return the task: made here, so that it travels as a value and needs no import of ours."""

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
    """Return the line of Spark's report that says why no task could run."""
    text = str(error)
    for pattern in _REASONS:
        if match := pattern.search(text):
            return match[0].strip()
    return text.strip().partition("\n")[0][:500]


def _cannot(**details: str) -> InvalidRequest:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return InvalidRequest("Spark's executors cannot run Strata", **details, driver=here, cure=CURE)
