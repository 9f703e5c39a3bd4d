"""Engine functions on Spark's executors, as a `strata.model.runner.Runner`.

Items are sent in waves of tasks, one item a task. Two waves are under way at a time, so no core
idles at the end of a wave, and results reach the driver in order without all being held. Up to two
waves are sent as one, which begins with the heaviest items.
A job's runner (`strata.jobs.runner`) does little work here while its workers start.
An error of the engine travels as a value and is raised unchanged on the driver, because Spark would
wrap it in a page of Java.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from pyspark import SparkContext
from pyspark.sql import SparkSession

from strata.errors import StrataError
from strata.model.own_code import own_code, require_same_code
from strata.model.runner import Runner, heaviest_first, on_cores, share
from strata.session.session import context_of
from strata.store import bill

A = TypeVar("A")
B = TypeVar("B")
Outcome = tuple[B | None, StrataError | None, dict[str, int]]

WAVES: Final = 2  # waves under way at once
TASKS_PER_CORE: Final = 2  # tasks in one wave


def spark_runner(spark: SparkSession) -> Runner:
    """Return the runner of a session's context; see `context_runner`."""
    return context_runner(context_of(spark))


def context_runner(context: SparkContext) -> Runner:
    """Return the runner that sends each item to its own task.

    Functions and items must be picklable; the workers import only `strata`.
    """

    def run(function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        cores = context.defaultParallelism
        size = TASKS_PER_CORE * max(1, cores)
        if len(items) <= WAVES * size:
            size = max(1, len(items))
        shared = partial(_by_same_code, own_code(), share(cores, len(items)), function)
        waves = [items[i : i + size] for i in range(0, len(items), size)]

        def collect(wave: Sequence[A]) -> list[Outcome[B]]:
            order = heaviest_first(wave)  # Spark begins the first task first
            sent = context.parallelize([wave[n] for n in order], len(wave))
            found = dict(zip(order, sent.map(partial(attempt, shared)).collect(), strict=True))
            return [found[n] for n in range(len(wave))]

        with ThreadPoolExecutor(max_workers=WAVES) as pool:
            waiting: deque[Future[list[Outcome[B]]]] = deque()
            try:
                for wave in waves:
                    waiting.append(pool.submit(collect, wave))
                    if len(waiting) >= WAVES:
                        yield from _results(waiting.popleft().result())
                while waiting:
                    yield from _results(waiting.popleft().result())
            finally:
                for future in waiting:  # an error or an abandoned run: start nothing more
                    future.cancel()

    return run


def attempt(function: Callable[[A], B], item: A) -> Outcome[B]:
    """Return the result or the engine's error, and the bill; other errors fail the task.

    The worker must do one thing at a time, as Spark's workers do.
    """
    bill.settle()  # the bill of an earlier task that failed
    try:
        return function(item), None, bill.settle()
    except StrataError as error:
        return None, error, bill.settle()


def _by_same_code(code: str, cores: int, function: Callable[[A], B], item: A) -> B:
    """Run a function. Raises: InvalidRequest on an executor that came with other code."""
    require_same_code(code)
    return on_cores(cores, function, item)


def _results(outcomes: list[Outcome[B]]) -> Iterator[B]:
    for _, _, spent in outcomes:
        bill.charge(spent)
    for result, error, _ in outcomes:
        if error is not None:
            raise error
        yield result  # type: ignore[misc]  # a result of None is the function's own
