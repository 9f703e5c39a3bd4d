"""Engine functions on Spark's executors, as a `strata.model.runner.Runner`.

Items go out in waves of tasks, one item a task; two waves are under way at a time, so that no
core idles at the end of one, and results reach the driver in order without all being held.
An error of the engine travels as a value and is raised on the driver as what it is: Spark
would wrap it in a page of Java.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from strata.errors import StrataError
from strata.model.runner import Runner

A = TypeVar("A")
B = TypeVar("B")

WAVES: Final = 2  # under way at once
TASKS_PER_CORE: Final = 2  # in one wave


def spark_runner(spark: SparkSession) -> Runner:
    """Return the runner that sends each item to a task of its own.

    Functions and items must be picklable; the workers import only `strata`.
    """
    context = spark.sparkContext

    def run(function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        size = max(1, TASKS_PER_CORE * context.defaultParallelism)
        waves = [items[i : i + size] for i in range(0, len(items), size)]

        def collect(wave: Sequence[A]) -> list[tuple[B | None, StrataError | None]]:
            return context.parallelize(wave, len(wave)).map(partial(attempt, function)).collect()

        with ThreadPoolExecutor(max_workers=WAVES) as pool:
            waiting: deque[Future[list[tuple[B | None, StrataError | None]]]] = deque()
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


def attempt(function: Callable[[A], B], item: A) -> tuple[B | None, StrataError | None]:
    """Return the result, or the engine's error; any other error is the task's failure."""
    try:
        return function(item), None
    except StrataError as error:
        return None, error


def _results(outcomes: list[tuple[B | None, StrataError | None]]) -> Iterator[B]:
    for result, error in outcomes:
        if error is not None:
            raise error
        yield result  # type: ignore[misc]  # a result of None is the function's own
