"""Every runner gives the results of the plain loop, in its order."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.model.runner import (
    Here,
    Runner,
    cores,
    heaviest_first,
    is_here,
    serial,
    threads,
    width,
)

RUNNERS = [serial, threads(1), threads(4)]


def square(number: int) -> int:
    time.sleep(0.002 * (number % 3))  # so that threads finish out of order
    return number * number


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("count", [0, 1, 7, 30])
def test_results_are_in_the_order_of_the_items(runner: Runner, count: int) -> None:
    assert list(runner(square, range(count))) == [square(n) for n in range(count)]


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_first_error_ends_the_run(runner: Runner) -> None:
    started: list[int] = []

    def fail(number: int) -> int:
        started.append(number)
        if number == 3:
            raise InvalidRequest("three")
        return number

    found: list[int] = []
    results = runner(fail, range(1000))
    with pytest.raises(InvalidRequest):
        found.extend(results)
    assert found == [0, 1, 2]
    assert len(started) < 20


def test_threads_run_at_once_and_a_slow_consumer_holds_them_back() -> None:
    at_once, most, lock = 0, 0, threading.Lock()
    started: list[int] = []

    def work(number: int) -> int:
        nonlocal at_once, most
        with lock:
            started.append(number)
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.01)
        with lock:
            at_once -= 1
        return number

    results = threads(3)(work, range(100))
    next(results)
    time.sleep(0.2)
    assert len(started) <= 7
    assert list(results) == list(range(1, 100))
    assert 2 <= most <= 3


def test_items_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)

    assert list(serial(told, range(3))) == [8, 8, 8]
    assert list(threads(4)(told, range(9))) == [2] * 9
    assert list(threads(4)(told, range(3))) == [2] * 3
    assert list(threads(99)(told, range(9))) == [1] * 9
    assert list(threads(3)(lambda _: list(threads(2)(told, range(2))), [0])) == [[4, 4]]
    assert cores() == 8


def told(_: int) -> int:
    return cores()


def test_what_is_done_here_is_done_at_once_and_in_this_thread() -> None:
    threads_of: list[int] = []

    def noted(number: int, *, add: int) -> int:
        threads_of.append(threading.get_ident())
        return 10 // number + add

    with Here() as here:
        done, failed = here.submit(noted, 5, add=1), here.submit(noted, 0, add=1)
        assert threads_of == [threading.get_ident()] * 2
        assert done.result() == 3
        with pytest.raises(ZeroDivisionError):
            failed.result()


def test_the_heaviest_items_are_begun_first() -> None:
    items = [SimpleNamespace(weight=weight) for weight in (2, 9, 2, 4)]

    assert heaviest_first(items) == [1, 3, 0, 2]
    assert heaviest_first(range(3)) == [0, 1, 2]


def test_only_threads_are_several_here() -> None:
    assert [width(runner) for runner in (serial, threads(1), threads(2))] == [1, 1, min(2, cores())]
    assert is_here(serial)
    assert is_here(threads(3))
    remote: Any = map
    assert not is_here(remote)
