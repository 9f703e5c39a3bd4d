"""Spark's daemon of Python workers, the engine loaded: workers that it forks find kernels ready.

`spark.python.daemon.module` names this module where executors can import it. A fresh worker
takes some two seconds to import Arrow, the engine and the compiler and to find the compiled
kernels; Spark starts one a core, and again after a minute without work. Here that is done once.

Only what starts no thread may be loaded before a fork; `tests/spark/test_daemon.py` looks. NumPy's
OpenBLAS would start some, unless `OPENBLAS_NUM_THREADS` is 1: see `strata.spark.session`.
"""

import gc
import sys
from contextlib import redirect_stdout

from pyspark.daemon import manager


def preload() -> None:
    """Load what tasks need. Whatever fails is left to the tasks, which say so themselves."""
    try:
        import pyspark.worker  # noqa: F401

        import strata.compact.tasks  # noqa: F401  # and all that merging needs
        from strata.stats.flat import warm as warm_stats
        from strata.updates.warm import warm

        warm()
        warm_stats()
    except Exception as error:
        print(f"strata is not loaded ahead: {error!r}", file=sys.stderr)  # noqa: T201 -- Spark's log
    gc.freeze()  # else collecting would copy the pages that workers share


if __name__ == "__main__":
    if sys.argv[1:] == ["pyspark.worker"]:  # those of tasks; other ones plan, and need no kernel
        with redirect_stdout(sys.stderr):  # on the true one Spark waits for a port
            preload()
    manager()
