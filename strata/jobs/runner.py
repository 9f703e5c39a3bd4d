"""Engine functions of a job: on Spark's executors, and here until those are there.

Spark's context and its workers take seconds to start. Until then the driver works on small items
itself, one after the other, and Spark gets those that are left. A job of little work ends before
it has begun a Spark; one that has done enough of it begins its Spark, in case that more comes.
"""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Final, TypeVar

from strata.model.runner import Runner, on_cores
from strata.session.job_spark import JobSpark

A = TypeVar("A")
B = TypeVar("B")

LITTLE_BYTES: Final = 2 << 20  # stored bytes that one core reads while workers start
ENOUGH_BYTES: Final = 8 << 20  # of a whole job; more of them, and Spark would have been sooner


def job_runner(spark: JobSpark) -> Runner:
    """Return the runner of a job, for all of its shards.

    Functions and items must be picklable; the workers import only `strata`. An item says how many
    stored bytes it reads with `read_bytes`; one that does not say it is Spark's.
    """
    lock, here = Lock(), 0

    def run(function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        nonlocal here
        sizes = [getattr(item, "read_bytes", LITTLE_BYTES + 1) for item in items]
        with lock:
            here += sum(sizes)
            many = here > ENOUGH_BYTES or sum(sizes) > LITTLE_BYTES
        if many:
            spark.begin()
        done = 0
        while done < len(items) and not spark.has_workers and sizes[done] <= LITTLE_BYTES:
            yield on_cores(1, function, items[done])
            done += 1
        if done < len(items):
            from strata.spark.runner import context_runner  # loads PySpark

            yield from context_runner(spark.context)(function, items[done:])

    return run
