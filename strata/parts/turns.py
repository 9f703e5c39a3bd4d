"""Do jobs ahead of their turn, within a budget of bytes; their results come in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")


def in_turn(
    jobs: Sequence[tuple[int, Callable[[], R]]], workers: int, budget_bytes: int
) -> Iterator[R]:
    """Yield the result of each job in order, while `workers` others are under way.

    Each job comes with its bytes. Jobs begun but not yet yielded stay within the budget, except a
    job that exceeds it by itself. With one worker each job runs when its turn comes.
    """
    if workers <= 1 or len(jobs) == 1:
        yield from (job() for _, job in jobs)
        return
    waiting: deque[tuple[int, Future[R]]] = deque()
    ahead, position = 0, 0
    with ThreadPoolExecutor(workers, thread_name_prefix="strata-fetch") as pool:
        try:
            while position < len(jobs) or waiting:
                while position < len(jobs) and (
                    not waiting or ahead + jobs[position][0] <= budget_bytes
                ):
                    size, job = jobs[position]
                    waiting.append((size, pool.submit(job)))
                    ahead, position = ahead + size, position + 1
                size, future = waiting.popleft()
                yield future.result()
                ahead -= size
        finally:
            for _, future in waiting:  # an abandoned scan starts nothing more
                future.cancel()
