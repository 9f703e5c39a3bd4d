"""Holds keep since back for as long as they live, and tell their owner when they do not."""

from dataclasses import replace

import pytest

from strata.errors import Fenced, InvalidRequest
from strata.state.holds import (
    carry_on,
    drop_expired,
    find_hold,
    hold,
    hold_critical,
    readable_from,
    release,
    renew,
)
from strata.state.state import Hold, State
from strata.state.transitions import advance_since, append, create
from tests.support.batches import spec


@pytest.fixture
def state() -> State:
    state, _ = append(create(spec(), 0), 1, token="a", lower=0, upper=100)
    return advance_since(state, 2, 10)[0]


def test_a_hold_keeps_since_back_until_it_expires(state: State) -> None:
    state, held = hold(state, 1000, name="reader", since=20, lease_ms=500)
    assert held == Hold("reader", 20, 1500, seqno=state.seqno)
    assert advance_since(state, 1499, 50)[1].since == 20
    assert advance_since(state, 1500, 50)[1].since == 50


def test_a_renewed_hold_lives_on_and_may_move_forward_only(state: State) -> None:
    state, _ = hold(state, 1000, name="reader", since=20, lease_ms=500)
    state, held = renew(state, 1400, name="reader", lease_ms=500, since=30)
    assert held == Hold("reader", 30, 1900, seqno=state.seqno - 1)
    assert renew(state, 1400, name="reader", lease_ms=500, since=5)[1].since == 30
    assert renew(state, 1400, name="reader", lease_ms=500)[1].since == 30
    assert advance_since(state, 1600, 50)[1].since == 30


def test_an_expired_reader_is_fenced_also_after_its_hold_is_forgotten(state: State) -> None:
    state, _ = hold(state, 1000, name="reader", since=20, lease_ms=500)
    with pytest.raises(Fenced):
        renew(state, 1500, name="reader", lease_ms=500)
    state, _ = advance_since(state, 1500, 50)
    assert find_hold(state, "reader") is None
    with pytest.raises(Fenced):
        renew(state, 1600, name="reader", lease_ms=500)


def test_a_name_is_free_again_after_expiry(state: State) -> None:
    state, _ = hold(state, 1000, name="reader", since=20, lease_ms=500)
    with pytest.raises(InvalidRequest, match="taken"):
        hold(state, 1499, name="reader", since=20, lease_ms=500)
    state, held = hold(state, 1500, name="reader", since=30, lease_ms=500)
    assert state.holds == (held,)


@pytest.mark.parametrize("since", [9, 101])
def test_only_a_time_from_since_to_upper_can_be_held(state: State, since: int) -> None:
    with pytest.raises(InvalidRequest, match="cannot be held"):
        hold(state, 1000, name="reader", since=since, lease_ms=500)
    with pytest.raises(InvalidRequest, match="cannot be held"):
        hold_critical(state, 1000, name="c", since=since, expected="", opaque="x")


def test_a_critical_hold_never_expires_and_changes_hands_by_its_token(state: State) -> None:
    state, held = hold_critical(state, 1000, name="c", since=20, expected="", opaque="one")
    assert held == Hold("c", 20, None, "one")
    assert advance_since(state, 10**15, 50)[1].since == 20

    state, held = hold_critical(state, 1000, name="c", since=30, expected="one", opaque="two")
    assert held == Hold("c", 30, None, "two")
    with pytest.raises(Fenced):
        hold_critical(state, 1000, name="c", since=40, expected="one", opaque="three")
    with pytest.raises(Fenced):
        hold_critical(state, 1000, name="c", since=40, expected="", opaque="three")


def test_a_critical_hold_never_goes_back_and_its_repetition_is_harmless(state: State) -> None:
    state, first = hold_critical(state, 1000, name="c", since=30, expected="", opaque="one")
    again, held = hold_critical(state, 1000, name="c", since=30, expected="", opaque="one")
    assert (again, held) == (state, first)
    assert hold_critical(state, 1, name="c", since=5, expected="one", opaque="two")[1].since == 30


def test_kinds_of_hold_do_not_mix(state: State) -> None:
    state, _ = hold(state, 1000, name="reader", since=20, lease_ms=500)
    state, _ = hold_critical(state, 1000, name="c", since=20, expected="", opaque="one")
    with pytest.raises(InvalidRequest):
        hold_critical(state, 1000, name="reader", since=20, expected="", opaque="one")
    with pytest.raises(InvalidRequest):
        renew(state, 1000, name="c", lease_ms=500)
    with pytest.raises(InvalidRequest):
        hold(state, 1000, name="c", since=20, lease_ms=500)
    with pytest.raises(InvalidRequest):
        hold_critical(state, 1000, name="d", since=20, expected="", opaque="")
    with pytest.raises(InvalidRequest):
        hold(state, 1000, name="d", since=20, lease_ms=0)


def test_a_released_hold_is_gone_and_only_its_owner_releases_it(state: State) -> None:
    state, _ = hold(state, 1000, name="reader", since=20, lease_ms=500)
    state, _ = hold_critical(state, 1000, name="c", since=30, expected="", opaque="one")
    with pytest.raises(Fenced):
        release(state, 1000, name="c")
    state, gone = release(state, 1000, name="c", opaque="one")
    assert gone
    state, gone = release(state, 1000, name="reader")
    assert (gone, state.holds) == (True, ())
    assert release(state, 1000, name="reader") == (state, False)


def test_holds_are_kept_in_the_order_of_their_names(state: State) -> None:
    """So that equal sets of holds are equal bytes."""
    for name in ("b", "c", "a"):
        state, _ = hold(state, 1000, name=name, since=20, lease_ms=500)
    assert [h.name for h in state.holds] == ["a", "b", "c"]
    assert replace(state, seqno=0).since == 10


def test_a_hold_on_an_older_state_is_taken_while_another_keeps_it(state: State) -> None:
    state, shared = hold(state, 1000, name="shared", since=20, lease_ms=500)
    state, _ = append(state, 1100, token="b", lower=100, upper=110)
    state, own = carry_on(state, 1499, name="x", seqno=shared.seqno, lease_ms=500, owner="x")
    assert own == Hold("x", 110, 1999, "x", shared.seqno)
    assert readable_from(state, 1998) == shared.seqno
    again, longer = carry_on(state, 1900, name="x", seqno=shared.seqno, lease_ms=500, owner="x")
    assert (longer.seqno, longer.expires_ms) == (shared.seqno, 2400)
    assert readable_from(again, 2399) == shared.seqno


def test_no_hold_is_taken_on_a_state_that_nothing_keeps(state: State) -> None:
    before = state.seqno
    state, _ = hold(state, 1000, name="shared", since=20, lease_ms=500)
    with pytest.raises(Fenced):  # the hold came one state later
        carry_on(state, 1100, name="x", seqno=before, lease_ms=500, owner="x")
    late, _ = append(state, 1200, token="b", lower=100, upper=110)
    with pytest.raises(Fenced):
        carry_on(late, 1500, name="x", seqno=state.seqno, lease_ms=500, owner="x")
    state, _ = carry_on(state, 1500, name="x", seqno=state.seqno, lease_ms=500, owner="x")
    with pytest.raises(Fenced):
        carry_on(state, 1600, name="x", seqno=state.seqno, lease_ms=500, owner="y")


def test_anybody_drops_a_hold_that_has_expired_and_nobody_one_that_lives(state: State) -> None:
    state, _ = hold(state, 1000, name="reader", since=20, lease_ms=500, owner="me")
    with pytest.raises(InvalidRequest, match="alive"):
        drop_expired(state, 1499, name="reader")
    after, dropped = drop_expired(state, 1500, name="reader")
    assert (after.holds, dropped) == ((), True)
    assert drop_expired(after, 1500, name="reader") == (after, False)
    state, _ = hold_critical(after, 2000, name="c", since=20, expected="", opaque="o")
    with pytest.raises(InvalidRequest, match="alive"):
        drop_expired(state, 10**15, name="c")


@pytest.mark.parametrize("name", ["label-release-1", "consumer-billing"])
def test_a_hold_does_not_take_the_name_of_a_label_or_a_consumer(state: State, name: str) -> None:
    """Its token is no position: one such hold made all lists of consumers fail."""
    with pytest.raises(InvalidRequest, match="a hold of this name is a"):
        hold(state, 1000, name=name, since=20, lease_ms=100, owner="me")
    with pytest.raises(InvalidRequest, match="a hold of this name is a"):
        hold_critical(state, 1000, name=name, since=20, expected="", opaque="me")


def test_a_hold_is_renewed_by_its_owner_alone(state: State) -> None:
    state, _ = hold(state, 1000, name="reader", since=20, lease_ms=500, owner="ann")
    for other in ("bob", ""):
        with pytest.raises(Fenced, match="another owner"):
            renew(state, 1100, name="reader", lease_ms=500, owner=other)

    assert renew(state, 1100, name="reader", lease_ms=500, owner="ann")[1].expires_ms == 1600


def test_a_live_hold_is_taken_by_its_owner_alone(state: State) -> None:
    held, first = hold(state, 1000, name="r", since=20, lease_ms=500, owner="a")

    _, again = hold(held, 1100, name="r", since=20, lease_ms=500, owner="a")

    assert again == replace(first, expires_ms=1600)
    for owner in ("b", ""):
        with pytest.raises(InvalidRequest, match="is taken"):
            hold(held, 1100, name="r", since=20, lease_ms=500, owner=owner)
    critical = replace(state, holds=(Hold("r", 20, None, "a"),))
    with pytest.raises(InvalidRequest, match="is taken"):
        hold(critical, 1100, name="r", since=20, lease_ms=500, owner="a")


def test_a_hold_that_keeps_no_state_keeps_none_when_it_is_renewed(state: State) -> None:
    """It is of before holds said from where they read: one from the first state would keep all."""
    old = replace(state, holds=(Hold("r", 20, 1500),))

    assert renew(old, 1000, name="r", lease_ms=500)[1].seqno == 0


def test_a_renewed_hold_goes_no_further_than_upper(state: State) -> None:
    held, _ = hold(state, 1000, name="r", since=20, lease_ms=500)

    assert renew(held, 1000, name="r", lease_ms=500, since=100)[1].since == 100
    with pytest.raises(InvalidRequest, match="cannot be held"):
        renew(held, 1000, name="r", lease_ms=500, since=101)


def test_who_does_not_know_the_token_of_a_critical_hold_neither_moves_nor_confirms_it(
    state: State,
) -> None:
    held, _ = hold_critical(state, 9, name="sink", since=50, expected="", opaque="mine")

    for since in (40, 50, 60):
        for expected in ("", "other"):
            with pytest.raises(Fenced, match="another owner"):
                hold_critical(held, 9, name="sink", since=since, expected=expected, opaque="other")
    moved, found = hold_critical(held, 9, name="sink", since=60, expected="mine", opaque="mine")
    assert (found.since, moved.seqno) == (60, held.seqno + 1)


def test_a_leased_hold_of_a_labels_name_is_released_as_any_other(state: State) -> None:
    """Older programs took such names."""
    leased, label = Hold("label-v1", 20, 1500), Hold("label-v1", 20, None, "label")

    assert release(replace(state, holds=(leased,)), 9, name="label-v1")[0].holds == ()
    with pytest.raises(InvalidRequest, match="is a label"):
        release(replace(state, holds=(label,)), 9, name="label-v1", opaque="label")


def test_a_lease_lasts_a_millisecond_at_least(state: State) -> None:
    assert hold(state, 9, name="r", since=20, lease_ms=1)[1].expires_ms == 10
    with pytest.raises(InvalidRequest, match="must last"):
        hold(state, 9, name="r", since=20, lease_ms=0)
