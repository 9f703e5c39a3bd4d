"""A request names a person and a reason, and looks for texts that are about that person alone."""

from dataclasses import replace

import pytest

from strata.erase.request import ErasureRequest, constant_texts
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.ingest.quarantine import SUFFIX
from strata.state.erasing import begin
from strata.state.state import Erasure
from tests.support.erasing import WHO, eraser
from tests.support.garbage import SPEC, World

NAME = Column(2, "text", "string")


def call(function: str, text: str) -> Call:
    return Call(function, (NAME, Literal(text, "string")), "boolean")


@pytest.mark.parametrize(
    ("function", "searched"),
    [
        ("equal_to", True),
        ("in", True),
        ("like", False),
        ("regexp_like", False),
        ("date_add", False),
    ],
)
def test_texts_of_a_filter_are_searched_for_and_patterns_are_not(
    function: str, searched: bool
) -> None:
    both = Call("and", (call(function, "bob@example.org"), call("equal_to", "carol")), "boolean")

    assert [*constant_texts(both)] == ["bob@example.org", "carol"][1 - searched :]


@pytest.mark.parametrize("term", ["", "bob", "  bo  "])
def test_a_term_that_is_in_texts_about_others_is_refused(term: str) -> None:
    with pytest.raises(InvalidRequest, match="too short"):
        ErasureRequest("s", "id = 1", ("bobby", term))
    assert ErasureRequest("s", "id = 1", ("bobb",)).terms == ("bobb",)


def test_only_the_same_request_has_the_same_code() -> None:
    first = ErasureRequest("s", "id = 1", ("robert", "bobby"))

    assert first.code == ErasureRequest("s", "id = 1", ("bobby", "robert")).code
    for other in (
        replace(first, shard="t"),
        replace(first, where="id = 2"),
        replace(first, terms=()),
    ):
        assert other.code != first.code


@pytest.mark.parametrize("lacking", ["by", "reason"])
def test_an_erasure_takes_a_person_and_a_reason(lacking: str) -> None:
    world = World()
    before = world.state

    with pytest.raises(InvalidRequest, match="a person and a reason"):
        eraser(world.stores, "s", "id", 1).erase(at_ms=1, **{**WHO, lacking: " "})
    assert world.state == before


def test_texts_are_looked_for_in_the_shards_about_a_shard_and_in_none_without_terms() -> None:
    world = World()
    for name in (f"s{SUFFIX}", "other"):
        world.machine.create(replace(SPEC, name=name))

    assert eraser(world.stores, "s", "id", 1, "bobby")._about() == [f"s{SUFFIX}"]
    assert eraser(world.stores, "s", "id", 1)._about() == []
    assert eraser(world.stores, f"s{SUFFIX}", "id", 1, "bobby")._about() == []


def test_the_same_request_goes_on_and_another_one_waits() -> None:
    state = World().state
    erasure = Erasure("e1", 0, "ann", "asked", "a fingerprint")

    begun, found = begin(state, 1, erasure=erasure)

    assert begin(begun, 2, erasure=replace(erasure, id="e2")) == (begun, found)
    with pytest.raises(InvalidRequest, match="another erasure") as caught:
        begin(begun, 2, erasure=replace(erasure, request="another"))
    assert caught.value.details["id"] == "e1"


def test_a_plan_says_what_is_under_way_and_how_much_is_set_aside() -> None:
    world = World()
    world.append(1)
    for number in range(2):
        world.blob.set(f"shards/s/usage/2026-01-01/00{number}.json", b"x")
        world.blob.delete(f"shards/s/usage/2026-01-01/00{number}.json")
    work = eraser(world.stores, "s", "id", 1)
    plan = work.plan()
    assert (plan["set_aside"], plan["under_way"], plan["rows"]) == (2, None, 1)

    erasure = Erasure("e1", 0, "ann", "asked", "a fingerprint")
    world.machine.apply("s", lambda state, now: begin(state, now, erasure=erasure))

    assert work.plan()["under_way"] == "e1"


def test_an_erasure_in_the_way_is_looked_for_in_each_shard() -> None:
    world = World()
    world.machine.create(replace(SPEC, name="a"))
    erasure = Erasure("e1", 0, "ann", "asked", "a fingerprint")
    world.machine.apply("s", lambda state, now: begin(state, now, erasure=erasure))
    error = InvalidRequest("another erasure of this shard is under way", id="e1")

    found = eraser(world.stores, "a", "id", 1)._in_the_way("strata_operations", error)

    assert found.details["of"] == "s"


def test_short_texts_of_a_filter_are_found_by_it_alone() -> None:
    both = Call("and", (call("equal_to", "bob"), call("equal_to", "carl")), "boolean")

    found = ErasureRequest("s", "x", ("robert",)).searched(Filter(both, "x", 0, 0))

    assert found == ("carl", "robert")
