"""The step down needs nobody; what lied stays distrusted."""

import pytest

from strata.model.spec import MODES
from strata.state.rollout import VERDICTS_MAX, Tripped, record_verdicts, trip
from strata.state.transitions import create
from tests.support.batches import spec
from tests.support.climb import standing

NEW = create(spec(), 1000)


@pytest.mark.parametrize("mode", [m for m in MODES if m != "off"])
def test_one_mismatch_sets_every_mode_back_to_off(mode: str) -> None:
    state, _ = standing(NEW, 2000, mode=mode, percent=10)
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
    state, _ = standing(state, 5000, mode="soft", percent=0)
    assert state.rollout.quarantine == ("12", "5", "date_trunc")


def test_a_trip_that_tells_nothing_new_is_no_commit() -> None:
    state, _ = trip(NEW, 3000, "first", ["5"])
    assert trip(state, 4000, "first, tried again", ["5"])[0] is state


def test_a_mismatch_and_its_verdict_table_are_one_commit() -> None:
    state, _ = standing(NEW, 2000, mode="on", percent=1)
    following, tripped = record_verdicts(
        state, 3000, key="verdicts/1", mismatch="column 5 lied", quarantine=["5"]
    )
    assert tripped == Tripped("on", "off", ("5",))
    assert following.seqno == state.seqno + 1
    assert (following.verdicts, following.rollout.mode) == (("verdicts/1",), "off")
    assert following.rollout.reason == "column 5 lied"


def test_a_clean_verdict_table_is_remembered_once_and_trips_nothing() -> None:
    state, _ = standing(NEW, 2000, mode="audit", percent=1)
    following, tripped = record_verdicts(state, 3000, key="verdicts/1")
    assert tripped == Tripped("audit", "audit", ())
    assert (following.verdicts, following.rollout) == (("verdicts/1",), state.rollout)
    assert record_verdicts(following, 4000, key="verdicts/1")[0] is following


def test_a_mismatch_that_trips_nothing_new_is_remembered_all_the_same() -> None:
    state, _ = trip(NEW, 3000, "first", ["5"])
    following, tripped = record_verdicts(
        state, 4000, key="verdicts/2", mismatch="again", quarantine=["5"]
    )
    assert tripped.mode_after == "off"
    assert (following.seqno, following.verdicts) == (state.seqno + 1, ("verdicts/2",))


def test_the_same_lie_under_the_same_name_of_a_run_trips_again() -> None:
    """A verdict table holds no clock, so a fixed `--run` writes the same blob for the same lie."""
    lied = {"key": "verdicts/1", "mismatch": "column 5 lied", "quarantine": ["5"]}
    state, _ = record_verdicts(NEW, 3000, **lied)  # type: ignore[arg-type]
    assert record_verdicts(state, 3500, **lied)[0] is state  # type: ignore[arg-type]
    state, _ = standing(state, 4000, mode="on", percent=1)
    again, tripped = record_verdicts(state, 5000, **lied)  # type: ignore[arg-type]
    assert tripped == Tripped("on", "off", ("5",))
    assert (again.rollout.mode, again.verdicts) == ("off", ("verdicts/1",))


def test_only_the_last_verdict_tables_are_remembered() -> None:
    state = NEW
    for number in range(VERDICTS_MAX + 3):
        state, _ = record_verdicts(state, 3000, key=f"verdicts/{number}")
    assert len(state.verdicts) == VERDICTS_MAX
    assert state.verdicts[-1] == f"verdicts/{VERDICTS_MAX + 2}"
