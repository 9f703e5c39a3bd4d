"""Spark's daemon of Python workers with the engine loaded, so that forked workers start at once.

`spark.python.daemon.module` names this module if executors can import it. A fresh worker takes some
two seconds to import Arrow, the engine and the compiler and to find the compiled kernels. Spark
starts one worker a core, and again after a minute without work. The daemon loads everything once.

Modules that start a thread must not be loaded before a fork; `tests/spark/test_daemon.py` checks
that. NumPy's OpenBLAS starts threads unless `OPENBLAS_NUM_THREADS` is 1: see
`strata.session.session`.
"""

import gc
import sys
import zipimport
from contextlib import redirect_stdout

import pyspark.daemon

from strata.spark.quiet_end import end_quietly


def preload() -> None:
    """Load everything that tasks need. Failures are left to the tasks, which raise them again."""
    try:
        import pyspark.worker  # noqa: F401
        import sqlalchemy  # noqa: F401  # tasks that read count what they skip

        import strata.compact.tasks  # noqa: F401  # and all that merging needs
        from strata.config.settings import load_settings
        from strata.format.values.json_text import warm as warm_texts
        from strata.model.own_code import own_code
        from strata.spark import datasource  # noqa: F401  # and all that reading needs
        from strata.stats.flat import warm as warm_stats
        from strata.updates.warm import warm

        warm()
        warm_stats()
        warm_texts()
        own_code()  # tasks compare it
        load_settings(None, {})  # compiles what checks them
    except Exception as error:
        print(f"strata is not loaded ahead: {error!r}", file=sys.stderr)  # noqa: T201 -- Spark's log
    _forget_archives()
    gc.freeze()  # otherwise garbage collection would copy the pages that workers share


def _forget_archives() -> None:
    """Drop the importers of packages in archives, which are made again when they are asked.

    A cluster's PySpark is imported from an archive. Each of its packages has an importer, and each
    importer would read the archive's whole list of files again in the first task of every worker.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    # The daemon of tasks; other daemons plan, and need no kernel
    if sys.argv[1:] == ["pyspark.worker"]:
        with redirect_stdout(sys.stderr):  # on the true one Spark waits for a port
            preload()
    end_quietly(pyspark.daemon)
    pyspark.daemon.manager()
