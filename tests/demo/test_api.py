"""A call is made again while the database of Airflow is busy; another refusal is an error."""

from collections.abc import Callable
from typing import Any

import pytest

from demo import api
from demo.api import Api, ApiError

BUSY = '500 {"detail":{"reason":"Database error","orig_error":"hidden"}}'
TAKEN = '409 {"detail":{"reason":"Unique constraint violation"}}'


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Api, list[str]]]:
    """An Airflow that answers as given, and the methods that it was called with."""
    monkeypatch.setattr(api.time, "sleep", lambda _: None)

    def make(*answers: str) -> tuple[Api, list[str]]:
        called: list[str] = []

        def call(method: str, path: str, body: Any = None) -> dict[str, Any]:
            called.append(method)
            if answer := answers[len(called) - 1]:
                raise ApiError(f"{method} {path}: {answer}")
            return {"id": 7}

        asked = Api("http://127.0.0.1:1")
        monkeypatch.setattr(asked, "_call", call)
        return asked, called

    return make


def test_a_pool_is_made_although_the_database_is_busy(
    answering: Callable[..., tuple[Api, list[str]]],
) -> None:
    """Airflow was stopped: queued runs of the last time keep its scheduler writing."""
    asked, called = answering(BUSY, BUSY, TAKEN, BUSY, "")
    asked.set_pool("strata", 1, "why")
    assert called == ["POST", "POST", "POST", "PATCH", "PATCH"]


def test_a_pool_that_is_refused_is_an_error(
    answering: Callable[..., tuple[Api, list[str]]],
) -> None:
    asked, called = answering("403 no")
    with pytest.raises(ApiError, match="403"):
        asked.set_pool("strata", 1, "why")
    assert called == ["POST"]


def test_a_backfill_waits_for_the_one_before(
    answering: Callable[..., tuple[Api, list[str]]],
) -> None:
    asked, called = answering(TAKEN, BUSY, "")
    assert asked.backfill("dag", "2013-01-01", "2013-01-02") == 7
    assert len(called) == 3


def test_a_run_is_triggered_once_although_the_database_is_busy(
    answering: Callable[..., tuple[Api, list[str]]],
) -> None:
    asked, called = answering(BUSY, TAKEN)  # the first call did it, and could not say so
    assert asked.trigger("dag", {}).startswith("manual__2")
    assert called == ["POST", "POST"]
