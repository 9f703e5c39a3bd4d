"""Until Spark's workers are there the driver does little work itself; all else is Spark's."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.jobs.runner import ENOUGH_BYTES, LITTLE_BYTES, job_runner


@dataclass(frozen=True)
class Item:
    read_bytes: int


@dataclass
class Fake:
    """A Spark of a job that notes what it is asked for."""

    has_workers: bool = False
    begun: int = 0
    got: list[Any] = field(default_factory=list)

    def begin(self) -> None:
        self.begun += 1

    @property
    def context(self) -> "Fake":
        return self


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake()

    def runner(context: Fake) -> Callable[..., Iterator[str]]:
        def run(function: object, items: Sequence[object]) -> Iterator[str]:
            context.got += items
            yield from ("spark" for _ in items)

        return run

    monkeypatch.setattr("strata.spark.runner.context_runner", runner)
    return fake


def here(_: object) -> str:
    return "here"


def test_little_work_begins_no_spark(spark: Fake) -> None:
    run: Any = job_runner(spark)  # type: ignore[arg-type]
    assert [*run(here, [Item(LITTLE_BYTES - 1), Item(1)])] == ["here"] * 2
    assert [*run(here, [])] == []
    assert (spark.begun, spark.got) == (0, [])


def test_an_error_of_an_item_is_raised_as_it_is(spark: Fake) -> None:
    def refused(_: object) -> str:
        raise InvalidRequest("not this one")

    run: Any = job_runner(spark)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="not this one"):
        next(run(refused, [Item(1)]))


def test_a_large_item_and_one_of_unknown_size_are_sparks(spark: Fake) -> None:
    run: Any = job_runner(spark)  # type: ignore[arg-type]
    for item in (Item(LITTLE_BYTES + 1), "of unknown size"):
        assert [*run(here, [item])] == ["spark"]
    assert spark.begun == 2


def test_the_driver_works_until_workers_are_there(spark: Fake) -> None:
    items = [Item(LITTLE_BYTES)] * 5

    def one(item: object) -> str:
        if spark.begun and len(done) == 1:
            spark.has_workers = True
        return here(item)

    done: list[str] = []
    run: Any = job_runner(spark)  # type: ignore[arg-type]
    for found in run(one, items):
        done.append(found)
    assert done == ["here"] * 2 + ["spark"] * 3
    assert (spark.begun, spark.got) == (1, items[2:])


def test_much_of_little_work_begins_spark(spark: Fake) -> None:
    run: Any = job_runner(spark)  # type: ignore[arg-type]
    most = ENOUGH_BYTES // LITTLE_BYTES
    for _ in range(most):
        assert [*run(here, [Item(LITTLE_BYTES)])] == ["here"]
    assert spark.begun == 0
    assert [*run(here, [Item(1)])] == ["here"]
    assert spark.begun == 1


def test_workers_that_are_there_get_little_work_too(spark: Fake) -> None:
    spark.has_workers = True
    run: Any = job_runner(spark)  # type: ignore[arg-type]
    assert [*run(here, [Item(1)])] == ["spark"]
