"""Questions whose answers take long: worked on one at a time, while pages ask again."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from strata.errors import InvalidRequest

WAITING: Final = 16  # questions that wait at a time

V = TypeVar("V")


class StillAsking(Exception):
    """There is no answer yet; ask again."""


class OneByOne(Generic[V]):
    """Works on questions in a thread of its own; safe for threads.

    An answer is given out once: who wants to see it again keeps it.
    """

    def __init__(self, name: str) -> None:
        self._lock = threading.Lock()
        self._asked: dict[Hashable, Future[V]] = {}
        self._worker = ThreadPoolExecutor(1, name)
        self._name = name

    def close(self) -> None:
        """Forget the questions that wait, and wait for the one that is worked on."""
        self._worker.shutdown(cancel_futures=True)

    def result(self, question: Hashable, work: Callable[[], V], patience: float | None) -> V:
        """Return what `work` gives; a question that is asked already is not worked on twice.

        Units: `patience` in seconds, how long to wait; None waits for the answer. A work that
        failed is begun anew next time.
        Raises: StillAsking when it takes longer; InvalidRequest when too many wait; as `work`.
        """
        with self._lock:
            asked = self._asked.get(question)
            if asked is None:
                if len(self._asked) >= WAITING:
                    self._asked = {at: one for at, one in self._asked.items() if not one.done()}
                if len(self._asked) >= WAITING:
                    raise InvalidRequest(
                        f"too many filters wait for {self._name}", cure="ask again later"
                    )
                asked = self._asked[question] = self._worker.submit(work)
        try:
            return asked.result(patience)
        except TimeoutError:
            if not asked.done():
                raise StillAsking from None
            return asked.result()
        finally:
            if asked.done():
                with self._lock:
                    self._asked.pop(question, None)
