"""A load test tells what grows, also of processes that have ended."""

from benchmarks.watched import LEDGER_BLOBS, growing, names_of, shard_name, sizes
from strata.machine.machine import KEEP_AT_MOST, Machine
from strata.store.keys import content_hash, ledger_key
from tests.support.stored import create, memory_stores
from tests.unit.compact.test_sort_order import RELATION


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


def test_the_ledger_grows_with_its_commits_and_no_faster() -> None:
    stores = memory_stores()
    create(stores, RELATION, name=shard_name(0))
    for at in range(400):
        Machine(stores).append(shard_name(0), token=f"{at}", lower=at, upper=at + 1)
    found = sizes(stores, 1, None, [])
    for at in range(LEDGER_BLOBS + 8):
        data = b"%d" % at
        stores.blob.set(ledger_key(shard_name(0), at, at, content_hash(data)), data)
    more = sizes(stores, 1, None, [])

    assert found["ledger blobs"] >= 4
    assert found["ledger blobs too many"] == 0
    assert more["ledger blobs too many"] > 0
    assert "other blobs" not in found
    assert growing([found] * 4 + [more] * 4) == ["ledger blobs too many: 0 -> 6"]
