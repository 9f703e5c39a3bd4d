"""The ladder at its edges: the top, the bottom, a run that comes twice, a request out of place."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from strata.errors import Conflict, InvalidRequest
from strata.rollout import ladder
from strata.rollout.basis import basis_of
from strata.rollout.evidence import AuditCounts, Seen
from strata.rollout.ladder import DAY_MS
from strata.rollout.obey import mode_of, obeyed
from strata.rollout.policy import Policy
from strata.state.state import Mode, State
from strata.state.transitions import create
from strata.store.interface import Versioned
from strata.store.open import Stores
from tests.support.batches import spec
from tests.support.climb import NO_GATES, stood
from tests.support.stored import killed, memory_stores

NEW = create(spec(), 1000)
COUNTS = AuditCounts(5, 50, 500, 0, 0, 100, {"x": 5})


def record(state: State, counts: AuditCounts = COUNTS, key: str = "v", **more: Any) -> Any:
    return ladder.record(state, 3 * DAY_MS, key=key, counts=counts, policy=NO_GATES, **more)


def ask(state: State, to: str, percent: int = 1, **more: Any) -> Any:
    said: dict[str, Any] = {"who": "ann", "reason": "due", "policy": NO_GATES} | more
    return ladder.ask(state, 2000, to=to, percent=percent, **said)


def down(state: State, to: str) -> State:
    return ladder.step_down(state, 2000, to=to, who="ann", reason="slow")[0]


def test_nothing_is_above_the_last_rung() -> None:
    with pytest.raises(InvalidRequest, match="one at a time") as refused:
        ask(stood(NEW, 1000, "on"), "higher")

    assert refused.value.details["next"] == "there is none"
    assert not refused.value.cure


@pytest.mark.parametrize(
    ("mode", "to", "cure"),
    [
        ("on", "lower", "one of: off, soft, audit"),
        ("soft", "soft", "one of: off"),
        ("off", "off", "one of: nothing is below off"),
    ],
)
def test_who_steps_to_no_lower_rung_is_told_those_that_there_are(
    mode: str, to: str, cure: str
) -> None:
    with pytest.raises(InvalidRequest, match="no step down") as refused:
        down(stood(NEW, 1000, mode), to)

    assert refused.value.cure == cure


def test_a_step_down_to_audit_still_skips_and_one_to_soft_needs_a_new_approval() -> None:
    state = stood(NEW, 1000, "on", 7)
    audit, soft = down(state, "audit"), down(state, "soft")

    assert (audit.rollout.audit_percent, mode_of(audit)) == (7, "audit")
    assert (soft.rollout.audit_percent, soft.rollout.basis) == (0, "")


@pytest.mark.parametrize("percent", [1, 100])
def test_the_least_and_the_whole_share_may_be_audited(percent: int) -> None:
    state = stood(record(NEW)[0], 1000, "soft")

    assert ask(state, "audit", percent)[1].audit_percent == percent


@pytest.mark.parametrize("percent", [True, 101, -1])
def test_what_is_no_share_is_refused(percent: int) -> None:
    with pytest.raises(InvalidRequest, match="not a share"):
        ask(stood(NEW, 1000, "soft"), "audit", percent)


def test_all_of_a_quarantine_is_asked_for_with_one_word() -> None:
    lied = record(NEW, mismatch="5 lied", quarantine=["5", "like"])[0]

    assert ask(lied, "soft", 0, clear=["all"])[1].clear == ("5", "like")


def test_without_a_pool_a_history_tells_of_no_parts_of_others() -> None:
    assert [entry.pooled for entry in stood(NEW, 1000, "on").rollout.entries] == [0] * 6


@pytest.mark.parametrize("mode", ["off", "audit", "on"])
def test_a_request_leads_nowhere_from_another_rung_than_its_own(mode: Mode) -> None:
    """No move of a shard leaves one open; a state that somebody wrote by hand may."""
    state, asked = ask(record(stood(NEW, 1000, "soft"))[0], "audit")
    moved = replace(state, rollout=replace(state.rollout, mode=mode))

    with pytest.raises(InvalidRequest, match="the shard has moved"):
        ladder.approve(
            moved,
            3000,
            request=ladder.request_id(state.name, asked),
            who="bob",
            reason="seen",
            policy=NO_GATES,
        )


def reason_of(refused: pytest.ExceptionInfo[InvalidRequest]) -> object:
    return refused.value.details["reason"]


def test_who_answers_what_is_not_open_any_more_is_told_why() -> None:
    state, asked = ask(NEW, "soft", 0)
    named = ladder.request_id(state.name, asked)
    reject = partial(ladder.reject, who="bob", reason="no")

    with pytest.raises(InvalidRequest, match="no step is asked for") as refused:
        reject(state, asked.expires_ms, request=named)
    assert reason_of(refused) == "it was not answered in time"
    with pytest.raises(InvalidRequest, match="no step is asked for") as refused:
        reject(NEW, 3000)
    assert reason_of(refused) == "nobody asked"
    with pytest.raises(InvalidRequest, match="no step is asked for") as refused:
        reject(reject(state, 3000)[0], 4000, request=f" {named} ")
    assert reason_of(refused) == "it was rejected already, by bob"


def test_nobody_is_said_to_have_answered_what_lapsed() -> None:
    """A later request is open no more; the older one was noted as lapsed, by nobody."""
    state, older = ask(NEW, "soft", 0)
    state = ladder.ask(
        state, older.expires_ms, to="soft", percent=0, who="ann", reason="due", policy=NO_GATES
    )[0]
    closed = ladder.reject(state, older.expires_ms, who="bob", reason="no")[0]

    with pytest.raises(InvalidRequest, match="no step is asked for") as refused:
        ladder.reject(
            closed,
            older.expires_ms,
            who="bob",
            reason="no",
            request=ladder.request_id(state.name, older),
        )

    assert reason_of(refused) == "nobody asked"


def test_who_names_no_request_is_told_of_none_that_was_answered() -> None:
    """Histories of before requests had ids have answers without one."""
    state = stood(NEW, 1000, "soft")
    entries = tuple(replace(entry, request="") for entry in state.rollout.entries)
    older = replace(state, rollout=replace(state.rollout, entries=entries))

    with pytest.raises(InvalidRequest, match="no step is asked for") as refused:
        ladder.reject(older, 3000, who="bob", reason="no")

    assert reason_of(refused) == "nobody asked"


def test_gates_of_the_past_judge_nothing_where_no_request_is_open() -> None:
    strict = Policy(replace(NO_GATES.gates, audit_parts=99), number=1)
    state = record(stood(NEW, 1000, "soft"))[0]
    under = ladder.record(state, 4 * DAY_MS, key="w", counts=COUNTS, policy=strict)[0]

    assert ladder.judging(down(under, "off"), NO_GATES) == NO_GATES


# A run that comes again, or beside another one.


def test_a_run_that_is_recorded_again_changes_nothing_and_is_no_conflict() -> None:
    """It was killed between its commit and its answer, so that its list is the shard's by now."""
    counts = replace(COUNTS, seen=Seen("list/1", 5, 1, None))
    once = record(NEW, counts)[0]

    assert record(once, counts)[0] is once


def test_a_run_whose_list_does_not_continue_that_of_the_shard_is_a_conflict() -> None:
    once = record(NEW, replace(COUNTS, seen=Seen("list/1", 5, 1, None)))[0]
    more = Seen("list/2", 10, 1, "list/1")

    assert record(once, replace(COUNTS, seen=more), "w")[0].rollout.evidence.parts == 10
    for before in (None, "list/0"):
        late = replace(COUNTS, seen=replace(more, before=before))
        with pytest.raises(Conflict):
            record(once, late, "w")


def test_a_lie_trips_though_a_table_of_its_name_is_known() -> None:
    """A run that was clean, and is repeated under its name, may meet a lie."""
    clean = record(stood(NEW, 1000, "on"))[0]

    after, tripped = record(clean, mismatch="5 lied", quarantine=["5"])

    assert (tripped.mode_before, after.rollout.mode) == ("on", "off")
    assert after.rollout.quarantine == ("5",)


@pytest.mark.parametrize(
    ("basis", "told"), [("older", "from older to"), ("", "from none that anybody approved to")]
)
def test_a_reset_says_which_code_the_mode_was_approved_for(basis: str, told: str) -> None:
    on = stood(NEW, 1000, "on")

    after = record(replace(on, rollout=replace(on.rollout, basis=basis)))[0]

    assert after.rollout.mode == "soft"
    assert f"{told} {basis_of(on)}" in after.rollout.reason


# What readers obey.


@pytest.mark.parametrize(
    ("mode", "other"),
    [(m, m) for m in ("off", "soft")]
    + [
        ("audit", "soft"),
        ("on", "soft"),
    ],
)
def test_a_mode_holds_for_the_code_it_was_approved_for(mode: str, other: str) -> None:
    state = stood(NEW, 1000, mode)
    elsewhere = replace(state, rollout=replace(state.rollout, basis="other code"))

    assert (mode_of(state), mode_of(elsewhere)) == (mode, other)


def throw(stores: Stores) -> None:
    """Leave a switch that nobody can read: it counts as thrown."""
    stores.consensus.compare_and_set("rollout", None, Versioned(1, b"\xff"))


@pytest.mark.parametrize(
    ("kill", "obeyed_modes"),
    [
        (lambda stores: stores, ["off", "soft", "audit", "on"]),
        (killed, ["off"] * 4),
    ],
    ids=["released", "killed by the setting"],
)
def test_the_setting_stops_every_mode(
    kill: Callable[[Stores], Stores], obeyed_modes: list[str]
) -> None:
    stores = kill(memory_stores())

    assert [obeyed(stores, mode) for mode in ("off", "soft", "audit", "on")] == obeyed_modes


def test_the_switch_stops_what_skips_and_is_not_asked_by_what_does_not() -> None:
    stores = memory_stores()
    throw(stores)

    assert [obeyed(stores, mode) for mode in ("off", "soft", "audit", "on")] == [
        "off",
        "soft",
        "off",
        "off",
    ]


@pytest.mark.parametrize("mode", ["off", "soft", "audit", "on"])
def test_a_wrong_rule_takes_each_shard_that_skips_back_to_soft_and_moves_no_other(
    mode: Mode,
) -> None:
    state = stood(NEW, 1000, mode)

    after, skipped = ladder.distrust_rule(state, 2000, reason="like lied elsewhere")

    assert skipped == (mode in {"audit", "on"})
    assert (after is state) != skipped
    assert after.rollout.mode == ("soft" if skipped else mode)
    assert (after.rollout.reason == "like lied elsewhere") == skipped


def test_a_day_is_a_day() -> None:
    assert ladder.DAY_MS == 24 * 60 * 60 * 1000
