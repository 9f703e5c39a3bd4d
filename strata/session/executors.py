"""Check that Spark's executors can run Strata, and run this one, before the first real task.

On a cluster the executors have their own interpreter and packages. A fault there would otherwise
appear as a page of Java about a pickle that cannot be loaded. Code of another day there would write
statistics and rows that the driver takes for its own.
"""

import re
import sys
from typing import Any, Final

from pyspark import SparkContext

from strata import __version__
from strata.errors import InvalidRequest
from strata.model.own_code import own_code

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
    """Run one tiny task a core that imports the engine's requirements and compares its code.

    Raises: InvalidRequest, naming the executor, its interpreter, what is missing or another one,
    and the cure.
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
        if answer["code"] != own_code():
            raise InvalidRequest(
                "Spark's executors run another Strata than the driver",
                executor=answer["host"],
                python=answer["python"],
                theirs=f"{answer['version']}, code {answer['code'] or 'of before'}",
                ours=f"{__version__}, code {own_code()}",
                cure=f"make their environment anew from the driver's release: {CURE}",
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
        code = version = ""
        try:
            version = importlib.import_module("strata").__version__
            code = importlib.import_module("strata.model.own_code").own_code()
        except Exception as error:  # without the module it is an older one
            version = version or f"{type(error).__name__}: {error}"
        here = {"host": platform.node(), "python": sys.executable}
        return {**here, "missing": missing, "version": version, "code": code}

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
