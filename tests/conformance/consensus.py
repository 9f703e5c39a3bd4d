"""What every Consensus store must do: subclass `ConsensusSuite` and give it the two fixtures.

`raw` reaches the values around the store under test, which must not vouch for itself.
"""

import threading
from typing import Protocol

import pytest

from strata.errors import InvalidRequest
from strata.store.interface import Consensus, Scrubbing, Versioned

MAX_SEQNO = 2**63 - 1


class RawConsensus(Protocol):
    def values(self, key: str) -> list[tuple[int, bytes]]: ...
    def write(self, key: str, seqno: int, data: bytes) -> None: ...


class ConsensusSuite:
    @pytest.fixture
    def consensus(self) -> Consensus:
        raise NotImplementedError

    @pytest.fixture
    def raw(self, consensus: Consensus) -> RawConsensus:
        raise NotImplementedError

    def test_is_a_consensus(self, consensus: Consensus) -> None:
        assert isinstance(consensus, Consensus)

    def test_a_key_that_was_never_set_has_no_head(self, consensus: Consensus) -> None:
        assert consensus.head("a") is None
        assert consensus.scan("a", 0, 10) == []
        assert consensus.list() == []

    def test_head_is_the_greatest_number_stored_around_it(
        self, consensus: Consensus, raw: RawConsensus
    ) -> None:
        raw.write("a", 9, b"nine")
        raw.write("a", 10, b"ten")
        raw.write("b", 11, b"other key")
        assert consensus.head("a") == Versioned(10, b"ten")

    def test_the_first_value_needs_no_expectation(
        self, consensus: Consensus, raw: RawConsensus
    ) -> None:
        assert consensus.compare_and_set("a", None, Versioned(5, b"five"))
        assert raw.values("a") == [(5, b"five")]
        assert consensus.head("a") == Versioned(5, b"five")

    def test_only_the_expected_head_is_replaced(
        self, consensus: Consensus, raw: RawConsensus
    ) -> None:
        assert not consensus.compare_and_set("a", 0, Versioned(1, b"too early"))
        assert consensus.compare_and_set("a", None, Versioned(1, b"one"))
        assert not consensus.compare_and_set("a", None, Versioned(2, b"exists"))
        assert not consensus.compare_and_set("a", 0, Versioned(2, b"older"))
        assert not consensus.compare_and_set("a", 2, Versioned(3, b"newer"))
        assert consensus.compare_and_set("a", 1, Versioned(4, b"with a gap"))
        assert not consensus.compare_and_set("a", 1, Versioned(3, b"fills the gap"))
        assert not consensus.compare_and_set("a", 1, Versioned(4, b"same number"))
        assert not consensus.compare_and_set("a", 1, Versioned(5, b"greater number"))
        assert raw.values("a") == [(1, b"one"), (4, b"with a gap")]

    def test_keys_do_not_disturb_each_other(self, consensus: Consensus) -> None:
        for key in ("b", "a", "a/b", "A", "%", "a_"):
            assert consensus.compare_and_set(key, None, Versioned(1, key.encode()))
        assert consensus.list() == sorted(["b", "a", "a/b", "A", "%", "a_"])
        assert consensus.head("a") == Versioned(1, b"a")

    def test_keys_are_listed_by_what_their_newest_value_holds(self, consensus: Consensus) -> None:
        for key, values in {
            "a": [b"old mark\0%", b"none"],
            "A": [b"none", b"a mark\0% in it"],
            "a/b": [b"mark\0%"],
            "b": [b"\xff mar"],
            "%": [b"\xff other"],
            "c": [b""],
        }.items():
            for seqno, data in enumerate(values, 1):
                assert consensus.compare_and_set(key, seqno - 1 or None, Versioned(seqno, data))
        assert consensus.list((b"mark\0%",)) == ["A", "a/b"]
        assert consensus.list((b"mark\0%", b"\xff o")) == sorted(["A", "a/b", "%"])
        assert consensus.list((b"no such",)) == []
        assert len(consensus.list()) == 6

    @pytest.mark.parametrize(("expected", "seqno"), [(3, 3), (3, 2), (None, -1), (0, 0)])
    def test_a_number_that_does_not_grow_is_refused(
        self, consensus: Consensus, expected: int | None, seqno: int
    ) -> None:
        with pytest.raises(InvalidRequest):
            consensus.compare_and_set("a", expected, Versioned(seqno, b""))
        assert consensus.head("a") is None

    @pytest.mark.parametrize("data", [b"", b"\0\xff", b"x" * 3_000_000])
    def test_values_are_bytes_of_any_kind(self, consensus: Consensus, data: bytes) -> None:
        assert consensus.compare_and_set("a", None, Versioned(MAX_SEQNO, data))
        assert consensus.head("a") == Versioned(MAX_SEQNO, data)

    def test_scan_gives_the_values_from_a_number_on_in_order(self, consensus: Consensus) -> None:
        _fill(consensus, "a", [2, 3, 5, 8])
        _fill(consensus, "b", [4])
        assert [v.seqno for v in consensus.scan("a", 0, 10)] == [2, 3, 5, 8]
        assert [v.seqno for v in consensus.scan("a", 3, 2)] == [3, 5]
        assert [v.seqno for v in consensus.scan("a", 4, 10)] == [5, 8]
        assert consensus.scan("a", 3, 1) == [Versioned(3, b"3")]
        assert consensus.scan("a", 9, 10) == []
        assert consensus.scan("a", 0, 0) == []

    def test_truncate_drops_what_is_below_and_tells_how_many(
        self, consensus: Consensus, raw: RawConsensus
    ) -> None:
        _fill(consensus, "a", [2, 3, 5, 8])
        _fill(consensus, "b", [2])
        assert consensus.truncate("a", 4) == 2
        assert consensus.truncate("a", 4) == 0
        assert consensus.truncate("a", 8) == 1
        assert raw.values("a") == [(8, b"8")]
        assert raw.values("b") == [(2, b"2")]
        assert consensus.compare_and_set("a", 8, Versioned(9, b"9"))

    def test_truncate_never_drops_the_head(self, consensus: Consensus, raw: RawConsensus) -> None:
        _fill(consensus, "a", [2, 3])
        with pytest.raises(InvalidRequest):
            consensus.truncate("a", 4)
        with pytest.raises(InvalidRequest):
            consensus.truncate("unknown", 0)
        assert len(raw.values("a")) == 2

    def test_of_many_writers_in_threads_none_loses_an_increment(
        self, consensus: Consensus, raw: RawConsensus
    ) -> None:
        """Each adds 1 to a counter; steps differ, so that the primary key alone cannot help."""
        consensus.compare_and_set("a", None, Versioned(0, b"0"))
        failed: list[BaseException] = []

        def work(step: int) -> None:
            try:
                for _ in range(10):
                    increment(consensus, "a", step)
            except BaseException as error:
                failed.append(error)

        workers = [threading.Thread(target=work, args=(1 + i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failed == []
        assert [int(data) for _, data in raw.values("a")] == list(range(41))

    def test_a_scrub_keeps_every_value(self, consensus: Consensus, raw: RawConsensus) -> None:
        _fill(consensus, "a", [1, 2, 3])
        _fill(consensus, "b", [7])
        consensus.truncate("a", 3)
        if isinstance(consensus, Scrubbing):
            consensus.scrub()
        assert raw.values("a") == [(3, b"3")]
        assert consensus.head("b") == Versioned(7, b"7")
        assert consensus.compare_and_set("a", 3, Versioned(4, b"4"))


def increment(consensus: Consensus, key: str, step: int) -> None:
    """Add 1 to the counter under `key`, however often somebody else is faster."""
    while True:
        head = consensus.head(key)
        assert head is not None
        new = Versioned(head.seqno + step, b"%d" % (int(head.data) + 1))
        if consensus.compare_and_set(key, head.seqno, new):
            return


def _fill(consensus: Consensus, key: str, seqnos: list[int]) -> None:
    before = None
    for seqno in seqnos:
        assert consensus.compare_and_set(key, before, Versioned(seqno, b"%d" % seqno))
        before = seqno
