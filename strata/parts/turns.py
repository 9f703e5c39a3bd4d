"""Do jobs ahead of their turn, within a budget of bytes; their results come in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Final, TypeVar

R = TypeVar("R")
AHEAD_MAX: Final = 4096  # jobs begun but not yet yielded, of any size


def in_turn(
    jobs: Iterable[tuple[int, Callable[[], R]]], workers: int, budget_bytes: int
) -> Iterator[R]:
    """Yield the result of each job in order, while `workers` others are under way.

    Each job comes with its bytes, and is taken when it may begin. Jobs begun but not yet yielded
    stay within the budget, except a job that exceeds it by itself. With one worker each job runs
    when its turn comes.
    """
    rest = iter(jobs)
    first = list(islice(rest, 2))
    if workers <= 1 or len(first) < 2:
        yield from (job() for _, job in chain(first, rest))
        return
    rest = chain(first, rest)
    waiting: deque[tuple[int, Future[R]]] = deque()
    ahead, following = 0, next(rest, None)
    with ThreadPoolExecutor(workers, thread_name_prefix="strata-fetch") as pool:
        try:
            while following is not None or waiting:
                while following is not None and (
                    not waiting
                    or (ahead + following[0] <= budget_bytes and len(waiting) < AHEAD_MAX)
                ):
                    waiting.append((following[0], pool.submit(following[1])))
                    ahead, following = ahead + following[0], next(rest, None)
                size, future = waiting.popleft()
                yield future.result()
                ahead -= size
        finally:
            for _, future in waiting:  # an abandoned scan starts nothing more
                future.cancel()
