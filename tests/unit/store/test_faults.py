"""Injected failures do exactly what they claim; the retry survives what can be survived."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

from strata.errors import InvalidRequest, Unavailable
from strata.store.interface import Blob, Consensus, Versioned
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.retry import Patience, retry
from tests.conformance.blob import BlobSuite
from tests.conformance.consensus import ConsensusSuite
from tests.support.failing_stores import (
    CrashError,
    Faults,
    FaultyBlob,
    FaultyConsensus,
    Outcome,
    seeded,
)
from tests.unit.store.test_memory import RawMemoryBlob, RawMemoryConsensus


class TestBlobWithoutFaults(BlobSuite):
    @pytest.fixture
    def blob(self) -> FaultyBlob:
        return FaultyBlob(MemoryBlob(), Faults())

    @pytest.fixture
    def raw(self, blob: FaultyBlob) -> RawMemoryBlob:
        return RawMemoryBlob(blob.inner)


class TestConsensusWithoutFaults(ConsensusSuite):
    @pytest.fixture
    def consensus(self) -> FaultyConsensus:
        return FaultyConsensus(MemoryConsensus(), Faults())

    @pytest.fixture
    def raw(self, consensus: FaultyConsensus) -> RawMemoryConsensus:
        return RawMemoryConsensus(consensus.inner)


@pytest.mark.parametrize(
    ("outcome", "error", "certain", "happened"),
    [
        (Outcome.REFUSED, Unavailable, True, False),
        (Outcome.REQUEST_LOST, Unavailable, False, False),
        (Outcome.REPLY_LOST, Unavailable, False, True),
        (Outcome.CRASH_BEFORE, CrashError, None, False),
        (Outcome.CRASH_AFTER, CrashError, None, True),
    ],
)
def test_an_outcome_is_what_it_says(
    outcome: Outcome, error: type[BaseException], certain: bool | None, happened: bool
) -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    with pytest.raises(error) as caught:
        FaultyBlob(blob, Faults([outcome])).set("a", b"1")
    with pytest.raises(error):
        FaultyConsensus(consensus, Faults([outcome])).compare_and_set("a", None, Versioned(1, b"1"))
    assert getattr(caught.value, "certain", None) is certain
    assert (blob.get("a") is not None, consensus.head("a") is not None) == (happened, happened)


def test_outcomes_run_out_and_then_everything_works() -> None:
    slept: list[float] = []
    blob: Blob = FaultyBlob(MemoryBlob(), Faults([Outcome.DELAYED, Outcome.REFUSED], slept.append))
    blob.set("a", b"1")
    with pytest.raises(Unavailable):
        blob.get("a")
    assert blob.get("a") == b"1"
    assert len(slept) == 1


def test_a_seed_gives_the_same_outcomes_every_time() -> None:
    shares = {Outcome.REFUSED: 0.2, Outcome.REPLY_LOST: 0.1}
    once, again = (list(islice(seeded(7, shares), 1000)) for _ in range(2))
    assert once == again
    assert 100 < once.count(Outcome.REFUSED) < 300
    assert once.count(Outcome.WORKS) > 500


def test_retry_gives_up_after_its_attempts_and_raises_the_last() -> None:
    consensus: Consensus = FaultyConsensus(MemoryConsensus(), Faults([Outcome.REFUSED] * 3))
    slept: list[float] = []
    with pytest.raises(Unavailable):
        retry(lambda: consensus.head("a"), Patience(attempts=3), slept.append)
    assert len(slept) == 2
    assert retry(lambda: consensus.head("a"), Patience(attempts=1), slept.append) is None


def test_retry_does_not_repeat_what_cannot_succeed() -> None:
    calls: list[int] = []

    def refuse() -> None:
        calls.append(1)
        raise InvalidRequest("never")

    with pytest.raises(InvalidRequest):
        retry(refuse)
    assert calls == [1]


def test_pauses_grow_up_to_the_ceiling() -> None:
    policy = Patience(first_ms=100, ceiling_ms=400)
    longest = [max(policy.pause_s(n) for _ in range(500)) for n in range(4)]
    assert 0.05 < longest[0] <= 0.1 < longest[1] <= 0.2 < longest[2] <= 0.4
    assert longest[3] <= 0.4


def test_threads_may_draw_at_once() -> None:
    def slow() -> Iterator[Outcome]:
        while True:
            time.sleep(0.0005)
            yield Outcome.WORKS

    faults = Faults(slow())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: faults.call(lambda: n, "get"), range(64)))
    assert found == list(range(64))
    assert faults.drawn == {Outcome.WORKS: 64}
