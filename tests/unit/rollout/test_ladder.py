"""Steps up need evidence and two people; steps down need neither; what lapses is rejected."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.model.settings import Thresholds
from strata.rollout import ladder
from strata.rollout.basis import basis_of
from strata.rollout.evidence import STRATA_MAX, AuditCounts, add, upper_bound
from strata.rollout.gates import gates, unmet
from strata.rollout.ladder import DAY_MS
from strata.rollout.policy import Policy
from strata.state.codec import decode_state, encode_state
from strata.state.state import Evidence, State, Stratum
from strata.state.transitions import create
from tests.support.batches import spec

NEW = create(spec(), 1000)
GATES = Policy(Thresholds(audit_parts=100, audit_runs=3, audit_days=2, on_parts=200, on_days=2))
ask = partial(ladder.ask, who="ann", reason="it is time", policy=GATES)


def approve(state: State, now_ms: int, who: str = "bob", reason: str = "I looked") -> Any:
    """Approve whatever is open, as somebody who has just seen it."""
    asked = state.rollout.request
    seen = "nothing" if asked is None else ladder.request_id(state.name, asked)
    return ladder.approve(state, now_ms, request=seen, who=who, reason=reason, policy=GATES)


def clean(state: State, day: int, parts: int = 50, percent: int = 100, **fields: int) -> State:
    counts = AuditCounts(
        parts,
        10 * parts,
        99,
        fields.get("failed", 0),
        fields.get("missing", 0),
        percent,
        {"long × equal × both × exact": parts},
    )
    key = f"verdicts/{day}/{state.seqno}"
    return ladder.record(state, day * DAY_MS, key=key, counts=counts, policy=GATES)[0]


def climbed(to: str) -> State:
    """Return a shard that took every step up to `to`, days 1, 2, ..."""
    state, _ = approve(ask(NEW, DAY_MS, to="soft", percent=0)[0], DAY_MS)
    if to == "soft":
        return state
    for day in (2, 3, 4):
        state = clean(state, day)
    state, _ = approve(ask(state, 5 * DAY_MS, to="audit", percent=20)[0], 5 * DAY_MS)
    if to == "audit":
        return state
    for day in (6, 7):
        state = clean(state, day, percent=20)
    return approve(ask(state, 8 * DAY_MS, to="on", percent=1)[0], 8 * DAY_MS)[0]


def test_a_shard_climbs_rung_by_rung_and_every_step_says_who_why_and_on_what_evidence() -> None:
    state = climbed("on")

    assert (state.rollout.mode, state.rollout.audit_percent) == ("on", 1)
    assert state.rollout.basis == basis_of(state)
    told = [(e.what, e.before, e.after, e.by, e.asked_by, e.runs) for e in state.rollout.entries]
    assert told == [
        ("requested", "off", "off", "ann", "", 0),
        ("approved", "off", "soft", "bob", "ann", 0),
        ("requested", "soft", "soft", "ann", "", 3),
        ("approved", "soft", "audit", "bob", "ann", 3),
        ("requested", "audit", "audit", "ann", "", 5),
        ("approved", "audit", "on", "bob", "ann", 5),
    ]
    assert decode_state(encode_state(state)) == state


def test_nobody_approves_what_they_asked_for() -> None:
    asked, _ = ask(NEW, DAY_MS, to="soft", percent=0)
    for same in ("ann", " Ann "):
        with pytest.raises(InvalidRequest, match="cannot approve"):
            approve(asked, DAY_MS, who=same)


@pytest.mark.parametrize(("to", "percent"), [("audit", 5), ("on", 5), ("off", 0), ("maybe", 0)])
def test_no_rung_is_left_out(to: str, percent: int) -> None:
    with pytest.raises(InvalidRequest, match="one at a time"):
        ask(NEW, DAY_MS, to=to, percent=percent)


@pytest.mark.parametrize("percent", [0, 101])
def test_skipping_is_never_left_unwatched(percent: int) -> None:
    state = climbed("soft")
    with pytest.raises(InvalidRequest, match="share"):
        ask(state, 5 * DAY_MS, to="audit", percent=percent)


def test_a_reason_and_a_name_are_needed_for_everything() -> None:
    asked, _ = ask(NEW, DAY_MS, to="soft", percent=0)
    for move in (
        partial(ask, NEW, DAY_MS, to="soft", percent=0),
        partial(approve, asked, DAY_MS),
        partial(ladder.reject, asked, DAY_MS, who="x"),
        partial(ladder.step_down, climbed("soft"), DAY_MS, to="off", who="x"),
    ):
        with pytest.raises(InvalidRequest, match="a name and a reason"):
            move(reason=" ")


def test_a_request_that_nobody_answers_is_rejected() -> None:
    asked, request = ask(NEW, DAY_MS, to="soft", percent=0)
    assert request.expires_ms == DAY_MS + GATES.gates.request_days * DAY_MS
    with pytest.raises(InvalidRequest, match="no step is asked for"):
        approve(asked, request.expires_ms)
    again, _ = ask(asked, request.expires_ms, to="soft", percent=0, who="eve")
    assert [e.what for e in again.rollout.entries] == ["requested", "lapsed", "requested"]
    with pytest.raises(InvalidRequest, match="already asked"):
        ask(again, request.expires_ms + 1, to="soft", percent=0)


def test_a_rejected_request_is_gone_and_told() -> None:
    asked, _ = ask(NEW, DAY_MS, to="soft", percent=0)
    state, rollout = ladder.reject(asked, DAY_MS, who="bob", reason="not now")
    assert (rollout.mode, rollout.request) == ("off", None)
    assert rollout.entries[-1].what == "rejected"
    with pytest.raises(InvalidRequest):
        approve(state, DAY_MS)


def test_evidence_is_looked_at_again_when_the_step_is_approved() -> None:
    state = climbed("soft")
    for day in (2, 3, 4):
        state = clean(state, day)
    asked, _ = ask(state, 5 * DAY_MS, to="audit", percent=20)
    spoilt = clean(asked, 5, parts=1, failed=50)
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        approve(spoilt, 5 * DAY_MS)


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        ({"parts": 99}, "audited parts"),
        ({"runs": 2}, "runs"),
        ({"days": 1}, "days with a run"),
        ({"failed": 2}, "failed or missing"),
        ({"missing": 2}, "failed or missing"),
        ({"strata": ()}, "strata"),
        ({"basis": "other code"}, "code"),
    ],
)
def test_each_gate_stops_by_itself_and_is_named(change: dict[str, object], gate: str) -> None:
    state = climbed("soft")
    for day in (2, 3, 4):
        state = clean(state, day)
    rollout = state.rollout
    assert unmet(gates(rollout, "audit", GATES, basis_of(state))) == ""
    short = replace(rollout, evidence=replace(rollout.evidence, **change))  # type: ignore[arg-type]

    lacking = unmet(gates(short, "audit", GATES, basis_of(state)))

    assert lacking.startswith(gate)
    assert ";" not in lacking
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        ask(replace(state, rollout=short), 5 * DAY_MS, to="audit", percent=5)


def test_a_thin_stratum_stops_a_step() -> None:
    state = climbed("soft")
    for day in (2, 3, 4):
        state = clean(state, day)
    counts = AuditCounts(3, 30, 9, 0, 0, 100, {"string × like × row × union": 3})
    state, _ = ladder.record(state, 5 * DAY_MS, key="v", counts=counts, policy=GATES)
    with pytest.raises(InvalidRequest, match="string × like"):
        ask(state, 5 * DAY_MS, to="audit", percent=5)


def test_only_days_with_a_share_that_counts_lead_to_on() -> None:
    state = climbed("audit")
    for day in (6, 7, 8):
        state = clean(state, day, percent=GATES.gates.on_percent - 1)
    assert state.rollout.evidence.step_days == 0
    with pytest.raises(InvalidRequest, match="days in audit"):
        ask(state, 9 * DAY_MS, to="on", percent=1)


def test_a_run_of_the_same_day_and_a_run_that_judged_nothing_are_no_new_day() -> None:
    state = clean(clean(climbed("audit"), 6, percent=20), 6, percent=20)
    seen = clean(state, 7, parts=0).rollout.evidence
    assert (seen.step_days, seen.runs) == (1, 5)


def test_a_share_as_large_as_the_gate_wants_counts_and_a_step_down_begins_anew() -> None:
    state = clean(climbed("audit"), 6, percent=GATES.gates.on_percent)
    assert state.rollout.evidence.step_days == 1

    down, _ = ladder.step_down(state, 7 * DAY_MS, to="soft", who="ann", reason="slow")

    assert (down.rollout.evidence.step_days, down.rollout.audit_percent) == (0, 0)
    assert clean(down, 7).rollout.evidence.step_days == 0


def test_a_night_counts_though_one_that_judged_nothing_came_before_it() -> None:
    nothing, counts = AuditCounts(0, 0, 0, 1, 0, 100), AuditCounts(5, 5, 5, 0, 0, 100, {"x": 5})
    seen = add(Evidence(), nothing, 3 * DAY_MS, "code", counts_for_step=False)
    assert (seen.runs, seen.days, seen.failed) == (0, 0, 1)

    seen = add(seen, counts, 3 * DAY_MS + 1, "code", counts_for_step=False)

    assert (seen.runs, seen.days, seen.failed) == (1, 1, 1)


def test_parts_of_before_repeats_were_counted_count_as_repeats() -> None:
    strata = (Stratum("x", 5),)
    old = Evidence(basis="code", runs=2, days=2, parts=5, repeats=1, strata=strata)
    assert not old.distinct

    counts = AuditCounts(2, 5, 5, 0, 0, 100, {"y": 2})
    seen = add(old, counts, 3 * DAY_MS, "code", counts_for_step=False)

    assert (seen.parts, seen.repeats, seen.runs) == (2, 6, 3)
    assert seen.strata == (Stratum("y", 2),)
    assert seen.distinct


@pytest.mark.parametrize("mode", ["soft", "audit", "on"])
def test_one_mismatch_leads_back_to_nothing(mode: str) -> None:
    state = climbed(mode)
    asked = (
        state
        if mode == "on"
        else replace(
            state, rollout=replace(state.rollout, request=ask(NEW, 1, to="soft", percent=0)[1])
        )
    )
    counts = AuditCounts(5, 5, 5, 0, 0, 100)
    after, tripped = ladder.record(
        asked,
        9 * DAY_MS,
        key="v",
        counts=counts,
        policy=GATES,
        mismatch="5 lied",
        quarantine=["5"],
    )
    assert (tripped.mode_before, tripped.mode_after) == (mode, "off")
    assert after.seqno == asked.seqno + 1
    assert (after.rollout.evidence, after.rollout.request) == (Evidence(), None)
    assert after.rollout.entries[-1].what == "tripped"
    assert after.rollout.entries[-1].parts == state.rollout.evidence.parts


def test_a_verdict_table_is_counted_once() -> None:
    state = climbed("soft")
    counts = AuditCounts(5, 5, 5, 0, 0, 100, {"x": 5})
    once, _ = ladder.record(state, 2 * DAY_MS, key="v", counts=counts, policy=GATES)
    twice, _ = ladder.record(once, 3 * DAY_MS, key="v", counts=counts, policy=GATES)
    assert twice is once


def test_other_code_stops_skipping_and_begins_anew() -> None:
    state = climbed("on")
    old = replace(state, rollout=replace(state.rollout, basis="yesterday's"))
    after = clean(old, 20)
    assert (after.rollout.mode, after.rollout.entries[-1].what) == ("soft", "reset")
    assert after.rollout.evidence.runs == state.rollout.evidence.runs + 1  # of the same code
    older = replace(state.rollout.evidence, basis="yesterday's")
    begun = clean(replace(old, rollout=replace(old.rollout, evidence=older)), 20)
    assert begun.rollout.evidence.runs == 1


@pytest.mark.parametrize(("to", "fits"), [("off", True), ("audit", True), ("on", False)])
def test_a_step_down_is_only_down(to: str, fits: bool) -> None:
    move = partial(ladder.step_down, climbed("on"), 9 * DAY_MS, to=to, who="ann", reason="slow")
    if fits:
        assert move()[1].mode == to
    else:
        with pytest.raises(InvalidRequest, match="no step down"):
            move()


def test_quarantine_is_released_only_with_a_step_and_by_name() -> None:
    lied, _ = ladder.record(
        climbed("soft"),
        3 * DAY_MS,
        key="v",
        counts=AuditCounts(0, 0, 0, 0, 0, 100),
        policy=GATES,
        mismatch="x",
        quarantine=["5", "like"],
    )
    with pytest.raises(InvalidRequest, match="not in quarantine"):
        ask(lied, 4 * DAY_MS, to="soft", percent=0, clear=["6"])
    asked, _ = ask(lied, 4 * DAY_MS, to="soft", percent=0, clear=["5"])
    assert asked.rollout.quarantine == ("5", "like")
    assert approve(asked, 4 * DAY_MS)[1].quarantine == ("like",)


def test_strata_are_bounded() -> None:
    seen = Evidence()
    for day in range(3):
        counts = AuditCounts(200, 0, 0, 0, 0, 100, {f"{day}/{i}": 1 for i in range(200)})
        seen = add(seen, counts, day * DAY_MS, "code", counts_for_step=False)
    assert len(seen.strata) == STRATA_MAX
    assert sum(s.parts for s in seen.strata) == 600


@pytest.mark.parametrize(("parts", "rate"), [(299, 0.01), (598, 0.005), (2995, 0.001)])
def test_the_bound_is_the_exact_one(parts: int, rate: float) -> None:
    assert upper_bound(parts) <= rate < upper_bound(parts - 2)
