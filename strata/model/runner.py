"""How an engine function is run over many items: here, in threads, or on a cluster.

A function and its items must be picklable and must open what they need themselves (`open_stores`),
because a runner may carry them to another machine. There, `cores` returns how many cores an item
may keep busy. An item's own threads cost more than they gain while other items use the other cores.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")

_CORES: ContextVar[int] = ContextVar("cores")


class Runner(Protocol):
    """Apply a function to every item; results come in the order of the items."""

    def __call__(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        """Yield `function(item)` for each item; the first error ends the run."""
        ...


def cores() -> int:
    """Return how many cores the current item may keep busy: all, unless a runner shares them."""
    return _CORES.get(os.cpu_count() or 1)


class Here(Executor):
    """Runs each function at once, in the thread that submits it."""

    def submit(self, fn: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> Future[A]:
        """Return a future with what `fn` returned or raised."""
        done: Future[A] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # raised again where the result is read
            done.set_exception(error)
        return done


def on_cores(count: int, function: Callable[[A], B], item: A) -> B:
    """Return `function(item)`; inside it, `cores` returns `count`."""
    before = _CORES.set(count)
    try:
        return function(item)
    finally:
        _CORES.reset(before)


def share(total: int, items: int) -> int:
    """Return how many of `total` cores each of `items` concurrent items gets, at least one.

    >>> [share(4, items) for items in (1, 2, 3, 9)]
    [4, 2, 1, 1]
    """
    return max(1, total // max(1, items))


def heaviest_first(items: Sequence[object]) -> list[int]:
    """Return the indices of items in the best order to start them.

    Items with a `weight` are sorted by it: if a heavy item starts last, all cores but one wait for
    it.
    """
    return sorted(range(len(items)), key=lambda n: -getattr(items[n], "weight", 0))


def serial(function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
    """Yield the results one after the other; each is computed when it is requested."""
    for item in items:
        yield function(item)


@dataclass(frozen=True)
class Threads:
    """Keeps at most `count` threads busy.

    At most twice `count` results wait unread, which bounds the memory behind a slow consumer.
    """

    count: int

    def __call__(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        """Yield `function(item)` for each item; the first error ends the run."""
        count = max(1, self.count)
        shared = partial(on_cores, share(cores(), min(count, len(items))), function)
        with ThreadPoolExecutor(max_workers=count) as pool:
            waiting: deque[Future[B]] = deque()
            try:
                for item in items:
                    waiting.append(pool.submit(shared, item))
                    if len(waiting) >= 2 * count:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:  # after an error or an abandoned run, start nothing more
                    future.cancel()


def threads(count: int) -> Runner:
    """Return a runner that keeps at most `count` threads busy."""
    return Threads(count)


def width(runner: Runner) -> int:
    """Return how many items a runner of this process works on at once; 1: it is none."""
    return min(runner.count, cores()) if isinstance(runner, Threads) else 1


def is_here(runner: Runner) -> bool:
    """Return whether a runner stays in this process, so that items and results are not copied."""
    return runner is serial or isinstance(runner, Threads)
