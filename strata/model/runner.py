"""How an engine function is run over many items: here, in threads, or on a cluster.

A function handed to a runner and its items must be picklable and must open what they need
themselves (`open_stores`), because a runner may carry them to another machine.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Runner(Protocol):
    """Apply a function to every item; results come in the order of the items."""

    def __call__(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        """Yield `function(item)` for each item; the first error ends the run."""
        ...


def serial(function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
    """Yield the results one after the other, each computed when it is asked for."""
    for item in items:
        yield function(item)


def threads(count: int) -> Runner:
    """Return a runner that keeps at most `count` threads busy.

    At most twice `count` results wait unread, so that a slow consumer bounds the memory.
    """

    def run(function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        with ThreadPoolExecutor(max_workers=max(1, count)) as pool:
            waiting: deque[Future[B]] = deque()
            try:
                for item in items:
                    waiting.append(pool.submit(function, item))
                    if len(waiting) >= 2 * max(1, count):
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:  # an error or an abandoned run: start nothing more
                    future.cancel()

    return run
