"""A certificate is what was issued for its erasure, and names each place that is left."""

from typing import Any

import pytest

from strata.erase.certificate import (
    as_text,
    certificate_of,
    certificates,
    known_certificate,
    store_certificate,
)
from strata.erase.notes import Total
from strata.erase.prove import Erased, Proof
from strata.errors import Corrupt
from strata.parts.suppressed import empty
from strata.state.state import Erasure
from strata.store import keys
from tests.support.garbage import World

ERASURE = Erasure("e1", 1000, "ann", "asked", "a fingerprint")
STEP = {"shard": "s", "lower": 0, "upper": 10, "parts": [{"part": "p", "bytes": 7, "rows": 2}]}
ABOUT = {"shard": "j", "lower": 0, "upper": 10, "parts": [{"part": "q", "bytes": 9, "rows": 3}]}


def issued(*left: str) -> dict[str, Any]:
    proof = Proof("s", 5, parts=1, rows=9, left=[*left])
    about, erased = Proof("j", 3), Erased.by(empty(), "e1")
    removed = Total({"parts": (4, 70)}, 6, 1)
    steps = [STEP, ABOUT]
    return certificate_of(
        ERASURE, "s", steps, removed, [(proof, erased), (about, erased)], ["a tape"], empty(), 2000
    )


def test_a_certificate_counts_rows_of_the_shard_and_of_those_about_it() -> None:
    found = issued()

    assert (found["rows"], found["rows_about"], found["complete"]) == (2, 3, True)
    assert [one["what"] for one in found["removed"]] == ["parts"]
    assert found["not_reached"][-1] == "a tape"


def test_each_place_that_is_left_is_shown_and_the_erasure_is_not_complete() -> None:
    text = as_text(issued("state 7", "shards/s/verdicts/a.json"))

    assert "NOT complete" in text
    assert "* a tape\n" in text
    assert "    * state 7\n    * shards/s/verdicts/a.json\n" in text
    assert "2 mention a term" in text
    assert "NOT complete" not in as_text(issued())


def test_a_certificate_is_that_of_its_erasure_and_unchanged() -> None:
    world = World()
    one = issued()
    store_certificate(world.stores, "s", "e1", one)

    assert known_certificate(world.stores, "s", "e1") == one
    assert known_certificate(world.stores, "s", "e2") is None
    assert certificates(world.stores, "s") == [one]


@pytest.mark.parametrize(
    ("shard", "erasure", "change"), [("s", "e1", {"rows": 1}), ("s", "e2", {}), ("other", "e1", {})]
)
def test_a_certificate_that_is_not_what_was_issued_is_refused(
    shard: str, erasure: str, change: dict[str, int]
) -> None:
    world = World()
    store_certificate(world.stores, shard, erasure, issued() | change)

    with pytest.raises(Corrupt, match="not what was issued"):
        known_certificate(world.stores, shard, erasure)


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"id":"e1"}'])
def test_a_damaged_certificate_is_named(data: bytes) -> None:
    world = World()
    world.blob.set(keys.erasure_key("s", "e1"), data)

    with pytest.raises(Corrupt, match="damaged") as caught:
        known_certificate(world.stores, "s", "e1")
    assert caught.value.details == {"shard": "s", "id": "e1"}
