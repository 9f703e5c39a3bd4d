"""Spark's daemon of Python workers with the engine loaded, so that forked workers start at once.

`spark.python.daemon.module` names this module if executors can import it. A fresh worker takes some
two seconds to import Arrow, the engine and the compiler and to find the compiled kernels. Spark
starts one worker a core, and again after a minute without work. The daemon loads everything once.

Modules that start a thread must not be loaded before a fork; `tests/spark/test_daemon.py` checks
that. NumPy's OpenBLAS starts threads unless `OPENBLAS_NUM_THREADS` is 1: see
`strata.spark.session`.
"""

import gc
import sys
from contextlib import redirect_stdout

from pyspark.daemon import manager


def preload() -> None:
    """Load everything that tasks need. Failures are left to the tasks, which raise them again."""
    try:
        import pyspark.worker  # noqa: F401

        import strata.compact.tasks  # noqa: F401  # and all that merging needs
        from strata.stats.flat import warm as warm_stats
        from strata.updates.warm import warm

        warm()
        warm_stats()
    except Exception as error:
        print(f"strata is not loaded ahead: {error!r}", file=sys.stderr)  # noqa: T201 -- Spark's log
    gc.freeze()  # otherwise garbage collection would copy the pages that workers share


if __name__ == "__main__":
    # The daemon of tasks; other daemons plan, and need no kernel
    if sys.argv[1:] == ["pyspark.worker"]:
        with redirect_stdout(sys.stderr):  # on the true one Spark waits for a port
            preload()
    manager()
