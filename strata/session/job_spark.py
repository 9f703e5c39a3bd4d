"""The Spark of a job, made beside the job's own work, or not at all.

Java takes a second for a context, which runs tasks, and more than another for a session, which
understands filters; the workers of this machine take two. A job whose work is little ends before
that. So each of them is made when it is asked for, or `begin` makes the context and the workers
while the job goes on. Nothing here loads PySpark before, and nothing here may import the engine.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread, local
from typing import TYPE_CHECKING, Final

from strata.model.settings import SparkSettings

if TYPE_CHECKING:  # PySpark is loaded with the context
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

PATIENCE_SECONDS: Final = 30.0  # for a context that is being made while its job ends


class JobSpark:
    """The context and the session of one job; all threads of the job share them."""

    def __init__(self, name: str, settings: SparkSettings) -> None:
        """Make nothing; a session that this thread has already is used, and left as it is."""
        self._name, self._settings = name, settings
        self._found = _session_of_this_thread()
        self._session = self._found
        self._context: Future[SparkContext] | None = None
        self._workers = Event()  # set when nobody has to wait for them any more
        self._loading = self._found is not None
        self._lock, self._making = Lock(), Lock()
        self._thread = local()
        self._stopped = False
        if self._found is not None:
            self._context = Future()
            self._context.set_result(self._found.sparkContext)
            self._workers.set()

    def begin(self, *, workers: bool = True, session: bool = False) -> None:
        """Begin to make the context beside the caller, and what is asked for with it."""
        with self._lock:
            if self._context is None:
                self._context = Future()
                beside(self._make, self._context)
            load, self._loading = workers and not self._loading, self._loading or workers
        if session:
            beside(lambda: self.session)
        if load:
            beside(self._load_workers)

    @property
    def context(self) -> "SparkContext":
        """Return the context; wait until it is made.

        Raises: InvalidRequest for executors that cannot run Strata; what Java raises.
        """
        self.begin(workers=False)
        assert self._context is not None
        return self._context.result()

    @property
    def session(self) -> "SparkSession":
        """Return the session, as the one of this thread; raises as `context`."""
        from strata.session.session import activate, session_over

        context = self.context
        with self._making:
            if self._stopped:  # over a context that is gone, another one would be made
                raise RuntimeError("the job's Spark is stopped")
            if self._session is None:
                self._session = session_over(context, self._settings)
        if not getattr(self._thread, "has", False):
            activate(self._session)
            self._thread.has = True
        return self._session

    @property
    def has_workers(self) -> bool:
        """Return whether workers are there, or will never be: then tasks say why."""
        return self._workers.is_set()

    def about(self, look: "Callable[[SparkContext], str]") -> str:
        """Return what `look` says of the context; nothing, or that Java starts, before it is made.

        It may be called from any thread, and waits for nothing.
        """
        made = self._context
        if made is None:
            return ""
        if not made.done():
            return "Spark starts"
        return look(made.result())

    def stop(self) -> None:
        """Stop what was made. A context that is being made is waited for, though not for ever.

        A cluster without room for executors does not keep a job that has ended; the end of the
        process stops what is left.
        """
        made = self._context
        if made is None or self._found is not None:
            return
        from strata.session.session import stop_context

        wait([made], PATIENCE_SECONDS)
        if not made.done() or made.exception() is not None:  # who needed it has heard why
            return
        with self._making:  # a session that is being made would fail
            self._stopped = True
            stop_context(made.result(), self._session, quietly=not self.has_workers)

    def _make(self, made: "Future[SparkContext]") -> None:
        try:
            from strata.session.session import new_context

            made.set_result(new_context(self._name, self._settings))
        except BaseException as error:
            made.set_exception(error)

    def _load_workers(self) -> None:
        from strata.session.session import load_workers

        try:
            load_workers(self.context)
        finally:
            self._workers.set()


@contextmanager
def job_spark(name: str, settings: SparkSettings) -> Iterator[JobSpark]:
    """Yield the Spark of a job, and stop afterwards what was made of it."""
    spark = JobSpark(name, settings)
    try:
        yield spark
    finally:
        spark.stop()


def beside(make: Callable[..., object], *given: object) -> None:
    """Call a function in a thread of its own; its failure is left to who needs what it makes."""

    def made() -> None:
        with suppress(Exception):
            make(*given)

    Thread(target=made, name="beside", daemon=True).start()


def _session_of_this_thread() -> "SparkSession | None":
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
