"""Steps up need a person; the step down needs nobody."""

import pytest

from strata.errors import InvalidRequest
from strata.model.spec import MODES
from strata.state.rollout import Tripped, set_rollout, trip
from strata.state.transitions import create
from tests.batches import spec

NEW = create(spec(), 1000)


def test_a_step_records_who_when_and_why() -> None:
    state, rollout = set_rollout(
        NEW, 2000, mode="audit", percent=10, who="ann", reason="3000 clean"
    )
    assert state.rollout == rollout
    assert (rollout.mode, rollout.audit_percent, rollout.changed_ms) == ("audit", 10, 2000)
    assert (rollout.changed_by, rollout.reason) == ("ann", "3000 clean")
    assert state.seqno == NEW.seqno + 1
    again, _ = set_rollout(state, 3000, mode="audit", percent=10, who="ann", reason="3000 clean")
    assert again is state


@pytest.mark.parametrize(
    ("mode", "percent", "who", "reason"),
    [("maybe", 0, "ann", "x"), ("on", -1, "ann", "x"), ("on", 101, "ann", "x"),
     ("on", True, "ann", "x"), ("on", 1, " ", "x"), ("on", 1, "ann", "")],
)  # fmt: skip
def test_a_step_that_is_not_said_properly_is_refused(
    mode: str, percent: int, who: str, reason: str
) -> None:
    with pytest.raises(InvalidRequest):
        set_rollout(NEW, 2000, mode=mode, percent=percent, who=who, reason=reason)


@pytest.mark.parametrize("mode", [m for m in MODES if m != "off"])
def test_one_mismatch_sets_every_mode_back_to_off(mode: str) -> None:
    state, _ = set_rollout(NEW, 2000, mode=mode, percent=10, who="ann", reason="x")
    state, tripped = trip(state, 3000, "part p: column 5 lied", ["5"])
    assert tripped == Tripped(mode, "off", ("5",))  # type: ignore[arg-type]
    assert (state.rollout.mode, state.rollout.audit_percent) == ("off", 0)
    assert (state.rollout.reason, state.rollout.changed_ms) == ("part p: column 5 lied", 3000)
    assert state.rollout.quarantine == ("5",)


def test_what_lied_stays_distrusted_until_a_person_says_otherwise() -> None:
    state, _ = trip(NEW, 3000, "first", ["5", "date_trunc"])
    assert state.rollout.mode == "off"
    state, _ = trip(state, 4000, "second", ["12"])
    assert state.rollout.quarantine == ("12", "5", "date_trunc")
    state, _ = set_rollout(state, 5000, mode="soft", percent=0, who="ann", reason="again")
    assert state.rollout.quarantine == ("12", "5", "date_trunc")
    state, _ = set_rollout(
        state, 6000, mode="soft", percent=0, who="ann", reason="fixed", quarantine=["12"]
    )
    assert state.rollout.quarantine == ("12",)


def test_a_trip_that_tells_nothing_new_is_no_commit() -> None:
    state, _ = trip(NEW, 3000, "first", ["5"])
    assert trip(state, 4000, "first, tried again", ["5"])[0] is state
