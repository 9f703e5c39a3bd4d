"""A beat renews for as long as a block works, and no longer."""

import time
from threading import Event

import pytest

from strata.errors import Conflict, Fenced, Unavailable
from strata.machine.heartbeat import beating


def test_no_beat_is_under_way_once_the_block_has_ended() -> None:
    """It would take a hold anew that its reader has just given back."""
    begun, done = Event(), list[str]()

    def renew() -> None:
        begun.set()
        time.sleep(0.05)
        done.append("renewed")

    with beating("b", 30, renew):
        assert begun.wait(9)

    assert done == ["renewed"]


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [(Unavailable("x", certain=True), True), (Conflict("x"), True), (Fenced("x"), False)],
)
def test_a_beat_goes_on_after_what_may_pass_and_ends_where_the_lease_is_lost(
    error: Exception, goes_on: bool
) -> None:
    again, beats = Event(), list[int]()

    def renew() -> None:
        beats.append(1)
        if len(beats) > 1:
            again.set()
        raise error

    with beating("b", 3, renew):
        assert again.wait(9 if goes_on else 0.05) == goes_on
