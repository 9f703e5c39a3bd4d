"""History says what each commit changed; each field of a state has its words."""

from dataclasses import fields, replace

from strata.state.changed import CHANGES, FIRST, UNKNOWN, changes_between
from strata.state.state import Hold, State, Writer
from strata.state.transitions import append, create
from tests.support.batches import spec

MINUTE_MS = 60_000


def test_each_field_of_a_state_has_its_words() -> None:
    assert CHANGES.keys() == {one.name for one in fields(State)}


def test_the_first_state_is_created_and_one_without_an_earlier_one_is_not_known() -> None:
    state = create(spec(), 0)
    assert changes_between(None, state) == FIRST
    assert changes_between(None, replace(state, seqno=7)) == UNKNOWN


def test_holds_and_writers_are_named() -> None:
    before = replace(create(spec(), 0), holds=(Hold("old", 3, None), Hold("kept", 3, 10)))
    after = replace(
        before,
        seqno=before.seqno + 1,
        holds=(Hold("new", 5, 9), Hold("kept", 3, 10 + MINUTE_MS)),
        writers=(Writer("w1", 0, 9, "compact"),),
    )
    assert changes_between(before, after) == (
        "hold new taken; hold old released; hold kept renewed; writer w1 (compact) began"
    )


def test_a_commit_says_what_it_brought_and_nothing_else() -> None:
    before = create(spec(), 0)
    after, _ = append(before, 1, token="a", lower=0, upper=100)
    assert changes_between(before, after) == "0 updates before 1970-01-01T00:00:00.100Z"


def test_a_later_commit_does_not_say_again_what_the_one_before_it_brought() -> None:
    first, _ = append(create(spec(), 0), 1, token="a", lower=0, upper=100)
    second, _ = append(first, 2, token="b", lower=100, upper=200)

    assert changes_between(first, second) == "0 updates before 1970-01-01T00:00:00.200Z"
