"""A load test tells what grows, also of processes that have ended."""

from benchmarks.watched import growing, names_of
from strata.machine.machine import KEEP_AT_MOST


def test_what_grows_after_the_beginning_is_told() -> None:
    bounded = [10.0, 60.0, 90.0, 99.0, 100.0, 101.0, 99.0, 100.0]
    samples = [{"states": size, "memory of 7": 10.0 * n} for n, size in enumerate(bounded)]

    assert growing(samples) == ["memory of 7: 25 -> 65"]


def test_processes_that_have_ended_are_not_forgotten() -> None:
    samples = [{"states": 1.0, "memory of 7": 10.0 * n} for n in range(8)] + [{"states": 1.0}] * 2

    assert names_of(samples) == ["memory of 7", "states"]
    assert growing(samples) == ["memory of 7: 25 -> 65"]


def test_a_database_may_fill_with_the_states_of_a_day_and_no_further() -> None:
    def filling(most: float) -> list[dict[str, float]]:
        grown = {"state bytes": 1000.0}
        return [{**grown, "database bytes": most * n / 8} for n in range(1, 9)]

    assert growing(filling(KEEP_AT_MOST * 1000.0)) == []
    assert [one.split(":")[0] for one in growing(filling(KEEP_AT_MOST * 2000.0))] == [
        "database bytes"
    ]
