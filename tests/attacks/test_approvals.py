"""S4, S5: an approval holds for the request that was shown, and comes from somebody else."""

import unicodedata
from dataclasses import replace
from typing import Any

import pytest

from strata.audit.standing import standing
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import Thresholds
from strata.rollout import ladder, policy
from strata.rollout.people import Person, folded_name, look_of
from strata.rollout.policy import Policy
from strata.state.state import Request, RolloutEntry, State
from strata.state.step import step
from strata.state.transitions import create
from tests.support.batches import spec
from tests.support.stored import memory_stores

NEW = create(spec(), 1000)
GATES = Policy(Thresholds())


def ask(state: State, at: int = 2000, **said: Any) -> tuple[State, str]:
    """Ask for the first step; return the state, and the identity of the request."""
    given: dict[str, Any] = {"to": "soft", "percent": 0, "who": "alice", "reason": "it is time"}
    state, asked = ladder.ask(state, at, policy=GATES, **(given | said))
    return state, ladder.request_id(state.name, asked)


def approve(state: State, request: str, who: str = "bob", reason: str = "I looked") -> State:
    return ladder.approve(state, 9000, request=request, who=who, reason=reason, policy=GATES)[0]


def test_an_old_approval_repeated_takes_no_later_step() -> None:
    """Bob approves, the shard is stepped down, Mallory asks anew with more: Bob's answer is old."""
    state, first = ask(NEW)
    state = approve(state, first)
    state = ladder.step_down(state, 3000, to="off", who="carl", reason="something is wrong")[0]
    state = replace(state, rollout=replace(state.rollout, quarantine=("like",)))
    state, second = ask(state, 4000, who="mallory", clear=["all"])
    assert first != second
    with pytest.raises(InvalidRequest, match="another request is open") as told:
        approve(state, first)
    assert (told.value.details["request"], told.value.details["open"]) == (first, second)
    assert state.rollout.quarantine == ("like",)
    assert approve(state, second).rollout.mode == "soft"


@pytest.mark.parametrize(
    "other",
    [
        {"percent": 7},
        {"who": "eve"},
        {"reason": "it is time."},
        {"at": 2001},
        {"clear": ["like"]},
    ],
)
def test_a_request_that_was_changed_is_another_one(other: dict[str, Any]) -> None:
    new = replace(NEW, rollout=replace(NEW.rollout, quarantine=("like",)))
    state, shown = ask(new)
    state = ladder.reject(state, 2500, who="alice", reason="I ask again")[0]
    state, _ = ask(state, **other)
    with pytest.raises(InvalidRequest, match="another request is open"):
        approve(state, shown)


@pytest.mark.parametrize("named", ["", " ", "all", "0" * 16, "*"])
def test_an_approval_names_the_request(named: str) -> None:
    state, shown = ask(NEW)
    with pytest.raises(InvalidRequest, match="another request is open"):
        approve(state, named)
    with pytest.raises(InvalidRequest, match="another request is open"):
        ladder.reject(state, 9000, request=named, who="bob", reason="no")
    assert approve(state, f" {shown} ").rollout.mode == "soft"


def test_nothing_is_approved_where_nothing_is_asked() -> None:
    state, shown = ask(NEW)
    state = approve(state, shown)
    with pytest.raises(InvalidRequest, match="no step is asked for") as caught:
        approve(state, shown)
    assert caught.value.details["reason"] == "it was approved already, by bob"
    with pytest.raises(InvalidRequest, match="nobody asked"):
        approve(state, "00ff")


def test_a_killed_answer_to_a_change_of_the_policy_is_known_when_it_is_repeated() -> None:
    ann, bob = Person("ann"), Person("bob")
    book = policy.ask(policy.Book(), 1000, to={"audit_days": 9}, who=ann, reason="more")
    assert book.request is not None
    shown = policy.request_id(book.request)
    book = policy.reject(book, 2000, request=shown, who=bob, reason="I looked")
    for request, reason in ((shown, "it was rejected already, by bob"), ("00ff", "nobody asked")):
        with pytest.raises(InvalidRequest, match="no change of the policy is asked for") as caught:
            policy.approve(book, 3000, request=request, who=bob, reason="I looked")
        assert caught.value.details["reason"] == reason


def test_each_field_of_a_request_is_part_of_its_identity() -> None:
    one = Request("soft", 1, "a", "b", 1, 2, ("c",), False)
    others = [
        replace(one, **change)
        for change in (
            {"to": "on"},
            {"audit_percent": 2},
            {"by": "b"},
            {"reason": "c"},
            {"at_ms": 2},
            {"expires_ms": 3},
            {"clear": ("d",)},
            {"pooled": True},
            {"user": "e"},
        )
    ]
    assert len(others) == len(Request.__slots__)
    found = {ladder.request_id("s", request) for request in (one, *others)}
    assert len(found | {ladder.request_id("t", one)}) == len(others) + 2


@pytest.mark.parametrize(
    "same",
    [
        "Alice",
        " alice\t",
        "ALICE",
        "al ice",
        "\uff41lice",
        "alice\u200b",
        "a\u00adlice",
        "alice\0",
        "alice\u3164",
        "alice\ufe0f",
        "al\u034fice",
        "\u2800alice",
        "alice\uffa0",
        "alice\U000e0101",
        "a\u115flice",
        "alice\u180b\u17b4",
        "alice\U00016fe4",
        "\U0001d159alice",
        "\u0430lice",  # Cyrillic, as the next ones
        "\u0410L\u0406\u0421\u0415",
        "al\u03b9ce",  # Greek
        "al\u0131ce",  # Turkish
        "AL\u0130CE",
        "alice\ufffc",
        "\u0251lice",  # Latin, of phonetic writing
        "\u1d00\u029f\u026a\u1d04\u1d07",
        "\u13aalice",  # Cherokee
    ],
)
def test_who_asks_under_another_spelling_cannot_approve(same: str) -> None:
    state, shown = ask(NEW)
    with pytest.raises(InvalidRequest, match="cannot approve"):
        approve(state, shown, who=same)


def test_a_letter_of_another_alphabet_makes_nobody_an_approver() -> None:
    policy = replace(GATES, approvers=("alice", "bob"))
    asker = Person("carol")
    policy.check_approver(Person("ALICE"), asker)
    with pytest.raises(InvalidRequest):
        policy.check_approver(Person("\u0430lice"), asker)


def test_letters_that_look_alike_are_of_other_alphabets() -> None:
    """Two names of one alphabet stay two, so each letter has a look of its own in its alphabet."""
    for alphabet in ("GREEK", "CYRILLIC", "LATIN"):
        letters = [
            c for c in map(chr, range(0x3000)) if unicodedata.name(c, "").startswith(alphabet)
        ]
        small = {c for c in letters if c.islower() and folded_name(c) == c and c != "\u0131"}
        small -= set(map(chr, (*range(0x250, 0x2B0), *range(0x1D00, 0x1DC0))))  # of sounds
        looks = [look_of(c) for c in small]
        assert len(small) - len(set(looks)) <= 1


@pytest.mark.parametrize(
    "blank", ["", "  ", "\n\t", "\u200b", "\u00ad\u2060", "\0", "\u3164\ufe0f"]
)
def test_a_name_or_a_reason_of_nothing_is_none(blank: str) -> None:
    state, shown = ask(NEW)
    for said in ({"who": blank}, {"reason": blank}):
        with pytest.raises(InvalidRequest, match="a name and a reason"):
            approve(state, shown, **said)
        with pytest.raises(InvalidRequest, match="a name and a reason"):
            ask(NEW, **said)


@pytest.mark.parametrize("name", ["validate", "Create ", "no\u200bbody", "cre\u0430te"])
def test_nobody_asks_or_answers_in_the_name_of_strata_itself(name: str) -> None:
    """Histories show such a name without a word on who claims it."""
    with pytest.raises(InvalidRequest, match="this is Strata's own"):
        ask(NEW, who=name)
    state, shown = ask(NEW)
    with pytest.raises(InvalidRequest, match="this is Strata's own"):
        approve(state, shown, who=name)
    with pytest.raises(InvalidRequest, match="this is Strata's own"):
        ladder.step_down(approve(state, shown), 9999, to="off", who=name, reason="so")


def test_a_history_says_of_each_name_how_far_it_can_be_believed() -> None:
    """In histories from before such names were refused, too."""
    stores = memory_stores()
    machine = Machine(stores)
    machine.create(spec())
    entries = [
        RolloutEntry(1, "requested", "off", "off", 0, "validate", "x", user="mallory"),
        RolloutEntry(2, "approved", "off", "soft", 0, "create", "x"),
        RolloutEntry(3, "stepped down", "soft", "off", 0, "validate", "x"),
        RolloutEntry(4, "tripped", "soft", "off", 0, "validate", "x"),
    ]

    def older(state: State, now_ms: int) -> tuple[State, None]:
        return step(state, now_ms, rollout=replace(state.rollout, entries=tuple(entries))), None

    machine.apply(NEW.name, older)
    history = standing(stores, GATES, machine.load(NEW.name))["history"]
    assert [line["by_is"] for line in history] == ["", "", "claimed", "claimed by mallory"]
