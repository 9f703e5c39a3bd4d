"""A rehearsal reads the real consensus, sees its own changes, and changes nothing."""

from copy import deepcopy

from strata.store.interface import Consensus, Versioned
from strata.store.memory import MemoryConsensus
from strata.store.rehearsal import Rehearsal


def real() -> MemoryConsensus:
    made = MemoryConsensus()
    for seqno in (1, 2, 5):
        assert made.compare_and_set("a", seqno - 1 or None if seqno < 3 else 2, value(seqno))
    assert made.compare_and_set("b", None, value(1))
    return made


def value(seqno: int, word: bytes = b"real") -> Versioned:
    return Versioned(seqno, word)


def test_until_something_changes_it_is_the_real_one() -> None:
    consensus = Rehearsal(real())
    assert isinstance(consensus, Consensus)
    assert consensus.head("a") == value(5)
    assert consensus.head("c") is None
    assert consensus.scan("a", 2, 9) == [value(2), value(5)]
    assert (consensus.list(), consensus.list((b"own",))) == (["a", "b"], [])


def test_what_is_written_is_seen_here_and_nowhere_else() -> None:
    there = real()
    before = deepcopy(there.log)
    consensus = Rehearsal(there)
    assert not consensus.compare_and_set("a", 2, value(6, b"own"))
    assert not consensus.compare_and_set("a", None, value(6, b"own"))
    assert consensus.compare_and_set("a", 5, value(6, b"own"))
    assert not consensus.compare_and_set("a", 5, value(7, b"own"))
    assert consensus.compare_and_set("c", None, value(1, b"own"))

    assert consensus.head("a") == value(6, b"own")
    assert consensus.scan("a", 2, 9) == [value(2), value(5), value(6, b"own")]
    assert consensus.scan("a", 2, 2) == [value(2), value(5)]
    assert consensus.scan("a", 6, 9) == [value(6, b"own")]
    assert consensus.list() == ["a", "b", "c"]
    assert (consensus.list((b"own",)), consensus.list((b"real",))) == (["a", "c"], ["b"])
    assert consensus.truncate("a", 6) == 0
    with consensus.turn("a") as others:
        assert not others
    assert there.log == before
